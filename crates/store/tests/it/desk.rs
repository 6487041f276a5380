//! The desk: questions that are answered once, and tokens. One suite, for SQLite and for PostgreSQL.

use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::sync::Arc;

use store::{
    Answerer, Asked, Desk, DeskError, KeptAnswer, KeptToken, NewQuestion, NewToken, QuestionId,
    Role, Store, Taken, Time,
};
use tempfile::TempDir;
use test_support::Postgres;

/// Where a desk is; each `open` is another process.
enum Place {
    Sqlite(TempDir),
    Postgres(Arc<Postgres>, String),
}

impl Place {
    fn sqlite() -> Self {
        Self::Sqlite(tempfile::tempdir().unwrap())
    }

    /// The file of the questions.
    fn path(&self) -> PathBuf {
        match self {
            Self::Sqlite(folder) => folder.path().join("state/desk.db"),
            Self::Postgres(..) => panic!("there is no file"),
        }
    }

    async fn open(&self) -> Arc<Desk> {
        match self {
            Self::Sqlite(_) => Arc::new(Desk::open(&self.path()).unwrap()),
            Self::Postgres(_, url) => {
                let store = Store::postgres(url, &store::PoolSettings::default()).await;
                store.unwrap().desk()
            }
        }
    }

    /// Another program's statement; `{id}` is an id.
    fn execute(&self, sql: &str) {
        match self {
            Self::Sqlite(_) => {
                let sql = sql.replace("'id:", "x'");
                let file = rusqlite::Connection::open(self.path()).unwrap();
                file.execute_batch(&sql).unwrap();
            }
            Self::Postgres(server, url) => {
                let sql = sql.replace("'id:", r"'\x");
                server.sql(url, &format!("SET search_path = sluice; {sql}"));
            }
        }
    }
}

/// Runs each check in a place of its own.
macro_rules! checks {
    ($($name:ident)*) => {
        mod sqlite {
            $(
                #[tokio::test(flavor = "multi_thread")]
                async fn $name() {
                    super::$name(super::Place::sqlite()).await;
                }
            )*
        }

        #[tokio::test(flavor = "multi_thread")]
        async fn postgres_keeps_questions_and_tokens() {
            let Some(server) = Postgres::fast() else { return };
            let server = Arc::new(server);
            $($name(Place::Postgres(Arc::clone(&server), server.database())).await;)*
        }
    };
}

checks! {
    a_question_is_seen_and_answered_by_another_process
    of_two_answers_the_first_counts
    a_question_that_nobody_waits_for_takes_no_answer
    a_question_with_a_key_is_asked_once
    an_answer_for_one_call_is_taken_once
    a_question_with_a_key_outlives_its_process
    only_offered_answers_of_those_who_may_count
    an_id_may_be_shortened_while_it_names_one_question
    a_damaged_question_is_named_and_hides_no_other
    questions_have_bounds
    a_token_admits_until_it_expires_or_is_revoked
    an_agents_token_neither_sees_nor_answers
}

fn at(ms: i64) -> Time {
    Time::from_millis(1_000_000 + ms)
}

pub(crate) fn question(app: &str) -> NewQuestion {
    NewQuestion {
        front: "proxy".to_owned(),
        session: "s".to_owned(),
        conversation: "c".to_owned(),
        tenant: None,
        asker: Some("eve".to_owned()),
        app: app.to_owned(),
        tool: "send".to_owned(),
        effect: "irreversible".to_owned(),
        choices: ["once", "no"].map(str::to_owned).into(),
        approvers: vec![],
        shown: r#"{"title":[]}"#.to_owned(),
        expires: at(60_000),
        key: None,
    }
}

/// The id of a question that was put to the desk.
async fn ask(desk: &Desk, new: &NewQuestion, now: Time) -> Result<QuestionId, DeskError> {
    Ok(desk.ask(new, now).await?.id)
}

/// The answer to a question, which stays for the one who asks.
async fn given(desk: &Desk, id: QuestionId) -> Option<KeptAnswer> {
    desk.read(&[id]).await.unwrap().all.pop()?.answer
}

fn by(name: &str) -> Answerer {
    Answerer {
        name: (!name.is_empty()).then(|| name.to_owned()),
        from: "page".to_owned(),
    }
}

