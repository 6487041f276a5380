//! opencode: its settings, and its overlay.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use llm::{ApiKey, Dialect};
use serde_json::{Value, json};

use super::agent::{
    self, Options, Overlay, Own, PATIENCE_MS, Run, SERVER, Upstream, in_home, merge, no_key,
    settings, text, var, written,
};
use super::workspace::is_below;

/// Settings that lead elsewhere or start programs. The others are the user's, and are carried over.
const GUARDED: &str = "mcp plugin provider enabled_providers disabled_providers share autoupdate enterprise server lsp \
    formatter";

pub(super) fn own(args: Vec<String>, workspace: &Path, is_mine: bool) -> Result<Own> {
    let mut config = json!({});
    let (mut files, mut path) = (Vec::new(), None);
    for name in ["config.json", "opencode.json", "opencode.jsonc"] {
        files.extend(in_home(format!(".config/opencode/{name}")));
    }
    files.extend(var("OPENCODE_CONFIG").map(PathBuf::from));
    if is_mine {
        files.extend(["opencode.json", "opencode.jsonc"].map(|name| workspace.join(name)));
    }
    let (mut of_workspace, mut notes) = (Vec::new(), Vec::new());
    for file in files.into_iter().filter(|file| file.is_file()) {
        let mut read = settings(&file)?;
        match read.as_object_mut() {
            // The agent may write it, so it does not say where keys go, and changes no server of the user's.
            Some(read) if is_below(&file, workspace) => {
                if read.remove("provider").is_some() {
                    notes.push(format!(
                        "provider in {} is left out, since the agent may write that file; write it into your own opencode.json",
                        file.display()
                    ));
                }
                let servers = read.remove("mcp");
                of_workspace.extend(servers.map(|it| (file, json!({ "mcp": it }))));
            }
            _ => path = Some(file),
        }
        merge(&mut config, read);
    }
    if let Some(content) = var("OPENCODE_CONFIG_CONTENT") {
        merge(
            &mut config,
            agent::parsed(Path::new("opencode.json"), &content)?,
        );
    }
    let (mut options, mut kept, mut model) = (Options::new(args), Vec::new(), None);
    while let Some((name, value)) = options.next() {
        match &*name {
            "-m" | "--model" => {
                let value = options.value(&name, value)?;
                kept.extend([name, value.clone()]);
                model = Some(value);
            }
            "--attach" => {
                return agent::refused(&name, "leave it out: the server must be guarded as well");
            }
            "--" => {
                kept.push(name);
                break;
            }
            _ => kept.push(written(name, value)),
        }
    }
    kept.extend(options.rest());
    let path = path.unwrap_or_else(|| PathBuf::from("opencode.json"));
    let servers = config.get("mcp").cloned();
    let servers = servers.map(|servers| (path, json!({ "mcp": servers })));
    let provider = provider(&config, model);
    let upstream = provider.and_then(|provider| upstream(&mut config, &provider));
    Ok(Own {
        args: kept,
        writes: Vec::new(),
        upstream,
        servers: servers.into_iter().chain(of_workspace).collect(),
        notes,
        settings: config,
    })
}

/// The provider of the model that is used, or the only one for which there is a key.
fn provider(config: &Value, model: Option<String>) -> Result<String> {
    let model = model.or_else(|| text(config, "/model"));
    if let Some((provider, _)) = model.as_deref().and_then(|model| model.split_once('/')) {
        return Ok(provider.to_owned());
    }
    let usual = [
        ("anthropic", Dialect::Messages),
        ("openai", Dialect::Responses),
    ];
    let mut found = usual.into_iter();
    let found = found.find(|(_, dialect)| var(dialect.usual().key_variable).is_some());
    let found = found.map(|(name, _)| name.to_owned());
    found.ok_or_else(|| {
        no_key(
            "opencode",
            "name a model, as --model anthropic/NAME, and set its key",
        )
    })
}

