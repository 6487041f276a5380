//! `[memory]`: what is remembered of conversations.

use ifc::Label;

use crate::config::Memory;
use crate::toml_reader::Table;

impl Default for Memory {
    fn default() -> Self {
        Self {
            enabled: None,
            // A memory keeps its label, so every text may be remembered.
            limit: Label::top(),
            // Queries and answers of thirty turns a day for a year.
            entries: 20_000,
            // Facts cost one or two more completions for each turn.
            facts: false,
            // The number of entries is a bound already.
            days: None,
        }
    }
}

/// A search reads the words of all entries.
const MOST_ENTRIES: u64 = 200_000;

/// A hundred years.
const MOST_DAYS: u64 = 36_500;

/// `[memory]`.
pub(crate) fn memory(root: &Table<'_>) -> Memory {
    let mut memory = Memory::default();
    let Some(table) = root.table("memory") else {
        return memory;
    };
    memory.enabled = table.boolean("enabled");
    memory.limit = table.label("limit").unwrap_or(memory.limit);
    if let Some(entries) = table.integer("entries", 2..=MOST_ENTRIES) {
        memory.entries = usize::try_from(entries).unwrap_or(memory.entries);
    }
    memory.facts = table.boolean("facts").unwrap_or(memory.facts);
    let days = table.integer("days", 1..=MOST_DAYS);
    memory.days = days.and_then(|days| u32::try_from(days).ok());
    table.finish();
    memory
}
