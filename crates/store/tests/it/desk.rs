//! The desk: questions that are answered once, and tokens.

use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::sync::Barrier;

use store::{Answerer, Desk, DeskError, KeptToken, NewQuestion, NewToken, QuestionId, Role, Time};
use tempfile::TempDir;

/// A file that several processes have open.
struct Shared(TempDir);

impl Shared {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn path(&self) -> PathBuf {
        self.0.path().join("state/desk.db")
    }

    fn open(&self) -> Desk {
        Desk::open(&self.path()).unwrap()
    }

    /// Another program's statement.
    fn execute(&self, sql: &str) {
        let file = rusqlite::Connection::open(self.path()).unwrap();
        file.execute_batch(sql).unwrap();
    }
}

fn at(ms: i64) -> Time {
    Time::from_millis(1_000_000 + ms)
}

fn question(app: &str) -> NewQuestion {
    NewQuestion {
        front: "proxy".to_owned(),
        session: "s".to_owned(),
        conversation: "c".to_owned(),
        asker: Some("eve".to_owned()),
        app: app.to_owned(),
        tool: "send".to_owned(),
        effect: "irreversible".to_owned(),
        choices: ["once", "no"].map(str::to_owned).into(),
        approvers: vec![],
        shown: r#"{"title":[]}"#.to_owned(),
        expires: at(60_000),
    }
}

fn by(name: &str) -> Answerer {
    Answerer {
        name: (!name.is_empty()).then(|| name.to_owned()),
        from: "page".to_owned(),
    }
}

fn waiting(desk: &Desk, now: Time) -> Vec<QuestionId> {
    let questions = desk.waiting(now).unwrap();
    assert_eq!(questions.unreadable, [""; 0]);
    questions.all.iter().map(|kept| kept.id).collect()
}

#[test]
fn a_question_is_seen_and_answered_by_another_process() {
    let shared = Shared::new();
    let (asks, answers) = (shared.open(), shared.open());
    let before = answers.version().unwrap();
    let id = asks.ask(&question("mail"), at(0)).unwrap();
    let other = asks.ask(&question("web"), at(1)).unwrap();
    assert_ne!(answers.version().unwrap(), before);
    assert_eq!(waiting(&answers, at(2)), [id, other]);
    let kept = answers.find(&id.to_string()).unwrap().unwrap();
    assert_eq!((kept.question, kept.asked), (question("mail"), at(0)));
    assert!(asks.take(id).unwrap().is_none());
    let before = asks.version().unwrap();
    answers.answer(id, "once", &by("ada"), at(3)).unwrap();
    assert_ne!(asks.version().unwrap(), before);
    let answer = asks.take(id).unwrap().unwrap();
    assert_eq!(
        (&*answer.answer, answer.by, answer.at),
        ("once", by("ada"), at(3))
    );
    assert_eq!(waiting(&answers, at(4)), [other]);
    let recent = answers.recent(10).unwrap().all;
    assert_eq!(recent.len(), 1);
    assert_eq!(
        recent[0].answer.as_ref().unwrap().to_string(),
        "once, by ada from page"
    );
    // A heartbeat is no change that a reader must look at.
    let before = asks.version().unwrap();
    asks.still_asks(&[other], at(5)).unwrap();
    assert_eq!(answers.version().unwrap(), before);
}

#[test]
fn of_two_answers_the_first_counts() {
    let shared = Shared::new();
    let desks = [shared.open(), shared.open()];
    let barrier = Barrier::new(2);
    let mut ids = Vec::new();
    for _ in 0..200 {
        let asked = desks[0].ask(&question("mail"), at(0));
        ids.push(asked.unwrap());
    }
    let race = |desk: &Desk, name: &str| -> Vec<Result<(), DeskError>> {
        let answer = |id: &QuestionId| {
            barrier.wait();
            desk.answer(*id, "once", &by(name), at(1))
        };
        ids.iter().map(answer).collect()
    };
    let (first, second) = std::thread::scope(|scope| {
        let first = scope.spawn(|| race(&desks[0], "ada"));
        let second = scope.spawn(|| race(&desks[1], "bob"));
        (first.join().unwrap(), second.join().unwrap())
    });
    for ((id, first), second) in ids.iter().zip(first).zip(second) {
        let (winner, lost) = match (first, second) {
            (Ok(()), Err(lost)) => ("ada", lost),
            (Err(lost), Ok(())) => ("bob", lost),
            both => panic!("{both:?}"),
        };
        let kept = desks[0].take(*id).unwrap().unwrap();
        assert_eq!(kept.by, by(winner));
        assert!(matches!(lost, DeskError::Answered(told) if told == kept));
    }
}

