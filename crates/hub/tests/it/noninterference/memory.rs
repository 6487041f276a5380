//! The memory of a world: what earlier sessions left, and what its own turns leave.

use std::collections::BTreeSet;

use hub::memory::{Archive, Memory, MemoryId};
use ifc::Label;

use super::labels::flows;
use super::world::{Side, World};

/// Memories in the order in which they were made.
#[derive(Debug, Default)]
pub(crate) struct Shelf(Vec<Memory>);

/// How many memories one piece of a world can have.
const OF_ONE: usize = 8;

impl Shelf {
    /// What earlier sessions left.
    pub(crate) fn of(world: &World, side: Side) -> Self {
        let mut shelf = Self::default();
        for (at, piece) in world.memories.iter().flatten().enumerate() {
            for (own, (text, label)) in piece.on(side).iter().enumerate() {
                // Numbers are the same on both sides, whatever there is above the limit.
                shelf.add(at * OF_ONE + own, text, label.clone());
            }
        }
        shelf
    }

    /// Adds a memory that was made at this time.
    pub(crate) fn add(&mut self, time: usize, text: &str, label: Label) -> MemoryId {
        let id = id_of(time);
        self.0.push(Memory {
            id,
            label,
            time: i64::try_from(time).unwrap(),
            origin: format!("at {time}"),
            text: text.to_owned(),
        });
        id
    }
}

/// The name of what was made at this time.
pub(crate) fn id_of(time: usize) -> MemoryId {
    MemoryId((time as u128).to_be_bytes())
}

impl Archive for Shelf {
    fn labels(&self) -> Result<Vec<Label>, String> {
        let mut labels: Vec<Label> = Vec::new();
        for memory in &self.0 {
            if !labels.contains(&memory.label) {
                labels.push(memory.label.clone());
            }
        }
        Ok(labels)
    }

    /// Rare words count more, and how rare they are depends on everything that the reader sees.
    fn search(&self, words: &str, at: &Label, most: usize) -> Result<Vec<(Memory, f64)>, String> {
        let seen: Vec<&Memory> = self.0.iter().filter(|own| flows(&own.label, at)).collect();
        let parts = |text: &str| -> BTreeSet<String> {
            let words = text.split(|c: char| !c.is_alphanumeric());
            words
                .map(str::to_owned)
                .filter(|word| !word.is_empty())
                .collect()
        };
        let texts: Vec<BTreeSet<String>> = seen.iter().map(|own| parts(&own.text)).collect();
        let worth = |word: &String| {
            let having = texts.iter().filter(|text| text.contains(word)).count();
            (1.0 + seen.len() as f64 / (1.0 + having as f64)).ln()
        };
        let wanted = parts(words);
        let scored = seen.iter().zip(&texts).map(|(own, text)| {
            let score: f64 = wanted.intersection(text).map(worth).sum();
            ((*own).clone(), score)
        });
        let mut found: Vec<(Memory, f64)> = scored.filter(|(_, score)| *score > 0.0).collect();
        found.sort_by(|a, b| b.1.total_cmp(&a.1).then(b.0.time.cmp(&a.0.time)));
        found.truncate(most);
        Ok(found)
    }
}
