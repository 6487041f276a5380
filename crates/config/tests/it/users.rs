//! What depends on the user of a session, and what calls move by themselves.
#![expect(clippy::unwrap_used, reason = "tests fail by panicking")]

use std::path::Path;
use std::sync::Arc;

use config::{Config, Diagnostics};
use ifc::{Arguments, Call, Label, Policy, Sink};
use policy::{SessionFacts, Verdict};

const POLICY: &str = r#"
[lattice]
integrity = { categories = ["customer"] }
confidentiality = { readers = ["hr", "finance"] }

[user]
name = "c7"

[app.shop]
client = true

[app.shop.tools.get_customer]
effect = "read"
limit = "any"
parameters = ["user_id", "verbose"]
rest = ["untrusted:customer"]
labels = [{ path = "$", label = [], when = { argument = "user_id", equals = "session.user" } }]

[app.shop.tools.change_address]
effect = "write"
limit = []
parameters = { user_id = "string", address = "string" }
cedar = '''
forbid (principal, action, resource)
unless { context.session has user && context.session.user == context.arguments.user_id };
'''

[app.shop.tools.mail_report]
effect = "irreversible"
limit = ["readers:finance"]
parameters = { to = "string", report_id = "string" }
carries = ["readers:hr"]
audience = { of = "to", groups = { groups = { hr = ["ann@firm.example"], finance = ["carl@firm.example"] } } }
cedar = '''
@id("never")
forbid (principal, action, resource) when { context.secret && context.arguments.to == "eve@evil.example" };
'''
"#;

fn load(text: &str) -> Result<Config, Diagnostics> {
    Config::load_with(Path::new("sluice.toml"), &|_| Ok(text.to_owned()))
}

fn call(tool: &str, arguments: &str) -> Call {
    Call {
        app: "shop".to_owned(),
        tool: tool.to_owned(),
        arguments: Arguments::parse(arguments, &Label::bottom()).unwrap(),
        label: Label::bottom(),
    }
}

