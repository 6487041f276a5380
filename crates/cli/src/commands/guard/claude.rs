//! Claude Code: its settings, and its overlay.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use llm::{ApiKey, Dialect};
use serde_json::{Value, json};

use super::agent::{
    self, Options, Overlay, Own, PATIENCE_MS, Run, SERVER, TOKEN, Upstream, in_home, merge, no_key,
    refused, settings, text, var, written,
};
use super::home::Folder;

/// Variables of the user's that say which models are used, and how.
const CARRIED: &str = "ANTHROPIC_MODEL ANTHROPIC_SMALL_FAST_MODEL ANTHROPIC_DEFAULT_OPUS_MODEL \
    ANTHROPIC_DEFAULT_SONNET_MODEL ANTHROPIC_DEFAULT_HAIKU_MODEL CLAUDE_CODE_SUBAGENT_MODEL MAX_THINKING_TOKENS \
    MAX_MCP_OUTPUT_TOKENS CLAUDE_CODE_MAX_OUTPUT_TOKENS ENABLE_TOOL_SEARCH BASH_DEFAULT_TIMEOUT_MS IS_SANDBOX";

pub(super) fn own(args: Vec<String>, workspace: &Path, is_mine: bool) -> Result<Own> {
    let mut own = Own {
        args: Vec::new(),
        writes: Vec::new(),
        upstream: upstream(),
        servers: Vec::new(),
        notes: Vec::new(),
        settings: json!({}),
    };
    let (mut options, mut is_strict) = (Options::new(args), false);
    while let Some((name, value)) = options.next() {
        match &*name {
            "--mcp-config" => {
                for value in options.values(value) {
                    own.servers.push(match value.trim_start().starts_with('{') {
                        true => {
                            let here = Path::new("mcp.json");
                            (here.to_owned(), agent::parsed(here, &value)?)
                        }
                        false => (PathBuf::from(&value), settings(Path::new(&value))?),
                    });
                }
            }
            "--strict-mcp-config" => is_strict = true,
            "--setting-sources" => {
                options.value(&name, value)?;
                let note = "--setting-sources is the guard's to say, and was left out";
                own.notes.push(note.to_owned());
            }
            "--settings" => {
                let value = options.value(&name, value)?;
                let read = match value.trim_start().starts_with('{') {
                    true => agent::parsed(Path::new("settings.json"), &value)?,
                    false => settings(Path::new(&value))?,
                };
                for key in ["env", "apiKeyHelper"] {
                    if read.get(key).is_some() {
                        let help = "use `sluice guard --env NAME=VALUE`";
                        return refused(&format!("--settings with {key}"), help);
                    }
                }
                merge(&mut own.settings, read);
            }
            "--" => {
                own.args.push(name);
                break;
            }
            _ => own.args.push(written(name, value)),
        }
    }
    own.args.extend(options.rest());
    if !is_strict {
        own.servers.extend(servers(workspace, is_mine)?);
    }
    Ok(own)
}

/// The servers of the user's file: those for all folders and those for this one; and those of a workspace that is the user's.
fn servers(workspace: &Path, is_mine: bool) -> Result<Vec<(PathBuf, Value)>> {
    let mut all = Vec::new();
    if let Some(path) = in_home(".claude.json") {
        let file = settings(&path)?;
        let projects = file.get("projects");
        let here = projects.and_then(|all| all.get(&*workspace.to_string_lossy()));
        for part in [Some(&file), here].into_iter().flatten() {
            if let Some(servers) = part.get("mcpServers").filter(|it| it.is_object()) {
                all.push((path.clone(), json!({ "mcpServers": servers })));
            }
        }
    }
    let shared = workspace.join(".mcp.json");
    if is_mine && shared.is_file() {
        let file = settings(&shared)?;
        all.push((shared, file));
    }
    Ok(all)
}

fn upstream() -> Result<Upstream> {
    let own = in_home(".claude/settings.json").map(|path| settings(&path));
    let own = own.transpose()?.unwrap_or_default();
    let var = |name: &str| var(name).or_else(|| text(&own, &format!("/env/{name}")));
    for cloud in ["BEDROCK", "VERTEX", "FOUNDRY"] {
        if var(&format!("CLAUDE_CODE_USE_{cloud}")).is_some() {
            bail!(
                "CLAUDE_CODE_USE_{cloud} is set, and Sluice speaks to no such server; unset it and set ANTHROPIC_API_KEY"
            );
        }
    }
    let usual = Dialect::Messages.usual();
    let key = match (var("ANTHROPIC_API_KEY"), var("ANTHROPIC_AUTH_TOKEN")) {
        (Some(key), _) => ApiKey::new(key),
        (None, Some(token)) => ApiKey::bearer(token),
        (None, None) => login(&var)?,
    };
    Ok(Upstream {
        dialect: Dialect::Messages,
        base_url: var(usual.url_variable).unwrap_or_else(|| usual.base_url.to_owned()),
        key: Some(key),
    })
}

