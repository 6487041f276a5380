//! Why a tool call fails.

use app_support::folder::FolderError;

/// A failed tool call. The messages say what to do next, and never repeat text of an event: label rules see results,
/// and an error must not be a way around them.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CalendarError {
    /// Not a token that this app gives out.
    #[error("this is not an event id: take an id from list_events or search_events")]
    BadId,
    #[error("no event has this id: call list_events or search_events for the current ids")]
    UnknownId,
    /// Two events have the same token; acting on one of them would be a guess.
    #[error("this id stands for more than one event of a file")]
    AmbiguousId,
    #[error(
        "{0} must be a day like 2026-11-24 or a time like 2026-11-24T10:00 (with Z or +01:00 if the zone matters)"
    )]
    BadTime(&'static str),
    /// A range or an event that ends before it begins.
    #[error(
        "the end must come after the start, and both be days or both be times; the end of whole days is the day after the last"
    )]
    BadOrder,
    #[error("text must have 1 to {0} characters")]
    BadQuery(usize),
    /// A title or location that is not one line.
    #[error("{name} must be one line of {min} to {max} characters without control characters")]
    BadLine {
        name: &'static str,
        min: usize,
        max: usize,
    },
    /// A description that is too long or has control characters.
    #[error("description must be text of at most {0} characters without control characters")]
    BadDescription(usize),
    /// An attendee without a plain address, or too many.
    #[error("attendees must be at most {0} plain addresses like anna@example.org")]
    BadAttendees(usize),
    #[error("give at least one field to change")]
    NothingToChange,
    #[error("the calendar has more than {0} events: move old ones elsewhere")]
    TooMany(usize),
    #[error(transparent)]
    Folder(#[from] FolderError),
}
