//! Which entries answer a query best, judged by what the reader may see.
//!
//! SQLite's FTS5 cannot do this: its `bm25()` counts every row, and so tells a reader how often a
//! word stands in entries that it may not read. So the words of a namespace are held here, and both
//! back ends rank alike.

use std::collections::HashMap;

use ifc::Label;

use super::query::{Query, each_word};
use crate::EntryId;

/// Okapi BM25's usual constants: how soon repetition counts no more, how much length counts.
const K1: f64 = 1.2;
const B: f64 = 0.75;

/// The words of the entries of one namespace.
#[derive(Default)]
pub(super) struct Index {
    /// In the order in which they were added.
    entries: Vec<Indexed>,
    groups: Vec<Group>,
    words: HashMap<Box<str>, Vec<Posting>>,
    /// The facts about one property of one entity that stand, by both their names.
    facts: HashMap<[Box<str>; 2], Vec<u32>>,
}

struct Indexed {
    id: EntryId,
    /// Place in `groups`.
    group: u32,
    /// In words.
    length: u32,
    /// Whether a later fact about the same says otherwise, and is trusted at least as much.
    replaced: bool,
}

/// The entries with one label.
struct Group {
    label: Label,
    entries: u64,
    /// In words, of all entries together.
    length: u64,
}

/// How often a word stands in an entry.
struct Posting {
    /// Place in `entries`; ascending in a list.
    entry: u32,
    count: u32,
}

impl Index {
    /// Adds the next entry: its texts are entity and attribute, which only facts have, and the rest.
    pub(super) fn add(&mut self, id: EntryId, label: &Label, texts: [&str; 3]) {
        let mut length = 0;
        let mut counts: HashMap<String, u32> = HashMap::new();
        for text in texts {
            each_word(text, |word| {
                length += 1;
                match counts.get_mut(word) {
                    Some(count) => *count += 1,
                    None => {
                        counts.insert(word.to_owned(), 1);
                    }
                }
            });
        }
        let entry = number(self.entries.len());
        for (word, count) in counts {
            let list = self.words.entry(word.into_boxed_str()).or_default();
            list.push(Posting { entry, count });
        }
        let group = self.group(label, length);
        let [entity, attribute, _] = texts;
        if !entity.is_empty() {
            self.replace(entry, label, [entity, attribute]);
        }
        self.entries.push(Indexed {
            id,
            group,
            length,
            replaced: false,
        });
    }

    /// A fact replaces earlier ones about the same whose labels it flows to: who sees one of those sees
    /// it too, and nobody who wrote it is trusted less. Beside others it stands, so that untrusted text
    /// does not take the place of what the user said.
    fn replace(&mut self, entry: u32, label: &Label, names: [&str; 2]) {
        let key = names.map(|name| name.trim().to_lowercase().into_boxed_str());
        let known = self.facts.entry(key).or_default();
        // What is replaced stays so for every reader, and is not looked at again: of each label one fact stands at most, and
        // an app that says a thing a thousand times costs no more than one that says a thousand things.
        known.retain(|earlier| {
            let Some(earlier) = self.entries.get_mut(*earlier as usize) else {
                return false;
            };
            let own = self.groups.get(earlier.group as usize);
            earlier.replaced = own.is_some_and(|own| label.flows_to(&own.label));
            !earlier.replaced
        });
        known.push(entry);
    }

