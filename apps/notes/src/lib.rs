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

mod error;
mod notes;
mod server;

pub use error::NotesError;
pub use notes::{Appended, Deleted, Listing, Note, Notes, Summary, Written};
pub use server::NotesServer;

/// The app's manifest: what a hub may believe about its results, and what its calls may do.
pub const MANIFEST: &str = include_str!("../sluice-app.toml");
