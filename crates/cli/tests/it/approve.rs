//! Questions that are answered from another terminal or a script, and the tokens of those who answer them.

use std::fs;
use std::process::Command;
use std::time::SystemTime;

use hub::question::{Shown, ShownArgument, ShownChoice};
use serde_json::Value;
use store::{Desk, KeptAnswer, NewQuestion, PoolSettings, QuestionId, Store, Time};
use test_support::{Postgres, wait};

use crate::home::Home;
use crate::terminal::at_terminal;

fn now() -> Time {
    SystemTime::now().into()
}

fn desk(home: &Home) -> Desk {
    Desk::open(&home.path("state/sluice/desk.db")).unwrap()
}

/// A question whose app, tool and arguments are as given.
fn question(app: &str, effect: &str, body: &str) -> NewQuestion {
    let choice = |answer: &str, meaning: &str| ShownChoice {
        answer: answer.to_owned(),
        words: answer.to_owned(),
        meaning: meaning.to_owned(),
    };
    let shown = Shown {
        // As the hub makes it: sentences of ours have foreign names escaped.
        title: vec![format!(
            "{} wants to call act ({effect}). This needs your approval:",
            hub::trace::escape(app)
        )],
        app: app.to_owned(),
        tool: "act".to_owned(),
        effect: effect.to_owned(),
        arguments: vec![ShownArgument {
            name: "body".to_owned(),
            value: Value::from(body).to_string(),
            ..ShownArgument::default()
        }],
        choices: vec![
            choice("once", ""),
            choice("session", "app may call act."),
            choice("no", ""),
        ],
        ..Shown::default()
    };
    NewQuestion {
        front: "proxy".to_owned(),
        session: "s1".to_owned(),
        conversation: "c1".to_owned(),
        tenant: None,
        asker: None,
        app: app.to_owned(),
        tool: "act".to_owned(),
        effect: effect.to_owned(),
        choices: ["once", "session", "no"].map(str::to_owned).to_vec(),
        approvers: Vec::new(),
        shown: serde_json::to_string(&shown).unwrap(),
        expires: Time::from_millis(now().millis() + 60_000),
        key: None,
    }
}

/// The answer to a question, which stays for the one who asks.
fn given(desk: &Desk, id: QuestionId) -> Option<KeptAnswer> {
    wait(desk.read(&[id])).unwrap().all.pop()?.answer
}

/// A question that waits, its id, and the desk.
fn asked(new: &NewQuestion) -> (Home, Desk, QuestionId) {
    let home = Home::new();
    let desk = desk(&home);
    let id = wait(desk.ask(new, now())).unwrap().id;
    (home, desk, id)
}

pub(crate) fn me() -> String {
    let output = Command::new("id").arg("-un").output().unwrap();
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

/// The token of `sluice token new` with these arguments.
fn token(home: &Home, arguments: &[&str]) -> String {
    let all = [&["token", "new"], arguments].concat();
    let (code, shown) = at_terminal(&home.sluice(&all), &[], |_| {});
    assert_eq!(code, 0, "{shown}");
    shown.lines().last().unwrap().trim().to_owned()
}

fn with(mut command: Command, token: &str) -> (i32, String, String) {
    crate::home::said(&command.env("SLUICE_TOKEN", token).output().unwrap())
}

#[test]
fn a_question_is_answered_once_from_another_terminal() {
    let (home, desk, id) = asked(&question("mail", "write", "hello"));
    let short = &id.to_string()[..8];
    let (code, list, _) = home.run(&["approve", "list"]);
    assert!(code == 0 && list.starts_with(short), "{list}");
    assert!(
        list.contains("mail.act (write)") && list.contains("hello"),
        "{list}"
    );
    let (_, json, _) = home.run(&["approve", "list", "--wait", "--json", "--session", "s1"]);
    let json: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["id"], id.to_string());
    assert_eq!(json["shown"]["arguments"][0]["value"], "\"hello\"");
    assert_eq!(home.run(&["approve", "list", "--session", "s2"]).1, "");
    // No row of the list is broken, so that no text begins one.
    let (code, full, state) = home.run(&["approve", "show", short]);
    assert!(state.contains("proxy asks, since "), "{state}");
    assert!(
        code == 0 && full.contains("mail wants to call act"),
        "{full}"
    );
    assert!(
        state.contains(&format!("sluice approve answer {short}")),
        "{state}"
    );

    let yes = home.sluice(&["approve", "answer", short, "session"]);
    // More than this call is allowed once it was shown.
    let (code, shown) = at_terminal(&yes, &["no"], |_| {});
    assert!(code == 3 && shown.contains("app may call act."), "{shown}");
    assert_eq!(given(&desk, id), None);
    let (code, shown) = at_terminal(&yes, &["session"], |_| {});
    assert!(code == 0 && shown.contains("answered: session"), "{shown}");
    let given = given(&desk, id).unwrap();
    assert_eq!(
        (given.answer.as_str(), given.by.from.as_str()),
        ("session", "approve")
    );
    assert_eq!(given.by.name, Some(me()));
    // The exit code says that this one did not count.
    let (code, _, why) = home.run(&["approve", "no", short]);
    assert!(
        code == 3 && why.contains(&format!("session, by {} from approve", me())),
        "{why}"
    );
    // The words of a terminal are words here too.
    assert_eq!(home.run(&["approve", "deny", short]).0, 3);
    assert_eq!(home.run(&["approve", "answer", short, "d"]).0, 3);
    let (code, json, _) = home.run(&["approve", "no", short, "--json"]);
    assert!(code == 3 && json.contains("\"counted\":false"), "{json}");
    assert!(
        home.run(&["approve", "show", short])
            .2
            .contains("It was answered: session")
    );
    for wrong in ["ffffffff", "zz", ""] {
        assert_eq!(home.run(&["approve", "no", wrong]).0, 1, "{wrong}");
    }
}

