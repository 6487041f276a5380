//! Lines about what is remembered.

use super::words::{safe, set};
use crate::trace::Event;

pub(super) fn line(event: &Event) -> String {
    match event {
        Event::Recalled { memories } => {
            let origins = memories.iter().map(|memory| {
                let (origin, id) = (safe(&memory.origin), safe(&memory.id));
                format!("\n{:>21}{origin} {} {id}", "", set(&memory.label))
            });
            let origins: String = origins.collect();
            format!("memory     {} recalled{origins}", memories.len())
        }
        Event::Remembered { id, label, bytes } => {
            let (id, label) = (safe(id), set(label));
            format!("memory     {bytes} bytes {label} remembered as {id}")
        }
        Event::NotRemembered { label, reason } => {
            format!("memory     {} NOT remembered: {}", set(label), safe(reason))
        }
        Event::MadeRoom { count } => {
            format!("memory     {count} of the oldest forgotten to make room")
        }
        Event::MemoryFailed { reason } => format!("memory     FAILED: {}", safe(reason)),
        _ => String::new(),
    }
}