async fn waiting(desk: &Desk, now: Time) -> Vec<QuestionId> {
    let questions = desk.waiting(now).await.unwrap();
    assert_eq!(questions.unreadable, [""; 0]);
    questions.all.iter().map(|kept| kept.id).collect()
}

async fn a_question_is_seen_and_answered_by_another_process(place: Place) {
    let (asks, answers) = (place.open().await, place.open().await);
    let before = answers.version().await.unwrap();
    let id = ask(&asks, &question("mail"), at(0)).await.unwrap();
    let other = ask(&asks, &question("web"), at(1)).await.unwrap();
    assert_ne!(answers.version().await.unwrap(), before);
    assert_eq!(waiting(&answers, at(2)).await, [id, other]);
    let kept = answers.find(&id.to_string()).await.unwrap().unwrap();
    assert_eq!((kept.question, kept.asked), (question("mail"), at(0)));
    assert_eq!(asks.take(id, at(2)).await.unwrap(), None);
    let before = asks.version().await.unwrap();
    answers.answer(id, "once", &by("ada"), at(3)).await.unwrap();
    assert_ne!(asks.version().await.unwrap(), before);
    let Some(Taken::Answer(answer)) = asks.take(id, at(4)).await.unwrap() else {
        panic!("there is an answer")
    };
    assert_eq!(
        (&*answer.answer, answer.by, answer.at),
        ("once", by("ada"), at(3))
    );
    assert_eq!(waiting(&answers, at(4)).await, [other]);
    let recent = answers.recent(10, |_| true).await.unwrap().all;
    assert_eq!(recent.len(), 1);
    assert_eq!(
        recent[0].answer.as_ref().unwrap().to_string(),
        "once, by ada from page"
    );
    // A heartbeat is no change that a reader must look at.
    let before = asks.version().await.unwrap();
    asks.still_asks(&[other], at(5)).await.unwrap();
    assert_eq!(answers.version().await.unwrap(), before);
}

async fn of_two_answers_the_first_counts(place: Place) {
    let desks = [place.open().await, place.open().await];
    let mut ids = Vec::new();
    for _ in 0..200 {
        ids.push(ask(&desks[0], &question("mail"), at(0)).await.unwrap());
    }
    let race = |desk: &Arc<Desk>, name: &'static str| {
        let (desk, ids) = (Arc::clone(desk), ids.clone());
        tokio::spawn(async move {
            let mut results = Vec::new();
            for id in ids {
                results.push(desk.answer(id, "once", &by(name), at(1)).await);
            }
            results
        })
    };
    let (first, second) = (race(&desks[0], "ada"), race(&desks[1], "bob"));
    let (first, second) = (first.await.unwrap(), second.await.unwrap());
    for ((id, first), second) in ids.iter().zip(first).zip(second) {
        let (winner, lost) = match (first, second) {
            (Ok(()), Err(lost)) => ("ada", lost),
            (Err(lost), Ok(())) => ("bob", lost),
            both => panic!("{both:?}"),
        };
        let kept = given(&desks[0], *id).await.unwrap();
        assert_eq!(kept.by, by(winner));
        assert!(matches!(lost, DeskError::Answered(told) if told == kept));
    }
}

