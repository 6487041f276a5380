//! Codex: its settings, and its overlay.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};
use llm::{ApiKey, Dialect};
use serde_json::{Value, json};

use super::agent::{
    Options, Overlay, Own, PATIENCE_MS, Run, SERVER, TOKEN, Upstream, in_home, merge, no_key,
    refused, settings, text, var, written,
};
use super::home::Folder;
use super::workspace::is_below;

/// The file with the models, in the agent's home.
const CATALOGUE: &str = "sluice-models.json";
/// Settings that the guard answers for. The agent gets none of the user's.
const GUARDED: &str = "model_provider model_providers mcp_servers openai_base_url chatgpt_base_url model_catalog_json \
    analytics otel check_for_update_on_startup notify experimental_realtime_ws_base_url";
/// Settings of the user's file that a new home gets.
const CARRIED: &str = "model model_reasoning_effort model_reasoning_summary model_verbosity personality \
    approval_policy sandbox_mode tui hide_agent_reasoning show_raw_agent_reasoning";

pub(super) fn own(args: Vec<String>, workspace: &Path, is_sandboxed: bool) -> Result<Own> {
    let folder = folder().unwrap_or_default();
    if is_below(&folder, workspace) {
        bail!(
            "CODEX_HOME says where keys go, and the agent may write it in the workspace; move it elsewhere"
        );
    }
    let path = folder.join("config.toml");
    let mut config = settings(&path)?;
    let (mut options, mut kept) = (Options::new(args), Vec::new());
    let (mut writes, mut notes) = (Vec::new(), Vec::new());
    while let Some((name, value)) = options.next() {
        match &*name {
            "-c" | "--config" => {
                let setting = options.value(&name, value)?;
                let (key, value) = setting.split_once('=').unwrap_or((&setting, ""));
                let root = key.trim().split('.').next().unwrap_or_default();
                if GUARDED.split_whitespace().any(|guarded| guarded == root) {
                    merge(&mut config, nested(key.trim(), value.trim())?);
                } else {
                    kept.extend([name, setting]);
                }
            }
            "-o" | "--output-last-message" => {
                let file = options.value(&name, value)?;
                writes.push(PathBuf::from(&file));
                kept.extend([name, file]);
            }
            // Its sandbox does not start in ours.
            "-s" | "--sandbox" if is_sandboxed => {
                let mode = options.value(&name, value)?;
                notes.push(format!(
                    "the sandbox of this run is in the place of --sandbox {mode}: the agent may write the workspace"
                ));
            }
            "--oss" | "--local-provider" | "-p" | "--profile" => {
                return refused(&name, "write -c KEY=VALUE for what it sets");
            }
            "--" => {
                kept.push(name);
                break;
            }
            _ => kept.push(written(name, value)),
        }
    }
    kept.extend(options.rest());
    let servers = config.get("mcp_servers").cloned();
    let servers = servers.map(|servers| (path, json!({ "mcp_servers": servers })));
    Ok(Own {
        args: kept,
        writes,
        upstream: upstream(&config, &folder.join("auth.json")),
        servers: servers.into_iter().collect(),
        notes,
        settings: Value::Null,
    })
}

/// The user's settings of Codex.
fn folder() -> Option<PathBuf> {
    let set = var("CODEX_HOME").map(PathBuf::from);
    set.or_else(|| in_home(".codex"))
}

/// The object that `key=value` of a command line stands for. A value that is no TOML is a text.
fn nested(key: &str, value: &str) -> Result<Value> {
    let read: Result<toml::Table, _> = format!("{key} = {value}").parse();
    let read = read.or_else(|_| format!("{key} = {}", Value::from(value)).parse());
    let table = read.with_context(|| format!("the agent's option -c {key} cannot be read"))?;
    Ok(serde_json::to_value(table)?)
}

fn upstream(config: &Value, logins: &Path) -> Result<Upstream> {
    let of_maker = || Dialect::Responses.usual().base_url.to_owned();
    let name = text(config, "/model_provider").filter(|name| name != "openai");
    if let Some(name) = name {
        let at = format!(
            "/model_providers/{}",
            name.replace('~', "~0").replace('/', "~1")
        );
        let provider = config.pointer(&at);
        let provider = provider.with_context(|| format!("Codex has no model_providers.{name}"))?;
        let base_url = text(provider, "/base_url");
        let base_url =
            base_url.with_context(|| format!("model_providers.{name} of Codex has no base_url"))?;
        let key = match text(provider, "/env_key") {
            Some(variable) => Some(var(&variable).with_context(|| {
                format!("{variable}, which model_providers.{name} of Codex names, is not set")
            })?),
            None => text(provider, "/experimental_bearer_token"),
        };
        return Ok(Upstream {
            // The only API that Codex speaks.
            dialect: Dialect::Responses,
            base_url,
            key: key.map(ApiKey::new),
        });
    }
    let logins = settings(logins)?;
    let key = var("CODEX_API_KEY").or_else(|| var("OPENAI_API_KEY"));
    let Some(key) = key.or_else(|| text(&logins, "/OPENAI_API_KEY")) else {
        if logins.get("tokens").is_some_and(|tokens| !tokens.is_null()) {
            bail!(
                "Codex is logged in with ChatGPT, whose server answers to Codex alone; set OPENAI_API_KEY, or write a \
                 [[provider]] into sluice.toml"
            );
        }
        return Err(no_key("Codex", "set OPENAI_API_KEY"));
    };
    Ok(Upstream {
        dialect: Dialect::Responses,
        base_url: text(config, "/openai_base_url").unwrap_or_else(of_maker),
        key: Some(ApiKey::new(key)),
    })
}

