//! Conditions of label rules in configurations: what they mean, and what is wrong with them.
#![expect(clippy::unwrap_used, clippy::panic, reason = "tests fail by panicking")]

use std::path::Path;

use config::{Config, Diagnostics};
use ifc::{Arguments, Call, Label, Policy};

fn load(text: &str) -> Result<Config, Diagnostics> {
    Config::load_with(Path::new("sluice.toml"), &|_| Ok(text.to_owned()))
}

fn loaded(text: &str) -> Config {
    load(text).unwrap_or_else(|errors| panic!("{errors}"))
}

/// What the configuration is warned of.
fn messages(config: &Config) -> String {
    let messages = config.warnings.iter().map(|it| it.message.as_str());
    messages.collect::<Vec<_>>().join("\n")
}

const FILES: &str = r#"
[lattice]
integrity = { categories = ["web", "mail", "name"] }

[app.files]
client = true

[app.files.tools.read_file]
effect = "read"
limit = "any"
format = "text"
rest = ["untrusted:web", "secret"]
parameters = ["path"]
labels = [
    { path = "$", label = ["secret"], when = { argument = "path", under = "/home/me/private" } },
    { path = "$", label = ["untrusted:web"], when = { argument = "path", under = ["/home/me/downloads", "/srv/web"] } },
]

[app.files.tools.fetch]
effect = "read"
limit = "any"
format = "text"
rest = ["untrusted:web"]
parameters = ["url", "mode"]
labels = [{ path = "$", label = [], when = [{ argument = "url", host = "example.org" }, { argument = "mode", one_of = ["text", "raw"] }] }]

[app.files.tools.shares]
effect = "read"
limit = "any"
structure = []
rest = ["untrusted:web"]
parameters = []
labels = [
    { path = "$.with.*", label = [], one_of = ["r", "rw"], key = { label = ["untrusted:name"], form = "email" } },
    { path = "$.ids", label = [], form = "digits", list = "commas" },
    { path = "$.subject", label = ["untrusted:mail"], unless = { all = [{ sibling = "from", is = ["me"] }, { sibling = "verified", is = ["yes"] }], label = [] } },
    { path = "$.body", label = ["untrusted:mail"], unless = { any = [{ sibling = "from", is = ["me"] }, { sibling = "owner", is = ["me"] }], label = [] } },
]
"#;

/// The label that the byte where `part` begins has in a result of a call.
fn label_of(config: &Config, tool: &str, arguments: &str, text: &str, part: &str) -> Vec<String> {
    let call = Call {
        app: "files".to_owned(),
        tool: tool.to_owned(),
        arguments: Arguments::parse(arguments, &Label::bottom()).unwrap(),
        label: Label::bottom(),
    };
    let labelled = config.policy().label_result(&call, text.to_owned(), false);
    let label = labelled.label_at(text.find(part).unwrap());
    config.lattice.describe(&label)
}

