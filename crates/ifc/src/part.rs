//! A part of a history.

use std::ops::Range;

use crate::entry::Entry;
use crate::{History, Labeled, Message};

impl History {
    /// The messages at these positions, with the developer's instructions and the user's words that they answer. `before`
    /// is put before the first words of the user.
    ///
    /// A reader of the part learns where it begins, so the caller must choose the position by what the reader may see.
    #[must_use]
    pub fn part(&self, at: Range<usize>, before: &Labeled) -> Self {
        let end = at.end.min(self.entries.len());
        let (old, rest) = self.entries.split_at(at.start.min(end));
        let kept = rest.get(..end - old.len()).unwrap_or_default();
        let is = |wanted: fn(&Message) -> bool| move |entry: &&Entry| wanted(&entry.message);
        let system = old.iter().filter(is(|it| matches!(it, Message::System(_))));
        let mut entries: Vec<Entry> = system.cloned().collect();
        // The part begins within a turn, whose task is before it.
        if let Some(Message::Assistant { .. }) = kept.first().map(|entry| &entry.message) {
            let mut said = old.iter().rev();
            entries.extend(said.find(is(|it| matches!(it, Message::User(_)))).cloned());
        }
        entries.extend(kept.iter().cloned());
        for entry in &mut entries {
            if let Message::User(words) = &mut entry.message {
                *words = Labeled::concat([before, &*words]);
                entry.shift_images(before.len());
                break;
            }
        }
        self.with_entries(entries)
    }
}
