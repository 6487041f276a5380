//! Limits by the recipients of a call: who may read what, and how recipients are compared.
#![expect(clippy::unwrap_used, reason = "tests fail by panicking")]

use std::io;
use std::path::{Path, PathBuf};

use config::{Config, Diagnostics};
use ifc::{ArgumentPath, Arguments, Call, Label, Policy, Sink};
use policy::{Judgement, Verdict};

const POLICY: &str = r#"
[lattice]
integrity = { categories = ["web"] }
confidentiality = { readers = ["hr", "finance"] }

[app.mail]
client = true

[app.mail.tools.send]
effect = "irreversible"
limit = []
parameters = ["to", "cc", "body", "note"]
arguments.body.limit = ["untrusted"]
audience = { of = ["to", "cc"], groups = "people.toml" }
"#;

const PEOPLE: &str = r##"
[groups]
hr = ["ann@example.org", "#hr"]
finance = ["carl@example.org", "@finance.example.org"]
other = ["eve@evil.example"]

[readers]
"Dora@Example.ORG" = ["hr", "finance"]
"##;

fn load(text: &str, people: &str) -> Result<Config, Diagnostics> {
    Config::load_with(Path::new("sluice.toml"), &|path| match path.to_str() {
        Some("sluice.toml") => Ok(text.to_owned()),
        Some("people.toml") => Ok(people.to_owned()),
        _ => Err(io::ErrorKind::NotFound.into()),
    })
}

fn config() -> Config {
    load(POLICY, PEOPLE).unwrap()
}

/// A call of `send` whose body has this label.
fn call(config: &Config, arguments: &str, body: &[&str]) -> Call {
    let label = config.lattice.labels(body.iter().copied()).unwrap();
    let arguments = Arguments::parse(arguments, &Label::bottom()).unwrap();
    Call {
        app: "mail".to_owned(),
        tool: "send".to_owned(),
        arguments: arguments.restrict_at(&ArgumentPath::of("body"), &label),
        label: Label::bottom(),
    }
}

fn judge(config: &Config, arguments: &str, body: &[&str]) -> Judgement {
    let call = call(config, arguments, body);
    config.policy().judge(&Sink::Call(&call))
}

