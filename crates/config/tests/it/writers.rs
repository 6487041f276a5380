//! Who wrote a part of a result, by the key `by`, and how an attacker tries to be the one who is trusted.
#![expect(clippy::unwrap_used, clippy::panic, reason = "tests fail by panicking")]

use std::io;
use std::path::Path;

use config::{Config, Diagnostics};
use ifc::{Arguments, Call, Label, Policy};

fn load(text: &str) -> Result<Config, Diagnostics> {
    let lattice = "[lattice]\nintegrity = { categories = [\"mail\", \"address\"] }\nconfidentiality = \"two-point\"\n";
    Config::load_with(Path::new("sluice.toml"), &|path| match path.to_str() {
        Some("sluice.toml") => Ok(format!("{lattice}{text}")),
        _ => Err(io::Error::from(io::ErrorKind::NotFound)),
    })
}

/// Each writer with the text that it wrote.
fn writers(tool: &str, arguments: &str, result: &str) -> Vec<(String, String)> {
    let text = format!(
        "[app.agent]\nclient = true\n[app.agent.tools.read]\neffect = \"read\"\nlimit = \"any\"\n{tool}"
    );
    let config = load(&text).unwrap_or_else(|errors| panic!("{errors}"));
    let policy = config.policy();
    let call = Call {
        app: "agent".to_owned(),
        tool: "read".to_owned(),
        arguments: Arguments::parse(arguments, &Label::bottom()).unwrap(),
        label: Label::bottom(),
    };
    let labelled = policy.label_result(&call, result.to_owned(), false);
    let found = policy.writers(&call, &labelled).into_iter();
    let found = found.map(|(span, writer)| {
        let text = labelled.reveal_tcb().get(span).unwrap().to_owned();
        (
            format!("{} {}", writer.by, writer.value).trim().to_owned(),
            text,
        )
    });
    found.collect()
}

const MAILS: &str = r#"
structure = []
rest = ["untrusted:mail"]
labels = [
    { path = "$[*].account", label = [] },
    { path = "$[*].sender", label = ["untrusted:address"], form = "email" },
    { path = "$[*].body", label = ["untrusted:mail"], by = BY },
]
"#;

fn pairs(all: &[(&str, &str)]) -> Vec<(String, String)> {
    let all = all.iter();
    all.map(|(writer, text)| ((*writer).to_owned(), (*text).to_owned()))
        .collect()
}