#[test]
fn a_question_that_nobody_waits_for_takes_no_answer() {
    let desk = Desk::in_memory().unwrap();
    let ask = || desk.ask(&question("mail"), at(0)).unwrap();
    let (expired, silent, withdrawn) = (ask(), ask(), ask());
    desk.withdraw(withdrawn).unwrap();
    assert_eq!(waiting(&desk, at(9_999)), [expired, silent]);
    // Its process is gone.
    desk.still_asks(&[expired], at(9_999)).unwrap();
    assert_eq!(waiting(&desk, at(10_000)), [expired]);
    for now in (20_000..60_000).step_by(9_000) {
        desk.still_asks(&[expired], at(now)).unwrap();
    }
    assert_eq!(waiting(&desk, at(60_000)), []);
    for (id, now) in [(expired, 60_000), (silent, 10_000), (withdrawn, 1)] {
        let late = desk.answer(id, "once", &by("ada"), at(now));
        assert!(matches!(late, Err(DeskError::Unknown)), "{late:?}");
        assert!(desk.take(id).unwrap().is_none());
    }
    // An answered question is not taken back.
    let answered = ask();
    desk.answer(answered, "no", &by(""), at(1)).unwrap();
    desk.withdraw(answered).unwrap();
    assert!(desk.take(answered).unwrap().is_some());
    // The next question removes what is of no use.
    assert!(desk.find(&silent.to_string()).unwrap().is_some());
    desk.ask(&question("mail"), at(70_000)).unwrap();
    assert!(desk.find(&silent.to_string()).unwrap().is_none());
    let week = 7 * 24 * 3600 * 1000;
    desk.ask(&question("mail"), at(week + 1)).unwrap();
    assert!(desk.find(&answered.to_string()).unwrap().is_none());
}

#[test]
fn only_offered_answers_of_those_who_may_count() {
    let desk = Desk::in_memory().unwrap();
    let answer = |id, answer: &str, name: &str| {
        let new = NewToken {
            expires: None,
            ..token(name)
        };
        match desk.new_token(&new, at(0)) {
            Ok(secret) => {
                let token = desk.admit(&secret, at(1)).unwrap().unwrap();
                desk.revoke(name).unwrap();
                desk.answer_by(id, answer, &token, "page", at(1))
            }
            // No name of a token.
            Err(_) => desk.answer(id, answer, &by(name), at(1)),
        }
    };
    let new = NewQuestion {
        approvers: ["ada", "eve"].map(str::to_owned).into(),
        ..question("mail")
    };
    let id = desk.ask(&new, at(0)).unwrap();
    for (wrong, name) in [("always", "ada"), ("", "ada"), ("ONCE", "ada")] {
        let refused = answer(id, wrong, name);
        assert!(matches!(refused, Err(DeskError::NotOffered(choices)) if choices == new.choices));
    }
    // The one who asked, a stranger, a name that only looks alike, and no name at all.
    for name in ["eve", "bob", "Ada", "ada ", ""] {
        let refused = answer(id, "once", name);
        assert!(matches!(refused, Err(DeskError::NotAllowed(all)) if all == new.approvers));
    }
    // A process can take any name.
    let refused = desk.answer(id, "once", &by("ada"), at(1));
    assert!(matches!(refused, Err(DeskError::NotAllowed(_))));
    answer(id, "once", "ada").unwrap();
    // A gateway may write the name in another case. Where it names none, the one who asks could be anyone.
    for asker in [Some("ADA"), None] {
        let asker = asker.map(str::to_owned);
        let is_known = asker.is_some();
        let id = desk
            .ask(
                &NewQuestion {
                    asker,
                    ..new.clone()
                },
                at(0),
            )
            .unwrap();
        match answer(id, "once", "ada") {
            Err(DeskError::NotAllowed(_)) => assert!(is_known),
            Err(DeskError::AskerUnknown) => assert!(!is_known),
            other => panic!("{other:?}"),
        }
        desk.answer(id, "no", &by("ada"), at(1)).unwrap();
    }
    let id = desk.ask(&new, at(0)).unwrap();
    desk.answer(id, "no", &by(""), at(1)).unwrap();
    // Without approvers everyone may allow it who can answer at all.
    let id = desk.ask(&question("mail"), at(0)).unwrap();
    desk.answer(id, "once", &by("eve"), at(1)).unwrap();
}