/// An agent with a shell of the user's, which was told by a text to allow its own call.
#[test]
fn a_program_without_a_terminal_allows_nothing() {
    let (home, desk, id) = asked(&question("mail", "write", "hello"));
    let id_text = id.to_string();
    for answer in ["once", "session", "each", "always"] {
        let (code, _, why) = home.run(&["approve", "answer", &id_text, answer]);
        assert!(code == 1 && why.contains("SLUICE_TOKEN"), "{why}");
    }
    assert_eq!(home.run(&["approve", "yes", &id_text]).0, 1);
    let (code, _, why) = home.run(&["token", "new", "mallory"]);
    assert!(code == 1 && why.contains("at a terminal only"), "{why}");
    assert!(wait(desk.tokens()).unwrap().is_empty());
    assert_eq!(given(&desk, id), None);
    // What is not offered is not an answer, at a terminal neither.
    let always = home.sluice(&["approve", "answer", &id_text, "always"]);
    let (code, shown) = at_terminal(&always, &[], |_| {});
    assert!(code == 1 && shown.contains("once, session, no"), "{shown}");
    assert_eq!(home.run(&["approve", "no", &id_text]).0, 0);
}

#[test]
fn a_token_answers_within_its_rights() {
    let (home, desk, bank) = asked(&question("bank", "irreversible", "pay"));
    let mail = wait(desk.ask(&question("mail", "write", "hello"), now()))
        .unwrap()
        .id;
    let ada = token(
        &home,
        &[
            "ada",
            "--apps",
            "mail,notes",
            "--effects",
            "read,write",
            "--for",
            "30d",
        ],
    );
    let file = fs::read(home.path("state/sluice/desk.db")).unwrap();
    let secret = ada.as_bytes();
    assert!(secret.len() > 32 && !file.windows(secret.len()).any(|it| it == secret));
    let (_, list, _) = home.run(&["token", "list"]);
    assert!(
        list.starts_with("ada") && list.contains("apps mail, notes, effects read, write"),
        "{list}"
    );
    assert!(
        list.contains("  until ") && list.contains("never used") && !list.contains(&ada),
        "{list}"
    );

    let (code, list, said) = with(home.sluice(&["approve", "list"]), &ada);
    assert!(
        code == 0 && list.lines().count() == 1 && list.contains("mail.act"),
        "{list}{said}"
    );
    let unknown = with(
        home.sluice(&["approve", "no", "ffffffffffffffffffffffffffffffff"]),
        &ada,
    );
    let (code, _, hidden) = with(home.sluice(&["approve", "no", &bank.to_string()]), &ada);
    // It is as if there were no such question.
    assert_eq!(
        (
            code,
            hidden.replace(&bank.to_string(), "ffffffffffffffffffffffffffffffff")
        ),
        (1, unknown.2)
    );
    assert_eq!(
        with(home.sluice(&["approve", "yes", &mail.to_string()]), &ada).0,
        0
    );
    assert_eq!(given(&desk, mail).unwrap().by.name.as_deref(), Some("ada"));

    assert_eq!(home.run(&["token", "revoke", "ada"]).0, 0);
    assert_eq!(home.run(&["token", "revoke", "ada"]).0, 1);
    // A token that does not count gives less than none.
    for wrong in [ada.as_str(), "", "sluice-0"] {
        let (code, list, why) = with(home.sluice(&["approve", "list"]), wrong);
        assert!(
            code == 1 && list.is_empty() && why.contains("does not count"),
            "{list}{why}"
        );
        assert!(wrong.is_empty() || !why.contains(wrong));
    }
    assert_eq!(given(&desk, bank), None);
}

