//! The tools over MCP.

use std::sync::Arc;

use app_support::tools::answer;
use rmcp::handler::server::wrapper::Parameters;
use rmcp::model::{CallToolResult, ErrorData, Implementation, ServerCapabilities, ServerConfig};
use rmcp::schemars::{self, JsonSchema};
use rmcp::{ServerHandler, tool, tool_handler, tool_router};
use serde::{Deserialize, Serialize};

use crate::notes::{Notes, NotesError};

/// The MCP server around [`Notes`].
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
    /// A server for these notes.
    pub(crate) fn new(notes: Notes) -> NotesServer {
        NotesServer {
            notes: Arc::new(notes),
        }
    }

    #[tool(
        description = "List the user's notes, the last changed first.",
        annotations(read_only_hint = true, open_world_hint = false)
    )]
    async fn list_notes(
        &self,
        Parameters(ListNotes {}): Parameters<ListNotes>,
    ) -> Result<CallToolResult, ErrorData> {
        self.run(Notes::list).await
    }

    #[tool(
        description = "Find notes that contain all the given words in name or text, the last changed first.",
        annotations(read_only_hint = true, open_world_hint = false)
    )]
    async fn search_notes(
        &self,
        Parameters(call): Parameters<SearchNotes>,
    ) -> Result<CallToolResult, ErrorData> {
        self.run(move |notes| notes.search(&call.text)).await
    }

    #[tool(
        description = "Read one note.",
        annotations(read_only_hint = true, open_world_hint = false)
    )]
    async fn read_note(
        &self,
        Parameters(call): Parameters<NoteName>,
    ) -> Result<CallToolResult, ErrorData> {
        self.run(move |notes| notes.read(&call.name)).await
    }

    #[tool(
        description = "Write a whole note. The text of a note that has this name already is lost.",
        annotations(
            read_only_hint = false,
            destructive_hint = true,
            idempotent_hint = true,
            open_world_hint = false
        )
    )]
    async fn write_note(
        &self,
        Parameters(call): Parameters<NoteText>,
    ) -> Result<CallToolResult, ErrorData> {
        self.run(move |notes| notes.write(&call.name, &call.text))
            .await
    }

    #[tool(
        description = "Add text at the end of a note that exists.",
        annotations(
            read_only_hint = false,
            destructive_hint = false,
            idempotent_hint = false,
            open_world_hint = false
        )
    )]
    async fn append_note(
        &self,
        Parameters(call): Parameters<NoteText>,
    ) -> Result<CallToolResult, ErrorData> {
        self.run(move |notes| notes.append(&call.name, &call.text))
            .await
    }

    #[tool(
        description = "Delete one note for ever. This cannot be undone.",
        annotations(
            read_only_hint = false,
            destructive_hint = true,
            idempotent_hint = false,
            open_world_hint = false
        )
    )]
    async fn delete_note(
        &self,
        Parameters(call): Parameters<NoteName>,
    ) -> Result<CallToolResult, ErrorData> {
        self.run(move |notes| notes.delete(&call.name)).await
    }
}

#[tool_handler]
impl ServerHandler for NotesServer {
    fn get_info(&self) -> ServerConfig {
        ServerConfig::new(ServerCapabilities::builder().enable_tools().build()).with_server_info(
            Implementation::new("sluice-notes", env!("CARGO_PKG_VERSION")),
        )
    }
}

impl NotesServer {
    async fn run<T: Serialize + Send + 'static>(
        &self,
        call: impl FnOnce(&Notes) -> Result<T, NotesError> + Send + 'static,
    ) -> Result<CallToolResult, ErrorData> {
        let notes = Arc::clone(&self.notes);
        Ok(answer(move || call(&notes)).await)
    }
}
