//! `sluice app import`: the servers of another program's file, added one after the other.

use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result};
use clap::Args;
use hub::trace::escape;

use super::add::{self, How};
use super::block::Wish;
use super::foreign::{self, Foreign};
use super::secrets;
use crate::exit::Exit;
use crate::terminal::say;

#[derive(Debug, Args)]
pub(super) struct Import {
    /// The file: of Claude Desktop, Claude Code, Cursor, Gemini, VS Code (JSON) or Codex (TOML).
    file: PathBuf,
    #[command(flatten)]
    how: How,
}

/// Adds every server of a file that can be added, and says what became of each.
pub(super) async fn import(args: Import) -> Result<Exit> {
    let text = fs::read_to_string(&args.file)
        .with_context(|| format!("{} cannot be read", args.file.display()))?;
    let is_toml = args.file.extension().is_some_and(|kind| kind == "toml");
    let servers = foreign::read(&text, is_toml)
        .with_context(|| format!("{} is no list of servers", args.file.display()))?;
    // Once for all of them: with the first that is added it is another file than the one that was trusted.
    let file = args.how.place.file()?;
    let mut left_out = Vec::new();
    for Foreign {
        name,
        command,
        url,
        headers,
        env,
        env_from,
        notes,
    } in servers
    {
        for note in &notes {
            say(&format!("note: {name}: {}\n", escape(note)));
        }
        let wish = Wish {
            name,
            command,
            url,
            headers,
            env,
            env_from,
        };
        let added = match (
            wish.command.is_empty() && wish.url.is_none(),
            secrets::first(&wish.command),
        ) {
            (true, _) => Err(anyhow::anyhow!("it has no command and no url")),
            // A refusal, where `app add` only gives a note: nobody has typed this command, so the secret would be
            // copied unseen.
            (false, Some(at)) => Err(anyhow::anyhow!(
                "word {} of its command looks like a secret, and secrets are not copied; if the server also reads a variable, add \
                 it by hand with --env-from NAME and without that word",
                at + 1
            )),
            (false, None) => add::one(&wish, &[], &args.how, &file).await,
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
