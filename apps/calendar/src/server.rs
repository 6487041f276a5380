//! The tools over MCP.

use std::sync::Arc;

use app_support::tools::{answer, info, plain};
use rmcp::handler::server::wrapper::Parameters;
use rmcp::model::{CallToolResult, ServerConfig};
use rmcp::schemars::{self, JsonSchema};
use rmcp::{ServerHandler, tool, tool_handler, tool_router};
use serde::Deserialize;

use crate::calendar::Calendar;
use crate::event::Draft;

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
    pub(crate) fn new(calendar: Calendar) -> CalendarServer {
        CalendarServer {
            calendar: Arc::new(calendar),
        }
    }

    #[tool(
        description = "List the user's events between two days or times, by start. A recurring event is listed once, with its first occurrence.",
        annotations(read_only_hint = true, open_world_hint = false)
    )]
    async fn list_events(&self, Parameters(call): Parameters<ListEvents>) -> CallToolResult {
        answer(&self.calendar, move |calendar| {
            calendar.list(&call.from, &call.to)
        })
        .await
    }

    #[tool(
        description = "Find events that contain all the given words in title, location, description or addresses, by start.",
        annotations(read_only_hint = true, open_world_hint = false)
    )]
    async fn search_events(&self, Parameters(call): Parameters<SearchEvents>) -> CallToolResult {
        answer(&self.calendar, move |calendar| calendar.search(&call.text)).await
    }

    #[tool(
        description = "Read one event.",
        annotations(read_only_hint = true, open_world_hint = false)
    )]
    async fn read_event(&self, Parameters(call): Parameters<EventId>) -> CallToolResult {
        answer(&self.calendar, move |calendar| calendar.read(&call.id)).await
    }

    #[tool(
        description = "Put a new event into the user's calendar. Nobody is invited.",
        annotations(destructive_hint = false, open_world_hint = false)
    )]
    async fn create_event(&self, Parameters(call): Parameters<CreateEvent>) -> CallToolResult {
        let draft = Draft {
            title: Some(call.title),
            start: Some(call.start),
            end: Some(call.end),
            location: call.location,
            description: call.description,
            attendees: call.attendees,
        };
        answer(&self.calendar, move |calendar| calendar.create(&draft)).await
    }

    #[tool(
        description = "Change the given fields of one event, by its exact id. What stood there before is lost.",
        annotations(
            destructive_hint = true,
            idempotent_hint = true,
            open_world_hint = false
        )
    )]
    async fn update_event(&self, Parameters(call): Parameters<UpdateEvent>) -> CallToolResult {
        let draft = Draft {
            title: call.title,
            start: call.start,
            end: call.end,
            location: call.location,
            description: call.description,
            attendees: call.attendees,
        };
        answer(&self.calendar, move |calendar| {
            calendar.update(&call.id, &draft)
        })
        .await
    }

    #[tool(
        description = "Delete one event for ever, by its exact id; a recurring one with all its occurrences. This cannot be undone.",
        annotations(destructive_hint = true, open_world_hint = false)
    )]
    async fn delete_event(&self, Parameters(call): Parameters<EventId>) -> CallToolResult {
        answer(&self.calendar, move |calendar| calendar.delete(&call.id)).await
    }
}

#[tool_handler]
impl ServerHandler for CalendarServer {
    fn get_info(&self) -> ServerConfig {
        info("sluice-calendar")
    }
}
