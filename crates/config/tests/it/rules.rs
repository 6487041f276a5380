//! Rules for calls: limits of arguments, conditions, examples, and what they say of a call.
#![expect(clippy::unwrap_used, clippy::panic, reason = "tests fail by panicking")]

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use config::{Config, Diagnostics, OnViolation};
use ifc::{
    Address, ArgumentPath, Arguments, Call, Connection, Effect, Label, Labeled, Origin, Policy,
    Release, Sink,
};
use policy::{Front, Judgement, SessionFacts, Verdict};
use proptest::prelude::*;

const LATTICE: &str = r#"
[lattice]
integrity = { categories = ["bill", "email", "web"] }
confidentiality = { categories = ["mail"] }
"#;

/// A bank in which known recipients need no question although a bill named them, large amounts
/// always need one, and one account is never paid.
const BANK: &str = r#"
[app.bank]
client = true

[app.bank.tools.send_money]
effect = "irreversible"
limit = []
parameters = { recipient = "string", amount = "number", subject = "string?" }
cedar = '''
@id("known-bills")
@limit("untrusted:bill")
permit (principal, action, resource)
when { ["DE1", "GB2"].contains(context.arguments.recipient) };

@id("large")
@ask
forbid (principal, action, resource)
when { context.arguments.amount.greaterThan(decimal("1000.0")) };

@id("never")
forbid (principal, action, resource)
when { context.arguments.recipient == "US0" };
'''

[app.bank.tools.send_money.arguments.subject]
limit = ["untrusted:bill"]
"#;

fn load(files: &[(&str, &str)]) -> Result<Config, Diagnostics> {
    let text = |(path, text): &(&str, &str)| (PathBuf::from(path), (*text).to_owned());
    let files: BTreeMap<PathBuf, String> = files.iter().map(text).collect();
    Config::load_with(Path::new("sluice.toml"), &|path| {
        let missing = || io::Error::from(io::ErrorKind::NotFound);
        files.get(path).cloned().ok_or_else(missing)
    })
}

fn ok(text: &str) -> Config {
    let text = format!("{LATTICE}{text}");
    load(&[("sluice.toml", &text)]).unwrap_or_else(|errors| panic!("{errors}"))
}

/// The errors of a text after the lattice, which takes the first five lines.
fn errors(text: &str) -> String {
    let text = format!("{LATTICE}{text}");
    load(&[("sluice.toml", &text)]).unwrap_err().to_string()
}

fn judge(config: &Config, tool: &str, arguments: &str, label: &[&str]) -> Judgement {
    let app = config.apps.keys().next().unwrap();
    let label = config.lattice.labels(label.iter().copied()).unwrap();
    let call = Call {
        app: app.clone(),
        tool: tool.to_owned(),
        arguments: match Arguments::parse(arguments, &label) {
            Ok(arguments) => arguments,
            // What is no call is denied before any rule is asked.
            Err(error) => return Judgement::denied("(none)".to_owned(), None, error.to_string()),
        },
        label,
    };
    let call = &Sink::Call(&call);
    let judged = config.policy().judge(call);
    // What is explained is what is enforced.
    match (judged.verdict, config.policy().rule(call)) {
        (Verdict::Deny, ruled) => assert_eq!(ruled.unwrap_err().0, judged.reason.clone().unwrap()),
        (verdict, ruled) => {
            let rule = ruled.unwrap();
            let allowed = rule.admits(call) && !rule.always_ask;
            assert_eq!(rule.excess(call), judged.excess);
            assert_eq!(allowed, verdict == Verdict::Allow);
            assert_eq!(rule.name, judged.rule);
        }
    }
    judged
}

/// Verdict and rule of a call, in one line.
fn says(config: &Config, tool: &str, arguments: &str, label: &[&str]) -> String {
    let judged = judge(config, tool, arguments, label);
    let reason = judged.reason.map(|reason| format!(": {reason}"));
    format!(
        "{} by {}{}",
        judged.verdict.name(),
        judged.rule,
        reason.unwrap_or_default()
    )
}