pub(super) fn overlay(run: &Run<'_>) -> Result<Overlay> {
    let (home, own) = (
        run.home.join(".codex"),
        Folder::open(run.home, ".codex".as_ref())?,
    );
    if own.read("config.toml").is_none() {
        let of_user = folder().map(|folder| settings(&folder.join("config.toml")));
        let of_user = of_user.transpose()?.unwrap_or_default();
        let keys = CARRIED.split_whitespace();
        let known = keys.filter_map(|key| Some((key.to_owned(), of_user.get(key)?.clone())));
        let known: toml::Table = serde_json::from_value(Value::Object(known.collect()))?;
        own.write("config.toml", &known.to_string())?;
    }
    own.write(CATALOGUE, &plain_tools(run)?)?;
    let catalogue = home.join(CATALOGUE);
    let provider = json!({
        "name": "Sluice", "base_url": format!("{}/v1", run.url), "wire_api": "responses", "env_key": TOKEN,
        "stream_idle_timeout_ms": PATIENCE_MS,
    });
    let servers = match run.has_servers {
        true => json!({ SERVER: {
            "url": format!("{}/mcp", run.url), "bearer_token_env_var": TOKEN, "tool_timeout_sec": PATIENCE_MS / 1000,
        } }),
        false => json!({}),
    };
    // What a project's own settings start is held by a sandbox alone.
    let trust = match run.is_mine && run.is_sandboxed {
        true => "trusted",
        false => "untrusted",
    };
    let folder = run.workspace.to_string_lossy();
    let mut overlay = Overlay::default();
    let settings = [
        ("model_provider", json!("sluice")),
        ("model_providers.sluice", provider),
        ("model_catalog_json", json!(catalogue)),
        ("mcp_servers", servers),
        ("projects", json!({ &*folder: { "trust_level": trust } })),
        ("analytics.enabled", json!(false)),
        ("check_for_update_on_startup", json!(false)),
        ("otel.metrics_exporter", json!("none")),
    ];
    let mode = ("sandbox_mode", json!("danger-full-access"));
    // The descriptions of a repository's skills stand in the instructions, and may be too short to be known there.
    let no_skills = ("skills.include_instructions", json!(false));
    let settings = settings.into_iter();
    let settings = settings.chain(run.is_sandboxed.then_some(mode));
    for (key, value) in settings.chain((!run.is_mine).then_some(no_skills)) {
        overlay
            .args
            .extend(["-c".to_owned(), format!("{key}={}", inline(&value))]);
    }
    for feature in ["plugins", "remote_plugin", "apps"] {
        overlay
            .args
            .extend(["--disable".to_owned(), feature.to_owned()]);
    }
    overlay.set("CODEX_HOME", home.to_string_lossy());
    Ok(overlay)
}

/// A value as TOML writes it in one line.
fn inline(value: &Value) -> String {
    match value {
        Value::Object(members) => {
            let members = members.iter();
            let members =
                members.map(|(key, value)| format!("{} = {}", Value::from(&**key), inline(value)));
            format!("{{ {} }}", members.collect::<Vec<_>>().join(", "))
        }
        value => value.to_string(),
    }
}

/// The catalogue of the agent's models without code mode, in which the calls of a model's scripts would not be decided on.
fn plain_tools(run: &Run<'_>) -> Result<String> {
    // Outside of the sandbox, so with nothing that the agent's home or the workspace says.
    if is_below(run.program, run.workspace) {
        bail!(
            "Codex is a file of the workspace, which others may have written; install it elsewhere, such as by npm install -g"
        );
    }
    let empty = tempfile::tempdir()?;
    let mut command = Command::new(run.program);
    command
        .args(["debug", "models"])
        .current_dir(&empty)
        .env_clear();
    let folders = var("PATH").unwrap_or_default();
    let folders = std::env::split_paths(&folders).filter(|folder| !is_below(folder, run.workspace));
    command.env("PATH", std::env::join_paths(folders)?);
    command
        .env("HOME", empty.path())
        .env("CODEX_HOME", empty.path());
    let said = command.stdin(Stdio::null()).stderr(Stdio::null()).output();
    let said = said.context("Codex does not list its models")?;
    let mut catalogue: Value =
        serde_json::from_slice(&said.stdout).context("Codex does not list its models")?;
    let models = catalogue.get_mut("models").and_then(Value::as_array_mut);
    for model in models
        .into_iter()
        .flatten()
        .filter_map(Value::as_object_mut)
    {
        // Tools with a grammar, and those that the model has to search for, are none that the proxy passes on.
        model.remove("tool_mode");
        model.remove("apply_patch_tool_type");
        for key in ["use_responses_lite", "supports_search_tool"] {
            model.insert(key.to_owned(), false.into());
        }
        // The other version's tasks are encrypted for the maker's servers.
        model.insert("multi_agent_version".to_owned(), "v1".into());
    }
    Ok(catalogue.to_string())
}