async fn a_question_that_nobody_waits_for_takes_no_answer(place: Place) {
    let desk = place.open().await;
    let mail = question("mail");
    let first = async || ask(&desk, &mail, at(0)).await.unwrap();
    let (expired, silent, withdrawn) = (first().await, first().await, first().await);
    desk.withdraw(withdrawn, None).await.unwrap();
    assert_eq!(waiting(&desk, at(9_999)).await, [expired, silent]);
    // Its process is gone.
    desk.still_asks(&[expired], at(9_999)).await.unwrap();
    assert_eq!(waiting(&desk, at(10_000)).await, [expired]);
    for now in (20_000..60_000).step_by(9_000) {
        desk.still_asks(&[expired], at(now)).await.unwrap();
    }
    assert_eq!(waiting(&desk, at(60_000)).await, []);
    for (id, now) in [(expired, 60_000), (silent, 10_000), (withdrawn, 1)] {
        let late = desk.answer(id, "once", &by("ada"), at(now)).await;
        let is_so = match late {
            Err(DeskError::Expired) => id == expired,
            Err(DeskError::Left) => id == silent,
            Err(DeskError::Unknown) => id == withdrawn,
            _ => false,
        };
        assert!(is_so, "{late:?}");
        assert_eq!(desk.take(id, at(now)).await.unwrap(), None);
    }
    // An answered question is not taken back.
    let answered = first().await;
    desk.answer(answered, "no", &by(""), at(1)).await.unwrap();
    desk.withdraw(answered, None).await.unwrap();
    assert!(given(&desk, answered).await.is_some());
    // The next question removes what is of no use.
    assert!(desk.find(&silent.to_string()).await.unwrap().is_some());
    ask(&desk, &question("mail"), at(70_000)).await.unwrap();
    assert!(desk.find(&silent.to_string()).await.unwrap().is_none());
    let week = 7 * 24 * 3600 * 1000;
    ask(&desk, &question("mail"), at(week + 1)).await.unwrap();
    assert!(desk.find(&answered.to_string()).await.unwrap().is_none());
}

async fn only_offered_answers_of_those_who_may_count(place: Place) {
    let desk = place.open().await;
    let answer = async |id, answer: &str, name: &str| {
        let new = NewToken {
            expires: None,
            ..token(name)
        };
        match desk.new_token(&new, at(0)).await {
            Ok(secret) => {
                let token = desk.admit(&secret, at(1)).await.unwrap().unwrap();
                desk.revoke(name).await.unwrap();
                desk.answer_by(id, answer, &token, "page", at(1)).await
            }
            // No name of a token.
            Err(_) => desk.answer(id, answer, &by(name), at(1)).await,
        }
    };
    let new = NewQuestion {
        approvers: ["ada", "eve"].map(str::to_owned).into(),
        ..question("mail")
    };
    let id = ask(&desk, &new, at(0)).await.unwrap();
    for (wrong, name) in [("always", "ada"), ("", "ada"), ("ONCE", "ada")] {
        let refused = answer(id, wrong, name).await;
        assert!(matches!(refused, Err(DeskError::NotOffered(choices)) if choices == new.choices));
    }
    // The one who asked, a stranger, a name that only looks alike, and no name at all.
    for name in ["eve", "bob", "Ada", "ada ", ""] {
        let refused = answer(id, "once", name).await;
        assert!(matches!(refused, Err(DeskError::NotAllowed(all)) if all == new.approvers));
    }
    // A process can take any name.
    let refused = desk.answer(id, "once", &by("ada"), at(1)).await;
    assert!(matches!(refused, Err(DeskError::NotAllowed(_))));
    answer(id, "once", "ada").await.unwrap();
    // A gateway may write the name in another case. Where it names none, the one who asks could be anyone.
    for asker in [Some("ADA"), None] {
        let asker = asker.map(str::to_owned);
        let is_known = asker.is_some();
        let id = ask(
            &desk,
            &NewQuestion {
                asker,
                ..new.clone()
            },
            at(0),
        )
        .await
        .unwrap();
        match answer(id, "once", "ada").await {
            Err(DeskError::NotAllowed(_)) => assert!(is_known),
            Err(DeskError::AskerUnknown) => assert!(!is_known),
            other => panic!("{other:?}"),
        }
        desk.answer(id, "no", &by("ada"), at(1)).await.unwrap();
    }
    let id = ask(&desk, &new, at(0)).await.unwrap();
    desk.answer(id, "no", &by(""), at(1)).await.unwrap();
    // Without approvers everyone may allow it who can answer at all.
    let id = ask(&desk, &question("mail"), at(0)).await.unwrap();
    desk.answer(id, "once", &by("eve"), at(1)).await.unwrap();
}