#[test]
fn conditions_raise_ask_and_forbid() {
    let config = ok(BANK);
    let send = |recipient: &str, amount: &str, label: &[&str]| {
        let arguments = format!(r#"{{"recipient":"{recipient}","amount":{amount}}}"#);
        says(&config, "send_money", &arguments, label)
    };
    let lines = [
        send("DE1", "10", &[]),
        send("DE1", "10", &["untrusted:bill"]),
        send("DE1", "10", &["untrusted:bill", "untrusted:web"]),
        send("XX9", "10", &[]),
        send("XX9", "10", &["untrusted:bill"]),
        send("DE1", "1000.0", &[]),
        send("DE1", "1000.0001", &[]),
        send("DE1", "1e6", &["untrusted:bill"]),
        send("DE1", "1e6", &["untrusted:web"]),
        send("US0", "1", &[]),
        send("US0", "1e6", &["untrusted:web"]),
    ];
    insta::assert_snapshot!(lines.join("\n"), @r"
    allow by bank.send_money.limit
    allow by bank.send_money.cedar.known-bills
    ask by bank.send_money.limit
    allow by bank.send_money.limit
    ask by bank.send_money.limit
    allow by bank.send_money.limit
    ask by bank.send_money.cedar.large: the condition bank.send_money.cedar.large asks the user about this call under any label
    ask by bank.send_money.cedar.large: the condition bank.send_money.cedar.large asks the user about this call under any label
    ask by bank.send_money.limit: the condition bank.send_money.cedar.large asks the user about this call under any label
    deny by bank.send_money.cedar.never: the condition bank.send_money.cedar.never forbids this call
    deny by bank.send_money.cedar.never: the condition bank.send_money.cedar.never forbids this call
    ");
}

/// A condition compares what the app gets: a number with more digits than Cedar has is denied, and not
/// rounded to one that the condition lets pass.
#[test]
fn a_number_is_never_rounded_for_a_condition() {
    let config = ok(BANK);
    let verdict = |amount: &str| {
        let arguments = format!(r#"{{"recipient":"DE1","amount":{amount}}}"#);
        judge(&config, "send_money", &arguments, &[]).verdict
    };
    for (amount, expected) in [
        ("1000", Verdict::Allow),
        ("1000.0000000000000000000", Verdict::Allow),
        ("10000000e-4", Verdict::Allow),
        ("1000.0001", Verdict::Ask),
        ("900000000000", Verdict::Ask),
        // Each is the 1000 that is allowed, once a double has rounded it.
        ("1000.00000000000000001", Verdict::Deny),
        ("1000.00001", Verdict::Deny),
        ("999.99999999999999999999", Verdict::Deny),
        ("900000000000.0001", Verdict::Deny),
    ] {
        assert_eq!(verdict(amount), expected, "{amount}");
    }
}

/// What a tool takes and what a condition can compare are two things: only where some condition looks at an argument, or
/// asks whether it is there, must it be comparable.
#[test]
fn what_no_condition_looks_at_need_not_be_comparable() {
    let tool = |condition: &str| {
        ok(&format!(
            r#"
[app.a]
client = true
[app.a.tools.t]
effect = "read"
limit = "any"
parameters = {{ name = "string", ratio = "number", count = "integer?", note = "any" }}
cedar = '''
forbid (principal, action, resource) when {{ {condition} }};
'''
"#
        ))
    };
    let arguments = |ratio: &str, count: &str| {
        format!(r#"{{"name":"x","ratio":{ratio},"count":{count},"note":null}}"#)
    };
    let about_name = tool(r#"context.arguments.name == "eve""#);
    for (ratio, count) in [
        ("0.123456789", "5.0"),
        ("1e300", "18446744073709551615"),
        ("-0.0", "1e30"),
        ("5", "null"),
    ] {
        let judged = judge(&about_name, "t", &arguments(ratio, count), &[]);
        assert_eq!(judged.verdict, Verdict::Allow, "{ratio} {count}");
    }
    for (condition, ratio, count, expected) in [
        (
            "context.arguments.ratio.lessThan(decimal(\"0.0\"))",
            "0.5",
            "1e30",
            Verdict::Allow,
        ),
        (
            "context.arguments.ratio.lessThan(decimal(\"0.0\"))",
            "-0.5",
            "1",
            Verdict::Deny,
        ),
        (
            "context.arguments.ratio.lessThan(decimal(\"0.0\"))",
            "0.123456789",
            "1",
            Verdict::Deny,
        ),
        (
            "context.arguments has count && context.arguments.count > 5",
            "0.123456789",
            "5.0",
            Verdict::Allow,
        ),
        (
            "context.arguments has count && context.arguments.count > 5",
            "1",
            "6e0",
            Verdict::Deny,
        ),
        // Left out of what the condition sees, these would look as if they were not there.
        (
            "context.arguments has count && context.arguments.count > 5",
            "1",
            "1e30",
            Verdict::Deny,
        ),
        (
            "context.arguments has count && context.arguments.count > 5",
            "1",
            "9223372036854775808",
            Verdict::Deny,
        ),
        (
            "context.arguments has count && context.arguments.count > 5",
            "1",
            "null",
            Verdict::Allow,
        ),
        (
            "context.arguments == context.arguments && context.secret",
            "0.123456789",
            "1",
            Verdict::Deny,
        ),
    ] {
        let judged = judge(&tool(condition), "t", &arguments(ratio, count), &[]);
        assert_eq!(judged.verdict, expected, "{condition} {ratio} {count}");
    }
}

#[test]
fn what_cannot_be_judged_is_denied() {
    let config = ok(BANK);
    let lines = [
        "",
        "[]",
        "{",
        r#"{"recipient":"DE1"}"#,
        r#"{"recipient":"DE1","amount":null}"#,
        r#"{"recipient":"DE1","amount":"10"}"#,
        r#"{"recipient":"DE1","amount":0.00001}"#,
        r#"{"recipient":"DE1","amount":1e15}"#,
        r#"{"recipient":["DE1"],"amount":1}"#,
        r#"{"recipient":"US0","amount":1,"recipient":"DE1"}"#,
        r#"{"recipient":"DE1","amount":1,"Recipient":"US0"}"#,
    ]
    .map(|arguments| {
        format!(
            "{arguments:<50} {}",
            says(&config, "send_money", arguments, &[])
        )
    });
    insta::assert_snapshot!(lines.join("\n"));
}

#[test]
fn a_tool_that_only_reads_may_be_polled() {
    let tool = |effect: &str| {
        format!(
            "[app.a]\nclient = true\n[app.a.tools.t]\neffect = \"{effect}\"\nlimit = \"any\"\npoll = true\n"
        )
    };
    let call = Call {
        app: "a".to_owned(),
        tool: "t".to_owned(),
        arguments: Arguments::parse("{}", &Label::bottom()).unwrap(),
        label: Label::bottom(),
    };
    assert!(ok(&tool("read")).policy().is_polled(&call));
    for effect in ["read-once", "write"] {
        let errors = errors(&tool(effect));
        assert!(errors.contains("can have poll = true"), "{errors}");
    }
}

#[test]
fn a_condition_that_fails_denies_whatever_the_others_say() {
    let config = ok(r#"
[app.a]
client = true
[app.a.tools.t]
effect = "read"
limit = "any"
parameters = { n = "integer" }
cedar = '''
@limit("any") permit (principal, action, resource);
forbid (principal, action, resource) when { context.arguments.n * 1000000000000 > 5 };
'''
"#);
    let verdict = |n: &str| judge(&config, "t", &format!("{{\"n\":{n}}}"), &[]).verdict;
    assert_eq!(verdict("0"), Verdict::Allow);
    assert_eq!(verdict("1"), Verdict::Deny);
    // Cedar alone would skip the forbid that overflows, and permit.
    assert_eq!(verdict("100000000"), Verdict::Deny);
    assert_eq!(verdict("-100000000"), Verdict::Deny);
    let reason = judge(&config, "t", "{\"n\":100000000}", &[])
        .reason
        .unwrap();
    assert!(
        reason.contains("a.t.cedar.2") && reason.contains("cannot be evaluated"),
        "{reason}"
    );
}

#[test]
fn limits_of_arguments_hold_where_the_argument_is_present() {
    let config = ok(r#"
[app.mail.tools.send_email]
effect = "write"
limit = ["untrusted:email", "secret:mail"]
parameters = ["to", "body", "attachments", "bcc"]
[app.mail.tools.send_email.arguments.attachments]
limit = ["untrusted:email"]
[app.mail.tools.send_email.arguments.bcc]
limit = []
[app.mail]
client = true
"#);
    let send = |arguments: &str, label: &[&str]| says(&config, "send_email", arguments, label);
    let both: &[&str] = &["untrusted:email", "secret:mail"];
    assert_eq!(
        send(r#"{"to":"a"}"#, both),
        "allow by mail.send_email.limit"
    );
    assert_eq!(
        send(r#"{"to":"a","attachments":[]}"#, both),
        "ask by mail.send_email.arguments.attachments.limit"
    );
    assert_eq!(
        send(r#"{"to":"a","attachments":["x"]}"#, &["untrusted:email"]),
        "allow by mail.send_email.limit"
    );
    // Even an argument that is null is there.
    assert_eq!(
        send(r#"{"attachments":null,"bcc":null}"#, &["untrusted:email"]),
        "ask by mail.send_email.arguments.bcc.limit"
    );
    assert_eq!(
        send(r#"{"bcc":"x"}"#, &["untrusted:web"]),
        "ask by mail.send_email.limit"
    );
    let judged = judge(&config, "send_email", r#"{"attachments":[]}"#, both);
    assert_eq!(config.lattice.describe(&judged.limit), both);
    assert_eq!(
        config
            .lattice
            .describe(&judged.arguments[&ArgumentPath::of("attachments")]),
        ["untrusted:email"]
    );
    assert_eq!(config.lattice.describe(&judged.excess), ["secret:mail"]);
    assert_eq!(judged.place.unwrap().to_string(), "sluice.toml:11");
    assert_eq!(judged.limits.len(), 2);
}

/// What an argument carries counts against its own limit; a condition that looks at it makes it decide
/// over the call, and one that speaks of secrets means those in it too.
#[test]
fn data_arguments_have_limits_of_their_own() {
    let text = |cedar: &str, cases: &str| {
        format!(
            r#"
[app.mail]
client = true
[app.mail.tools.send]
effect = "irreversible"
limit = []
parameters = {{ to = "string", body = "string", note = "string?" }}
arguments.body.limit = ["untrusted:email", "secret:mail"]
{cedar}
examples = [{cases}]
"#
        )
    };
    let call = r#"arguments = { to = "ada", body = "b" }"#;
    let body = r#"labels = { body = ["untrusted:email"] }"#;
    let secret = r#"labels = { body = ["secret:mail"] }"#;
    let to = r#"labels = { to = ["untrusted:email"] }"#;
    for (cedar, case, expect) in [
        ("", body, "allow"),
        ("", to, "ask"),
        ("", r#"labels = { body = ["untrusted:web"] }"#, "ask"),
        ("", r#"label = ["untrusted:email"]"#, "ask"),
        (r#"context.arguments.body == "x""#, body, "ask"),
        (r#"context.arguments.to == "x""#, body, "allow"),
        ("context.secret", secret, "deny"),
        ("context.control.secret", secret, "allow"),
        ("context.secret", body, "allow"),
    ] {
        let cedar = match cedar {
            "" => String::new(),
            when => format!("cedar = 'forbid (principal, action, resource) when {{ {when} }};'"),
        };
        ok(&text(
            &cedar,
            &format!(r#"{{ {call}, {case}, expect = "{expect}" }}"#),
        ));
    }
    let wrong = errors(&text(
        "",
        &format!(r#"{{ {call}, labels = {{ bcc = [] }}, expect = "allow" }}"#),
    ));
    assert!(
        wrong.contains("the example's call has no argument 'bcc'"),
        "{wrong}"
    );
}

/// A data argument may lie inside of an argument: what leads there is of the control part, and so is what has
/// another form, which must keep the limit of the data as well.
/// One of the two would be lost, and by its place in the alphabet.
#[test]
fn an_argument_has_one_limit_however_it_is_spelled() {
    let config = r#"
[app.mail]
client = true
[app.mail.tools.send]
effect = "irreversible"
parameters = { body = "string" }
arguments.body.limit = []
arguments.'["body"]'.limit = ["untrusted"]
"#;
    let errors = load(&[("sluice.toml", config)]).unwrap_err().to_string();
    assert!(errors.contains("there are two limits for"), "{errors}");
}

#[test]
fn data_arguments_may_lie_inside() {
    let text = |limit: &str, cedar: &str, cases: &str| {
        format!(
            r#"
[app.mail]
client = true
[app.mail.tools.send]
effect = "irreversible"
limit = [{limit}]
parameters = {{ message = "any", items = "any?", to = "strings?" }}
{cedar}
examples = [{cases}]
[app.mail.tools.send.arguments]
"message.body" = {{ limit = ["untrusted:email"] }}
"items[*].note" = {{ limit = ["untrusted:email"], accepts = [{{ form = "digits(6)", many = 2, limit = ["untrusted:web"] }}] }}
"to[*]" = {{ limit = [] }}
"#
        )
    };
    let call = r#"arguments = { message = { body = "b", subject = "s" }, items = [{ note = "123456", id = 1 }, { note = "654321" }], to = ["ada"] }"#;
    let with = |labels: &str| format!("{call}, labels = {{ {labels} }}");
    let odd = |message: &str, label: &str| {
        format!(r#"arguments = {{ message = {message} }}, labels = {{ message = [{label}] }}"#)
    };
    let email = r#""untrusted:email""#;
    for (limit, cedar, case, expect) in [
        ("", "", with(r#""message.body" = ["untrusted:email"]"#), "allow"),
        ("", "", with(r#""message.body" = ["untrusted:web"]"#), "ask"),
        ("", "", with(r#"message = ["untrusted:email"]"#), "ask"),
        ("", "", with(r#""message.subject" = ["untrusted:email"]"#), "ask"),
        ("", "", with(r#""items[*].note" = ["untrusted:email"]"#), "allow"),
        ("", "", with(r#""items[*].id" = ["untrusted:email"]"#), "ask"),
        // Codes, and not too many.
        ("", "", with(r#""items[*].note" = ["untrusted:web"]"#), "allow"),
        (
            "",
            "",
            r#"arguments = { message = {}, items = [{ note = "123456" }, { note = "123456" }, { note = "123456" }] }, labels = { "items[*].note" = ["untrusted:web"] }"#.to_owned(),
            "ask",
        ),
        (
            "",
            "",
            r#"arguments = { message = {}, items = [{ note = "123456" }, { note = "go away" }] }, labels = { "items[*].note" = ["untrusted:web"] }"#.to_owned(),
            "ask",
        ),
        // Another form.
        ("", "", odd(r#""b""#, email), "ask"),
        ("", "", odd(r#"[{ body = "b" }]"#, email), "ask"),
        (email, "", odd(r#""b""#, email), "allow"),
        (r#""untrusted:web""#, "", odd(r#""b""#, r#""untrusted:web""#), "ask"),
        (r#""untrusted:web""#, "", odd(r#"{ subject = "b" }"#, r#""untrusted:web""#), "allow"),
        // Who gets it keeps a limit below the tool's.
        (email, "", with(r#""to[*]" = ["untrusted:email"]"#), "ask"),
        // A condition that looks at the argument sees what lies inside of it.
        (
            email,
            r#"context.arguments has to && context.arguments.to.contains("x")"#,
            with(r#""to[*]" = ["untrusted:email"]"#),
            "ask",
        ),
        (
            email,
            r#"context.arguments has to && context.control.untrusted"#,
            with(r#""to[*]" = ["untrusted:email"]"#),
            "deny",
        ),
        (
            email,
            r#"context.control.untrusted"#,
            with(r#""to[*]" = ["untrusted:email"]"#),
            "ask",
        ),
    ] {
        let cedar = match cedar {
            "" => String::new(),
            when => format!("cedar = 'forbid (principal, action, resource) when {{ {when} }};'"),
        };
        ok(&text(limit, &cedar, &format!(r#"{{ {case}, expect = "{expect}" }}"#)));
    }
    let config = ok(&text("", "", ""));
    let schema = |message: &str| {
        format!(
            r#"{{"type":"object","properties":{{"message":{message},"items":{{"$ref":"x"}},"to":{{"type":"array"}}}}}}"#
        )
    };
    let check = |message: &str| config.check_tools("mail", &[("send", &schema(message))]);
    let object = r#"{"type":"object","properties":{"body":{"type":"string"}}}"#;
    let text = r#"{"type":"string"}"#;
    for fits in [
        object,
        "{}",
        r#"{"anyOf":[]}"#,
        r#"{"type":"object"}"#,
        text,
    ] {
        assert_eq!(check(fits), Ok(Vec::new()), "{fits}");
    }
    for misfit in [
        r#"{"type":"integer"}"#,
        r#"{"type":"object","properties":{"text":{}}}"#,
    ] {
        let errors = check(misfit).unwrap_err().to_string();
        assert!(errors.contains("no place 'message.body'"), "{errors}");
    }
}

#[test]
fn a_path_that_is_none_is_a_mistake() {
    let text = |arguments: &str| {
        format!(
            r#"
[app.mail]
client = true
[app.mail.tools.send]
effect = "write"
limit = []
parameters = ["message"]
[app.mail.tools.send.arguments]
{arguments}
"#
        )
    };
    for (arguments, message) in [
        (
            r#""message..body" = { limit = [] }"#,
            "'message..body' is not an argument's path",
        ),
        (
            r#""message[0]" = { limit = [] }"#,
            "'message[0]' is not an argument's path",
        ),
        (
            r#""massage.body" = { limit = [] }"#,
            "has no parameter 'massage'",
        ),
        (
            "\"message.body\" = { limit = [] }\nmessage = { limit = [] }",
            "'message.body' lies inside of 'message'",
        ),
        (
            "\"message[*].a\" = { limit = [] }\n\"message[*]\" = { limit = [] }",
            "'message[*].a' lies inside of 'message[*]'",
        ),
    ] {
        let errors = errors(&text(arguments));
        assert!(errors.contains(message), "{errors}");
    }
}

#[test]
fn conditions_see_labels_and_the_session() {
    let config = ok(r#"
[app.files]
client = true
cedar = '''
@id("unattended")
forbid (principal, action == Action::"delete", resource)
unless { context.session.attended || context.session.front == Front::"run" };
@id("secrets-stay")
forbid (principal, action in [Action::"upload", Action::"post"], resource)
when { context.secret && context.untrusted };
@id("web-asks")
@ask
forbid (principal, action, resource)
when { context.label.contains(Taint::"untrusted:web") };
'''
[app.files.tools.delete]
effect = "irreversible"
limit = "any"
[app.files.tools.upload]
effect = "write"
limit = "any"
[app.files.tools.post]
effect = "write"
limit = "any"
[app.files.other_tools]
effect = "read"
limit = "any"
"#);
    assert_eq!(
        says(&config, "upload", "{}", &["secret:mail"]),
        "allow by files.upload.limit"
    );
    assert!(
        says(&config, "post", "{}", &["secret:mail", "untrusted:bill"])
            .starts_with("deny by files.cedar.secrets-stay")
    );
    // ⊤ is untrusted, secret, and has every taint.
    assert!(says(&config, "post", "{}", &["any"]).starts_with("deny by files.cedar.secrets-stay"));
    assert!(
        says(&config, "upload", "{}", &["untrusted:web"])
            .starts_with("ask by files.cedar.web-asks")
    );
    assert!(says(&config, "delete", "{}", &[]).starts_with("deny by files.cedar.unattended"));
    // They were not validated for tools that are not listed, and cannot judge them.
    assert!(says(&config, "format", "{}", &[]).contains("cannot judge the tool 'format'"));
    let call = Call {
        app: "files".to_owned(),
        tool: "delete".to_owned(),
        arguments: Arguments::none(),
        label: Label::bottom(),
    };
    let verdict = |attended, front| {
        let facts = SessionFacts {
            attended,
            front,
            user: None,
        };
        config
            .policy()
            .with_session(facts)
            .judge(&Sink::Call(&call))
            .verdict
    };
    assert_eq!(verdict(true, Front::Proxy), Verdict::Allow);
    assert_eq!(verdict(false, Front::Run), Verdict::Allow);
    assert_eq!(verdict(false, Front::Proxy), Verdict::Deny);
}

#[test]
fn conditions_of_ordered_levels_see_everything_below() {
    let text = r#"
lattice.integrity = { levels = ["trusted", "customer", "partner", "web"] }
[app.a]
client = true
[app.a.tools.t]
effect = "read"
limit = "any"
cedar = 'forbid (principal, action, resource) when { context.label.contains(Taint::"partner") };'
"#;
    let config = load(&[("sluice.toml", text)]).unwrap_or_else(|errors| panic!("{errors}"));
    let verdict = |label: &str| judge(&config, "t", "{}", &[label]).verdict;
    assert_eq!(verdict("customer"), Verdict::Allow);
    assert_eq!(verdict("partner"), Verdict::Deny);
    assert_eq!(verdict("web"), Verdict::Deny);
    assert_eq!(verdict("untrusted"), Verdict::Deny);
}

/// The parser calls itself for each of these, and a program that overflows its stack ends without a word. The configuration may
/// be a stranger's.
#[test]
fn a_condition_that_would_overflow_the_stack_is_a_mistake() {
    let allowed = "context.arguments.recipient == \"x\"";
    for condition in [
        format!("{}{allowed}{}", "(".repeat(1_000), ")".repeat(1_000)),
        format!("{allowed}{}", " && true".repeat(10_000)),
        format!("{}{}.contains(1)", "[".repeat(1_000), "]".repeat(1_000)),
        format!("context{}", "[\"a\"]".repeat(10_000)),
    ] {
        let config = format!(
            "[app.bank]\nclient = true\n[app.bank.tools.send]\neffect = \"write\"\nparameters = {{ recipient = \"string\" }}\n\
             cedar = 'forbid (principal, action, resource) when {{ {condition} }};'\n"
        );
        let errors = load(&[("sluice.toml", &config)]).unwrap_err().to_string();
        let is_placed = errors.contains("sluice.toml:6:");
        assert!(
            is_placed && errors.contains("says too much at once"),
            "{errors}"
        );
    }
    // For Cedar a comment ends here too.
    let hidden = format!(
        "forbid (principal, action, resource) when {{ //\r{}{allowed}{} }};",
        "(".repeat(1_000),
        ")".repeat(1_000)
    );
    let errors = condition_errors(&hidden);
    assert!(errors.contains("says too much at once"), "{errors}");
}

/// The errors of a configuration with these conditions in a file of their own.
fn condition_errors(cedar: &str) -> String {
    let config = "[app.bank]\nclient = true\n[app.bank.tools.send]\neffect = \"write\"\n\
                  parameters = { recipient = \"string\" }\npolicy_file = \"a.cedar\"\n";
    let files = [("sluice.toml", config), ("a.cedar", cedar)];
    load(&files).unwrap_err().to_string()
}

/// What it does not know, Cedar compares letter by letter with each name that it knows, in memory of the product of their
/// lengths.
#[test]
fn words_of_conditions_are_short() {
    let long = "x".repeat(300_000);
    for condition in [
        format!("context.arguments.{long} == \"x\""),
        format!("context.label.contains(Taint::\"{long}\")"),
    ] {
        let errors = condition_errors(&format!(
            "forbid (principal, action, resource) when {{ {condition} }};"
        ));
        assert!(errors.contains("a.cedar:1:"), "{errors}");
        assert!(errors.contains("more than 512 bytes"), "{errors}");
    }
    let condition = "cedar = 'forbid (principal, action, resource) when { context.arguments.b };'";
    for tool in [
        format!("send]\nparameters = {{ {long} = \"string\" }}"),
        format!("{long}]\nparameters = {{ a = \"string\" }}"),
    ] {
        let config = format!(
            "[app.bank]\nclient = true\n[app.bank.tools.{tool}\neffect = \"read\"\n{condition}\n"
        );
        let errors = load(&[("sluice.toml", &config)]).unwrap_err().to_string();
        assert!(errors.contains("a name of more than 512 bytes"), "{errors}");
    }
}

#[test]
fn conditions_without_end_are_not_all_judged() {
    let wrong = "forbid (principal, action, resource) when { context.arguments.x == 1 };\n";
    let conditions = wrong.repeat(70);
    let tool = |at: usize| {
        format!("[app.bank.tools.t{at}]\neffect = \"read\"\ncedar = '''\n{conditions}'''\n")
    };
    let tools: String = (0..4).map(tool).collect();
    let config = format!("[app.bank]\nclient = true\n{tools}");
    let errors = load(&[("sluice.toml", &config)]).unwrap_err();
    // Those of two tools: 64 of each, and one that there are more.
    assert_eq!(errors.count(), 2 * 65);
}

/// Whatever goes through a value calls itself for each level of it, as what takes a table apart does.
#[test]
fn values_that_would_overflow_the_stack_are_mistakes() {
    let deep = |names: usize| {
        let keys = vec!["a"; names].join(".");
        format!("{}1{}", format!("{{ {keys} = ").repeat(75), " }".repeat(75))
    };
    let example = |value: &str| {
        format!(
            "[app.a]\nclient = true\n[app.a.tools.t]\neffect = \"read\"\n\
             [[app.a.tools.t.examples]]\nexpect = \"ask\"\narguments = {value}\n"
        )
    };
    let schema = |value: &str| {
        format!(
            "[functionality.f]\ndescription = \"f\"\nrequest = {{ type = \"object\" }}\n\
             response = {value}\n"
        )
    };
    for (config, mistake) in [
        (
            example(&deep(13)),
            "the arguments cannot be written as JSON",
        ),
        (schema(&deep(13)), "'response' does not take a table"),
        (example(&deep(70)), "a key has more than 12 dots"),
        (
            format!("[{}]\n", vec!["\"a.b\" "; 14].join(". ")),
            "more than 12 dots",
        ),
        (
            format!("# \r\n[{}]\n", vec!["a"; 14].join(".")),
            "more than 12 dots",
        ),
    ] {
        let errors = errors(&config);
        assert!(errors.contains(mistake), "{errors}");
    }
    let dots = ". ".repeat(100);
    ok(&format!(
        "# {dots}\n[user]\nlabels = [{{ lines = \"{dots}\", label = [] }}]\n"
    ));
}

#[test]
fn mistakes_in_conditions_stand_where_they_are() {
    insta::assert_snapshot!(errors(
        r#"
[app.a]
client = true
cedar = "forbid (principal, action == Action::\"nothing\", resource);"

[app.a.tools.typo]
effect = "read"
parameters = { amount = "number", note = "any" }
cedar = '''
forbid (principal, action, resource)
when { context.arguments.amonut.greaterThan(decimal("1.0")) };
forbid (principal, action, resource)
when { context.arguments.note == "x" };
forbid (principal, action, resource)
when { context.arguments.amount > 1000 };
forbid (principal, action, resource)
when { context.label.contains(Taint::"untrusted:wbe") };
forbid (principal, action == Action::"other", resource);
'''

[app.a.tools.syntax]
effect = "read"
cedar = '''
forbid (principal, action, resource)
when { context. };
'''

[app.a.tools.other]
effect = "read"
cedar = '''
permit (principal, action, resource);
@limit("any") forbid (principal, action, resource);
@limti("any") permit (principal, action, resource);
@id("same") @limit("untrusted:wbe") permit (principal, action, resource);
@id("same") forbid (principal, action, resource);
@id("b c") forbid (principal, action, resource);
'''

[app.a.tools.optional]
effect = "read"
parameters = { amount = "number?" }
policy_file = "missing.cedar"
cedar = '''
forbid (principal, action, resource)
when { context.arguments.amount.lessThan(decimal("1.0")) };
'''

[app.a.other_tools]
cedar = "forbid (principal, action, resource);"
"#
    ));
}

#[test]
fn a_policy_file_has_its_own_lines() {
    let text = format!(
        "{LATTICE}[app.a]\nclient = true\npolicy_file = \"rules/a.cedar\"\n[app.a.tools.t]\neffect = \"read\"\nlimit = \"any\"\n"
    );
    let right = "// Nothing at all.\nforbid (principal, action, resource);\n";
    let files = [("sluice.toml", text.as_str()), ("rules/a.cedar", right)];
    let config = load(&files).unwrap();
    assert!(says(&config, "t", "{}", &[]).starts_with("deny by a.cedar.1"));
    let wrong = "// A typo.\nforbid (principal, action, resource)\nwhen { contxt.secret };\n";
    let files = [("sluice.toml", text.as_str()), ("rules/a.cedar", wrong)];
    insta::assert_snapshot!(load(&files).unwrap_err().to_string());
}

#[test]
fn examples_are_checked_when_the_file_is_read() {
    let passing = format!(
        r#"{BANK}
[[app.bank.tools.send_money.examples]]
arguments = {{ recipient = "DE1", amount = 50.5 }}
label = ["untrusted:bill"]
expect = "allow"
[[app.bank.tools.send_money.examples]]
arguments = {{ recipient = "DE1", amount = 50_000 }}
expect = "ask"
[[app.bank.tools.send_money.examples]]
arguments = '{{"recipient":"DE1","recipient":"US0","amount":1}}'
expect = "deny"
"#
    );
    let config = ok(&passing);
    let outcomes = config.examples();
    assert_eq!(outcomes.len(), 3);
    assert!(outcomes.iter().all(|outcome| outcome.passed()));
    let failing = passing
        .replace("amount = 50.5", "amount = 5000.5")
        .replace("amount = 50_000", "amount = 2024-01-01")
        .replace("expect = \"deny\"", "expect = \"allow\"");
    insta::assert_snapshot!(errors(&failing));
    let failing = passing
        .replace("amount = 50.5", "amount = 5000.5")
        .replace("expect = \"deny\"", "expect = \"allow\"");
    insta::assert_snapshot!(errors(&failing));
}

#[test]
fn a_session_may_be_a_part_of_an_example() {
    let text = |attended: bool| {
        format!(
            r#"
[app.a]
client = true
[app.a.tools.t]
effect = "read"
limit = "any"
cedar = 'forbid (principal, action, resource) unless {{ context.session.attended }};'
[[app.a.tools.t.examples]]
session = {{ attended = {attended}, front = "chat" }}
expect = "allow"
"#
        )
    };
    ok(&text(true));
    assert!(errors(&text(false)).contains("expected allow, found deny by the rule a.t.cedar.1"));
}

#[test]
fn a_manifests_examples_hold_until_its_rule_is_changed() {
    let manifest = r#"
[app]
name = "mail"
command = ["mail"]
[tools.send]
effect = "irreversible"
limit = []
[[tools.send.examples]]
label = ["untrusted"]
expect = "ask"
"#;
    let with = |own: &str| {
        let own = format!("[app.mail]\nmanifest = \"mail.toml\"\n{own}");
        load(&[("sluice.toml", &own), ("mail.toml", manifest)])
    };
    assert_eq!(with("").unwrap().examples().len(), 1);
    let labels = "[app.mail.tools.send]\nrest = []\n";
    assert_eq!(with(labels).unwrap().examples().len(), 1);
    let limit = "[app.mail.tools.send]\nlimit = \"any\"\n";
    assert_eq!(with(limit).unwrap().examples().len(), 0);
}

#[test]
fn mistakes_in_arguments_and_parameters_are_found() {
    insta::assert_snapshot!(errors(
        r#"
[app.a]
client = true
[app.a.tools.t]
effect = "read"
parameters = ["attachments"]
arguments.atachments.limit = []
arguments.attachments = {}
[app.a.tools.u]
effect = "read"
arguments.x.limit = []
[app.a.tools.v]
effect = "read"
parameters = { n = "nubmer", m = 1 }
[app.a.tools.w]
effect = "read"
parameters = "x"
examples = [{ arguments = [1] }, { expect = "alow" }]
"#
    ));
}

#[test]
fn the_running_tools_are_compared_with_the_rules() {
    let config = ok(BANK);
    let schema = |properties: &str| format!(r#"{{"type":"object","properties":{properties}}}"#);
    let right = schema(
        r#"{"recipient":{"type":"string"},"amount":{"type":"number"},"subject":{"anyOf":[]},"date":{}}"#,
    );
    config
        .check_tools("bank", &[("send_money", &right), ("balance", "{}")])
        .unwrap();
    let wrong = schema(
        r#"{"recipient":{"type":"string"},"amuont":{"type":"number"},"subject":{"type":"array"}}"#,
    );
    let lines = |tools: &[(&str, &str)]| {
        let errors = config.check_tools("bank", tools).unwrap_err();
        errors.iter().collect::<Vec<_>>().join("\n")
    };
    insta::assert_snapshot!(lines(&[("send_money", &wrong)]), @r#"
    sluice.toml:11: bank.send_money: the tool has no argument 'amount'; did you mean 'amuont'? correct or remove it
    "#);
    // A server may list a tool on another day.
    let unlisted = config
        .check_tools("bank", &[("sendmoney", &right)])
        .unwrap();
    insta::assert_snapshot!(unlisted.join("\n"), @"sluice.toml:11: bank.send_money: the app lists no tool 'send_money'; did you mean 'sendmoney'? the rule has no effect");
    // A schema that does not parse has no arguments.
    assert_eq!(lines(&[("send_money", "{")]).lines().count(), 3);
    assert!(
        config
            .check_tools("bnak", &[])
            .unwrap_err()
            .to_string()
            .contains("did you mean 'bank'?")
    );
}

#[test]
fn the_answer_is_a_sink() {
    let config =
        ok("[app.a]\nclient = true\n[app.b]\nclient = true\nanswer.limit = [\"untrusted\"]\n");
    let policy = config.policy();
    let release = |app: Option<&str>, label: &Label| Release {
        apps: app.into_iter().map(str::to_owned).collect(),
        text: Labeled::label_tcb("text", label.clone()),
    };
    let bottom = Label::bottom();
    let rule = |app| policy.rule(&Sink::Answer(&release(app, &bottom))).unwrap();
    let limit = |app| rule(app).limit;
    assert!(limit(Some("a")).is_top());
    assert_eq!(limit(Some("b")), config.lattice.label("untrusted").unwrap());
    // Nothing is known of an app that is not configured; without any app there is nothing to know.
    assert!(limit(Some("c")).is_bottom() && limit(Some("")).is_bottom() && limit(None).is_top());
    let secret = config.lattice.label("secret").unwrap();
    // In a joint conversation it keeps every app's limit, and the question names the one in the way.
    let joint = Release {
        apps: ["a", "b"].map(str::to_owned).into(),
        text: Labeled::label_tcb("text", secret.clone()),
    };
    let judged = policy.judge(&Sink::Answer(&joint));
    assert_eq!(judged.verdict, Verdict::Ask);
    assert_eq!(
        (judged.limit, judged.rule),
        (limit(Some("b")), "b.answer.limit".to_owned())
    );
    let judged = policy.judge(&Sink::Answer(&release(Some("b"), &secret)));
    assert_eq!((judged.verdict, judged.excess), (Verdict::Ask, secret));
    let rule = rule(Some("b"));
    assert_eq!(
        (rule.name.as_str(), rule.effect),
        ("b.answer.limit", Effect::Read)
    );
}

/// What a denial says to write is configuration, and with it this denial is gone.
#[test]
fn each_remedy_that_a_denial_prints_is_valid_and_helps() {
    let listed = r#"
[app.shop]
manifest = "shop.toml"
"#;
    let conditions = format!(
        "{listed}cedar = 'forbid (principal, action, resource) when {{ context.secret }};'\n"
    );
    let open = format!("{conditions}[app.shop.other_tools]\n");
    let manifest = r#"
[app]
name = "shop"
description = "sells"
command = ["shop"]
[tools.known]
effect = "read"
"#;
    let file = |text: &str| {
        let text = format!("{LATTICE}{text}");
        load(&[("sluice.toml", &text), ("shop.toml", manifest)])
            .map_err(|errors| format!("{errors}\n{text}"))
    };
    let reason = |config: &Config, sink: &Sink<'_>| config.policy().judge(sink).reason;
    let call = |tool: &str| Call {
        app: "shop".to_owned(),
        tool: tool.to_owned(),
        arguments: Arguments::none(),
        label: Label::bottom(),
    };
    let names = [
        "pay",
        "pay-now_2",
        "a.b",
        "a b",
        "",
        "]",
        "\"",
        "\\",
        "é",
        "\u{202e}",
        "\u{7f}",
        "\n",
        "'",
    ];
    for text in [listed, &conditions, &open] {
        for name in names {
            let call = call(name);
            let sink = Sink::Call(&call);
            let before = reason(&file(text).unwrap(), &sink).unwrap();
            let (_, remedy) = before.split_once("; add ").unwrap();
            let header = remedy
                .strip_suffix(" with its effect to sluice.toml")
                .unwrap();
            let after = file(&format!("{text}{header}\neffect = \"write\"\n")).unwrap();
            assert_ne!(reason(&after, &sink).as_ref(), Some(&before), "{header}");
        }
    }
    let started = "[app.shop]\ncommand = [\"shop\"]\n";
    for host in ["smtp.example.com", "[2001:db8::1]"] {
        let connection = Connection {
            app: "shop".to_owned(),
            host: host.to_owned(),
            port: 587,
            domain: None,
            label: Label::bottom(),
        };
        let sink = Sink::Connection(&connection);
        let before = reason(&file(started).unwrap(), &sink).unwrap();
        let (_, remedy) = before.split_once("; add ").unwrap();
        let (header, rest) = remedy.split_once(" with ").unwrap();
        let (to, _) = rest.split_once(" and a port to listen on").unwrap();
        let after = file(&format!("{started}{header}\n{to}\nlisten = 2525\n")).unwrap();
        assert_eq!(reason(&after, &sink), None, "{remedy}");
    }
}

/// An address may be active if it stands in what was read, and either its label or its host is allowed.
#[test]
fn an_address_in_an_answer_is_a_sink() {
    let config = ok(r#"
[app.mail]
command = ["mail"]
answer = { addresses = ["untrusted:email"] }
[[app.mail.egress]]
listen = 443
to = "api.example.com:443"
[app.notes]
command = ["notes"]
connect = ["127.0.0.1:443"]
"#);
    let policy = config.policy();
    let label = |name: &str| config.lattice.label(name).unwrap();
    let judge = |apps: &[&str], url: &str, label: &Label, origin: Origin, fetched: bool| {
        let address = Address {
            apps: apps.iter().map(|app| (*app).to_owned()).collect(),
            text: Labeled::label_tcb(url, label.clone()),
            origin,
            fetched,
        };
        policy.judge(&Sink::Address(&address)).verdict
    };
    let read = |app: &str| Origin::Read(Some(app.to_owned()));
    let (mail, web) = (label("untrusted:email"), label("untrusted:web"));
    let (any, own) = ("https://x.org/a", "https://API.example.com/a?b#c");
    let bottom = Label::bottom();
    for (apps, url, label, origin, fetched, expected) in [
        (
            &["mail"][..],
            any,
            &bottom,
            Origin::Read(None),
            true,
            Verdict::Allow,
        ),
        (&["mail"], any, &mail, read("mail"), false, Verdict::Allow),
        // Nobody looks at an image before it is fetched.
        (&["mail"], any, &mail, read("mail"), true, Verdict::Deny),
        (&["mail"], own, &web, read("mail"), true, Verdict::Deny),
        (&["mail"], any, &mail, Origin::Model, false, Verdict::Deny),
        (&["mail"], own, &mail, Origin::Model, false, Verdict::Deny),
        (&["mail"], any, &web, read("mail"), false, Verdict::Deny),
        // Its own host.
        (&["mail"], own, &web, read("mail"), false, Verdict::Allow),
        (
            &["mail"],
            own,
            &Label::top(),
            read("mail"),
            false,
            Verdict::Allow,
        ),
        (&["mail"], own, &web, read("notes"), false, Verdict::Deny),
        // Of its own machine.
        (
            &["mail"],
            "https://127.0.0.1/",
            &web,
            read("notes"),
            false,
            Verdict::Deny,
        ),
        (
            &["mail"],
            own,
            &web,
            Origin::Read(None),
            false,
            Verdict::Deny,
        ),
        // Every app of the conversation has a word.
        (
            &["mail", "notes"],
            any,
            &mail,
            read("mail"),
            false,
            Verdict::Deny,
        ),
        (&["other"], any, &mail, read("mail"), false, Verdict::Deny),
        (&[], any, &mail, Origin::Read(None), false, Verdict::Deny),
        (&[], any, &bottom, Origin::Read(None), true, Verdict::Allow),
    ] {
        let found = judge(apps, url, label, origin.clone(), fetched);
        assert_eq!(found, expected, "{apps:?} {url} {origin:?} {fetched}");
    }
    for url in [
        "http://api.example.com/",
        "https://api.example.com@evil.org/",
        "https://api.example.com:8443/",
        "https://api.example.com.evil.org/",
        "https://api.example.com\\@evil.org/",
        "https://evil.org/#https://api.example.com/",
        "//api.example.com/",
        "https://api.example.com/\u{202e}",
    ] {
        let found = judge(&["mail"], url, &web, read("mail"), false);
        assert_eq!(found, Verdict::Deny, "{url}");
    }
}

/// Connections are judged by what the configuration names, not by how it is spelled in a request.
#[test]
fn a_destination_is_a_sink() {
    let config = ok(r#"
[app.mail]
command = ["mail"]
[[app.mail.egress]]
listen = 25
to = "smtp.example.com:587"
"#);
    let policy = config.policy();
    let connects = |app: &str, host: &str, port| {
        let connection = Connection {
            app: app.to_owned(),
            host: host.to_owned(),
            port,
            domain: None,
            label: Label::top(),
        };
        policy.judge(&Sink::Connection(&connection)).verdict
    };
    assert_eq!(connects("mail", "smtp.example.com", 587), Verdict::Allow);
    assert_eq!(connects("mail", "SMTP.Example.com", 587), Verdict::Allow);
    for (app, host, port) in [
        ("mail", "smtp.example.com", 25),
        ("mail", "smtp.example.com.", 587),
        ("mail", "example.com", 587),
        ("web", "smtp.example.com", 587),
        ("", "smtp.example.com", 587),
    ] {
        assert_eq!(
            connects(app, host, port),
            Verdict::Deny,
            "{app} {host}:{port}"
        );
    }
}

/// A name that an app asks for is judged by the nearest domain above it, and by its label.
#[test]
fn a_domain_is_a_sink() {
    let text = r#"
[app.web]
command = ["web"]
[[app.web.domain]]
name = "example.org"
[[app.web.domain]]
name = "api.example.org"
ports = [443, 8443]
limit = "any"
"#;
    let config = ok(text);
    let asking = ok(&text.replace("[\"web\"]", "[\"web\"]\nother_domains = \"ask\""));
    let label = |name: &str| config.lattice.label(name).unwrap();
    let check = |config: &Config, host: &str, port, label: Label, expected| {
        let name = names::DomainName::new(host).unwrap();
        let connection = Connection {
            app: "web".to_owned(),
            host: host.to_owned(),
            port,
            domain: Some(name.registrable().to_owned()),
            label,
        };
        let found = config
            .policy()
            .judge(&Sink::Connection(&connection))
            .verdict;
        assert_eq!(found, expected, "{host}:{port}");
    };
    let (untrusted, secret) = (label("untrusted"), label("secret"));
    use Verdict::{Allow, Ask, Deny};
    for (host, port, label, expected, when_asked) in [
        ("example.org", 443, &untrusted, Allow, Allow),
        ("a.example.org", 80, &untrusted, Allow, Allow),
        ("example.org", 443, &secret, Ask, Ask),
        ("api.example.org", 443, &secret, Allow, Allow),
        ("eu.api.example.org", 8443, &secret, Allow, Allow),
        ("api.example.org", 80, &secret, Ask, Ask),
        ("example.org", 8443, &untrusted, Deny, Deny),
        ("badexample.org", 443, &untrusted, Deny, Ask),
        ("badexample.org", 22, &untrusted, Deny, Deny),
    ] {
        check(&config, host, port, label.clone(), expected);
        check(&asking, host, port, label.clone(), when_asked);
    }
    // A domain that is not the name's own is the hub's mistake, and no way around a rule.
    let forged = Connection {
        app: "web".to_owned(),
        host: "evil.example.com".to_owned(),
        port: 443,
        domain: Some("example.org".to_owned()),
        label: Label::bottom(),
    };
    let judged = config.policy().judge(&Sink::Connection(&forged));
    assert_eq!(judged.verdict, Deny);
}

#[test]
fn apps_at_clients_and_the_proxy() {
    let config = ok(BANK);
    assert!(config.apps["bank"].client && config.apps["bank"].command.is_empty());
    assert_eq!(config.proxy.app.as_deref(), Some("bank"));
    assert_eq!(config.proxy.on_violation, OnViolation::Ask);
    assert_eq!(config.proxy.approval_timeout.as_secs(), 120);
    let config = ok(
        "[proxy]\napp = \"b\"\non_violation = \"drop\"\nunknown_members = \"refuse\"\nother_tools = \"omit\"\nany_model = true\ninserted = []\napproval_timeout_s = 5\n[app.a]\nclient = true\n[app.b]\nclient = true\n",
    );
    assert_eq!(config.proxy.app.as_deref(), Some("b"));
    assert_eq!(config.proxy.on_violation, OnViolation::Drop);
    assert_eq!(config.proxy.approval_timeout.as_secs(), 5);
    assert!(!config.proxy.unknown_members && config.proxy.omits_tools && config.proxy.any_model);
    assert!(config.proxy.inserted.is_some_and(|label| label.is_bottom()));
    assert_eq!(
        ok("[app.a]\nclient = true\n[app.b]\nclient = true\n")
            .proxy
            .app,
        None
    );
    insta::assert_snapshot!(errors(
        "[proxy]\non_violation = \"aks\"\napproval_timeout_s = 0\n[app.a]\nclient = true\ncommand = [\"x\"]\nmount = []\n[app.b]\nclient = true\n"
    ));
    insta::assert_snapshot!(errors("[proxy]\napp = \"a\"\n[app.a]\ncommand = [\"x\"]\n"));
}

static BANK_CONFIG: LazyLock<Config> = LazyLock::new(|| ok(BANK));

fn arguments() -> impl Strategy<Value = String> {
    let value = prop_oneof![
        any::<i64>().prop_map(|n| n.to_string()),
        any::<f64>().prop_map(|n| n.to_string()),
        (-3i64..2_000).prop_map(|n| n.to_string()),
        "[A-Z]{2}[0-9]".prop_map(|text| format!("{text:?}")),
        Just("\"DE1\"".to_owned()),
        Just("\"US0\"".to_owned()),
        Just("null".to_owned()),
        Just("[]".to_owned()),
    ];
    let name = prop_oneof![
        4 => Just("recipient"),
        4 => Just("amount"),
        1 => Just("subject"),
        1 => Just("other")
    ];
    prop::collection::vec((name, value), 0..5).prop_map(|fields| {
        let fields = fields
            .iter()
            .map(|(name, value)| format!("{name:?}:{value}"));
        format!("{{{}}}", fields.collect::<Vec<_>>().join(","))
    })
}

fn labels() -> impl Strategy<Value = Vec<&'static str>> {
    let names = vec![
        "untrusted:bill",
        "untrusted:email",
        "untrusted:web",
        "secret:mail",
        "any",
    ];
    prop::collection::vec(prop::sample::select(names), 0..3)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    /// No arguments get a call past a rule: what is allowed is what the configuration says in words.
    #[test]
    fn only_what_conditions_say_is_allowed(arguments in arguments(), label in labels()) {
        let judged = judge(&BANK_CONFIG, "send_money", &arguments, &label);
        if judged.verdict == Verdict::Allow {
            let fields: BTreeMap<String, serde_json::Value> =
                serde_json::from_str(&arguments).unwrap();
            prop_assert!(fields["recipient"] != "US0");
            prop_assert!(fields["amount"].as_f64().unwrap() <= 1000.0);
            prop_assert!(label.is_empty()
                || label.iter().all(|l| *l == "untrusted:bill") && fields["recipient"] == "DE1");
            prop_assert_eq!(arguments.matches("recipient").count(), 1);
            prop_assert!(!fields.contains_key("other"));
        }
    }

    /// A limit of an argument only takes away.
    #[test]
    fn each_part_of_a_call_keeps_its_own_limit(
        tool in labels(), argument in labels(), label in labels(), more in labels(), present in any::<bool>(),
    ) {
        let config = ok(&format!(
            "[app.a]\nclient = true\n[app.a.tools.t]\neffect = \"read\"\nlimit = {tool:?}\nparameters = [\"x\", \"y\"]\narguments.x.limit = {argument:?}\n"
        ));
        let of = |names: &[&str]| config.lattice.labels(names.iter().copied()).unwrap();
        let (label, data) = (of(&label), of(&label).join(&of(&more)));
        let arguments = if present { "{\"x\":1,\"y\":2}" } else { "{\"y\":2}" };
        let arguments = Arguments::parse(arguments, &label).unwrap();
        let call = |arguments| Call { app: "a".into(), tool: "t".into(), arguments, label: label.clone() };
        let judge = |call: &Call| config.policy().judge(&Sink::Call(call));
        // What the argument carries counts against its own limit alone.
        let carrying = judge(&call(arguments.clone().restrict("x", &data)));
        let allowed = label.flows_to(&of(&tool)) && (!present || data.flows_to(&of(&argument)));
        prop_assert_eq!(carrying.verdict == Verdict::Allow, allowed);
        // An argument without a limit is of the control part.
        let choosing = judge(&call(arguments.restrict("y", &data)));
        let allowed = data.flows_to(&of(&tool)) && (!present || label.flows_to(&of(&argument)));
        prop_assert_eq!(choosing.verdict == Verdict::Allow, allowed);
        // Below the floor nothing is asked, and the floor is no lower than it must be.
        let floor = config.policy().floor("a", "t");
        prop_assert_eq!(&floor, &of(&tool).meet(&of(&argument)));
        prop_assert!(floor.flows_to(&choosing.limit));
    }

    /// What a condition says of a label is not known before the call is; nor is an unknown tool.
    #[test]
    fn there_is_no_floor_where_calls_differ(tool in labels()) {
        let config = ok(&format!(
            "[app.a]\nclient = true\n[app.a.tools.t]\neffect = \"read\"\nlimit = {tool:?}\nparameters = {{ n = \"integer\" }}\ncedar = '''\n@ask forbid (principal, action, resource) when {{ context.arguments.n == 7 }};\n'''\n"
        ));
        let policy = config.policy();
        prop_assert!(policy.floor("a", "t").is_bottom());
        prop_assert!(policy.floor("b", "t").is_bottom());
    }

    /// Whatever a condition cannot evaluate is denied, whatever else permits it.
    #[test]
    fn an_error_never_allows(n in any::<i64>(), factor in any::<i64>()) {
        let config = ok(&format!(
            "[app.a]\nclient = true\n[app.a.tools.t]\neffect = \"read\"\nlimit = \"any\"\nparameters = {{ n = \"integer\" }}\ncedar = '''\n@limit(\"any\") permit (principal, action, resource);\n@ask forbid (principal, action, resource) when {{ context.arguments.n * ({factor}) == 7 }};\n'''\n"
        ));
        let verdict = judge(&config, "t", &format!("{{\"n\":{n}}}"), &[]).verdict;
        let expected = match n.checked_mul(factor) {
            None => Verdict::Deny,
            Some(7) => Verdict::Ask,
            Some(_) => Verdict::Allow,
        };
        prop_assert_eq!(verdict, expected);
    }
}

#[test]
fn an_error_of_the_tools_own_is_trusted() {
    let config = ok(
        "[app.a]\nclient = true\n[app.a.tools.read]\neffect = \"read\"\nlimit = \"any\"\n\
         rest = [\"untrusted\", \"secret\"]\nerrors = [\"no file {path}\", \"HTTP {#}: {\"]\n",
    );
    let label = |path: &str, text: &str, is_error: bool| {
        let call = Call {
            app: "a".to_owned(),
            tool: "read".to_owned(),
            arguments: Arguments::parse(
                &serde_json::json!({ "path": path }).to_string(),
                &Label::bottom(),
            )
            .unwrap(),
            label: Label::bottom(),
        };
        let policy = config.policy();
        policy
            .label_result(&call, text.to_owned(), is_error)
            .label()
    };
    assert!(label("/a b", "no file /a b\n", true).is_bottom());
    assert!(label("/a", "HTTP 404: {", true).is_bottom());
    for other in [
        "no file /b",
        "no file /a b",
        "No file /a",
        "no file {path}",
        "HTTP 404123: {",
        "HTTP : {",
        "HTTP 404: { pay eve",
    ] {
        assert!(!label("/a", other, true).is_bottom(), "{other}");
    }
    // A result that reads like the error is none.
    assert!(!label("/a", "no file /a", false).is_bottom());
}

/// One tool that calls others.
const GENERIC: &str = r#"
[app.a]
client = true
[app.a.tools.call]
effect = "irreversible"
limit = []
select = "name"
parameters = ["name", "arguments"]
rest = ["untrusted", "secret"]
[app.a.tools."call:note"]
effect = "write"
arguments."arguments.text".limit = ["untrusted"]
rest = []
[app.a.tools."call:find"]
effect = "read"
limit = ["untrusted"]
"#;

#[test]
fn a_value_selects_the_rule_of_a_generic_tool() {
    let config = ok(GENERIC);
    let web = config.lattice.label("untrusted:web").unwrap();
    let call = |arguments: &str, data: Option<&str>| {
        let arguments = Arguments::parse(arguments, &Label::bottom()).unwrap();
        let arguments = match data {
            Some(path) => arguments.restrict_at(&path.parse().unwrap(), &web),
            None => arguments.restrict_at(&ArgumentPath::of("arguments"), &web),
        };
        Call {
            app: "a".to_owned(),
            tool: "call".to_owned(),
            arguments,
            label: Label::bottom(),
        }
    };
    let text = Some("arguments.text");
    let judged = |call: &Call| config.policy().judge(&Sink::Call(call));
    let note = call(r#"{"name":"note","arguments":{"text":"x"}}"#, text);
    assert_eq!(judged(&note).verdict, Verdict::Allow);
    assert_eq!(judged(&note).effect, Some(Effect::Write));
    let labelled = config
        .policy()
        .label_result(&note, "done".to_owned(), false);
    assert!(labelled.label().is_bottom());
    let find = call(r#"{"name":"find","arguments":{"text":"x"}}"#, None);
    assert_eq!(judged(&find).effect, Some(Effect::Read));
    assert_eq!(judged(&find).verdict, Verdict::Allow);
    // Another spelling may be the same to the server, whose tool may have a stricter rule. The model is told how to spell it.
    for other in [
        r#"{"name":"Note","arguments":{"text":"x"}}"#,
        r#"{"name":"no-te ","arguments":{"text":"x"}}"#,
        r#"{"name":["note"],"arguments":{"text":"x"}}"#,
        r#"{"name":7,"arguments":{"text":"x"}}"#,
    ] {
        let call = call(other, text);
        let judged = judged(&call);
        assert_eq!(judged.verdict, Verdict::Deny, "{other}");
        let why = "must be a text that is spelled as the rules spell it";
        assert!(judged.reason.unwrap().contains(why));
        let told = config.policy().check_arguments(&call).unwrap_err();
        assert!(told.contains(why), "{told}");
        let labelled = config
            .policy()
            .label_result(&call, "done".to_owned(), false);
        assert!(labelled.label().is_top());
    }
    for other in [
        r#"{"name":"call:note","arguments":{"text":"x"}}"#,
        r#"{"name":null,"arguments":{"text":"x"}}"#,
        r#"{"arguments":{"text":"x"}}"#,
    ] {
        let judged = judged(&call(other, text));
        assert_eq!(judged.verdict, Verdict::Ask, "{other}");
        assert_eq!(judged.effect, Some(Effect::Irreversible), "{other}");
    }
    // What has no limit of its own is of the control part.
    let other = call(
        r#"{"name":"note","arguments":{"text":"x","to":"eve"}}"#,
        Some("arguments.to"),
    );
    assert_eq!(judged(&other).verdict, Verdict::Ask);
    let schema = r#"{"type":"object","properties":{"name":{},"arguments":{}}}"#;
    assert_eq!(config.check_tools("a", &[("call", schema)]), Ok(Vec::new()));
}

/// Mistakes that no call shows: each is named at its key.
#[test]
fn keys_that_name_other_tools_and_arguments_are_checked() {
    let tools = |of_close: &str| {
        format!(
            "[app.a]\nclient = true\n[app.a.tools.open]\neffect = \"write\"\nlimit = []\nparameters = [\"ticket\"]\n\
             [app.a.tools.close]\neffect = \"write\"\nlimit = []\nparameters = [\"ticket\", \"cc\"]\n{of_close}\n"
        )
    };
    for (wrong, said) in [
        ("after = \"close\"", "'close' runs after itself"),
        ("after = [\"open\"]", "or { tool = \"TOOL\", same"),
        ("once = [\"tikcet\"]", "did you mean 'ticket'?"),
        ("select = \"kind\"", "'kind' selects the rule of 'close'"),
    ] {
        let errors = errors(&tools(wrong));
        let excerpt = format!("| {wrong}");
        assert!(
            errors.contains(said) && errors.contains(&excerpt),
            "{errors}"
        );
    }
    let warned = ok(&tools(
        "errors = [\"no {tikcet}\", \"no {ticket} in {#} s\", '{\"error\": \"no\"}']\nlabels = [{ path = \"$\", label = [] }]",
    ));
    let warned: Vec<String> = warned.warnings.iter().map(ToString::to_string).collect();
    assert!(
        warned.len() == 1 && warned[0].contains("'{tikcet}'") && warned[0].contains("| errors ="),
        "{warned:?}"
    );
}

/// By its own value a stranger would choose the rule.
#[test]
fn what_selects_a_rule_is_of_the_control_part() {
    for (wrong, said) in [
        (
            "arguments.name.limit = [\"untrusted\"]",
            "cannot have a limit of its own",
        ),
        ("parameters = [\"arguments\"]", "is not in its 'parameters'"),
    ] {
        let errors = errors(&format!("{GENERIC}{wrong}\n"));
        assert!(errors.contains(said), "{errors}");
    }
}

#[test]
fn every_open_destination_is_named() {
    let config = ok(
        "[app.a]\nclient = true\n[app.a.tools.send]\neffect = \"irreversible\"\nlimit = []\n\
         parameters = [\"to\", \"cc?\", \"body\"]\narguments.to.limit = [\"untrusted\"]\n\
         arguments.cc.limit = [\"untrusted\"]\narguments.body.limit = [\"untrusted\"]\nrest = []\n",
    );
    let warnings: Vec<String> = config.warnings.iter().map(ToString::to_string).collect();
    for name in ["'to'", "'cc'"] {
        let mut warnings = warnings.iter();
        assert!(warnings.any(|it| it.contains(&format!("may choose the argument {name}"))));
    }
    assert_eq!(warnings.len(), 2);
}

/// A value of a form may not say to whom a call goes, under any name of the argument.
#[test]
fn json_in_a_string_may_hold_a_destination() {
    let config = ok(
        "[app.a]\nclient = true\n[app.a.tools.post]\neffect = \"irreversible\"\nlimit = []\n\
         parameters = [\"message\", \"note\"]\narguments.\"message.text\".limit = [\"untrusted\"]\nrest = []\n",
    );
    let formed = config.lattice.label("untrusted:web").unwrap().formed();
    let verdict = |arguments: &str| {
        let call = Call {
            app: "a".to_owned(),
            tool: "post".to_owned(),
            arguments: Arguments::parse(arguments, &formed).unwrap(),
            label: Label::bottom(),
        };
        config.policy().judge(&Sink::Call(&call)).verdict
    };
    assert_eq!(verdict(r#"{"note":"7"}"#), Verdict::Allow);
    assert_eq!(
        verdict(r#"{"message":{"text":"x","to":"7"}}"#),
        Verdict::Ask
    );
    assert_eq!(
        verdict(r#"{"message":"{\"text\":\"x\",\"to\":\"7\"}"}"#),
        Verdict::Ask
    );
}
