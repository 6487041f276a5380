//! A notes app as an MCP server over stdio: it lists, searches, reads, writes, appends to and deletes Markdown files.
//!
//! It needs a folder (`NOTES`); a note is a file `NAME.md` directly in it, as many note programs keep them. Folders in
//! the folder are not looked at. Notes hold what was pasted and clipped from anywhere, so names and texts are free text;
//! `sluice-app.toml` labels them so.
//!
//! ```text
//! list_notes   {}           → {"notes":[{"name","modified","bytes"}],"total","skipped"}
//! search_notes {text}       → the same
//! read_note    {name}       → {"name","modified","text","truncated"?}
//! write_note   {name, text} → {"written":true,"replaced"}
//! append_note  {name, text} → {"appended":true}
//! delete_note  {name}       → {"deleted":true}
//! ```

mod notes;
mod server;

use std::env;
use std::process::ExitCode;

fn main() -> ExitCode {
    let notes = notes::Notes::from_vars(|name| env::var(name).ok());
    app_support::tools::serve("sluice-notes", notes.map(server::NotesServer::new))
}
