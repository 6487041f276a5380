//! The official conformance suite of MCP for clients, from the npm registry: it serves a scenario, a person adds that
//! server to Sluice by its address and asks for a job, and the suite says what it thinks of the client.
//!
//! The client under test is all of Sluice: the hub, a spoke, and `sluice-remote` in it. The suite needs a newer Node than most
//! machines have, which comes from the registry as well.

use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde::Deserialize;
use serde_json::Value;

use crate::node;
use crate::registry::{Mode, Registry};
use crate::say;
use crate::stage::Stage;

pub(crate) const LOCK: &str = include_str!("conformance.lock.txt");
/// What a user reads of it.
const DOCUMENT: &str = include_str!("../../../../docs/conformance.md");
/// The suite, and a Node that it runs on.
const PACKAGES: [&str; 2] = ["@modelcontextprotocol/conformance", node::PACKAGE];
/// What the suite starts as the client: it hands over to the test what it was told, and ends as the test says.
const CLIENT: &str = r#"echo "$MCP_CONFORMANCE_CONTEXT" > context
echo "$1" > part && mv part address
until [ -e code ]; do sleep 0.05; done
exit "$(cat code)"
"#;
/// How long the suite waits for the client, and the test for the suite.
const PATIENCE: Duration = Duration::from_secs(180);
/// Some scenarios measure times, on a machine that does other things as well.
const TRIES: usize = 3;

/// A scenario of the suite.
struct Scenario {
    name: &'static str,
    /// What the person asks for after the server was added; nothing, where that is all.
    job: &'static str,
    /// Why it is expected to fail, if it is.
    fails: Option<&'static str>,
}

const fn passes(name: &'static str, job: &'static str) -> Scenario {
    Scenario {
        name,
        job,
        fails: None,
    }
}

const fn fails(name: &'static str, reason: &'static str) -> Scenario {
    Scenario {
        name,
        job: "",
        fails: Some(reason),
    }
}

const UNNAMED: &str =
    "by choice: one logs in where the server says so (RFC 9728), and this one names nobody";
const EXTENSION: &str = "not offered: an extension for clients without a user";