#[test]
fn an_id_may_be_shortened_while_it_names_one_question() {
    let shared = Shared::new();
    let desk = shared.open();
    let [first, second] = [0, 1].map(|_| desk.ask(&question("mail"), at(0)).unwrap());
    shared.execute(&format!(
        "UPDATE question SET id = x'abcd0000000000000000000000000000' WHERE id = x'{first}';
         UPDATE question SET id = x'abcdef00000000000000000000000000' WHERE id = x'{second}'"
    ));
    let found = |id: &str| {
        desk.find(id)
            .map(|kept| kept.map(|kept| kept.id.to_string()))
    };
    assert!(found("abcde").unwrap().unwrap().starts_with("abcdef"));
    assert!(found("ABCD0").unwrap().unwrap().starts_with("abcd00"));
    assert!(found("0000").unwrap().is_none());
    for id in ["", "abc", "abcd", "%%%%", "____", "abcd%", "x' OR 1=1"] {
        assert!(matches!(found(id), Err(DeskError::Ambiguous(_))), "{id}");
    }
}

#[test]
fn a_damaged_question_is_named_and_hides_no_other() {
    let shared = Shared::new();
    let desk = shared.open();
    let [good, bad] = [0, 1].map(|_| desk.ask(&question("mail"), at(0)).unwrap());
    shared.execute(&format!(
        "UPDATE question SET question = substr(question, 2) WHERE id = x'{bad}'"
    ));
    let listed = desk.waiting(at(1)).unwrap();
    assert_eq!(
        listed.all.iter().map(|kept| kept.id).collect::<Vec<_>>(),
        [good]
    );
    assert_eq!(listed.unreadable, [bad.to_string()]);
    // Who may not see it does not count it either.
    let others = desk.waiting_for(at(1), |id, app, effect| {
        assert!([good, bad].contains(&id) && (app, effect) == ("mail", "irreversible"));
        false
    });
    assert_eq!(others.unwrap(), store::Questions::default());
    // It gets no answer.
    let refused = desk.answer(bad, "once", &by("ada"), at(1));
    assert!(
        matches!(refused, Err(DeskError::Unreadable(..))),
        "{refused:?}"
    );
    desk.answer(good, "once", &by("ada"), at(1)).unwrap();
}

#[test]
fn questions_have_bounds() {
    let desk = Desk::in_memory().unwrap();
    let large = NewQuestion {
        shown: "x".repeat(8 << 20),
        ..question("mail")
    };
    assert!(matches!(desk.ask(&large, at(0)), Err(DeskError::TooLarge)));
    let first = desk.ask(&question("mail"), at(0)).unwrap();
    for _ in 1..1024 {
        desk.ask(&question("mail"), at(0)).unwrap();
    }
    assert!(matches!(
        desk.ask(&question("mail"), at(0)),
        Err(DeskError::TooMany)
    ));
    desk.answer(first, "no", &by(""), at(1)).unwrap();
    let half = NewQuestion {
        shown: "x".repeat(4 << 20),
        ..question("mail")
    };
    desk.ask(&half, at(1)).unwrap();
    // Those of a process that is gone take no room.
    for _ in 0..16 {
        desk.ask(
            &NewQuestion {
                expires: at(90_000),
                ..half.clone()
            },
            at(20_000),
        )
        .unwrap_or_else(|error| {
            assert!(matches!(error, DeskError::TooMany));
            first
        });
    }
    assert_eq!(waiting(&desk, at(20_001)).len(), 15);
}