async fn an_id_may_be_shortened_while_it_names_one_question(place: Place) {
    let desk = place.open().await;
    let mail = question("mail");
    let first = ask(&desk, &mail, at(0)).await.unwrap();
    let second = ask(&desk, &mail, at(0)).await.unwrap();
    place.execute(&format!(
        "UPDATE question SET id = 'id:abcd0000000000000000000000000000' WHERE id = 'id:{first}';
         UPDATE question SET id = 'id:abcdef00000000000000000000000000' WHERE id = 'id:{second}'"
    ));
    let found = async |id: &str| {
        let kept = desk.find(id).await?;
        Ok::<_, DeskError>(kept.map(|kept| kept.id.to_string()))
    };
    assert!(found("abcde").await.unwrap().unwrap().starts_with("abcdef"));
    assert!(found("ABCD0").await.unwrap().unwrap().starts_with("abcd00"));
    assert!(found("0000").await.unwrap().is_none());
    for id in ["", "abc", "abcd", "%%%%", "____", "abcd%", "x' OR 1=1"] {
        assert!(
            matches!(found(id).await, Err(DeskError::Ambiguous(_))),
            "{id}"
        );
    }
}

async fn a_damaged_question_is_named_and_hides_no_other(place: Place) {
    let desk = place.open().await;
    let mail = question("mail");
    let good = ask(&desk, &mail, at(0)).await.unwrap();
    let bad = ask(&desk, &mail, at(0)).await.unwrap();
    place.execute(&format!(
        "UPDATE question SET question = substr(question, 2) WHERE id = 'id:{bad}'"
    ));
    let listed = desk.waiting(at(1)).await.unwrap();
    assert_eq!(
        listed.all.iter().map(|kept| kept.id).collect::<Vec<_>>(),
        [good]
    );
    assert_eq!(listed.unreadable, [bad.to_string()]);
    // Who may not see it does not count it either.
    let others = desk
        .waiting_for(at(1), |head| {
            let what = (head.app.as_str(), head.effects.as_str());
            assert!([good, bad].contains(&head.id) && what == ("mail", "irreversible"));
            false
        })
        .await;
    assert_eq!(others.unwrap(), store::Questions::default());
    // It gets no answer.
    let refused = desk.answer(bad, "once", &by("ada"), at(1)).await;
    assert!(
        matches!(refused, Err(DeskError::Unreadable(..))),
        "{refused:?}"
    );
    let recent = async || desk.recent(9, |_| true).await.unwrap().all.len();
    desk.answer(good, "once", &by("ada"), at(1)).await.unwrap();
    assert_eq!(recent().await, 1);
    // PostgreSQL keeps no text but UTF-8.
    if let Place::Sqlite(_) = place {
        desk.new_token(&token("ada"), at(0)).await.unwrap();
        let seen = ask(&desk, &mail, at(1)).await.unwrap();
        place.execute(&format!(
            "UPDATE question SET app = CAST(x'ff' AS TEXT) WHERE id IN ('id:{bad}', 'id:{good}');
            INSERT INTO token (name, digest, token) VALUES ('b', zeroblob(32), CAST(x'ff' AS TEXT))"
        ));
        let listed = desk.waiting(at(2)).await.unwrap();
        assert_eq!((listed.all.len(), listed.all[0].id), (1, seen));
        assert_eq!(recent().await, 0);
        assert_eq!(desk.tokens().await.unwrap().len(), 1);
    }
}

async fn questions_have_bounds(place: Place) {
    let desk = match &place {
        // Without a disk to wait for.
        Place::Sqlite(_) => Arc::new(Desk::in_memory().unwrap()),
        Place::Postgres(..) => place.open().await,
    };
    let large = NewQuestion {
        shown: "x".repeat(8 << 20),
        ..question("mail")
    };
    assert!(matches!(
        ask(&desk, &large, at(0)).await,
        Err(DeskError::TooLarge)
    ));
    let first = ask(&desk, &question("mail"), at(0)).await.unwrap();
    for _ in 1..1024 {
        ask(&desk, &question("mail"), at(0)).await.unwrap();
    }
    assert!(matches!(
        ask(&desk, &question("mail"), at(0)).await,
        Err(DeskError::TooMany)
    ));
    desk.answer(first, "no", &by(""), at(1)).await.unwrap();
    let half = NewQuestion {
        shown: "x".repeat(4 << 20),
        ..question("mail")
    };
    ask(&desk, &half, at(1)).await.unwrap();
    // Those of a process that is gone take no room.
    for _ in 0..16 {
        ask(
            &desk,
            &NewQuestion {
                expires: at(90_000),
                ..half.clone()
            },
            at(20_000),
        )
        .await
        .unwrap_or_else(|error| {
            assert!(matches!(error, DeskError::TooMany));
            first
        });
    }
    assert_eq!(waiting(&desk, at(20_001)).await.len(), 15);
}

