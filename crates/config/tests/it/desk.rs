//! `[desk]`, and who may answer a question.

use std::io;
use std::path::Path;

use config::{Config, Diagnostics, Webhook};
use ifc::{Arguments, Call, Label, Policy, Sink};

fn load(text: &str) -> Result<Config, Diagnostics> {
    Config::load_with(Path::new("sluice.toml"), &|_| Ok(text.to_owned()))
}

#[test]
fn a_webhook_is_never_shown() {
    let config =
        load("[desk]\nwebhook = \"https://hooks.example.org/T0/k3y\"\nnotify = true").unwrap();
    assert!(config.desk.notify && !config.desk.contents);
    let shown = format!("{:?}", config.desk);
    assert!(
        shown.contains("https://hooks.example.org") && !shown.contains("k3y"),
        "{shown}"
    );
    let config = load("[desk]\nwebhook = \"secret:phone\"\ncontents = true").unwrap();
    assert_eq!(
        config.desk.webhook,
        Some(Webhook::Secret("phone".to_owned()))
    );
    for wrong in [
        "http://hooks.example.org/k3y",
        "https://me:k3y@hooks.example.org",
        "ftp://127.0.0.1/k3y",
        "secret:a k3y",
        "k3y",
    ] {
        let errors = load(&format!("[desk]\nwebhook = \"{wrong}\"")).unwrap_err();
        let error = errors.iter().next().unwrap();
        assert_eq!(errors.iter().len(), 1, "{errors}");
        assert!(
            !format!("{} {:?}", error.message, error.help).contains("k3y"),
            "{errors}"
        );
    }
}

const POLICY: &str = r#"
[app.bank]
client = true

[app.bank.other_tools]
approvers = ["carl"]

[app.bank.tools.pay]
effect = "write"
limit = []
approvers = ["ada", "bob@firm.example"]

[[app.bank.tools.pay.examples]]
label = ["untrusted"]
expect = "ask"

[app.bank.tools.note]
effect = "write"
limit = []
"#;

#[test]
fn a_tool_names_who_may_allow_its_calls() {
    let config = load(POLICY).unwrap();
    let approvers = |tool: &str| {
        let call = Call {
            app: "bank".to_owned(),
            tool: tool.to_owned(),
            arguments: Arguments::parse("{}", &Label::bottom()).unwrap(),
            label: Label::bottom(),
        };
        let rule = config.policy().rule(&Sink::Call(&call)).unwrap();
        rule.approvers.map(|names| names.to_vec())
    };
    let names = |names: &[&str]| Some(names.iter().map(|it| (*it).to_owned()).collect::<Vec<_>>());
    assert_eq!(approvers("pay"), names(&["ada", "bob@firm.example"]));
    // What a listed tool does not say is that of unlisted ones.
    assert_eq!(approvers("note"), names(&["carl"]));
    assert_eq!(approvers("unheard_of"), names(&["carl"]));
}

/// No one is not everyone, and a name that a token cannot have would never answer.
#[test]
fn mistakes_about_approvers_start_nothing() {
    for wrong in [
        "[]",
        "[\"\"]",
        "[\"ada lovelace\"]",
        "[\"\u{430}da\"]",
        "\"ada\"",
        "true",
    ] {
        let text = POLICY.replace("[\"ada\", \"bob@firm.example\"]", wrong);
        assert!(load(&text).is_err(), "{wrong}");
    }
    // An app does not say who watches over it.
    let manifest = "[app]\ndescription = \"Pays.\"\ncommand = [\"bank\"]\n\
                    [tools.pay]\neffect = \"write\"\napprovers = [\"eve\"]\n";
    let read = |path: &Path| match path.ends_with("sluice.toml") {
        true => Ok("[app.bank]\nmanifest = \"bank.toml\"".to_owned()),
        false => Ok::<_, io::Error>(manifest.to_owned()),
    };
    let errors = Config::load_with(Path::new("sluice.toml"), &read).unwrap_err();
    assert!(
        errors
            .to_string()
            .contains("a manifest does not say who approves calls"),
        "{errors}"
    );
}
