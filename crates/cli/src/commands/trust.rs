//! `sluice trust`: which configurations of working folders count, and what was said of the workspaces of guarded agents.

use std::path::PathBuf;

use anyhow::{Result, bail};
use clap::Args;
use hub::trace::escape;
use serde_json::json;

use crate::commands::guard::workspace::{self, Known, Whose};
use crate::configuration;
use crate::configuration::trust::{Standing, TrustStore};
use crate::exit::Exit;
use crate::json_lines::show;
use crate::terminal::{Terminal, say};

#[derive(Debug, Args)]
pub(crate) struct Trust {
    /// A sluice.toml or its folder [default: the working folder].
    path: Option<PathBuf>,
    /// List the trusted configurations, and the answers about workspaces of `sluice guard`.
    #[arg(long, conflicts_with_all = ["path", "revoke"])]
    list: bool,
    /// End the trust in the configuration, and forget the answers about the folder.
    #[arg(long)]
    revoke: bool,
    /// With --list: print JSON, one configuration per line.
    #[arg(long, requires = "list")]
    json: bool,
}

/// Shows what a configuration may do and asks whether to trust it; lists; or revokes.
pub(crate) fn trust(args: &Trust) -> Result<Exit> {
    if args.list {
        return list(args.json);
    }
    let found = configuration::meant(args.path.as_deref())?;
    let shown = escape(&found.path().to_string_lossy());
    // The file may be gone: trust is revoked by its path.
    if args.revoke {
        let mut answers = None;
        let folder = found.path().parent().unwrap_or(found.path());
        workspace::known()?.change(|known: &mut Known| answers = known.remove(folder))?;
        if !TrustStore::of_user()?.revoke(found.path())? && answers.is_none() {
            bail!("{shown} is not trusted; list what is with `sluice trust --list`");
        }
        say(&format!("{shown} is no longer trusted\n"));
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
    let known: Known = workspace::known()?.read()?;
    if all.is_empty() && known.is_empty() && !as_json {
        say("nothing is trusted; review the sluice.toml of this folder with `sluice trust`\n");
    }
    for (configuration, trusted, standing) in all {
        let (state, changed) = match &standing {
            Standing::Trusted => ("trusted", &[][..]),
            Standing::Changed(files) => ("CHANGED", files.as_slice()),
            Standing::Unknown => ("CHANGED", &[][..]),
        };
        let value = json!({
            "configuration": configuration,
            "since": trusted.since,
            "trusted": standing == Standing::Trusted,
            "changed": changed,
        });
        let text = format!(
            "{state} since {}  {}",
            trusted.since,
            configuration.display()
        );
        show(as_json, &value, &text)?;
    }
    for (folder, answers) in known {
        let value =
            json!({ "workspace": folder, "whose": answers.whose, "domains": answers.domains });
        let whose = match answers.whose {
            Some(Whose::Mine) => "mine",
            Some(Whose::Stranger) => "a stranger's",
            None => "not said",
        };
        let mut text = format!("workspace {}: {whose}", folder.display());
        for (name, may) in &answers.domains {
            let may = if *may { "connects" } else { "does not connect" };
            text += &format!("; {may} to {name}");
        }
        show(as_json, &value, &text)?;
    }
    Ok(Exit::Done)
}
