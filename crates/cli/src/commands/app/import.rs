//! `sluice app import`: the servers of another program's file, added one after the other.

use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result, anyhow};
use clap::Args;
use hub::trace::escape;

use super::add::{self, How};
use super::foreign::{self, Foreign};
use super::secrets;
use crate::exit::Exit;
use crate::terminal::say;

#[derive(Debug, Args)]
pub(super) struct Import {
    /// The file of Claude Desktop, Claude Code, Cursor, Gemini, VS Code (JSON) or Codex (TOML).
    file: PathBuf,
    #[command(flatten)]
    how: How,
}

/// Adds every server of a file that can be added, and names the others.
pub(super) async fn import(args: Import) -> Result<Exit> {
    let text = fs::read_to_string(&args.file)
        .with_context(|| format!("{} cannot be read", args.file.display()))?;
    let is_toml = args.file.extension().is_some_and(|kind| kind == "toml");
    let servers = foreign::read(&text, is_toml)
        .with_context(|| format!("{} lists no servers", args.file.display()))?;
    // Once for all servers: the first one added changes the file that was trusted.
    let file = args.how.place.writable_file()?;
    let mut left_out = Vec::new();
    for Foreign { wish, notes } in servers {
        for note in &notes {
            say(&format!("note: {}: {}\n", wish.name, escape(note)));
        }
        let secret = secrets::first(&wish.command);
        let added = if wish.command.is_empty() && wish.url.is_none() {
            Err(anyhow!("it has no command and no url"))
        } else if let Some(at) = secret {
            // `app add` only gives a note, because there the user has typed the command.
            Err(anyhow!(
                "word {} of its command looks like a secret and is not copied; if the server also reads a variable, add it \
                 with `sluice app add`, --env-from NAME and without that word",
                at + 1
            ))
        } else {
            add::one(&wish, &[], &args.how, &file).await
        };
        match added {
            Ok(true) => {}
            Ok(false) => left_out.push(wish.name),
            Err(error) => {
                say(&format!("{} was not added: {error:#}\n", wish.name));
                left_out.push(wish.name);
            }
        }
    }
    if left_out.is_empty() {
        return Ok(Exit::Done);
    }
    say(&format!("not added: {}\n", left_out.join(", ")));
    Ok(Exit::Failed)
}