#[test]
fn the_users_own_record_is_the_users_own_words() {
    let config = load(POLICY).unwrap();
    assert_eq!(config.warnings, []);
    assert_eq!(config.user_name.as_deref(), Some("c7"));
    let label = |user: Option<&str>, arguments: &str| {
        let user = user.map(Arc::from);
        let facts = SessionFacts {
            user,
            ..SessionFacts::default()
        };
        let policy = config.policy().with_session(facts);
        let result = r#"{"address":"1 Main St"}"#.to_owned();
        policy
            .label_result(&call("get_customer", arguments), result, false)
            .label()
    };
    let own = |user: &str, arguments: &str| label(Some(user), arguments).is_bottom();
    assert!(own("c7", r#"{"user_id":"c7"}"#));
    assert!(own("c7", r#"{"user_id":"c7","verbose":true}"#));
    assert!(own("1042", r#"{"user_id":1042}"#));
    for (user, arguments) in [
        (Some("c7"), r#"{"user_id":"c8"}"#),
        (Some("c7"), r#"{"user_id":"C7"}"#),
        (Some("c7"), r#"{"user_id":"c7 "}"#),
        (Some("c7"), r#"{"user_id":["c7","c8"]}"#),
        (Some("c7"), r#"{"user_id":{"id":"c7"}}"#),
        (Some("1042"), r#"{"user_id":1042.5}"#),
        (Some("c7"), "{}"),
        (Some("session.user"), r#"{"user_id":"c7"}"#),
        (None, r#"{"user_id":"c7"}"#),
        (None, r#"{"user_id":"session.user"}"#),
        (None, r#"{"user_id":""}"#),
    ] {
        assert!(!label(user, arguments).is_bottom(), "{user:?} {arguments}");
    }
    // A front that learns the user with the request has a policy for each.
    let of_front = config.policy().for_user("c9").unwrap();
    let result = of_front.label_result(
        &call("get_customer", r#"{"user_id":"c9"}"#),
        "{}".to_owned(),
        false,
    );
    assert!(result.label().is_bottom());
}

#[test]
fn conditions_see_the_user() {
    let config = load(POLICY).unwrap();
    let verdict = |user: Option<&str>, id: &str| {
        let user = user.map(Arc::from);
        let facts = SessionFacts {
            user,
            ..SessionFacts::default()
        };
        let policy = config.policy().with_session(facts);
        let arguments = format!(r#"{{"user_id":"{id}","address":"x"}}"#);
        policy
            .judge(&Sink::Call(&call("change_address", &arguments)))
            .verdict
    };
    assert_eq!(verdict(Some("c7"), "c7"), Verdict::Allow);
    assert_eq!(verdict(Some("c7"), "c8"), Verdict::Deny);
    assert_eq!(verdict(None, "c7"), Verdict::Deny);
}

#[test]
fn what_a_call_carries_is_in_its_label() {
    let config = load(POLICY).unwrap();
    let judge = |text: &str, to: &str| {
        let config = load(text).unwrap();
        let arguments = format!(r#"{{"to":"{to}","report_id":"r1"}}"#);
        config
            .policy()
            .judge(&Sink::Call(&call("mail_report", &arguments)))
    };
    // The recipient may read it.
    assert_eq!(judge(POLICY, "ann@firm.example").verdict, Verdict::Allow);
    let found = judge(POLICY, "carl@firm.example");
    assert_eq!(
        (found.verdict, found.rule.as_str()),
        (Verdict::Ask, "shop.mail_report.carries")
    );
    assert_eq!(config.lattice.describe(&found.excess), ["readers:hr"]);
    assert_eq!(found.instead, ["it may go to ann@firm.example"]);
    // Every such call, since its label says nothing of it.
    assert!(found.always_ask);
    // Conditions see it.
    assert_eq!(judge(POLICY, "eve@evil.example").verdict, Verdict::Deny);
    // The limit may admit it, and a stranger's text is carried as well.
    let wide = POLICY.replace("limit = [\"readers:finance\"]", "limit = [\"readers:hr\"]");
    assert_eq!(judge(&wide, "carl@firm.example").verdict, Verdict::Allow);
    let text = POLICY.replace(
        "carries = [\"readers:hr\"]",
        "carries = [\"untrusted:customer\"]",
    );
    assert_eq!(judge(&text, "ann@firm.example").verdict, Verdict::Ask);
    let nothing = POLICY.replace("carries = [\"readers:hr\"]", "carries = []");
    assert_eq!(judge(&nothing, "carl@firm.example").verdict, Verdict::Allow);
}

#[test]
fn a_tool_that_may_move_text_by_itself_is_warned_of() {
    let warnings = |text: &str| -> Vec<String> {
        let config = load(text).unwrap();
        config
            .warnings
            .iter()
            .map(|it| it.message.clone())
            .collect()
    };
    assert_eq!(warnings(POLICY), Vec::<String>::new());
    let silent = POLICY.replace("carries = [\"readers:hr\"]\n", "");
    let expected =
        "'shop.mail_report' may send text that no argument carries, which its limits do not see";
    assert_eq!(warnings(&silent), [expected]);
    // Two verbs in a name, and none where no secret has a name.
    let named = silent
        .replace("report_id", "id")
        .replace("mail_report", "fetch_and_send");
    assert_eq!(warnings(&named).len(), 1);
    let none = named.replace(
        "confidentiality = { readers = [\"hr\", \"finance\"] }\n",
        "",
    );
    let none = none
        .replace("readers:finance", "secret")
        .replace("\"readers:hr\"", "\"secret\"");
    assert!(!warnings(&none).contains(&expected.replace("mail_report", "fetch_and_send")));
    let harmless = silent
        .replace("report_id", "id")
        .replace("mail_report", "send_email");
    assert_eq!(warnings(&harmless), Vec::<String>::new());
}

#[test]
fn mistakes_about_users_have_their_place() {
    let of = |from: &str, to: &str| {
        let errors = load(&POLICY.replace(from, to)).err();
        errors.map_or("no error".to_owned(), |errors| errors.to_string())
    };
    insta::assert_snapshot!(
        [
            of("equals = \"session.user\"", "equals = \"c7\""),
            of(
                "equals = \"session.user\"",
                "equals = \"session.user\", one_of = [\"a\"]"
            ),
            of(
                "[app.shop]\nclient = true",
                "[app.shop]\nclient = true\n[proxy]\nuser_header = \"authorization\""
            ),
            of("context.session.user == context.arguments.user_id", "true"),
        ]
        .join("\n---\n")
    );
}