#[test]
fn only_this_user_reads_the_file_and_no_other_programs_file_is_touched() {
    let shared = Shared::new();
    drop(shared.open());
    let mode = |path: &PathBuf| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&shared.path()), 0o600);
    std::fs::set_permissions(shared.path(), PermissionsExt::from_mode(0o644)).unwrap();
    assert!(
        Desk::open(&shared.path())
            .unwrap_err()
            .to_string()
            .contains("chmod 600")
    );
    let other = Shared::new();
    drop(other.open());
    other.execute("PRAGMA application_id = 7");
    let refused = Desk::open(&other.path()).unwrap_err().to_string();
    assert!(refused.contains("another program's database"), "{refused}");
}

fn token(name: &str) -> NewToken {
    NewToken {
        name: name.to_owned(),
        role: Role::Approver,
        apps: vec!["mail".to_owned()],
        effects: vec![],
        expires: Some(at(1_000)),
    }
}

#[test]
fn a_token_admits_until_it_expires_or_is_revoked() {
    let shared = Shared::new();
    let (desk, other) = (shared.open(), shared.open());
    let secret = desk.new_token(&token("ada"), at(0)).unwrap();
    let admitted = other.admit(&secret, at(1)).unwrap().unwrap();
    assert_eq!((&*admitted.name, admitted.last_used), ("ada", Some(at(1))));
    // The file does not hold the secret.
    for entry in std::fs::read_dir(shared.path().parent().unwrap()).unwrap() {
        let bytes = std::fs::read(entry.unwrap().path()).unwrap();
        let hex = secret.strip_prefix("sluice-").unwrap().as_bytes();
        assert!(!bytes.windows(hex.len()).any(|window| window == hex));
    }
    for wrong in [
        "",
        "sluice-",
        &secret[1..],
        &format!("{secret}0"),
        &secret.to_uppercase(),
    ] {
        assert_eq!(other.admit(wrong, at(1)).unwrap(), None, "{wrong}");
    }
    // Before it was made, and once it has expired.
    for now in [-1, 1_000] {
        assert_eq!(other.admit(&secret, at(now)).unwrap(), None);
    }
    assert!(matches!(
        desk.new_token(&token("ada"), at(0)),
        Err(DeskError::NameTaken(_))
    ));
    assert!(matches!(
        desk.new_token(&token("a\nb"), at(0)),
        Err(DeskError::BadName(_))
    ));
    assert!(desk.revoke("ada").unwrap());
    assert!(!desk.revoke("ada").unwrap());
    assert_eq!(other.admit(&secret, at(1)).unwrap(), None);
    let again = desk.new_token(&token("ada"), at(0)).unwrap();
    assert_ne!(again, secret);
    // A role of a newer version is none of ours.
    shared.execute("UPDATE token SET token = replace(token, 'approver', 'admin')");
    assert!(other.admit(&again, at(1)).is_err());
    assert_eq!(other.tokens().unwrap(), []);
}

#[test]
fn a_limited_token_sees_the_questions_of_its_apps_and_effects() {
    let kept = |apps: &[&str], effects: &[&str]| KeptToken {
        name: "ada".to_owned(),
        role: Role::Approver,
        apps: apps.iter().map(|app| (*app).to_owned()).collect(),
        effects: effects.iter().map(|effect| (*effect).to_owned()).collect(),
        created: at(0),
        expires: None,
        last_used: None,
    };
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
            kept(apps, effects).may_see(&question(app)),
            sees,
            "{apps:?} {effects:?} {app}"
        );
    }
    // Calls of other effects, which `each` allows.
    let mut each = question("mail");
    each.choices.push("each".to_owned());
    assert!(!kept(&[], &["irreversible"]).may_see(&each));
    assert!(kept(&["mail"], &["read", "write", "irreversible"]).may_see(&each));
}
