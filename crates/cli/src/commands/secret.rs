//! `sluice secret`: values for headers of remote apps, which stand in no file of configuration.

use std::io::{IsTerminal, Read};

use anyhow::{Result, anyhow, bail};
use clap::{Args, Subcommand};
use hub::trace::escape;
use names::Origin;
use serde_json::json;

use crate::exit::Exit;
use crate::json_lines::print_json;
use crate::secrets::{Secrets, Value};
use crate::terminal::{Hidden, print, read_hidden, say};

/// Longest input that is read for a value.
const MAX_INPUT: u64 = 64 << 10;

#[derive(Debug, Args)]
pub(crate) struct Secret {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Keep a secret. Its value is typed, or comes from standard input.
    #[command(
        after_help = "Example:\n  sluice secret set github --for https://api.githubcopilot.com\n  pass show github | sluice secret set github --for https://api.githubcopilot.com\n\n\
                      In sluice.toml: headers = { Authorization = \"Bearer secret:github\" }"
    )]
    Set {
        /// What it is called in a configuration.
        name: String,
        /// The only server that it is sent to.
        #[arg(long = "for", value_name = "URL")]
        server: String,
    },
    /// The names of the secrets, and which server each is for.
    #[command(after_help = "Example:\n  sluice secret list --json")]
    List {
        /// One secret per line, as JSON.
        #[arg(long)]
        json: bool,
    },
    /// Forget a secret.
    #[command(after_help = "Example:\n  sluice secret remove github")]
    Remove {
        /// The secret.
        name: String,
    },
}

/// Does what the subcommand says.
pub(crate) fn secret(args: &Secret) -> Result<Exit> {
    match &args.action {
        Action::Set { name, server } => set(name, server),
        Action::List { json } => list(*json),
        Action::Remove { name } => remove(name),
    }
}

fn set(name: &str, server: &str) -> Result<Exit> {
    if !config::is_secret_name(name) {
        bail!("a name has at most 64 letters, digits, '-' and '_'");
    }
    let origin = Origin::new(server).map_err(|error| anyhow!("--for: {error}"))?;
    let value = match std::io::stdin().is_terminal() {
        true => match read_hidden(&format!("The value of {name}, which is not shown: ")) {
            Hidden::Line(line) => line,
            Hidden::End => bail!("nothing was typed, and nothing was kept"),
            Hidden::Interrupted => {
                say("nothing was kept\n");
                return Ok(Exit::Interrupted);
            }
        },
        false => piped()?,
    };
    Secrets::of_user()?.set(name, &origin, Value::new(value)?)?;
    say(&format!(
        "kept; {name} is sent to {origin} and nowhere else\n"
    ));
    Ok(Exit::Done)
}

/// What was piped in, without the line's end.
fn piped() -> Result<String> {
    let mut text = String::new();
    // What is cut off here is longer than any value may be, so no half of a secret is kept.
    std::io::stdin()
        .take(MAX_INPUT)
        .read_to_string(&mut text)
        .map_err(|_| anyhow!("the value is no text; nothing was kept"))?;
    // One line end, as `echo` and password managers write it.
    let line = text.strip_suffix('\n').unwrap_or(&text);
    Ok(line.strip_suffix('\r').unwrap_or(line).to_owned())
}

fn list(json: bool) -> Result<Exit> {
    let secrets = Secrets::of_user()?.all()?;
    if secrets.is_empty() && !json {
        say("there are no secrets; `sluice secret set NAME --for URL` keeps one\n");
    }
    for (name, secret) in &secrets {
        match json {
            true => {
                print_json(&json!({ "name": name, "for": secret.origin, "since": secret.since }))?
            }
            false => print(&format!(
                "{name:<20} {}  since {}",
                escape(&secret.origin),
                escape(&secret.since)
            ))?,
        }
    }
    Ok(Exit::Done)
}

fn remove(name: &str) -> Result<Exit> {
    if !Secrets::of_user()?.remove(name)? {
        bail!(
            "there is no secret '{}'; `sluice secret list` shows those that there are",
            escape(name)
        );
    }
    say("forgotten\n");
    Ok(Exit::Done)
}
