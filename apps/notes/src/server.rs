//! The tools over MCP.

use std::sync::Arc;

use app_support::tools::{answer, info};
use rmcp::handler::server::wrapper::Parameters;
use rmcp::model::{CallToolResult, ServerConfig};
use rmcp::schemars::{self, JsonSchema};
use rmcp::{ServerHandler, tool, tool_handler, tool_router};
use serde::Deserialize;

use crate::notes::Notes;

#[derive(Clone, Debug)]
pub(crate) struct NotesServer {
    notes: Arc<Notes>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ListNotes {}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct SearchNotes {
    /// Words to look for.
    text: String,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct NoteName {
    /// The name of the note, like "Shopping".
    name: String,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct NoteText {
    /// The name of the note, like "Shopping".
    name: String,
    /// Markdown.
    text: String,
}

#[tool_router]
impl NotesServer {
    pub(crate) fn new(notes: Notes) -> NotesServer {
        NotesServer {
            notes: Arc::new(notes),
        }
    }

    #[tool(
        description = "List the user's notes, the last changed first.",
        annotations(read_only_hint = true, open_world_hint = false)
    )]
    async fn list_notes(&self, Parameters(ListNotes {}): Parameters<ListNotes>) -> CallToolResult {
        answer(&self.notes, Notes::list).await
    }

    #[tool(
        description = "Find notes that contain all the given words in name or text, the last changed first.",
        annotations(read_only_hint = true, open_world_hint = false)
    )]
    async fn search_notes(&self, Parameters(call): Parameters<SearchNotes>) -> CallToolResult {
        answer(&self.notes, move |notes| notes.search(&call.text)).await
    }

    #[tool(
        description = "Read one note.",
        annotations(read_only_hint = true, open_world_hint = false)
    )]
    async fn read_note(&self, Parameters(call): Parameters<NoteName>) -> CallToolResult {
        answer(&self.notes, move |notes| notes.read(&call.name)).await
    }

    #[tool(
        description = "Write a whole note. The text of a note that has this name already is lost.",
        annotations(
            destructive_hint = true,
            idempotent_hint = true,
            open_world_hint = false
        )
    )]
    async fn write_note(&self, Parameters(call): Parameters<NoteText>) -> CallToolResult {
        answer(&self.notes, move |notes| {
            notes.write(&call.name, &call.text)
        })
        .await
    }

    #[tool(
        description = "Add text at the end of a note that exists.",
        annotations(destructive_hint = false, open_world_hint = false)
    )]
    async fn append_note(&self, Parameters(call): Parameters<NoteText>) -> CallToolResult {
        answer(&self.notes, move |notes| {
            notes.append(&call.name, &call.text)
        })
        .await
    }

    #[tool(
        description = "Delete one note for ever. This cannot be undone.",
        annotations(destructive_hint = true, open_world_hint = false)
    )]
    async fn delete_note(&self, Parameters(call): Parameters<NoteName>) -> CallToolResult {
        answer(&self.notes, move |notes| notes.delete(&call.name)).await
    }
}

#[tool_handler]
impl ServerHandler for NotesServer {
    fn get_info(&self) -> ServerConfig {
        info("sluice-notes")
    }
}
