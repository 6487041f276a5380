//! The tools over MCP.

use std::sync::Arc;

use app_support::tools::{answer, plain};
use rmcp::handler::server::wrapper::Parameters;
use rmcp::model::{CallToolResult, ErrorData, Implementation, ServerCapabilities, ServerConfig};
use rmcp::schemars::{self, JsonSchema};
use rmcp::{ServerHandler, tool, tool_handler, tool_router};
use serde::{Deserialize, Serialize};

use crate::calendar::Calendar;
use crate::error::CalendarError;
use crate::event::Draft;

/// The MCP server around a [`Calendar`].
#[derive(Clone, Debug)]
pub(crate) struct CalendarServer {
    calendar: Arc<Calendar>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ListEvents {
    /// The first day, like 2026-11-24, or a time like 2026-11-24T10:00.
    from: String,
    /// The last day, or a time.
    to: String,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct SearchEvents {
    /// Words to look for.
    text: String,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct EventId {
    /// The id of the event.
    id: String,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct CreateEvent {
    /// One line.
    title: String,
    /// A day like 2026-11-24, or a time like 2026-11-24T10:00.
    start: String,
    /// A time; for whole days the day after the last.
    end: String,
    /// One line.
    #[schemars(transform = plain)]
    location: Option<String>,
    /// Any text.
    #[schemars(transform = plain)]
    description: Option<String>,
    /// Addresses to note. Nobody is invited.
    #[schemars(transform = plain)]
    attendees: Option<Vec<String>>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct UpdateEvent {
    /// The id of the event.
    id: String,
    /// One line.
    #[schemars(transform = plain)]
    title: Option<String>,
    /// A day like 2026-11-24, or a time like 2026-11-24T10:00.
    #[schemars(transform = plain)]
    start: Option<String>,
    /// A time; for whole days the day after the last.
    #[schemars(transform = plain)]
    end: Option<String>,
    /// One line; empty for none.
    #[schemars(transform = plain)]
    location: Option<String>,
    /// Any text; empty for none.
    #[schemars(transform = plain)]
    description: Option<String>,
    /// All addresses; an empty list for none. Nobody is invited.
    #[schemars(transform = plain)]
    attendees: Option<Vec<String>>,
}

#[tool_router]
impl CalendarServer {
    /// A server for this calendar.
    pub(crate) fn new(calendar: Calendar) -> CalendarServer {
        CalendarServer {
            calendar: Arc::new(calendar),
        }
    }

    #[tool(
        description = "List the user's events between two days or times, by start. A recurring event is listed once, with its first occurrence.",
        annotations(read_only_hint = true, open_world_hint = false)
    )]
    async fn list_events(
        &self,
        Parameters(call): Parameters<ListEvents>,
    ) -> Result<CallToolResult, ErrorData> {
        self.run(move |calendar| calendar.list(&call.from, &call.to))
            .await
    }

    #[tool(
        description = "Find events that contain all the given words in title, location, description or addresses, by start.",
        annotations(read_only_hint = true, open_world_hint = false)
    )]
    async fn search_events(
        &self,
        Parameters(call): Parameters<SearchEvents>,
    ) -> Result<CallToolResult, ErrorData> {
        self.run(move |calendar| calendar.search(&call.text)).await
    }

    #[tool(
        description = "Read one event.",
        annotations(read_only_hint = true, open_world_hint = false)
    )]
    async fn read_event(
        &self,
        Parameters(call): Parameters<EventId>,
    ) -> Result<CallToolResult, ErrorData> {
        self.run(move |calendar| calendar.read(&call.id)).await
    }

    #[tool(
        description = "Put a new event into the user's calendar. Nobody is invited.",
        annotations(
            read_only_hint = false,
            destructive_hint = false,
            idempotent_hint = false,
            open_world_hint = false
        )
    )]
    async fn create_event(
        &self,
        Parameters(call): Parameters<CreateEvent>,
    ) -> Result<CallToolResult, ErrorData> {
        let draft = Draft {
            title: Some(call.title),
            start: Some(call.start),
            end: Some(call.end),
            location: call.location,
            description: call.description,
            attendees: call.attendees,
        };
        self.run(move |calendar| calendar.create(&draft)).await
    }

    #[tool(
        description = "Change the given fields of one event, by its exact id. What stood there before is lost.",
        annotations(
            read_only_hint = false,
            destructive_hint = true,
            idempotent_hint = true,
            open_world_hint = false
        )
    )]
    async fn update_event(
        &self,
        Parameters(call): Parameters<UpdateEvent>,
    ) -> Result<CallToolResult, ErrorData> {
        let draft = Draft {
            title: call.title,
            start: call.start,
            end: call.end,
            location: call.location,
            description: call.description,
            attendees: call.attendees,
        };
        self.run(move |calendar| calendar.update(&call.id, &draft))
            .await
    }

    #[tool(
        description = "Delete one event for ever, by its exact id; a recurring one with all its occurrences. This cannot be undone.",
        annotations(
            read_only_hint = false,
            destructive_hint = true,
            idempotent_hint = false,
            open_world_hint = false
        )
    )]
    async fn delete_event(
        &self,
        Parameters(call): Parameters<EventId>,
    ) -> Result<CallToolResult, ErrorData> {
        self.run(move |calendar| calendar.delete(&call.id)).await
    }
}

#[tool_handler]
impl ServerHandler for CalendarServer {
    fn get_info(&self) -> ServerConfig {
        ServerConfig::new(ServerCapabilities::builder().enable_tools().build()).with_server_info(
            Implementation::new("sluice-calendar", env!("CARGO_PKG_VERSION")),
        )
    }
}

impl CalendarServer {
    async fn run<T: Serialize + Send + 'static>(
        &self,
        call: impl FnOnce(&Calendar) -> Result<T, CalendarError> + Send + 'static,
    ) -> Result<CallToolResult, ErrorData> {
        let calendar = Arc::clone(&self.calendar);
        Ok(answer(move || call(&calendar)).await)
    }
}