/// The server of a provider. Its name, its API and its models stay in `config` for the overlay.
fn upstream(config: &mut Value, name: &str) -> Result<Upstream> {
    let own = config
        .get("provider")
        .and_then(|all| all.get(name))
        .cloned();
    let mut own = own.unwrap_or_else(|| json!({}));
    let usual = match name {
        "anthropic" => "@ai-sdk/anthropic",
        "openai" => "@ai-sdk/openai",
        _ => "@ai-sdk/openai-compatible",
    };
    let npm = text(&own, "/npm").unwrap_or_else(|| usual.to_owned());
    let dialect = match &*npm {
        "@ai-sdk/anthropic" => Dialect::Messages,
        "@ai-sdk/openai" => Dialect::Responses,
        _ => Dialect::Chat,
    };
    let base_url = match (text(&own, "/options/baseURL"), name) {
        (Some(url), _) => url,
        (None, "anthropic" | "openai") => dialect.usual().base_url.to_owned(),
        (None, "openrouter") => "https://openrouter.ai/api/v1".to_owned(),
        (None, name) => {
            return Err(no_key(
                "opencode",
                &format!("write provider.{name}.options.baseURL into opencode.json"),
            ));
        }
    };
    let logins = in_home(".local/share/opencode/auth.json").map(|path| settings(&path));
    let logins = logins.transpose()?.unwrap_or_default();
    let login = logins.get(name).and_then(|login| text(login, "/key"));
    let usual = format!("{}_API_KEY", name.to_uppercase().replace('-', "_"));
    let key = text(&own, "/options/apiKey").map(filled).transpose()?;
    let key = key.or(login).or_else(|| var(&usual));
    if let Some(own) = own.as_object_mut() {
        own.insert("npm".to_owned(), npm.into());
        own.remove("options");
    }
    merge(config, json!({ "guarded": { name: own } }));
    Ok(Upstream {
        dialect,
        base_url,
        key: key.map(ApiKey::new),
    })
}

/// A value with the variable that it names.
fn filled(value: String) -> Result<String> {
    match value
        .strip_prefix("{env:")
        .and_then(|it| it.strip_suffix('}'))
    {
        Some(name) => {
            var(name).with_context(|| format!("{name}, which opencode.json names, is not set"))
        }
        None => Ok(value),
    }
}

pub(super) fn overlay(run: &Run<'_>, own: &Own) -> Result<Overlay> {
    let mut config = own.settings.clone();
    let guarded = config.as_object_mut().and_then(|config| {
        GUARDED
            .split_whitespace()
            .for_each(|key| drop(config.remove(key)));
        config.remove("guarded")
    });
    let of_sluice = || {
        let models = json!({ run.model: { "name": run.model } });
        json!({ "sluice": { "npm": "@ai-sdk/openai-compatible", "name": "Sluice", "models": models } })
    };
    if guarded.is_none() {
        merge(
            &mut config,
            json!({ "model": format!("sluice/{}", run.model) }),
        );
    }
    let mut guarded = guarded.unwrap_or_else(of_sluice);
    let names: Vec<String> = guarded
        .as_object()
        .into_iter()
        .flatten()
        .map(|(name, _)| name.clone())
        .collect();
    for name in &names {
        let options =
            json!({ "options": { "baseURL": format!("{}/v1", run.url), "apiKey": run.token } });
        merge(&mut guarded, json!({ name: options }));
    }
    let servers = match run.has_servers {
        true => json!({ SERVER: {
            "type": "remote", "url": format!("{}/mcp", run.url), "timeout": PATIENCE_MS, "oauth": false,
            "headers": { "Authorization": format!("Bearer {}", run.token) },
        } }),
        false => json!({}),
    };
    let fixed = json!({
        "provider": guarded, "enabled_providers": names, "mcp": servers, "share": "disabled", "autoupdate": false,
    });
    merge(&mut config, fixed);
    let mut overlay = Overlay::default();
    overlay.set("OPENCODE_CONFIG_CONTENT", config.to_string());
    for name in [
        "PROJECT_CONFIG",
        "AUTOUPDATE",
        "MODELS_FETCH",
        "LSP_DOWNLOAD",
    ] {
        overlay.set(&format!("OPENCODE_DISABLE_{name}"), "1");
    }
    Ok(overlay)
}