#[tokio::test]
async fn only_this_user_reads_the_file_and_no_other_programs_file_is_touched() {
    let shared = Place::sqlite();
    drop(shared.open().await);
    let mode = |path: &PathBuf| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&shared.path()), 0o600);
    std::fs::set_permissions(shared.path(), PermissionsExt::from_mode(0o644)).unwrap();
    assert!(
        Desk::open(&shared.path())
            .unwrap_err()
            .to_string()
            .contains("chmod 600")
    );
    let other = Place::sqlite();
    drop(other.open().await);
    other.execute("PRAGMA application_id = 7");
    let refused = Desk::open(&other.path()).unwrap_err().to_string();
    assert!(refused.contains("another program's database"), "{refused}");
}

fn token(name: &str) -> NewToken {
    NewToken {
        name: name.to_owned(),
        role: Role::Approver,
        tenant: None,
        apps: vec!["mail".to_owned()],
        effects: vec![],
        expires: Some(at(1_000)),
    }
}

async fn a_token_admits_until_it_expires_or_is_revoked(place: Place) {
    let (desk, other) = (place.open().await, place.open().await);
    let secret = desk.new_token(&token("ada"), at(0)).await.unwrap();
    let admitted = other.admit(&secret, at(1)).await.unwrap().unwrap();
    assert_eq!((&*admitted.name, admitted.last_used), ("ada", Some(at(1))));
    // Nothing holds the secret.
    let hex = secret.strip_prefix("sluice-").unwrap();
    match &place {
        Place::Sqlite(_) => {
            for entry in std::fs::read_dir(place.path().parent().unwrap()).unwrap() {
                let bytes = std::fs::read(entry.unwrap().path()).unwrap();
                let mut windows = bytes.windows(hex.len());
                assert!(!windows.any(|window| window == hex.as_bytes()));
            }
        }
        Place::Postgres(server, url) => {
            let rows = server.sql(url, "SELECT * FROM sluice.token");
            assert!(rows.contains("ada") && !rows.contains(hex));
        }
    }
    for wrong in [
        "",
        "sluice-",
        &secret[1..],
        &format!("{secret}0"),
        &secret.to_uppercase(),
    ] {
        assert_eq!(other.admit(wrong, at(1)).await.unwrap(), None, "{wrong}");
    }
    // Before it was made, and once it has expired.
    for now in [-1, 1_000] {
        assert_eq!(other.admit(&secret, at(now)).await.unwrap(), None);
    }
    assert!(matches!(
        desk.new_token(&token("ada"), at(0)).await,
        Err(DeskError::NameTaken(_))
    ));
    assert!(matches!(
        desk.new_token(&token("a\nb"), at(0)).await,
        Err(DeskError::BadName(_))
    ));
    assert!(desk.revoke("ada").await.unwrap());
    assert!(!desk.revoke("ada").await.unwrap());
    assert_eq!(other.admit(&secret, at(1)).await.unwrap(), None);
    let again = desk.new_token(&token("ada"), at(0)).await.unwrap();
    assert_ne!(again, secret);
    // A role of a newer version is none of ours.
    place.execute("UPDATE token SET token = replace(token, 'approver', 'auditor')");
    assert!(other.admit(&again, at(1)).await.is_err());
    assert_eq!(other.tokens().await.unwrap(), []);
}

