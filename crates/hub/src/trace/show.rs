//! A trace record for people: one line, or a few for a question.

mod apps;
mod calls;
mod ends;
mod memory;
mod messages;
mod reach;
mod session;
mod steps;
mod words;

use super::{Event, Record};
use words::safe;
pub(super) use words::set;

/// The record as text without a trailing newline. `start_ms` is the first record's time.
///
/// A trace may come from anywhere: whatever it says, names and labels included, is shown escaped, one
/// by one, so that it can neither steer the terminal nor begin a line.
pub fn show(record: &Record, start_ms: u64) -> String {
    let seconds = record.at_ms.saturating_sub(start_ms) as f64 / 1000.0;
    let conversation = match &record.conversation {
        Some(name) => format!("[{}] ", safe(name)),
        None => String::new(),
    };
    format!("{seconds:>8.2}s  {conversation}{}", describe(&record.event))
}

/// Which module has the line of an event. Each of them passes over what is not its own.
fn describe(event: &Event) -> String {
    match event {
        Event::SessionStarted { .. }
        | Event::User { .. }
        | Event::Planned { .. }
        | Event::PlanUnclear { .. }
        | Event::Missing { .. }
        | Event::LeftOut { .. }
        | Event::Gathered { .. }
        | Event::SpokeStarted { .. }
        | Event::SpokeEnded { .. } => session::line(event),
        Event::Egress { .. } | Event::NameDenied { .. } | Event::ConnectionAsked { .. } => {
            reach::line(event)
        }
        Event::Recalled { .. }
        | Event::Remembered { .. }
        | Event::NotRemembered { .. }
        | Event::MadeRoom { .. }
        | Event::MemoryFailed { .. } => memory::line(event),
        Event::Screened { .. }
        | Event::Consulted { .. }
        | Event::Uncleared { .. }
        | Event::Redacted { .. }
        | Event::Completed { .. }
        | Event::NamedInFull { .. }
        | Event::Summarised { .. }
        | Event::DraftDropped { .. }
        | Event::Checked { .. }
        | Event::Filled { .. }
        | Event::Refined { .. }
        | Event::Withheld { .. }
        | Event::RepetitionDropped { .. } => steps::line(event),
        Event::Allowed { .. }
        | Event::Asked { .. }
        | Event::Denied { .. }
        | Event::Rejected { .. }
        | Event::Answered { .. }
        | Event::Trusted { .. }
        | Event::Endorsed { .. }
        | Event::Returned { .. }
        | Event::CallUnknown { .. }
        | Event::CallFailed { .. } => calls::line(event),
        Event::ServingChosen { .. } | Event::Message { .. } | Event::Serving { .. } => {
            messages::line(event)
        }
        Event::AppAsked { .. }
        | Event::AppAnswered { .. }
        | Event::Sampling { .. }
        | Event::AppRefused { .. }
        | Event::Unheard { .. } => apps::line(event),
        Event::Answer { .. } | Event::Stopped { .. } => ends::line(event),
    }
}
