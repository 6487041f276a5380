//! `sluice secret`: values for headers of remote apps, which stand in no file of configuration.

use std::io::{IsTerminal, Read};

use anyhow::{Result, anyhow, bail};
use clap::{Args, Subcommand};
use hub::trace::escape;
use names::Origin;
use serde_json::json;

use crate::exit::Exit;
use crate::json_lines::show;
use crate::secrets::{Secrets, Value};
use crate::terminal::{Hidden, read_hidden, say};

/// Longest input that is read for a value.
const MAX_INPUT: u64 = 64 << 10;

#[derive(Debug, Args)]
pub(crate) struct Secret {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Save a secret, whose value is typed or read from standard input.
    #[command(
        after_help = "Example:\n  sluice secret set github --for https://api.githubcopilot.com\n  pass show github | sluice secret set github --for https://api.githubcopilot.com\n\n\
                      In sluice.toml: headers = { Authorization = \"Bearer secret:github\" }"
    )]
    Set {
        /// The name of the secret in a configuration: at most 64 letters, digits, '-' and '_'.
        name: String,
        /// The only server that the secret is sent to.
        #[arg(long = "for", value_name = "URL")]
        server: String,
    },
    /// List the names of the secrets and their servers.
    #[command(after_help = "Example:\n  sluice secret list --json")]
    List {
        /// Print JSON, one secret per line.
        #[arg(long)]
        json: bool,
    },
    /// Delete a secret.
    #[command(after_help = "Example:\n  sluice secret remove github")]
    Remove {
        /// The name of the secret.
        name: String,
    },
}

/// Sets, lists or removes secrets.
pub(crate) fn secret(args: &Secret) -> Result<Exit> {
    match &args.action {
        Action::Set { name, server } => set(name, server),
        Action::List { json } => list(*json),
        Action::Remove { name } => remove(name),
    }
}

fn set(name: &str, server: &str) -> Result<Exit> {
    if !config::is_secret_name(name) {
        bail!("the name of a secret has at most 64 letters, digits, '-' and '_'");
    }
    let origin = Origin::new(server).map_err(|error| anyhow!("--for: {error}"))?;
    let value = match std::io::stdin().is_terminal() {
        true => match read_hidden(&format!("Value of {name} (not shown): ")) {
            Hidden::Line(line) => line,
            Hidden::End => bail!("no value was typed; nothing was saved"),
            Hidden::Interrupted => {
                say("Cancelled; nothing was saved.\n");
                return Ok(Exit::Interrupted);
            }
        },
        false => piped()?,
    };
    Secrets::of_user()?.set(name, &origin, Value::new(value)?)?;
    say(&format!(
        "saved; {name} is sent to {origin} and nowhere else\n"
    ));
    Ok(Exit::Done)
}

/// Standard input, without the end of the line.
fn piped() -> Result<String> {
    let mut text = String::new();
    // Longer than any value may be, so a value that is cut off here is refused.
    std::io::stdin()
        .take(MAX_INPUT)
        .read_to_string(&mut text)
        .map_err(|_| anyhow!("the value is not UTF-8 text; nothing was saved"))?;
    // One line end, as `echo` and password managers write it.
    let line = text.strip_suffix('\n').unwrap_or(&text);
    Ok(line.strip_suffix('\r').unwrap_or(line).to_owned())
}

fn list(json: bool) -> Result<Exit> {
    let secrets = Secrets::of_user()?.all()?;
    if secrets.is_empty() && !json {
        say("there are no secrets; save one with `sluice secret set NAME --for URL`\n");
    }
    for (name, secret) in &secrets {
        let value = json!({ "name": name, "for": secret.origin, "since": secret.since });
        let text = format!("{name:<20} {}  since {}", secret.origin, secret.since);
        show(json, &value, &text)?;
    }
    Ok(Exit::Done)
}

fn remove(name: &str) -> Result<Exit> {
    if !Secrets::of_user()?.remove(name)? {
        bail!(
            "there is no secret '{}'; list them with `sluice secret list`",
            escape(name)
        );
    }
    say("removed\n");
    Ok(Exit::Done)
}