#[test]
fn a_limited_token_sees_the_questions_of_its_apps_and_effects() {
    let kept = |apps: &[&str], effects: &[&str]| KeptToken {
        name: "ada".to_owned(),
        role: Role::Approver,
        tenant: None,
        apps: apps.iter().map(|app| (*app).to_owned()).collect(),
        effects: effects.iter().map(|effect| (*effect).to_owned()).collect(),
        created: at(0),
        expires: None,
        last_used: None,
    };
    let id = QuestionId::random().unwrap();
    for (apps, effects, app, sees) in [
        (&[][..], &[][..], "mail", true),
        (&["mail"], &[], "mail", true),
        (&["mail"], &[], "web", false),
        (&["mail"], &["irreversible"], "mail", true),
        (&["mail"], &["read"], "mail", false),
        (&[], &["read"], "mail", false),
        // An answer of several apps shows what each of them returned.
        (&["mail"], &[], "mail, web", false),
        (&["mail", "web"], &[], "mail, web", true),
        // An answer of no app.
        (&["mail"], &[], "", false),
        (&[], &[], "", true),
    ] {
        assert_eq!(
            kept(apps, effects).may_see(&question(app).head(id)),
            sees,
            "{apps:?} {effects:?} {app}"
        );
    }
    // Calls of other effects, which `each` allows.
    let mut each = question("mail");
    each.choices.push("each".to_owned());
    assert!(!kept(&[], &["irreversible"]).may_see(&each.head(id)));
    assert!(kept(&["mail"], &["read", "write", "irreversible"]).may_see(&each.head(id)));
}

fn keyed(number: u8) -> NewQuestion {
    NewQuestion {
        key: Some([number; 32]),
        ..question("mail")
    }
}

async fn a_question_with_a_key_is_asked_once(place: Place) {
    let (first, second) = (place.open().await, place.open().await);
    let asked = first.ask(&keyed(1), at(0)).await.unwrap();
    assert!(asked.is_new && asked.expires == at(60_000));
    // What another process would wait for does not count: it waits for the same question.
    let later = NewQuestion {
        expires: at(90_000),
        ..keyed(1)
    };
    let again = second.ask(&later, at(30_000)).await.unwrap();
    assert_eq!(
        again,
        Asked {
            is_new: false,
            ..asked
        }
    );
    let kept = second.find(&asked.id.to_string()).await.unwrap().unwrap();
    assert_eq!((kept.question.key, kept.alive), (Some([1; 32]), at(30_000)));
    assert!(second.ask(&keyed(2), at(30_000)).await.unwrap().is_new);
    // Many at once, in two processes.
    let race = (0..20).map(|number| {
        let desk = Arc::clone(if number % 2 == 0 { &first } else { &second });
        tokio::spawn(async move { desk.ask(&keyed(3), at(30_000)).await.unwrap() })
    });
    let mut all = Vec::new();
    for asked in race.collect::<Vec<_>>() {
        all.push(asked.await.unwrap());
    }
    assert!(all.iter().all(|asked| asked.id == all[0].id));
    assert_eq!(all.iter().filter(|asked| asked.is_new).count(), 1);
    // The answer waits for its request as long as the question could, and is then another question's.
    let answered = first.answer(asked.id, "once", &by("ada"), at(59_000)).await;
    answered.unwrap();
    for (now, is_same) in [(119_999, true), (120_000, false)] {
        let again = second
            .ask(
                &NewQuestion {
                    expires: at(200_000),
                    ..keyed(1)
                },
                at(now),
            )
            .await;
        assert_eq!(again.unwrap().id == asked.id, is_same, "{now}");
    }
}

async fn an_answer_for_one_call_is_taken_once(place: Place) {
    let desks = [place.open().await, place.open().await];
    let options = NewQuestion {
        choices: ["once", "each", "session", "no"].map(str::to_owned).into(),
        ..keyed(1)
    };
    for (number, (answer, most)) in [("once", 1), ("each", 1), ("session", 20), ("no", 20)]
        .into_iter()
        .enumerate()
    {
        let key = Some([number as u8; 32]);
        let new = NewQuestion {
            key,
            ..options.clone()
        };
        let id = ask(&desks[0], &new, at(0)).await.unwrap();
        assert_eq!(desks[1].take(id, at(1)).await.unwrap(), None);
        desks[1]
            .answer(id, answer, &by("ada"), at(1))
            .await
            .unwrap();
        let race = (0..20).map(|number| {
            let desk = Arc::clone(&desks[number % 2]);
            tokio::spawn(async move { desk.take(id, at(2)).await.unwrap().unwrap() })
        });
        let mut taken = 0;
        for outcome in race.collect::<Vec<_>>() {
            match outcome.await.unwrap() {
                Taken::Answer(kept) => {
                    assert_eq!(kept.answer, answer);
                    taken += 1;
                }
                Taken::UsedUp => {}
            }
        }
        assert_eq!(taken, most, "{answer}");
        // Who asks from now on asks anew.
        assert_ne!(ask(&desks[1], &new, at(3)).await.unwrap(), id);
    }
}

