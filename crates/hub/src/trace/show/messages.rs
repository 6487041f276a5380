//! Lines about messages between apps.

use super::words::{list, safe, set};
use crate::trace::{Event, MessageKind};

pub(super) fn line(event: &Event) -> String {
    match event {
        Event::ServingChosen {
            asks,
            functionality,
            among,
            serves,
            by,
        } => {
            let serves = serves.as_deref().map_or_else(|| "no app".to_owned(), safe);
            let (asks, functionality) = (safe(asks), safe(functionality));
            let (among, by) = (list(among), safe(by));
            format!(
                "serving    {serves}, of {among}, for {functionality} to {asks}, chosen by {by}"
            )
        }
        Event::Message {
            exchange,
            version: _,
            message,
            functionality,
            asks,
            serves,
            label,
            note,
        } => {
            let (asks, serves) = (safe(asks), safe(serves));
            let way = match message {
                MessageKind::Formats | MessageKind::Response => format!("{serves} to {asks}"),
                _ => format!("{asks} to {serves}"),
            };
            let note = match note.is_empty() {
                true => String::new(),
                false => format!(": {}", safe(note)),
            };
            // The beginning tells the exchanges of one trace apart.
            let id: String = exchange.chars().take(8).collect();
            format!(
                "  {:<8} {way} for {} (exchange {}) {}{note}",
                message.name(),
                safe(functionality),
                safe(&id),
                set(label)
            )
        }
        Event::Serving {
            asks,
            functionality,
            text,
            label,
        } => {
            let (asks, functionality) = (safe(asks), safe(functionality));
            let (text, label) = (safe(text), set(label));
            format!("  serving  {asks} asks for {functionality}: {text} {label}")
        }
        _ => String::new(),
    }
}