#[test]
fn names_and_limits_of_tokens_mean_what_they_say() {
    let home = Home::new();
    for wrong in [
        &["ada lovelace"][..],
        &["\u{430}da"],
        &["ada", "--apps", ""],
        &["ada", "--apps", "mail,,notes"],
        &["ada", "--effects", ""],
        &["ada", "--effects", "reads"],
        &["ada", "--for", "0d"],
    ] {
        let all = [&["token", "new"], wrong].concat();
        let (code, shown) = at_terminal(&home.sluice(&all), &[], |_| {});
        assert!(code == 1 || code == 2, "{wrong:?}: {shown}");
    }
    assert_eq!(home.run(&["token", "list", "--json"]).1, "");
}

/// `$USER` is what anyone sets it to.
#[test]
fn only_an_approver_allows_what_others_have_to() {
    let others = NewQuestion {
        approvers: vec!["ada".to_owned()],
        asker: Some("bob".to_owned()),
        choices: vec!["once".to_owned(), "no".to_owned()],
        ..question("bank", "write", "pay")
    };
    let (home, desk, id) = asked(&others);
    let ada = token(&home, &["ada"]);
    let eve = token(&home, &["eve"]);
    let yes = || home.sluice(&["approve", "yes", &id.to_string()]);
    let mut posing = yes();
    posing.env("USER", "ada").env("LOGNAME", "ada");
    let (code, shown) = at_terminal(&posing, &[], |_| {});
    assert!(
        code == 3 && shown.contains("only ada may allow this"),
        "{shown}"
    );
    assert_eq!(with(yes(), &eve).0, 3);
    assert_eq!(given(&desk, id), None);
    assert!(home.run(&["approve", "list"]).1.contains("for ada"));
    assert_eq!(with(yes(), &ada).0, 0);
    // The one who asks is no second pair of eyes.
    let own = NewQuestion {
        asker: Some("ada".to_owned()),
        ..others
    };
    let id = wait(desk.ask(&own, now())).unwrap().id;
    let (code, _, why) = with(home.sluice(&["approve", "yes", &id.to_string()]), &ada);
    assert!(code == 3 && why.contains("not the one who asked"), "{why}");
}

#[test]
fn text_of_others_steers_no_terminal() {
    let hostile = "\u{1b}[2J\u{202e}evil\r\nsluice: answered: once\u{7}";
    let new = NewQuestion {
        app: hostile.to_owned(),
        ..question(hostile, "write", hostile)
    };
    let (home, desk, id) = asked(&new);
    let damaged = NewQuestion {
        shown: "{\"title\"".to_owned(),
        ..question("mail", "write", "")
    };
    let damaged = wait(desk.ask(&damaged, now())).unwrap().id;
    for arguments in [
        &["approve", "list"][..],
        &["approve", "list", "--json"],
        &["approve", "show", &id.to_string()],
    ] {
        let (_, out, err) = home.run(arguments);
        for text in [&out, &err] {
            let has_line = text
                .lines()
                .any(|line| line.starts_with("sluice: answered"));
            assert!(
                !has_line && !text.contains(['\u{1b}', '\u{202e}', '\r', '\u{7}']),
                "{text:?}"
            );
        }
    }
    // What cannot be shown can be denied alone.
    let yes = home.sluice(&["approve", "yes", &damaged.to_string()]);
    let (code, shown) = at_terminal(&yes, &[], |_| {});
    assert!(code == 1 && shown.contains("cannot be shown"), "{shown}");
    assert_eq!(home.run(&["approve", "no", &damaged.to_string()]).0, 0);
}

