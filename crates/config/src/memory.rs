//! `[memory]`: what is remembered of conversations.

use ifc::Label;

use crate::config::Memory;
use crate::toml_reader::Table;

impl Default for Memory {
    fn default() -> Self {
        Self {
            enabled: None,
            // A memory keeps its label, so every text may be remembered. ⊤ is for the user's eyes.
            limit: Label::top(),
            // Queries and answers of thirty turns a day for a year.
            entries: 20_000,
            // One or two completions more for each turn: up to twice as many.
            facts: false,
            // The number of entries bounds it already, and only the user knows how long ago is too long.
            days: None,
        }
    }
}

/// More than a year of turns without a pause; a search reads the words of all of them.
const MOST_ENTRIES: u64 = 200_000;

/// A hundred years: past this a limit limits nothing.
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
    if let Some(redis) = table.string("redis") {
        let message = "memories are in a SQLite file; Redis is no longer supported";
        let help =
            "remove `redis`: each configuration has a file of its own under the state folder";
        table.context.error(&redis.span, message, help);
    }
    memory.facts = table.boolean("facts").unwrap_or(memory.facts);
    let days = table.integer("days", 1..=MOST_DAYS);
    memory.days = days.and_then(|days| u32::try_from(days).ok());
    table.finish();
    memory
}
