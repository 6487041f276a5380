//! Label rules in configurations: formats, conditions, the user's marks, and their mistakes.

use std::path::Path;

use config::{Config, Diagnostics};
use policy::{Format, Mark};

fn load(text: &str) -> Result<Config, Diagnostics> {
    Config::load_with(Path::new("sluice.toml"), &|_| Ok(text.to_owned()))
}

#[test]
fn formats_conditions_and_marks_are_read() {
    let config = load(
        r#"
        [lattice]
        integrity = { categories = ["email", "pasted"] }

        [[user.labels]]
        between = ["<<<", ">>>"]
        label = ["untrusted:pasted"]
        [[user.labels]]
        lines = "> "
        label = "untrusted:email"

        [app.mail]
        command = ["mail"]
        [app.mail.tools.read]
        effect = "read"
        limit = "any"
        format = "yaml"
        structure = []
        [[app.mail.tools.read.labels]]
        path = "$[*].sender"
        label = []
        form = "email"
        [[app.mail.tools.read.labels]]
        path = "$[*].subject"
        label = ["untrusted:email"]
        unless = { sibling = "sender", is = ["me@example.com"], label = [] }
        [app.mail.tools.day]
        effect = "read"
        limit = "any"
        format = "text"
        labels = [{ path = "$", label = [], form = "date" }]
        "#,
    )
    .unwrap_or_else(|errors| panic!("{errors}"));
    let read = &config.apps["mail"].rules.tools["read"].result;
    assert_eq!(read.format(), Format::Yaml);
    assert_eq!(
        read.rules().last().unwrap().unless.as_ref().unwrap().is,
        ["me@example.com"]
    );
    let email = config.lattice.label("untrusted:email").unwrap();
    let own = "- sender: me@example.com\n  subject: x\n".to_owned();
    let other = "- sender: you@example.com\n  subject: x\n".to_owned();
    assert!(read.label(own).label().is_bottom());
    assert_eq!(read.label(other).label(), email);
    assert_eq!(
        config.apps["mail"].rules.tools["day"].result.format(),
        Format::Text
    );
    let marks: Vec<&Mark> = config.user.rules().iter().map(|rule| &rule.mark).collect();
    assert!(
        matches!(marks.as_slice(), [Mark::Between { .. }, Mark::Lines(prefix)] if prefix == "> ")
    );
    assert_eq!(config.user.label("a\n> b".to_owned()).label(), email);
}

#[test]
fn the_format_of_a_manifest_stays_where_only_rules_are_written() {
    let manifest = r#"
        [app]
        name = "mail"
        description = "Mail."
        command = ["mail"]
        [tools.read]
        effect = "read"
        limit = "any"
        format = "python"
        labels = [{ path = "$.a", label = [] }]
    "#;
    let config = r#"
        [app.mail]
        manifest = "mail.toml"
        [app.mail.tools.read]
        labels = [{ path = "$.b", label = ["untrusted"] }]
    "#;
    let config = Config::load_with(Path::new("sluice.toml"), &|path| {
        let manifest_asked = path.ends_with("mail.toml");
        Ok(if manifest_asked { manifest } else { config }.to_owned())
    })
    .unwrap_or_else(|errors| panic!("{errors}"));
    let read = &config.apps["mail"].rules.tools["read"].result;
    assert_eq!((read.format(), read.rules().len()), (Format::Python, 1));
}

#[test]
fn mistakes_in_label_rules_stand_where_they_are() {
    let errors = load(
        r#"
        user.labels = [
            { between = ["<<<"], label = "untrusted" },
            { between = ["", ">>>"], label = "untrusted" },
            { lines = "", label = "untrusted" },
            { lines = "> ", between = ["a", "b"], label = "untrusted" },
            { lines = "> " },
            { line = "> ", label = "untrusted" },
        ]
        [app.mail]
        command = ["mail"]
        [app.mail.tools.read]
        effect = "read"
        limit = "any"
        format = "yml"
        labels = [
            { path = "$.a", label = ["untrusted"], unless = { sibling = "b", is = [], label = [] } },
            { path = "$.b", label = ["untrusted"], unless = { sibling = "c", is = ["x"] } },
            { path = "$.c", label = ["untrusted"], unless = { sibling = "d", is = "x", label = [] } },
            { path = "$.d", label = [], unless = { sibling = "e", is = ["x"], label = ["secret"] } },
            { path = "$.e", label = ["untrusted"], unless = { field = "e" } },
            { path = "$.f", label = ["untrusted"], unless = "e" },
        ]
        [app.mail.tools.day]
        effect = "read"
        limit = "any"
        format = "text"
        labels = [{ path = "$.day", label = [] }]
        "#,
    )
    .unwrap_err();
    insta::assert_snapshot!(errors);
}
