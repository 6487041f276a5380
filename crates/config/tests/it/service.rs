//! `[service]`, `[state]`, `[telemetry]` and `[tenant.NAME]`.

use std::path::Path;
use std::time::Duration;

use config::{Config, Diagnostics, LogForm};

fn load(text: &str) -> Result<Config, Diagnostics> {
    Config::load_with(Path::new("sluice.toml"), &|_| Ok(text.to_owned()))
}

#[test]
fn a_service_has_defaults_and_every_key() {
    let config = load("").unwrap();
    assert_eq!(config.service.listen, "127.0.0.1:8080".parse().unwrap());
    assert_eq!(config.service.drain, Duration::from_secs(30));
    assert_eq!((config.state.keep_days, config.state.url), (7, None));
    assert_eq!(config.audit.keep_days, 365);
    let config = load(
        r#"
        [service]
        listen = "0.0.0.0:80"
        desk_listen = "127.0.0.1:7797"
        metrics_listen = "[::1]:9464"
        hosts = ["Guard.example"]
        desk_hosts = ["desk.example"]
        upstream = "openai"
        drain_s = 5
        secret_file = "secret"
        url = "http://127.0.0.1:8080/"
        [state]
        url = "postgres://sluice:pa55@db/sluice"
        keep_days = 30
        [audit]
        keep_days = 90
        [telemetry]
        otlp = "http://collector:4318"
        logs = "json"
        content = true
        trace_apps = true
        [tenant.team-a]
        calls_per_hour = 1000
        tokens_per_hour = 2_000_000
        questions_per_hour = 60
        tools = { "mail.send_email" = 20 }
        "#,
    )
    .unwrap();
    assert_eq!(config.service.hosts, ["guard.example"]);
    assert_eq!(config.service.url.as_deref(), Some("http://127.0.0.1:8080"));
    assert!(config.service.secret_file.unwrap().ends_with("secret"));
    assert_eq!(config.audit.keep_days, 90);
    assert_eq!(config.telemetry.logs, LogForm::Json);
    assert!(config.telemetry.trace_apps);
    let limits = &config.tenants["team-a"];
    assert_eq!((limits.calls, limits.questions), (Some(1000), Some(60)));
    assert_eq!(limits.tools["mail.send_email"], 20);
    // The address of a database has a password.
    assert!(!format!("{:?}", config.state).contains("pa55"));
}

#[test]
fn mistakes_about_a_service_have_their_place() {
    let errors = load(
        r#"
[service]
listen = "8080"
hosts = ["https://guard.example"]
drain = 5
[state]
url = "mysql://me:pa55@db"
keep_days = 0
[telemetry]
logs = "xml"
otlp = "collector"
[tenant."team a"]
calls_per_hour = -1
tools = { send = 1 }
"#,
    );
    let errors = errors.unwrap_err();
    let found: Vec<String> = errors
        .iter()
        .map(|it| format!("{}: {}", it.line, it.message))
        .collect();
    insta::assert_snapshot!(found.join("\n"), @r"
    3: 'listen' is not an address with a port
    4: 'https://guard.example' is not the name of a host
    5: unknown key 'drain' in [service]
    7: 'url' is not the address of a database
    8: 'keep_days' is out of range
    10: 'logs' cannot be 'xml'
    11: 'otlp' is not an address
    12: this is not the name of a tenant
    13: 'calls_per_hour' is out of range
    14: 'send' is not the name of a tool
    ");
    let manifest = "[app]\nname = \"mail\"\ncommand = [\"mail\"]\n[tools.send_email]\neffect = \"write\"\nlimit = \"any\"\nrest = []\n";
    let budget = |tool: &str| {
        let tools = format!("tools = {{ \"{tool}\" = 3 }}");
        let root = format!("[app.mail]\nmanifest = \"mail.toml\"\n[tenant.a]\n{tools}\n");
        Config::load_with(Path::new("sluice.toml"), &|path| {
            let is_root = path == Path::new("sluice.toml");
            Ok((if is_root { &root } else { manifest }).to_owned())
        })
    };
    let error = budget("mail.sendemail").unwrap_err().to_string();
    for words in ["'mail' has no tool 'sendemail'", "mean 'send_email'?"] {
        assert!(error.contains(words), "{error}");
    }
    for (tool, is_missing) in [("mial.send_email", true), ("mail.send_email", false)] {
        let warnings = budget(tool).unwrap().warnings;
        let mut warnings = warnings.iter().map(|it| it.message.as_str());
        let found = warnings.any(|it| it == "there is no app 'mial', so this limits nothing");
        assert_eq!(found, is_missing, "{tool}");
    }
    let error = load("[telemetry]\ntrace_apps = true\n").unwrap_err();
    assert!(
        error
            .to_string()
            .contains("'trace_apps' has no effect without 'otlp'")
    );
}

#[test]
fn a_diagnostic_shows_no_password_of_an_address() {
    for text in [
        "[state]\nurl = \"mysql://sluice:pa5@5w'ord@db/x\"\n",
        "[state]\nurls = 'postgres://sluice:pa5@5w\"ord@db/x'\n",
        "[state]\nurl = \"postgres://sluice:pa5@5word@db/x\n",
        "[[provider]]\nname = \"a\"\nkind = \"openai\"\nmodel = \"m\"\nbase_url = \"ftp://sluice:pa5@5word@db/x\"\n",
    ] {
        let shown = load(text).unwrap_err();
        let shown = format!("{shown}{shown:?}");
        assert!(!shown.contains("pa5") && !shown.contains("5w"), "{shown}");
        assert!(shown.contains("sluice:*"), "{shown}");
    }
}
