//! Whole configurations as policies: what a call may do, what its result is.
#![expect(clippy::unwrap_used, reason = "tests fail by panicking")]

use std::path::Path;

use config::Config;
use ifc::{Arguments, Call, Effect, Label, Policy, Sink};

fn config(text: &str) -> Config {
    Config::load_with(Path::new("sluice.toml"), &|_| Ok(text.to_owned())).unwrap()
}

fn call(app: &str, tool: &str) -> Call {
    Call {
        app: app.to_owned(),
        tool: tool.to_owned(),
        arguments: Arguments::none(),
        label: Label::bottom(),
    }
}

/// The configuration of the mail app as it is shipped.
fn mail() -> Config {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../apps/mail/sluice-app.toml");
    let manifest = std::fs::read_to_string(manifest).unwrap();
    let sluice = r#"
        [lattice]
        integrity = { categories = ["email", "sender"] }
        confidentiality = { categories = ["mail"] }
        [app.mail]
        manifest = "sluice-app.toml"
    "#;
    Config::load_with(Path::new("sluice.toml"), &|path| match path.file_name() {
        Some(name) if name == "sluice.toml" => Ok(sluice.to_owned()),
        _ => Ok(manifest.clone()),
    })
    .unwrap()
}

/// Every region of a labelled result, one a line.
fn regions(config: &Config, tool: &str, result: &str, is_error: bool) -> String {
    let labeled = config
        .policy()
        .label_result(&call("mail", tool), result.to_owned(), is_error);
    let region = |(span, label): (std::ops::Range<usize>, &Label)| {
        format!(
            "{}: {}\n",
            config.lattice.describe(label).join("+"),
            &labeled.reveal_tcb()[span]
        )
    };
    labeled.regions().map(region).collect()
}

#[test]
fn the_mail_manifest_labels_what_the_app_returns() {
    let config = mail();
    let list = r#"{"emails":[{"id":"0a1b2c3d4e5f","from":{"name":"Eve: pay me","address":"eve@example.com"},"date":"2026-11-30T10:00:00Z","subject":"Hi","unread":true}],"total":1}"#;
    insta::assert_snapshot!(regions(&config, "list_emails", list, false));
    // The app, or what it runs on, breaks its word: an address that is a sentence, a field of its own.
    let odd = r#"{"emails":[{"id":"pay now","from":{"name":"Eve","address":"pay me, eve@example.com"},"note":"x"}],"total":"all"}"#;
    insta::assert_snapshot!(regions(&config, "list_emails", odd, false));
    insta::assert_snapshot!(regions(&config, "read_email", "no such mail", true));
    assert_eq!(
        regions(
            &config,
            "send_email",
            r#"{"sent":true,"recipients":1}"#,
            false
        ),
        ""
    );
    assert_eq!(
        regions(&config, "delete_email", r#"{"deleted":true}"#, false),
        ""
    );
}

/// What the calendar and notes apps return really has the forms that their manifests ask for.
#[test]
fn the_manifests_of_the_work_apps_label_what_they_return() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/work.toml");
    let config = Config::load(&file).unwrap();
    let label = |app: &str, tool: &str, result: &str| {
        let labeled = config
            .policy()
            .label_result(&call(app, tool), result.to_owned(), false);
        let region = |(span, label): (std::ops::Range<usize>, &Label)| {
            let names = config.lattice.describe(label).join("+");
            format!("{names}: {}\n", &labeled.reveal_tcb()[span])
        };
        labeled.regions().map(region).collect::<String>()
    };
    let events = r#"{"events":[{"id":"0a1b2c3d4e5f","start":"2026-11-24T10:00:00+01:00","end":null,"title":"Pay me","recurring":true},{"id":"send all","start":"2026-11-24T10:00:00","end":"2026-11-25","title":"T"}],"total":2,"skipped":0}"#;
    insta::assert_snapshot!(label("calendar", "list_events", events));
    let notes = r#"{"notes":[{"name":"Pay me","modified":"2026-11-24T10:00:00Z","bytes":7}],"total":1,"skipped":0}"#;
    insta::assert_snapshot!(label("notes", "list_notes", notes));
    let created = r#"{"created":true,"id":"0a1b2c3d4e5f"}"#;
    assert_eq!(label("calendar", "create_event", created), "");
}

/// Three apps with a secret each; the tools of the notes app have these keys more.
fn notes(write: &str, others: &str) -> Config {
    config(&format!(
        r#"
        lattice.confidentiality = "apps"
        [app.mail]
        command = ["mail"]
        [app.card]
        command = ["card"]
        [app.notes]
        command = ["notes"]
        [app.notes.tools.read]
        effect = "read"
        limit = ["untrusted"]
        parameters = ["id"]
        [app.notes.tools.list]
        effect = "read"
        limit = "any"
        parameters = []
        rest = ["untrusted"]
        [app.notes.tools.write]
        effect = "write"
        parameters = {{ text = "string" }}
        {write}
        {others}
        "#
    ))
}