fn send(to: &str) -> String {
    format!(r#"{{"to":{to},"body":"salaries"}}"#)
}

#[test]
fn a_text_goes_to_those_who_may_read_it() {
    let config = config();
    for (to, body, expected) in [
        (r#""ann@example.org""#, "readers:hr", true),
        (
            r#"["ann@example.org","dora@example.org"]"#,
            "readers:hr",
            false,
        ),
        (
            r#"["ann@example.org","Dora@example.org"]"#,
            "readers:hr",
            true,
        ),
        (r##""#hr""##, "readers:hr", true),
        (r#""carl@example.org""#, "readers:hr", false),
        (r#""x@finance.example.org""#, "readers:finance", true),
        (r#""x@FINANCE.example.org""#, "readers:finance", true),
        (r#""ann@EXAMPLE.org""#, "readers:hr", true),
        (r#""ann@example.org, Dora@example.org""#, "readers:hr", true),
        (
            r#""ann@example.org; carl@example.org""#,
            "readers:hr",
            false,
        ),
        // One recipient of several may not.
        (
            r#"["ann@example.org","carl@example.org"]"#,
            "readers:hr",
            false,
        ),
        // Not one that the table has, or no recipient at all.
        (r#""bob@example.org""#, "readers:hr", false),
        (r#""eve@evil.example""#, "readers:hr", false),
        ("[]", "readers:hr", false),
        (r#""""#, "readers:hr", false),
        ("null", "readers:hr", false),
        (r#"{"name":"ann@example.org"}"#, "readers:hr", false),
        (
            r#"["ann@example.org",{"bcc":"eve@evil.example"}]"#,
            "readers:hr",
            false,
        ),
        // What is public goes to anyone.
        (r#""eve@evil.example""#, "public", true),
        ("[]", "public", true),
        (r#""eve@evil.example""#, "untrusted:web", true),
    ] {
        let verdict = judge(&config, &send(to), &[body]).verdict;
        let expected = if expected {
            Verdict::Allow
        } else {
            Verdict::Ask
        };
        assert_eq!(verdict, expected, "{to} {body}");
    }
}

/// What an attacker writes for an address that only looks like one that may read.
#[test]
fn an_address_that_looks_alike_is_another() {
    let config = config();
    for to in [
        "Ann@example.org",
        "ann+x@example.org",
        "ann@example.org.evil.example",
        "ann@sub.example.org",
        "ann@example.org.",
        "ann@exаmple.org",
        "аnn@example.org",
        "ann@example.org <eve@evil.example>",
        "Ann <ann@example.org>",
        "<ann@example.org>",
        "\\\"ann@example.org\\\"",
        "ann@example.org\\r\\nBcc: eve@evil.example",
        "ann@example.org eve@evil.example",
        "ann@example.org,eve@evil.example",
        "ann@example.org\\u0000",
        "mailto:ann@example.org",
        "ann@example.org?bcc=eve@evil.example",
    ] {
        let found = judge(&config, &send(&format!("\"{to}\"")), &["readers:hr"]);
        assert_eq!(found.verdict, Verdict::Ask, "{to}");
    }
    for to in [
        "x@evil.example@finance.example.org",
        "x%evil.example@finance.example.org",
        "evil.example!x@finance.example.org",
        "x@finance.example.org@evil.example",
        "\\\"x@evil.example\\\"@finance.example.org",
        "@finance.example.org",
        "x@a.finance.example.org",
        "x@xfinance.example.org",
    ] {
        let found = judge(&config, &send(&format!("\"{to}\"")), &["readers:finance"]);
        assert_eq!(found.verdict, Verdict::Ask, "{to}");
    }
}

#[test]
fn a_text_of_two_groups_goes_to_members_of_both() {
    let config = config();
    let both = ["readers:hr", "readers:finance"];
    let of = |to: &str| judge(&config, &send(to), &both).verdict;
    assert_eq!(of(r#""Dora@example.org""#), Verdict::Allow);
    assert_eq!(of(r#""ann@example.org""#), Verdict::Ask);
    assert_eq!(
        of(r#"["ann@example.org","carl@example.org"]"#),
        Verdict::Ask
    );
}

#[test]
fn a_copy_counts_and_so_does_the_rest_of_the_call() {
    let config = config();
    let cc = r#"{"to":"ann@example.org","cc":["carl@example.org"],"body":"x"}"#;
    assert_eq!(judge(&config, cc, &["readers:hr"]).verdict, Verdict::Ask);
    // An argument without a limit of its own is of the control part, and the recipients read it as well.
    let note = |to: &str| {
        let text = format!(r#"{{"to":"{to}","note":"x"}}"#);
        let label = config.lattice.label("readers:hr").unwrap();
        let call = call(&config, &text, &[]);
        let arguments = call
            .arguments
            .restrict_at(&ArgumentPath::of("note"), &label);
        let call = Call { arguments, ..call };
        config.policy().judge(&Sink::Call(&call)).verdict
    };
    assert_eq!(note("ann@example.org"), Verdict::Allow);
    assert_eq!(note("carl@example.org"), Verdict::Ask);
}

/// The choice of recipients decides, so a text that may not choose them may not choose the limit.
#[test]
fn recipients_belong_to_the_control_part() {
    let policy = POLICY.replace(
        "arguments.body.limit",
        "arguments.to.limit = [\"untrusted\"]\narguments.body.limit",
    );
    let config = load(&policy, PEOPLE).unwrap();
    let call = call(&config, &send(r#""ann@example.org""#), &["readers:hr"]);
    let web = config.lattice.label("untrusted:web").unwrap();
    let arguments = call.arguments.restrict_at(&ArgumentPath::of("to"), &web);
    let chosen = Call { arguments, ..call };
    let found = config.policy().judge(&Sink::Call(&chosen));
    assert_eq!(found.verdict, Verdict::Ask);
    assert_eq!(found.rule, "mail.send.limit");
    let data = config.policy().data_arguments("mail", "send");
    assert_eq!(data, [ArgumentPath::of("body")]);
}

#[test]
fn a_question_names_who_may_read() {
    let config = config();
    let found = judge(&config, &send(r#""carl@example.org""#), &["readers:hr"]);
    assert_eq!(found.rule, "mail.send.audience");
    assert_eq!(
        found.instead,
        ["it may go to #hr, Dora@example.org, ann@example.org"]
    );
    let described = config.lattice.describe(&found.excess);
    assert_eq!(described, ["readers:hr"]);
    let both = ["readers:hr", "readers:finance"];
    let found = judge(&config, &send(r#""eve@evil.example""#), &both);
    assert_eq!(found.instead, ["it may go to Dora@example.org"]);
    // Only what the recipients may not read is a matter of the audience.
    let label = ["readers:hr", "untrusted:web"];
    let found = judge(&config, &send(r#""ann@example.org""#), &label);
    assert_eq!((found.verdict, found.instead), (Verdict::Allow, vec![]));
    // No recipient helps if more than the readers is beyond the limit, here or in another part of the call.
    for narrower in [
        POLICY.replace("body.limit = [\"untrusted\"]", "body.limit = []"),
        POLICY.replace("effect = \"irreversible\"", "effect = \"irreversible\"\ncedar = '@id(\"all\") @ask forbid (principal, action, resource);'"),
    ] {
        let config = load(&narrower, PEOPLE).unwrap();
        let found = judge(&config, &send(r#""carl@example.org""#), &label);
        assert_eq!((found.verdict, found.instead), (Verdict::Ask, vec![]));
    }
    // A table is as long as a firm has people.
    let many: Vec<String> = (0..300)
        .map(|it| format!("\"p{it}@example.org\""))
        .collect();
    let config = load(
        POLICY,
        &format!(
            "groups.hr = [{}]\ngroups.finance = [\"a\"]",
            many.join(", ")
        ),
    )
    .unwrap();
    let found = judge(&config, &send(r#""p300@example.org""#), &["readers:hr"]);
    let expected = "it may go to p0@example.org, p100@example.org, p101@example.org, p102@example.org, \
                    p103@example.org, p104@example.org, p105@example.org, p106@example.org and 292 more";
    assert_eq!(found.instead, [expected]);
    let found = judge(&config, &send(r#""p299@example.org""#), &["readers:hr"]);
    assert_eq!(found.verdict, Verdict::Allow);
}

#[test]
fn one_argument_may_have_an_audience_of_its_own() {
    let policy = POLICY
        .replace(
            "audience = {",
            "arguments.note.limit = []\narguments.note.audience = {",
        )
        .replace(
            "\"people.toml\"",
            "{ groups = { hr = [\"ann@example.org\"], finance = [\"x\"] } }",
        );
    let config = load(&policy, "").unwrap();
    assert!(config.warnings.is_empty(), "{:?}", config.warnings);
    let body = judge(&config, &send(r#""ann@example.org""#), &["readers:hr"]);
    assert_eq!(body.verdict, Verdict::Ask);
    let text = r#"{"to":"ann@example.org","note":"x"}"#;
    let hr = config.lattice.label("readers:hr").unwrap();
    let call = call(&config, text, &[]);
    let arguments = call.arguments.restrict_at(&ArgumentPath::of("note"), &hr);
    let call = Call { arguments, ..call };
    assert_eq!(
        config.policy().judge(&Sink::Call(&call)).verdict,
        Verdict::Allow
    );
}

/// A group may be named by a category or a level as well.
#[test]
fn any_order_of_confidentiality_may_have_readers() {
    for (order, label) in [
        ("categories = [\"hr\"]", "secret:hr"),
        ("levels = [\"public\", \"internal\", \"hr\"]", "internal"),
        ("levels = [\"public\", \"internal\", \"hr\"]", "hr"),
    ] {
        let policy = POLICY.replace("readers = [\"hr\", \"finance\"]", order);
        let config = load(&policy, PEOPLE).unwrap();
        let of = |to: &str| judge(&config, &send(to), &[label]).verdict;
        assert_eq!(of(r#""ann@example.org""#), Verdict::Allow, "{order}");
        assert_eq!(of(r#""carl@example.org""#), Verdict::Ask, "{order}");
    }
}

#[test]
fn mistakes_have_their_place() {
    let of = |from: &str, to: &str, people: &str| {
        let found = load(&POLICY.replace(from, to), people);
        match found {
            Ok(config) => config.warnings.iter().map(ToString::to_string).collect(),
            Err(errors) => errors.to_string(),
        }
    };
    insta::assert_snapshot!(
        [
            of("\"people.toml\"", "\"peeple.toml\"", PEOPLE),
            of("", "", "[groups]\nhr = \"ann@example.org\"\n[people]\n"),
            of("", "", "[groups]\nHR = [\"ann@example.org\"]\nfinance = [\"x\"]"),
            of("of = [\"to\", \"cc\"]", "of = \"two\"", PEOPLE),
            of("of = [\"to\", \"cc\"], ", "", PEOPLE),
            of("parameters = [\"to\", \"cc\", \"body\", \"note\"]\narguments.body.limit = [\"untrusted\"]", "", PEOPLE),
            of("of = [\"to\", \"cc\"]", "of = \"to\"", PEOPLE),
            of("readers = [\"hr\", \"finance\"]", "readers = []", PEOPLE),
            of("", "", "[groups]\nhr = [\"finance\", \"@hr\", \"Ann <ann@example.org>\", \"*@example.org\", \"\", \"@\", \"#hr\", \"@example.org\"]\nfinance = [\"a, b\"]\nstaff = [\"x\"]\n[readers]\n\"boss@example.org\" = [\"finnance\", \"staff\"]\n"),
        ]
        .join("\n---\n")
    );
}

#[test]
fn the_file_is_part_of_the_configuration() {
    let config = config();
    assert!(config.files.contains(&PathBuf::from("people.toml")));
}
