//! The entries that Sluice writes, in the words of each client.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use serde_json::{Map, Value, json};

use crate::Client;

/// Seconds that a client waits for a call, since a person may have to answer a question about it.
const CALL_S: u64 = 1_200;
/// Seconds that Codex waits for the start.
const START_S: u64 = 60;

/// What the entry of a gateway starts.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Gateway {
    /// The path of Sluice's program.
    pub program: String,
    /// Its arguments.
    pub arguments: Vec<String>,
    /// Variables with their values, in the client's own notation.
    pub env: BTreeMap<String, String>,
    /// Variables of the user's environment that it needs.
    pub variables: BTreeSet<String>,
}

/// The entry of a gateway. The variables of the entry that it replaces stay.
#[must_use]
pub fn gateway(client: &Client, gateway: &Gateway, before: Option<&Value>) -> Value {
    let Gateway {
        program,
        arguments,
        env: own,
        variables,
    } = gateway;
    let mut entry = json!({ "command": program, "args": arguments });
    let of_before = |keys: [&str; 3]| keys.into_iter().find_map(|key| before?.get(key)).cloned();
    let env_before = of_before(["env", "environment", "envs"]);
    let mut env = env_before
        .and_then(|it| it.as_object().cloned())
        .unwrap_or_default();
    let mut more = Vec::new();
    let (mut kind, mut env_key) = (None, "env");
    match client.id {
        "claude-code" | "vscode" => kind = Some("stdio"),
        "codex" => {
            // Codex passes few variables on, and those that are named.
            let names = of_before(["env_vars"; 3]);
            let names = names.iter().filter_map(Value::as_array).flatten();
            let names = names.filter_map(Value::as_str).map(str::to_owned);
            let names: BTreeSet<String> = names.chain(variables.clone()).collect();
            if !names.is_empty() {
                more.push(("env_vars", json!(names)));
            }
            more.extend([
                ("startup_timeout_sec", json!(START_S)),
                ("tool_timeout_sec", json!(CALL_S)),
            ]);
        }
        "gemini-cli" => {
            // Gemini removes variables whose names look like those of secrets, unless they are named.
            env.extend(
                variables
                    .iter()
                    .map(|name| (name.clone(), json!(format!("${name}")))),
            );
            more.push(("timeout", json!(CALL_S * 1_000)));
        }
        "opencode" => {
            let command = [program].into_iter().chain(arguments);
            entry = json!({ "command": command.collect::<Vec<_>>() });
            (kind, env_key) = (Some("local"), "environment");
            more.push(("timeout", json!(CALL_S * 1_000)));
        }
        "goose" => {
            entry = json!({ "name": "sluice", "enabled": true, "cmd": program, "args": arguments });
            (kind, env_key) = (Some("stdio"), "envs");
            more.push(("timeout", json!(CALL_S)));
        }
        _ => {}
    }
    env.extend(own.iter().map(|(name, value)| (name.clone(), json!(value))));
    if !env.is_empty() {
        more.insert(0, (env_key, Value::Object(env)));
    }
    let kind = kind.map(|kind| ("type".to_owned(), json!(kind)));
    let entry = entry.as_object().cloned().unwrap_or_default();
    let more = more.into_iter().map(|(key, value)| (key.to_owned(), value));
    kind.into_iter().chain(entry).chain(more).collect()
}

/// The members of a server's entry that change so that it runs in `sluice wrap`, and its name for that. `None` for a server
/// without a command.
#[must_use]
pub fn wrapped(program: &str, name: &str, entry: &Value) -> Option<Vec<(String, Value)>> {
    let (key, command) = command(entry)?;
    let keep = |c: char| {
        if c.is_ascii_alphanumeric() || c == '-' {
            c
        } else {
            '-'
        }
    };
    let name: String = name.chars().map(keep).collect();
    let mut all = vec![
        "wrap".to_owned(),
        "--name".to_owned(),
        name,
        "--yes".to_owned(),
    ];
    let own = ["env", "environment", "envs"]
        .into_iter()
        .filter_map(|key| entry.get(key)?.as_object());
    for variable in own.flat_map(Map::keys) {
        all.extend(["--env-from".to_owned(), variable.clone()]);
    }
    let listed = ["env_vars", "env_keys"]
        .into_iter()
        .filter_map(|key| entry.get(key)?.as_array());
    for variable in listed.flatten() {
        let variable = variable.get("name").unwrap_or(variable).as_str();
        all.extend(
            variable
                .into_iter()
                .flat_map(|it| ["--env-from".to_owned(), it.to_owned()]),
        );
    }
    all.push("--".to_owned());
    all.extend(command);
    match entry.get(key)? {
        Value::Array(_) => {
            let line: Vec<_> = [program.to_owned()].into_iter().chain(all).collect();
            Some(vec![(key.to_owned(), json!(line))])
        }
        _ => Some(vec![
            (key.to_owned(), json!(program)),
            ("args".to_owned(), json!(all)),
        ]),
    }
}

/// Whether an entry starts Sluice, as its gateway or around a server.
#[must_use]
pub fn is_ours(entry: &Value) -> bool {
    let Some((_, words)) = command(entry) else {
        return false;
    };
    let mut words = words.iter();
    let program = words.next().map(Path::new).and_then(Path::file_name);
    let is_front = words
        .next()
        .is_some_and(|word| word == "gateway" || word == "wrap");
    program.is_some_and(|name| name == "sluice") && is_front
}

/// The apps to which the entry of a gateway is limited; `None` if it offers all, or is no such entry.
#[must_use]
pub fn gateway_apps(entry: &Value) -> Option<BTreeSet<String>> {
    let (_, words) = command(entry)?;
    let apps = words.iter().zip(words.iter().skip(1));
    let apps: BTreeSet<_> = apps
        .filter(|(option, _)| *option == "--app")
        .map(|(_, app)| app.clone())
        .collect();
    (!apps.is_empty()).then_some(apps)
}

/// The key of the command, and its words.
fn command(entry: &Value) -> Option<(&'static str, Vec<String>)> {
    let key = ["command", "cmd"]
        .into_iter()
        .find(|key| entry.get(key).is_some())?;
    let words = |value: &Value| -> Option<Vec<String>> {
        let words = value
            .as_array()?
            .iter()
            .map(|word| word.as_str().map(str::to_owned));
        words.collect()
    };
    let mut all = match entry.get(key)? {
        Value::String(program) => vec![program.clone()],
        list => words(list)?,
    };
    if let Some(arguments) = entry.get("args") {
        all.extend(words(arguments)?);
    }
    (!all.is_empty()).then_some((key, all))
}