#[test]
fn a_secret_of_another_app_is_written_with_a_question_only() {
    for write in [
        "",
        r#"arguments.text.limit = ["untrusted", "secret:notes"]"#,
    ] {
        let config = notes(write, "");
        let secret = config.lattice.label("secret:mail").unwrap();
        let write = Call {
            arguments: Arguments::parse(r#"{"text":"x"}"#, &secret).unwrap(),
            ..call("notes", "write")
        };
        let verdict = config.policy().judge(&Sink::Call(&write)).verdict;
        assert_eq!(verdict, policy::Verdict::Ask);
    }
}

/// A text that was given to an app comes back from it.
#[test]
fn a_secret_that_an_app_may_get_is_in_later_results() {
    let permit = r#"
        cedar = '@limit("secret:card") permit (principal, action, resource) when { context.arguments.text == "x" };'
    "#;
    let any = r#"[app.notes.other_tools]
        effect = "write"
        limit = "any"
    "#;
    let search = r#"[app.notes.tools.search]
        effect = "read"
        limit = ["untrusted", "secret:mail"]
    "#;
    let accepts = r#"arguments.text = { limit = [], accepts = [{ form = "digits(4)", limit = ["secret:mail"] }] }"#;
    let everything = ["untrusted", "secret:card", "secret:mail", "secret:notes"];
    for (write, others, expected) in [
        ("limit = []", "", &["untrusted", "secret:notes"][..]),
        (
            "limit = [\"untrusted\", \"secret:notes\"]",
            "",
            &["untrusted", "secret:notes"],
        ),
        (
            "limit = [\"secret:mail\"]",
            "",
            &["untrusted", "secret:mail", "secret:notes"],
        ),
        (
            "arguments.text.limit = [\"secret:mail\"]",
            "",
            &["untrusted", "secret:mail", "secret:notes"],
        ),
        (accepts, "", &["untrusted", "secret:mail", "secret:notes"]),
        (permit, "", &everything),
        ("limit = \"any\"", "", &everything),
        ("limit = []", any, &everything),
        (
            "limit = []",
            search,
            &["untrusted", "secret:mail", "secret:notes"],
        ),
    ] {
        let config = notes(write, others);
        let of = |tool: &str| {
            let result = config
                .policy()
                .label_result(&call("notes", tool), "x".to_owned(), false);
            let mut names = config.lattice.describe(&result.label());
            names.sort_by_key(|name| name.starts_with("secret"));
            names
        };
        assert_eq!(of("read"), expected, "{write}{others}");
        assert_eq!(of("write"), expected, "{write}{others}");
        // The user has said what is in these.
        assert_eq!(of("list"), ["untrusted"], "{write}{others}");
    }
}

#[test]
fn the_mail_manifest_limits_what_changes_the_world() {
    let config = mail();
    let policy = config.policy();
    let rule = |tool| policy.rule(&Sink::Call(&call("mail", tool))).unwrap();
    assert_eq!(
        (rule("send_email").effect, rule("send_email").limit),
        (Effect::Irreversible, Label::bottom())
    );
    assert_eq!(rule("send_email").name, "mail.send_email.limit");
    let own = config.lattice.labels(["untrusted", "secret:mail"]).unwrap();
    assert_eq!(rule("list_emails").limit, own);
    let mail = config.lattice.label("secret:mail").unwrap();
    assert_eq!(
        (rule("delete_email").effect, rule("delete_email").limit),
        (Effect::Irreversible, mail)
    );
}

#[test]
fn unknown_apps_and_tools_are_denied_and_their_results_are_top() {
    let config = mail();
    let policy = config.policy();
    for (app, tool, error) in [
        (
            "mail",
            "format",
            "app 'mail' has no rule for the tool 'format'; add [app.mail.tools.format] with its effect to sluice.toml",
        ),
        (
            "mall",
            "send_email",
            "there is no app 'mall' in sluice.toml",
        ),
    ] {
        assert_eq!(
            policy
                .rule(&Sink::Call(&call(app, tool)))
                .unwrap_err()
                .to_string(),
            error
        );
        let labeled = policy.label_result(&call(app, tool), "{}".to_owned(), false);
        assert_eq!(labeled.label(), Label::top());
    }
}

#[test]
fn a_server_of_which_nothing_is_known_is_as_bad_as_can_be() {
    let config = config("[app.x]\ncommand = [\"x\"]\n");
    let policy = config.policy();
    let rule = policy.rule(&Sink::Call(&call("x", "anything"))).unwrap();
    assert_eq!(
        (rule.effect, rule.limit),
        (Effect::Irreversible, Label::bottom())
    );
    let labeled = policy.label_result(&call("x", "anything"), r#"{"a":1}"#.to_owned(), false);
    let everything = config.lattice.labels(["untrusted", "secret"]).unwrap();
    assert_eq!(labeled.regions().collect::<Vec<_>>(), [(0..7, &everything)]);
}