    /// The best entries that flow to `at`, best first, with their scores.
    ///
    /// Sums are made in the order of words and entries among the visible, so that scores are equal
    /// to the last bit whatever else there is.
    pub(super) fn search(&self, query: &Query, at: &Label, most: usize) -> Vec<(EntryId, f64)> {
        let groups = self.groups.iter();
        // Once for each label: entries are many and labels few.
        let visible: Vec<bool> = groups.map(|group| group.label.flows_to(at)).collect();
        let seen = self.groups.iter().zip(&visible).filter(|(_, seen)| **seen);
        let (entries, length) = seen.fold((0, 0), |(entries, length), (group, _)| {
            (entries + group.entries, length + group.length)
        });
        // Of the visible alone, as is every number below: a score that counted others would tell of them.
        let average = length as f64 / (entries as f64).max(1.0);

        let mut scores: Vec<f64> = vec![0.0; self.entries.len()];
        for word in query.words() {
            let list = self.words.get(word).map_or(&[][..], Vec::as_slice);
            let seen = || {
                list.iter().filter_map(|posting| {
                    let entry = self.entries.get(posting.entry as usize)?;
                    let seen = visible.get(entry.group as usize).copied();
                    seen.unwrap_or(false).then_some((posting, entry))
                })
            };
            let having = seen().count() as f64;
            // Always positive, unlike the original: a word that most entries have counts little.
            let rarity = (1.0 + (entries as f64 - having + 0.5) / (having + 0.5)).ln();
            for (posting, entry) in seen() {
                let count = f64::from(posting.count);
                // No division by zero: an entry that has the word has a length.
                let length = f64::from(entry.length) / average;
                let weight = count * (K1 + 1.0) / (count + K1 * (1.0 - B + B * length));
                if let Some(score) = scores.get_mut(posting.entry as usize) {
                    *score += rarity * weight;
                }
            }
        }
        let scored = scores.iter().enumerate().filter(|(at, score)| {
            // What replaced it flows to its label, so that a reader who sees this one could see that one too.
            let replaced = self.entries.get(*at).is_none_or(|entry| entry.replaced);
            **score > 0.0 && !replaced
        });
        let mut found: Vec<(usize, f64)> = scored.map(|(at, score)| (at, *score)).collect();
        // Newer ones first if they are equal. What comes after the first `most` need not be sorted.
        let order = |a: &(usize, f64), b: &(usize, f64)| b.1.total_cmp(&a.1).then(b.0.cmp(&a.0));
        if most < found.len() {
            found.select_nth_unstable_by(most, order);
            found.truncate(most);
        }
        found.sort_unstable_by(order);
        let ranked = found.into_iter().filter_map(|(at, score)| {
            let entry = self.entries.get(at)?;
            Some((entry.id, score))
        });
        ranked.collect()
    }

    /// The labels of its entries, each once.
    pub(super) fn labels(&self) -> Vec<Label> {
        self.groups
            .iter()
            .map(|group| group.label.clone())
            .collect()
    }

    /// The group of a label, with one more entry in it.
    fn group(&mut self, label: &Label, length: u32) -> u32 {
        // Labels are few: each is the join of what somebody read.
        let found = self.groups.iter().position(|group| group.label == *label);
        let at = found.unwrap_or(self.groups.len());
        if found.is_none() {
            self.groups.push(Group {
                label: label.clone(),
                entries: 0,
                length: 0,
            });
        }
        if let Some(group) = self.groups.get_mut(at) {
            group.entries += 1;
            group.length += u64::from(length);
        }
        number(at)
    }
}

/// Entries of a namespace are bounded far below this.
fn number(at: usize) -> u32 {
    u32::try_from(at).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use ifc::{Lattice, Order};

    use super::*;

    #[test]
    fn of_each_label_one_fact_about_a_property_stands() {
        let words = |all: [&str; 2]| Order::Categories(all.map(str::to_owned).to_vec());
        let lattice = Lattice::new(&words(["mail", "web"]), &words(["card", "home"])).unwrap();
        let labels = [
            &["untrusted:mail", "secret:card"][..],
            &["untrusted:mail"],
            &["untrusted:web"],
        ];
        let labels = labels.map(|names| lattice.labels(names.iter().copied()).unwrap());
        let mut index = Index::default();
        for number in 0..100_u8 {
            for label in &labels {
                let id = EntryId::from_bytes([number; 16]);
                index.add(id, label, ["parcel", "day", "Monday"]);
            }
        }
        let standing = |index: &Index| index.facts.values().map(Vec::len).sum::<usize>();
        // What came by mail alone is in the place of what is also secret.
        assert_eq!(standing(&index), 2);
        let query = Query::new("parcel").unwrap();
        let seen = |at: &Label| index.search(&query, at, 300).len();
        assert_eq!(labels.each_ref().map(seen), [1, 1, 1]);
    }
}