const SCENARIOS: [Scenario; 26] = [
    passes("initialize", ""),
    passes("tools_call", r#"add_numbers {"a": 19, "b": 23}"#),
    Scenario {
        name: "elicitation-sep1034-client-defaults",
        job: "test_client_elicitation_defaults {}",
        fails: Some("by choice: an empty line of the user never says what an app has chosen"),
    },
    passes("sse-retry", "test_reconnection {}"),
    passes("auth/metadata-default", ""),
    passes("auth/metadata-var1", ""),
    passes("auth/metadata-var2", ""),
    passes("auth/metadata-var3", ""),
    fails(
        "auth/basic-cimd",
        "Sluice has no page on the web that describes it as a client, and registers instead",
    ),
    passes("auth/scope-from-www-authenticate", ""),
    passes("auth/scope-from-scopes-supported", ""),
    passes("auth/scope-omitted-when-undefined", ""),
    passes("auth/scope-step-up", "test-tool {}"),
    passes("auth/scope-retry-limit", ""),
    passes("auth/token-endpoint-auth-basic", ""),
    passes("auth/token-endpoint-auth-post", ""),
    passes("auth/token-endpoint-auth-none", ""),
    passes("auth/pre-registration", ""),
    fails("auth/2025-03-26-oauth-metadata-backcompat", UNNAMED),
    fails("auth/2025-03-26-oauth-endpoint-fallback", UNNAMED),
    passes("auth/resource-mismatch", ""),
    passes("auth/offline-access-scope", ""),
    passes("auth/offline-access-not-supported", ""),
    fails("auth/client-credentials-jwt", EXTENSION),
    fails("auth/client-credentials-basic", EXTENSION),
    fails(
        "auth/cross-app-access-complete-flow",
        "not offered: an extension for companies' own logins",
    ),
];

#[test]
fn the_official_suite_for_clients_passes_but_for_what_the_documentation_lists() {
    let mode = match Mode::of(LOCK) {
        Ok(mode) => mode,
        Err(reason) => return say(&format!("{reason}\n")),
    };
    if !cfg!(target_arch = "x86_64") {
        return say("NOT RUN: the lock has a Node for x86-64 alone\n");
    }
    let registry = Registry::start(mode, LOCK);
    let suite = Suite::install(&registry);
    let stage = Stage::new(registry.clone());
    let known: Vec<&str> = SCENARIOS.iter().map(|scenario| scenario.name).collect();
    assert_eq!(suite.scenarios(), known, "the suite has other scenarios");

    // For somebody who mends one of them.
    let only = std::env::var("SLUICE_CONFORMANCE").ok();
    let (mut table, mut wrong) = (String::new(), Vec::new());
    for scenario in &SCENARIOS {
        if only.as_deref().is_some_and(|only| only != scenario.name) {
            continue;
        }
        let outcome = suite.judge(&stage, scenario);
        let row = row(scenario, &outcome);
        table += &row;
        if let (Some(_), Err(why)) = (&only, &outcome) {
            table += why;
        }
        match (&outcome, scenario.fails) {
            (Err(why), None) => wrong.push(format!("{}: {why}", scenario.name)),
            (Ok(_), Some(_)) => wrong.push(format!("{} passes now", scenario.name)),
            _ if !DOCUMENT.contains(row.trim_end()) => {
                wrong.push(format!("docs/conformance.md lacks: {row}"));
            }
            _ => {}
        }
    }
    say(&table);
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
    if only.is_none() {
        registry.done(LOCK, "conformance.lock.txt");
    }
}

/// A row of the table in the documentation.
fn row(scenario: &Scenario, outcome: &Result<usize, String>) -> String {
    let said = match (outcome, scenario.fails) {
        (Ok(checks), _) => format!("passed ({checks})"),
        (Err(_), reason) => format!("failed: {}", reason.unwrap_or("unexpectedly")),
    };
    format!("| `{}` | {said} |\n", scenario.name)
}

/// The suite in a folder of its own.
struct Suite {
    folder: tempfile::TempDir,
}

impl Suite {
    fn install(registry: &Registry) -> Self {
        let folder = node::install(registry, &PACKAGES);
        Self { folder }
    }

    /// A command of the suite.
    fn command(&self, words: &[&str]) -> Command {
        let modules = self.folder.path().join("node_modules");
        let mut command = Command::new(node::program(self.folder.path()));
        command
            .arg(modules.join("@modelcontextprotocol/conformance/dist/index.js"))
            .args(words);
        command
    }

    /// The scenarios for clients.
    fn scenarios(&self) -> Vec<String> {
        let output = self.command(&["list", "--client"]).output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        let names = text.lines().filter_map(|line| {
            let name = line.trim_start().strip_prefix("- ")?;
            Some(name.split(' ').next()?.to_owned())
        });
        names.collect()
    }

    /// How many checks a scenario has made, all of them with success; or what it misses.
    fn judge(&self, stage: &Stage, scenario: &Scenario) -> Result<usize, String> {
        let mut outcome = Err(String::new());
        for _ in 0..TRIES {
            outcome = self.play(stage, scenario);
            if outcome.is_ok() || scenario.fails.is_some() {
                break;
            }
        }
        outcome
    }

    fn play(&self, stage: &Stage, scenario: &Scenario) -> Result<usize, String> {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("client.sh"), CLIENT).unwrap();
        let patience = PATIENCE.as_millis().to_string();
        let mut command = self.command(&[
            "client",
            "--command",
            "sh client.sh",
            "--scenario",
            scenario.name,
            "--timeout",
            &patience,
            "--output-dir",
            "results",
        ]);
        let mut suite = Running(
            command
                .current_dir(folder.path())
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .spawn()
                .unwrap(),
        );
        let address = suite.address(&folder.path().join("address"));
        let context = fs::read_to_string(folder.path().join("context")).unwrap();
        let client = serde_json::from_str(&context).unwrap_or_default();
        let (done, shown) = play_client(stage, address.trim(), scenario.job, &client);
        fs::write(folder.path().join("code"), if done { "0" } else { "1" }).unwrap();
        // Some scenarios want the client to give up; the suite knows which.
        let passed = suite.0.wait().unwrap().success();
        let checks = checks(&folder.path().join("results"));
        let of = |status: &str| -> Vec<&Value> {
            let checks = checks.iter();
            checks.filter(|check| check["status"] == status).collect()
        };
        let mut missed = String::new();
        for check in of("FAILURE").iter().chain(&of("WARNING")) {
            let why = check["errorMessage"].as_str().unwrap_or_default();
            writeln!(missed, "{} {}: {why}", check["status"], check["id"]).unwrap();
        }
        match of("SUCCESS").len() {
            count @ 1.. if missed.is_empty() && passed => Ok(count),
            _ => Err(format!("{missed}{shown}")),
        }
    }
}