async fn a_question_with_a_key_outlives_its_process(place: Place) {
    let (dead, desk) = (place.open().await, place.open().await);
    let id = ask(&dead, &keyed(1), at(0)).await.unwrap();
    drop(dead);
    assert_eq!(waiting(&desk, at(59_999)).await, [id]);
    assert_eq!(waiting(&desk, at(60_000)).await, []);
    // Other questions remove nothing of it, and who gives it up does not take it from a process that asks too.
    ask(&desk, &question("web"), at(50_000)).await.unwrap();
    desk.still_asks(&[id], at(51_000)).await.unwrap();
    desk.withdraw(id, Some(at(50_000))).await.unwrap();
    desk.answer(id, "once", &by("ada"), at(52_000))
        .await
        .unwrap();
    assert_eq!(ask(&desk, &keyed(1), at(53_000)).await.unwrap(), id);
    let taken = desk.take(id, at(53_000)).await.unwrap();
    assert!(matches!(taken, Some(Taken::Answer(_))));
    let other = ask(&desk, &keyed(2), at(53_000)).await.unwrap();
    desk.withdraw(other, Some(at(53_000))).await.unwrap();
    assert!(desk.find(&other.to_string()).await.unwrap().is_none());
}

async fn an_agents_token_neither_sees_nor_answers(place: Place) {
    let desk = place.open().await;
    let admitted = async |role, name: &str, tenant: Option<&str>| {
        let new = NewToken {
            role,
            apps: vec![],
            tenant: tenant.map(str::to_owned),
            ..token(name)
        };
        let secret = desk.new_token(&new, at(0)).await.unwrap();
        desk.admit(&secret, at(1)).await.unwrap().unwrap()
    };
    let agent = admitted(Role::Agent, "builder", Some("team-a")).await;
    let approver = admitted(Role::Approver, "ada", Some("team-a")).await;
    let admin = admitted(Role::Admin, "root", None).await;
    assert_eq!(agent.tenant.as_deref(), Some("team-a"));
    for (tenant, seen) in [
        (Some("team-a"), [false, true, true]),
        (Some("team-b"), [false, false, true]),
        (None, [false, false, true]),
    ] {
        let new = NewQuestion {
            tenant: tenant.map(str::to_owned),
            ..question("mail")
        };
        let id = ask(&desk, &new, at(0)).await.unwrap();
        for (token, seen) in [&agent, &approver, &admin].into_iter().zip(seen) {
            let own = desk.waiting_for(at(1), |head| token.may_see(head));
            let sees = own.await.unwrap().all.iter().any(|kept| kept.id == id);
            assert_eq!(
                (sees, token.may_see(&new.head(id))),
                (seen, seen),
                "{} {tenant:?}",
                token.name
            );
        }
        for answer in ["once", "no"] {
            let refused = desk.answer_by(id, answer, &agent, "http", at(1)).await;
            assert!(matches!(refused, Err(DeskError::OfAgent)), "{refused:?}");
        }
        desk.answer_by(id, "once", &admin, "http", at(1))
            .await
            .unwrap();
    }
}

/// A file of the version before, with a question and a token.
#[tokio::test]
async fn an_old_file_is_upgraded() {
    let place = Place::sqlite();
    let secret = place
        .open()
        .await
        .new_token(&token("ada"), at(0))
        .await
        .unwrap();
    let id = ask(&*place.open().await, &question("mail"), at(0))
        .await
        .unwrap();
    place.execute(
        "DROP INDEX question_by_key; ALTER TABLE question DROP COLUMN key; ALTER TABLE question DROP COLUMN tenant;
         ALTER TABLE question DROP COLUMN used; PRAGMA user_version = 1",
    );
    let desk = place.open().await;
    assert_eq!(waiting(&desk, at(1)).await, [id]);
    let admitted = desk.admit(&secret, at(1)).await.unwrap().unwrap();
    assert_eq!((admitted.role, admitted.tenant), (Role::Approver, None));
    desk.answer(id, "once", &by("ada"), at(1)).await.unwrap();
    assert!(desk.ask(&keyed(1), at(2)).await.unwrap().is_new);
}
