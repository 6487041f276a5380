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
use crate::provider;
use crate::terminal::{Terminal, say};

#[derive(Debug, Args)]
pub(super) struct Import {
    /// The file of Claude Desktop, Claude Code, Cursor, Gemini, VS Code (JSON) or Codex (TOML).
    file: PathBuf,
    /// Write the apps without a terminal, as --yes does. At a terminal you are asked about each.
    #[arg(long)]
    write: bool,
    #[command(flatten)]
    how: How,
}

/// Adds every server of a file that can be added, and names the others.
pub(super) async fn import(mut args: Import) -> Result<Exit> {
    args.how.yes |= args.write && !Terminal::attended();
    let text = fs::read_to_string(&args.file)
        .with_context(|| format!("{} cannot be read", args.file.display()))?;
    let is_toml = args.file.extension().is_some_and(|kind| kind == "toml");
    let servers = foreign::read(&text, is_toml)
        .with_context(|| format!("{} lists no servers", args.file.display()))?;
    // Once for all servers: the first one added changes the file that was trusted.
    let file = args.how.place.writable()?;
    let (count, mut there, mut left_out) = (servers.len(), Vec::new(), Vec::new());
    for (number, foreign) in servers.into_iter().enumerate() {
        let Foreign {
            wish,
            notes,
            missing,
        } = foreign;
        say(&format!(
            "\nserver {} of {count}: {}\n",
            number + 1,
            wish.name
        ));
        for note in &notes {
            say(&format!("note: {}: {}\n", wish.name, escape(note)));
        }
        let secret = secrets::first(&wish.command);
        let added = if let Some(missing) = missing {
            Err(anyhow!(missing))
        } else if wish.command.is_empty() && wish.url.is_none() {
            Err(anyhow!("it has no command and no url"))
        } else if let Some(at) = secret {
            // `app add` only gives a note, because there the user has typed the command.
            Err(anyhow!(
                "word {} of its command looks like a secret and is not copied; if the server also reads a variable, add it \
                 with `sluice app add`, --env-from NAME and without that word",
                at + 1
            ))
        } else if !args.how.replace && add::is_there(&wish, &file).unwrap_or(false) {
            say(&format!("{} is already installed\n", wish.name));
            Ok(true)
        } else {
            add::one(&wish, &[], &args.how, &file).await
        };
        match added {
            Ok(true) => there.push(wish.name),
            Ok(false) => left_out.push(wish.name),
            Err(error) => {
                say(&format!("{} was not added: {error:#}\n", wish.name));
                left_out.push(wish.name);
            }
        }
    }
    let (is, are_not) = (there.join(", "), left_out.join(", "));
    say(&format!("\nadded {} of {count}: {is}\n", there.len()));
    provider::after_add(&args.how.place.file, args.how.yes).await;
    if left_out.is_empty() {
        return Ok(Exit::Done);
    }
    say(&format!("not added: {are_not}\n"));
    Ok(Exit::Failed)
}