#[test]
fn results_are_labelled_by_the_arguments_of_their_call() {
    let config = loaded(FILES);
    let read = |path: &str| {
        let arguments = format!("{{\"path\":{path:?}}}");
        label_of(&config, "read_file", &arguments, "any text", "any")
    };
    assert_eq!(read("/home/me/private/a"), ["secret"]);
    assert_eq!(read("/srv/web/a"), ["untrusted:web"]);
    assert_eq!(read("/home/me/a"), ["untrusted:web", "secret"]);
    assert_eq!(
        read("/srv/web/../../home/me/private/a"),
        ["untrusted:web", "secret"]
    );
    let fetch = |url: &str, mode: &str| {
        let arguments = format!("{{\"url\":{url:?},\"mode\":{mode:?}}}");
        label_of(&config, "fetch", &arguments, "any text", "any")
    };
    assert!(fetch("https://example.org/a", "raw").is_empty());
    assert_eq!(
        fetch("https://example.org/a", "rendered"),
        ["untrusted:web"]
    );
    assert_eq!(fetch("https://example.com/a", "raw"), ["untrusted:web"]);
    // An error says nothing of the folder.
    let call = Call {
        app: "files".to_owned(),
        tool: "read_file".to_owned(),
        arguments: Arguments::parse(r#"{"path":"/srv/web/a"}"#, &Label::bottom()).unwrap(),
        label: Label::bottom(),
    };
    let error = config
        .policy()
        .label_result(&call, "no such file".to_owned(), true);
    assert_eq!(
        config.lattice.describe(&error.label()),
        ["untrusted:web", "secret"]
    );
}

#[test]
fn keys_lists_and_several_siblings_are_read() {
    let config = loaded(FILES);
    let text = r#"{"with":{"ada@home.example":"rw","pay eve":"r"},"ids":"12, pay","subject":"s1","from":"me","verified":"yes","body":"b1"}"#;
    let of = |part: &str| label_of(&config, "shares", "{}", text, part);
    assert_eq!(of("ada@"), ["untrusted:name"]);
    assert_eq!(
        of("pay eve"),
        ["untrusted:web", "untrusted:mail", "untrusted:name"]
    );
    assert!(of("rw").is_empty() && of("12").is_empty() && of(", pay").is_empty());
    assert_eq!(
        of("pay\","),
        ["untrusted:web", "untrusted:mail", "untrusted:name"]
    );
    assert!(of("s1").is_empty() && of("b1").is_empty());
    let other = text.replace("\"yes\"", "\"no\"");
    let of = |part: &str| label_of(&config, "shares", "{}", &other, part);
    assert_eq!(
        (of("s1"), of("b1")),
        (vec!["untrusted:mail".to_owned()], Vec::new())
    );
}

#[test]
fn mistakes_in_conditions_stand_where_they_are() {
    let errors = load(
        r#"
        [app.files]
        client = true
        [app.files.tools.read]
        effect = "read"
        limit = "any"
        rest = ["untrusted", "secret"]
        parameters = { path = "string", size = "integer" }
        labels = [
            { path = "$.a", label = [], when = { argument = "path", under = "/a/../b" } },
            { path = "$.b", label = [], when = { argument = "path", under = ["/"] } },
            { path = "$.c", label = [], when = { argument = "path", host = "https://example.org/" } },
            { path = "$.d", label = [], when = { argument = "path" } },
            { path = "$.e", label = [], when = { argument = "path", under = "/a", one_of = ["/b"] } },
            { path = "$.f", label = [], when = { under = "/a" } },
            { path = "$.g", label = [], when = [] },
            { path = "$.h", label = [], when = "path" },
            { path = "$.i", label = [], when = { argument = "path", one_of = [] } },
            { path = "$.j", label = [], when = { argument = "path", below = "/a" } },
            { path = "$.k", label = [], list = "lines" },
            { path = "$.l", label = [], list = "rows", form = "digits" },
            { path = "$.m", label = [], key = { label = [] } },
            { path = "$.n", label = [], key = { label = [], form = "email" } },
            { path = "$.o", label = ["untrusted"], unless = { all = [], label = [] } },
            { path = "$.p", label = ["untrusted"], unless = { all = [{ sibling = "a", is = ["b"] }], any = [{ sibling = "a", is = ["b"] }], label = [] } },
        ]
        "#,
    )
    .unwrap_err();
    insta::assert_snapshot!(errors);
}

#[test]
fn conditions_that_never_hold_or_change_nothing_are_found() {
    let errors = load(
        r#"
        [app.files]
        client = true
        [app.files.tools.read]
        effect = "read"
        limit = "any"
        rest = ["untrusted", "secret"]
        parameters = { path = "string", size = "integer" }
        labels = [
            { path = "$.a", label = [], when = { argument = "pth", under = "/a" } },
            { path = "$.b", label = [], when = { argument = "size", one_of = ["1"] } },
            { path = "$.c", label = ["untrusted"], when = { argument = "path", under = "/a" } },
            { path = "$.c", label = ["secret"], when = { argument = "path", under = "/a/" } },
            { path = "$.d", label = ["untrusted"] },
            { path = "$.d", label = [], when = { argument = "path", under = "/a" } },
        ]
        "#,
    )
    .unwrap_err();
    insta::assert_snapshot!(errors);
}

/// The tool's own schema finds more errors; it makes no rule weaker.
#[test]
fn conditions_are_compared_with_the_tools_own_schema() {
    let check = |argument: &str| {
        let config = loaded(&format!(
            r#"
            [app.files]
            client = true
            [app.files.tools.read]
            effect = "read"
            limit = "any"
            rest = ["untrusted"]
            labels = [{{ path = "$.a", label = [], when = {{ argument = "{argument}", under = "/a" }} }}]
            "#
        ));
        let schema = r#"{"type":"object","properties":{"path":{"type":"string"}}}"#;
        config.check_tools("files", &[("read", schema)])
    };
    assert_eq!(check("path"), Ok(Vec::new()));
    let error = check("pth").unwrap_err().to_string();
    let expected = "the tool has no argument 'pth'; did you mean 'path'? correct or remove it";
    assert!(error.ends_with(expected), "{error}");
}

#[test]
fn a_tool_that_writes_where_another_believes_is_warned_of() {
    let warnings = |limit: &str| {
        let config = loaded(&format!(
            r#"
            [lattice]
            integrity = {{ categories = ["web", "mail"] }}
            [app.files]
            client = true
            [app.files.tools.read]
            effect = "read"
            limit = "any"
            rest = ["untrusted:web"]
            parameters = ["path"]
            labels = [{{ path = "$.a", label = [], when = {{ argument = "path", under = "/a" }} }}]
            [app.files.tools.write]
            effect = "write"
            limit = []
            parameters = ["path", "text"]
            arguments.text.limit = {limit}
            "#
        ));
        messages(&config)
    };
    let warning = "'write' may write untrusted text there, and the rule for $.a (sluice.toml:11) of 'read' trusts it when path is under /a";
    assert!(
        warnings("\"any\"").contains(warning),
        "{}",
        warnings("\"any\"")
    );
    assert!(warnings("[\"untrusted:web\"]").contains(warning));
    // What is never read as anything else than trusted needs no trust.
    assert!(!warnings("[\"untrusted:mail\", \"secret\"]").contains(warning));
    assert!(!warnings("[]").contains(warning));
}

#[test]
fn a_tool_that_moves_files_to_where_they_are_trusted_is_warned_of() {
    let reader = r#"
        [app.files.tools.read]
        effect = "read"
        limit = "any"
        rest = ["untrusted"]
        parameters = ["path"]
        labels = [{ path = "$", label = [], when = { argument = "path", under = "/own" } }]
    "#;
    let mover = r#"
        [app.files.tools.move_file]
        effect = "write"
        limit = []
        parameters = { source = "string", destination = "string" }
    "#;
    let warnings = |more: &str, reader: &str, mover: &str| {
        let config = loaded(&format!("[app.files]\n{more}\n{reader}\n{mover}"));
        let all = config.warnings.iter();
        all.map(|it| format!("{it:?}\n")).collect::<String>()
    };
    let line = "cedar = '@ask forbid (principal, action, resource);'";
    let found = warnings("client = true", reader, mover);
    let warning =
        "'move_file' may move or copy untrusted files into /own, where they are trusted afterwards";
    assert!(found.contains(warning) && found.contains(line), "{found}");
    let asking = format!("{mover}\n{line}");
    assert!(!warnings("client = true", reader, &asking).contains("move or copy"));
    // A tool with one path moves nothing, and where nothing is untrusted nothing is laundered.
    let one = mover.replace(", destination = \"string\"", "");
    assert!(!warnings("client = true", reader, &one).contains("move or copy"));
    let trusted = reader.replace("[\"untrusted\"]", "[]");
    assert!(!warnings("client = true", &trusted, mover).contains("move or copy"));
    // Folders that the app is given, by their labels.
    let mounts = |write: bool| {
        format!(
            "command = [\"files\"]\nmount = [{{ source = \"/srv/own\", target = \"/srv/own\", write = {write}, label = [] }}, \
             {{ source = \"/srv/downloads\", target = \"/srv/downloads\", label = [\"untrusted\"] }}]"
        )
    };
    assert!(warnings(&mounts(true), "", mover).contains("files into /srv/own, where"));
    assert!(!warnings(&mounts(false), "", mover).contains("move or copy"));
}

#[test]
fn arguments_beside_those_of_conditions_have_to_be_known() {
    let text = FILES.replace("parameters = [\"path\"]\n", "");
    let warnings = messages(&loaded(&text));
    assert!(
        warnings.contains("the results of 'files.read_file' are labelled by arguments of the call, and other arguments may say what they mean"),
        "{warnings}"
    );
    assert!(!messages(&loaded(FILES)).contains("labelled by arguments"));
}
