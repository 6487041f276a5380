//! A calendar app as an MCP server over stdio: it lists, searches, reads, creates, changes and deletes events.
//!
//! It needs a folder of iCalendar files (`CALENDAR`), one event a file or many, as calendar programs and `vdirsyncer`
//! keep them; `CALENDAR_ZONE` is the zone for times that name none (default UTC). It sends no invitations. Any sender may
//! have written an event, so each result keeps apart what is constrained (ids, times, plain addresses) and what is free
//! text (titles, locations, descriptions); `sluice-app.toml` labels them so.
//!
//! ```text
//! list_events   {from, to}       → {"events":[{"id","start","end","title","location"?,"recurring"?}],"total","skipped"}
//! search_events {text}           → the same
//! read_event    {id}             → {"id","start","end","title","location"?,"description"?,"organizer"?,"attendees"?,"recurring"?,"truncated"?}
//! create_event  {title, start, end, location?, description?, attendees?}     → {"created":true,"id"}
//! update_event  {id, title?, start?, end?, location?, description?, attendees?} → {"updated":true}
//! delete_event  {id}             → {"deleted":true}
//! ```

mod calendar;
mod error;
mod event;
mod file;
mod server;
mod time;

use std::env;
use std::process::ExitCode;

fn main() -> ExitCode {
    let calendar = calendar::Calendar::from_vars(|name| env::var(name).ok());
    app_support::tools::serve("sluice-calendar", calendar.map(server::CalendarServer::new))
}