/// The login of Claude Code itself.
fn login(var: &dyn Fn(&str) -> Option<String>) -> Result<ApiKey> {
    if let Some(token) = var("CLAUDE_CODE_OAUTH_TOKEN") {
        return Ok(ApiKey::bearer(token));
    }
    let read = |path| in_home(path).map_or(Ok(Value::Null), |path| settings(&path));
    let login = read(".claude/.credentials.json")?;
    if let Some(token) = text(&login, "/claudeAiOauth/accessToken") {
        let until = login.pointer("/claudeAiOauth/expiresAt");
        let until = until.and_then(Value::as_i64).unwrap_or(i64::MAX);
        if until < jiff::Timestamp::now().as_millisecond() {
            bail!(
                "the login of Claude Code is over; start `claude` once without Sluice to renew it"
            );
        }
        return Ok(ApiKey::bearer(token));
    }
    let key = text(&read(".claude.json")?, "/primaryApiKey").map(ApiKey::new);
    key.ok_or_else(|| {
        no_key(
            "Claude Code",
            "set ANTHROPIC_API_KEY, or log in with `claude`",
        )
    })
}

pub(super) fn overlay(run: &Run<'_>, own: &Own) -> Result<Overlay> {
    seed(run).context("the home of Claude Code cannot be prepared")?;
    let mut overlay = Overlay::default();
    for name in CARRIED.split_whitespace() {
        if let Some(value) = var(name) {
            overlay.set(name, value);
        }
    }
    overlay.set("ANTHROPIC_BASE_URL", run.url);
    overlay.set("ANTHROPIC_AUTH_TOKEN", run.token);
    for name in [
        // What it keeps between runs would come back as the user's.
        "CLAUDE_CODE_DISABLE_AUTO_MEMORY",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC",
        "CLAUDE_CODE_DISABLE_OFFICIAL_MARKETPLACE_AUTOINSTALL",
        "CLAUDE_CODE_PROVIDER_MANAGED_BY_HOST",
        "DISABLE_AUTOUPDATER",
    ] {
        overlay.set(name, "1");
    }
    for name in [
        "API_TIMEOUT_MS",
        "CLAUDE_STREAM_IDLE_TIMEOUT_MS",
        "CLAUDE_BYTE_STREAM_IDLE_TIMEOUT_MS",
        "CLAUDE_CODE_MCP_TOOL_IDLE_TIMEOUT",
        "MCP_TOOL_TIMEOUT",
    ] {
        overlay.set(name, PATIENCE_MS.to_string());
    }
    if run.is_sandboxed {
        overlay.set("IS_SANDBOX", "1");
    }
    if !run.is_mine {
        // Messages of commits would stand in the instructions, which are trusted.
        overlay.set("CLAUDE_CODE_DISABLE_GIT_INSTRUCTIONS", "1");
    }
    let mut settings = own.settings.clone();
    let fixed = json!({
        // The fetch of a page goes through the door of the sandbox, and not by the maker's list of domains.
        "skipWebFetchPreflight": true,
        "env": { "ANTHROPIC_BASE_URL": run.url },
    });
    merge(&mut settings, fixed);
    let servers = match run.has_servers {
        true => json!({ SERVER: {
            "type": "http", "url": format!("{}/mcp", run.url), "timeout": PATIENCE_MS,
            "headers": { "Authorization": format!("Bearer ${{{TOKEN}}}") },
        } }),
        false => json!({}),
    };
    // Settings of a project could start programs, which only a sandbox holds.
    let sources = match run.is_mine && run.is_sandboxed {
        true => "user,project,local",
        false => "user",
    };
    overlay.args = [
        "--mcp-config",
        &json!({ "mcpServers": servers }).to_string(),
        "--strict-mcp-config",
        "--setting-sources",
        sources,
        "--settings",
        &settings.to_string(),
    ]
    .map(str::to_owned)
    .into();
    Ok(overlay)
}

/// What its first start would ask for.
fn seed(run: &Run<'_>) -> Result<()> {
    let (home, name) = (Folder::open(run.home, "".as_ref())?, ".claude.json");
    // The file is the agent's; one that cannot be read is written anew.
    let own = home.read(name);
    let own = own.and_then(|own| serde_json::from_str(&own).ok());
    let mut file = own.filter(Value::is_object).unwrap_or_else(|| json!({}));
    let of_user = in_home(".claude.json").map(|path| settings(&path));
    let theme = of_user.transpose()?.and_then(|it| text(&it, "/theme"));
    let known = json!({
        "hasCompletedOnboarding": true,
        "theme": theme.unwrap_or_else(|| "dark".to_owned()),
        "projects": { &*run.workspace.to_string_lossy(): { "hasTrustDialogAccepted": true } },
    });
    merge(&mut file, known);
    home.write(name, &file.to_string())
}