#[test]
fn a_policy_without_its_approvers_is_warned_about() {
    let policy = "[app.bank]\nclient = true\n[app.bank.tools.pay]\neffect = \"write\"\nlimit = []\napprovers = [\"ada\", \"bob\"]\n";
    let home = Home::with(policy);
    let (_, list, warned) = home.run(&["policy", "check"]);
    assert!(list.contains("approver ada; approver bob"), "{list}");
    assert!(warned.contains("ada, bob cannot answer"), "{warned}");
    token(&home, &["bob"]);
    assert!(
        home.run(&["policy", "check"])
            .2
            .contains("ada cannot answer")
    );
    let (_, json, _) = home.run(&["policy", "check", "--json"]);
    let lines = json
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap());
    let kinds = lines.map(|line| line["kind"].as_str().unwrap().to_owned());
    assert!(
        kinds.collect::<Vec<_>>().contains(&"warning".to_owned()),
        "{json}"
    );
}

/// Each command is another process, as one on another machine is.
#[tokio::test(flavor = "multi_thread")]
async fn the_questions_and_tokens_of_a_service_are_in_its_database() {
    let Some(server) = Postgres::fast() else {
        return;
    };
    let (home, url) = (Home::new(), server.database());
    let file = home.path("service.toml");
    fs::write(&file, "[state]\nurl_env = \"DATABASE\"\n").unwrap();
    let sluice = |arguments: &[&str]| {
        let mut command = home.sluice(arguments);
        command.env("DATABASE", &url).env("SLUICE_CONFIG", &file);
        // What a command does is noted in the audit log, whose key is made of it.
        command.env("SLUICE_SECRET", "0123456789abcdef".repeat(2));
        command
    };
    let run = |arguments: &[&str]| crate::home::said(&sluice(arguments).output().unwrap());
    let store = Store::postgres(&url, &PoolSettings::default()).await;
    let desk = store.unwrap().desk();
    let new = NewQuestion {
        tenant: Some("team-a".to_owned()),
        key: Some([7; 32]),
        ..question("mail", "write", "hello")
    };
    let id = desk.ask(&new, now()).await.unwrap().id;
    // Not on the desk of this user.
    assert_eq!(home.run(&["approve", "list"]).1, "");
    let (code, list, why) = run(&["approve", "list"]);
    assert!(code == 0 && list.contains("mail.act"), "{list}{why}");
    let made = |arguments: &[&str]| {
        let (code, shown) = at_terminal(&sluice(arguments), &[], |_| {});
        assert_eq!(code, 0, "{shown}");
        shown.lines().last().unwrap().trim().to_owned()
    };
    let other = made(&["token", "new", "bob", "--tenant", "team-b"]);
    let ada = made(&[
        "token",
        "new",
        "ada",
        "--tenant",
        "team-a",
        "--expires",
        "1h",
    ]);
    // A token of an agent needs no terminal: it answers nothing.
    let agent = [
        "token", "new", "builder", "--role", "agent", "--tenant", "team-a", "--json",
    ];
    let (code, agent, why) = run(&agent);
    assert_eq!(code, 0, "{why}");
    let agent: Value = serde_json::from_str(&agent).unwrap();
    assert_eq!(agent["role"], "agent");
    let (_, tokens, _) = run(&["token", "list"]);
    assert!(
        tokens.contains("builder              agent of team-a  since"),
        "{tokens}"
    );
    let yes = || sluice(&["approve", "yes", &id.to_string()]);
    assert_eq!(with(yes(), &other).0, 1);
    let (code, _, why) = with(yes(), agent["token"].as_str().unwrap());
    assert!(code == 1 && why.contains("sees no questions"), "{why}");
    assert_eq!(with(yes(), &ada).0, 0);
    let kept = desk.read(&[id]).await.unwrap().all.remove(0);
    assert_eq!(
        kept.answer.unwrap().to_string(),
        "once, by ada from approve"
    );
    assert_eq!(run(&["token", "revoke", "ada"]).0, 0);
    assert_eq!(with(sluice(&["approve", "list"]), &ada).0, 1);
    for wrong in [
        &["--role", "admin", "--tenant", "team-a"][..],
        &["--role", "agent", "--apps", "mail"],
        &["--tenant", "team a"],
    ] {
        let all = [&["token", "new", "eve"], wrong].concat();
        assert_eq!(at_terminal(&sluice(&all), &[], |_| {}).0, 1, "{wrong:?}");
    }
}
