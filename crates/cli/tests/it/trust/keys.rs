//! A key goes to the host for which it was named, and to no other.

use crate::trust::stage::{Stage, text};

/// No app, so nothing is started but a request.
const CONFIG: &str = r#"
[screener]
kind = "naive"

[[provider]]
name = "theirs"
kind = "openai"
model = "m"
base_url = "PROVIDER"
api_key_env = "THEIR_KEY"
"#;

const NAMED: &str = "api_key_env = \"THEIR_KEY\"\n";
const ADDRESS: &str = "base_url = \"PROVIDER\"\n";
const RUN: [&str; 5] = ["run", "--config", "sluice.toml", "--no-app", "hello"];

/// The `Authorization` headers that the provider saw.
fn keys(stage: &Stage) -> Vec<String> {
    let requests = stage.requests();
    let lines = requests.iter().flat_map(|head| head.lines());
    let keys = lines.filter_map(|line| line.strip_prefix("authorization: bearer "));
    keys.map(str::to_owned).collect()
}

#[test]
fn a_variable_goes_to_the_address_beside_which_it_is_named() {
    let stage = Stage::new(CONFIG);
    stage.run(&RUN);
    assert_eq!(keys(&stage), ["sk-theirs"]);
}

/// An empty variable holds no key: no header is sent, and a proxy that is told to use it does not start.
#[test]
fn an_empty_variable_is_no_key() {
    let stage = Stage::new(CONFIG);
    let mut command = stage.sluice(&RUN);
    command.env("THEIR_KEY", "").output().unwrap();
    let requests = stage.requests();
    assert_eq!(requests.len(), 1);
    assert!(!requests[0].contains("authorization"), "{requests:?}");

    let stage = Stage::new(&format!("{CONFIG}[app.agent]\nclient = true\n"));
    let provider = stage.provider();
    let proxy = ["proxy", "--config", "sluice.toml", "--upstream", provider];
    let mut command = stage.sluice(&proxy);
    command.args(["--clearance", "any", "--upstream-key-env", "THEIR_KEY"]);
    let output = command.env("THEIR_KEY", "").output().unwrap();
    let stderr = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{stderr}");
    assert!(
        stderr.contains("the variable THEIR_KEY is not set or empty"),
        "{stderr}"
    );
}

#[test]
fn the_usual_key_does_not_go_to_an_address_of_the_configuration() {
    let stage = Stage::new(&CONFIG.replace(NAMED, ""));
    let output = stage.run(&RUN);
    assert_eq!(stage.requests().len(), 1, "{}", text(&output.stderr));
    assert_eq!(keys(&stage), Vec::<String>::new());
    assert!(
        text(&output.stderr).contains("api_key_env"),
        "{}",
        text(&output.stderr)
    );
}

#[test]
fn the_usual_key_goes_to_the_usual_address_of_the_environment() {
    let stage = Stage::new(&CONFIG.replace(NAMED, "").replace(ADDRESS, ""));
    stage
        .sluice(&RUN)
        .env("OPENAI_BASE_URL", stage.provider())
        .output()
        .unwrap();
    assert_eq!(keys(&stage), ["sk-users"]);
}

#[test]
fn a_named_key_does_not_follow_the_environment_elsewhere() {
    let stage = Stage::new(&CONFIG.replace(ADDRESS, ""));
    let mut command = stage.sluice(&RUN);
    let output = command
        .env("OPENAI_BASE_URL", stage.provider())
        .output()
        .unwrap();
    let stderr = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{stderr}");
    for part in ["THEIR_KEY", "OPENAI_BASE_URL", "base_url"] {
        assert!(stderr.contains(part), "{part}: {stderr}");
    }
    assert_eq!(stage.requests(), Vec::<String>::new());
}
