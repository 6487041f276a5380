//! `sluice trust`: which configurations of working folders count.

use std::path::PathBuf;

use anyhow::{Result, bail};
use clap::Args;
use hub::trace::escape;
use serde_json::json;

use crate::configuration::trust::{Standing, TrustStore};
use crate::configuration::{self};
use crate::exit::Exit;
use crate::json_lines::print_json;
use crate::terminal::{Terminal, print, say};

#[derive(Debug, Args)]
pub(crate) struct Trust {
    /// A sluice.toml, or the folder in which it lies [default: the working folder].
    path: Option<PathBuf>,
    /// List what is trusted.
    #[arg(long, conflicts_with_all = ["path", "revoke"])]
    list: bool,
    /// Trust it no longer.
    #[arg(long)]
    revoke: bool,
    /// With --list: print one configuration per line, as JSON.
    #[arg(long, requires = "list")]
    json: bool,
}

/// Shows what a configuration may do and asks; lists; or revokes.
pub(crate) fn trust(args: &Trust) -> Result<Exit> {
    if args.list {
        return list(args.json);
    }
    let found = configuration::meant(args.path.as_deref())?;
    let shown = escape(&found.path().to_string_lossy());
    // Before the file is looked for: trust in one that is gone is revoked by its path.
    if args.revoke {
        if !TrustStore::of_user()?.revoke(found.path())? {
            bail!("{shown} is not trusted; `sluice trust --list` shows what is");
        }
        say(&format!("{shown} is trusted no longer\n"));
        return Ok(Exit::Done);
    }
    if !found.path().is_file() {
        bail!("there is no {shown}; name a folder with a sluice.toml");
    }
    Ok(match found.ask_for_trust(Terminal::attended())? {
        true => Exit::Done,
        false => Exit::Refused,
    })
}

fn list(as_json: bool) -> Result<Exit> {
    let all = TrustStore::of_user()?.all()?;
    if all.is_empty() && !as_json {
        say(
            "nothing is trusted; `sluice trust` asks about the sluice.toml of the working folder\n",
        );
    }
    for (configuration, trusted, standing) in all {
        if as_json {
            let changed = match &standing {
                Standing::Changed(files) => files.as_slice(),
                Standing::Trusted | Standing::Unknown => &[],
            };
            print_json(&json!({
                "configuration": configuration,
                "since": trusted.since,
                "trusted": standing == Standing::Trusted,
                "changed": changed,
            }))?;
            continue;
        }
        let state = match standing {
            Standing::Trusted => "trusted",
            _ => "CHANGED",
        };
        let path = escape(&configuration.to_string_lossy());
        print(&format!("{state} since {}  {path}", trusted.since))?;
    }
    Ok(Exit::Done)
}