/// The suite, as it serves a scenario.
struct Running(Child);

impl Running {
    fn address(&mut self, file: &Path) -> String {
        let begun = Instant::now();
        loop {
            if let Ok(address) = fs::read_to_string(file) {
                return address;
            }
            let ended = self.0.try_wait().unwrap();
            assert!(ended.is_none(), "the suite ended: {ended:?}");
            assert!(begun.elapsed() < PATIENCE, "the suite starts no client");
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A person adds the server, logs in if Sluice says so, and asks for the job; whether that went well, and what was shown.
/// The person may have registered a client by hand, and then has its name and its secret.
fn play_client(stage: &Stage, address: &str, job: &str, client: &Client) -> (bool, String) {
    stage.configure("");
    let mut all = String::new();
    let mut sluice = |words: &[&str]| {
        let words: Vec<String> = words.iter().map(|&word| word.to_owned()).collect();
        let (code, shown) = stage.sluice(&words);
        all += &shown;
        (code == Some(0), shown)
    };
    let add = ["app", "add", "far", "--url", address];
    let (mut done, shown) = sluice(&add);
    if !done && shown.contains("sluice app login far") {
        let mut login = vec!["app", "login", "far", "--url", address];
        if let (Some(id), Some(secret)) = (&client.client_id, &client.client_secret) {
            login.extend(["--client-id", id, "--client-secret", "suite"]);
            // Sluice says for which host it has to be set.
            let (_, said) = sluice(&login);
            let host = said.split_once("secret set suite --for ");
            let host = host.and_then(|(_, after)| after.split('`').next());
            stage.keep_secret("suite", host.unwrap_or_default(), secret);
        }
        sluice(&login);
        done = sluice(&add).0;
    }
    if done && !job.is_empty() {
        let run = ["run", "--app", "far", job];
        let (went, shown) = sluice(&run);
        done = went;
        if let Some(scopes) = scopes(&shown) {
            // What Sluice names as missing, a person agrees to once.
            let mut login = vec!["app", "login", "far", "--url", address];
            login.extend(scopes.iter().flat_map(|scope| ["--scope", scope]));
            sluice(&login);
            done = sluice(&run).0;
        }
    }
    (done, all)
}

/// What the suite tells of a client that is registered already.
#[derive(Default, Deserialize)]
struct Client {
    client_id: Option<String>,
    client_secret: Option<String>,
}

/// What a login would have to be for, as Sluice says it.
fn scopes(shown: &str) -> Option<Vec<String>> {
    let (_, after) = shown.split_once("it would have to be for: ")?;
    // Each stands in quotes, which are escaped where the model quotes all of it.
    let words = after.split(['\r', '\n']).next()?.replace('\\', "");
    let mut parts = words.split('"').skip(1);
    let mut scopes = Vec::new();
    while let Some(scope) = parts.next() {
        scopes.push(scope.to_owned());
        if parts.next() != Some(", ") {
            break;
        }
    }
    (!scopes.is_empty()).then_some(scopes)
}

/// What the suite has checked. It makes folders by the parts of a scenario's name.
fn checks(results: &Path) -> Vec<Value> {
    let mut folder: PathBuf = results.to_owned();
    while !folder.join("checks.json").exists() {
        folder = fs::read_dir(&folder)
            .unwrap()
            .next()
            .unwrap()
            .unwrap()
            .path();
    }
    let text = fs::read_to_string(folder.join("checks.json")).unwrap();
    serde_json::from_str(&text).unwrap()
}