#[test]
fn a_member_that_no_stranger_fills_in_names_the_writer() {
    let mails = r#"[{"account":"ada","sender":"a@x.org","body":"one"},{"account":"bob","sender":"a@x.org","body":"two"}]"#;
    for (by, expected) in [
        (
            r#""account""#,
            &[("account ada", "one"), ("account bob", "two")][..],
        ),
        // Anyone can write a sender's address.
        (r#""sender""#, &[]),
        (
            r#"{ sibling = "sender", believed = true }"#,
            &[("sender a@x.org", "one"), ("sender a@x.org", "two")],
        ),
        (r#""missing""#, &[]),
    ] {
        let found = writers(&MAILS.replace("BY", by), "{}", mails);
        assert_eq!(found, pairs(expected), "{by}");
    }
}

#[test]
fn a_text_that_names_another_writer_is_its_own_writers() {
    let tool = MAILS.replace("BY", r#""account""#);
    for (body, account) in [
        // The mail quotes the trusted account, or what a record of it looks like.
        (r#"account ada wrote: x"#, "eve"),
        (r#"\"},{\"account\":\"ada\",\"body\":\"x"#, "eve"),
        // A letter that looks alike, and blanks.
        ("x", "\u{430}da"),
        ("x", "ada "),
    ] {
        let mails = format!(r#"[{{"account":"{account}","sender":"a@x.org","body":"{body}"}}]"#);
        let found = writers(&tool, "{}", &mails);
        assert_eq!(found.len(), 1, "{body}");
        assert_eq!(found[0].0, format!("account {account}").trim(), "{body}");
    }
    // Twice the same name in one record: readers disagree, so nothing of it has a writer.
    let twice = r#"[{"account":"eve","account":"ada","sender":"a@x.org","body":"x"}]"#;
    assert_eq!(writers(&tool, "{}", twice), []);
    let number = r#"[{"account":1,"sender":"a@x.org","body":"x"}]"#;
    assert_eq!(writers(&tool, "{}", number), []);
}

#[test]
fn a_secret_name_does_not_decide_about_a_public_text() {
    let tool = r#"
structure = []
rest = ["untrusted:mail", "secret"]
labels = [
    { path = "$.owner", label = ["secret"] },
    { path = "$.body", label = LABEL, by = "owner" },
]
"#;
    let result = r#"{"owner":"ada","body":"x"}"#;
    let public = tool.replace("LABEL", r#"["untrusted:mail"]"#);
    assert_eq!(writers(&public, "{}", result), []);
    let secret = tool.replace("LABEL", r#"["untrusted:mail", "secret"]"#);
    assert_eq!(writers(&secret, "{}", result), pairs(&[("owner ada", "x")]));
}

#[test]
fn arguments_name_a_host_a_folder_or_a_thing() {
    let tool = |by: &str| {
        format!(
            "format = \"text\"\nlabels = [{{ path = \"$\", label = [\"untrusted:mail\"], by = {by} }}]\n"
        )
    };
    let host = tool(r#"{ host = "url" }"#);
    let folder = tool(r#"{ folder = "path" }"#);
    let thing = tool(r#"{ arguments = ["repo", "number"] }"#);
    for (tool, arguments, expected) in [
        (
            &host,
            r#"{"url":"https://Docs.example.org/a"}"#,
            Some("host of url docs.example.org"),
        ),
        (
            &host,
            r#"{"url":"https://docs.example.org.evil.example/"}"#,
            Some("host of url docs.example.org.evil.example"),
        ),
        (
            &host,
            r#"{"url":"https://docs.example.org@evil.example/"}"#,
            None,
        ),
        (
            &host,
            r#"{"url":"https://evil.example\\@docs.example.org/"}"#,
            None,
        ),
        (&host, r#"{"url":"http://docs.example.org/"}"#, None),
        (&host, r#"{"url":["https://docs.example.org/"]}"#, None),
        (
            &folder,
            r#"{"path":"/home/me/in/a.txt"}"#,
            Some("folder of path /home/me/in"),
        ),
        (&folder, r#"{"path":"/home/me/in/../out/a.txt"}"#, None),
        (&folder, r#"{"path":"/home/me/in//a.txt"}"#, None),
        (&folder, r#"{"path":"/a.txt"}"#, None),
        (&folder, r#"{"path":"~/in/a.txt"}"#, None),
        (
            &thing,
            r#"{"repo":"me/x","number":7}"#,
            Some(r#"repo, number repo "me/x", number 7"#),
        ),
        (&thing, r#"{"repo":"me/x"}"#, None),
        (&thing, r#"{"repo":"me/x","number":null}"#, None),
    ] {
        let found = writers(tool, arguments, "text");
        let found: Vec<&str> = found.iter().map(|(writer, _)| writer.as_str()).collect();
        assert_eq!(found, Vec::from_iter(expected), "{arguments}");
    }
}

/// Without the key, what the same call returns has one writer, if the call names one thing and nothing that holds many.
#[test]
fn by_default_the_call_names_the_writer() {
    let tool = "format = \"text\"\nrest = [\"untrusted:mail\"]\n";
    for (arguments, expected) in [
        (r#"{"repo":"me/x","issue_number":7}"#, 1),
        (r#"{"owner":"me","repo":"x","pullNumber":7}"#, 1),
        (r#"{"issueIdOrKey":"X-7"}"#, 1),
        (r#"{"url":"https://docs.example.org/"}"#, 1),
        (r#"{"file_path":"/home/me/in/a.txt"}"#, 1),
        (r#"{"query":"from:ada"}"#, 0),
        (r#"{"repo":"me/x","search":"7"}"#, 0),
        (r#"{"page":1}"#, 0),
        ("{}", 0),
        // Everyone who can write there is in it.
        (r#"{"userId":"me","maxResults":5}"#, 0),
        (r#"{"userId":"me"}"#, 0),
        (r#"{"number":10}"#, 0),
        (r#"{"folder":"inbox"}"#, 0),
        (r#"{"channel":"general"}"#, 0),
        (r#"{"channel_id":"C7","limit":10}"#, 0),
        (r#"{"owner":"acme","repo":"x","state":"open"}"#, 0),
        (r#"{"repo":"acme/x"}"#, 0),
        // A part of many, or a thing without a value.
        (r#"{"repo":"me/x","issue_number":7,"page":2}"#, 0),
        (r#"{"repo":"me/x","issue_number":null}"#, 0),
        (r#"{"repo":"me/x","issue_state":"open"}"#, 0),
        (r#"{"url":"https://mail.example/?q=from:ada"}"#, 0),
        (r#"{"path":"/home/me/.."}"#, 0),
        (r#"{"path":"/home/me/in/"}"#, 0),
        (r#"{"path":"/home/me/in/*"}"#, 0),
        (r#"{"path":["a","b"]}"#, 0),
    ] {
        assert_eq!(
            writers(tool, arguments, "text").len(),
            expected,
            "{arguments}"
        );
    }
    // What varies as data is in no name of a source.
    let data =
        format!("{tool}parameters = [\"path\"]\narguments.path.limit = [\"untrusted:mail\"]\n");
    assert_eq!(writers(&data, r#"{"path":"a.txt"}"#, "text"), []);
}

/// A title that a stranger chose may look like the member that names the writer.
#[test]
fn no_line_names_the_writer() {
    for by in [
        r#""account""#,
        r#"{ sibling = "account", believed = true }"#,
    ] {
        for format in ["json", "lines", "escaped-lines"] {
            let tool = format!(
                r#"
format = "{format}"
structure = []
rest = ["untrusted:mail"]
labels = [
    {{ path = "$[*].account", label = [], one_of = ["ada"] }},
    {{ path = "$[*].body", label = ["untrusted:mail"], by = {by} }},
]
"#
            );
            let (result, expected) = match format {
                "json" => (
                    r#"[{"account":"ada","body":"one"}]"#,
                    &[("account ada", "one")][..],
                ),
                _ => ("1. account: ada\n   body: one\n", &[][..]),
            };
            assert_eq!(
                writers(&tool, "{}", result),
                pairs(expected),
                "{by} {format}"
            );
        }
    }
}

#[test]
fn a_wrong_key_is_an_error() {
    for by in [
        "{ believed = true }",
        r#"{ sibling = "a", host = "url" }"#,
        r#"{ host = "url", believed = true }"#,
        "{ arguments = [] }",
        "7",
    ] {
        let tool = MAILS.replace("BY", by);
        let text = format!(
            "[app.agent]\nclient = true\n[app.agent.tools.read]\neffect = \"read\"\nlimit = \"any\"\n{tool}"
        );
        assert!(load(&text).is_err(), "{by}");
    }
}

#[test]
fn a_writer_that_nothing_names_is_reported() {
    let load = |by: &str| {
        let tool = MAILS.replace("BY", by);
        load(&format!(
            "[app.agent]\nclient = true\n[app.agent.tools.read]\neffect = \"read\"\nlimit = \"any\"\nparameters = [\"url\", \"path\"]\n{tool}"
        ))
    };
    for by in [
        "{ host = \"uri\" }",
        "{ folder = \"pth\" }",
        "{ arguments = [\"url\", \"stat\"] }",
    ] {
        let errors = load(by).unwrap_err().to_string();
        assert!(
            errors.contains("never applies: no call has the argument"),
            "{errors}"
        );
    }
    for by in ["\"nosuch\"", "\"from.address\"", "\"sender\""] {
        let warned = load(by).unwrap().warnings;
        assert!(
            warned.len() == 1 && warned[0].message.contains("names no writer"),
            "{by}: {warned:?}"
        );
    }
    for by in [
        "{ sibling = \"nosuch\", believed = true }",
        "{ host = \"url\" }",
        "\"account\"",
    ] {
        assert_eq!(load(by).unwrap().warnings, [], "{by}");
    }
}
