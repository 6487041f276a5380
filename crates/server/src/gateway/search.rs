//! Long lists of tools: a client is offered two tools, one that finds the others and one that calls them.
//!
//! Some clients refuse a list of more than 128 tools, and not all look again when a list has changed.

use std::collections::BTreeSet;

use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::listing::{Listed, Listing};
use super::{Client, rpc};

/// Tools that one search gives.
const MAX_FOUND: usize = 10;
/// Words of a query that are looked for.
const MAX_WORDS: usize = 32;

/// The arguments of [`CALL`](super::listing::CALL).
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Wrapped<'a> {
    pub(super) tool: String,
    #[serde(borrow, default)]
    pub(super) arguments: Option<&'a RawValue>,
}

impl Listing {
    /// The tools that have the most of these words in their names and what is shown of them.
    fn find(&self, query: &str) -> Vec<&Listed> {
        let query = query.to_lowercase();
        let words = query.split(|c: char| !c.is_alphanumeric());
        let words: BTreeSet<&str> = words
            .filter(|word| word.len() > 1)
            .take(MAX_WORDS)
            .collect();
        let weight = |name: &str, listed: &Listed| -> usize {
            let (name, says) = (name.to_lowercase(), listed.shown.to_string().to_lowercase());
            // A word of the name says more than one of a description.
            let of = |word: &&str| {
                usize::from(says.contains(word)) + 2 * usize::from(name.contains(word))
            };
            words.iter().map(of).sum()
        };
        let all = self
            .all()
            .map(|(name, listed)| (weight(name, listed), listed));
        let mut found: Vec<(usize, &Listed)> = all.filter(|(weight, _)| *weight > 0).collect();
        // Stable, so that equals stay in the order of their names.
        found.sort_by_key(|(weight, _)| std::cmp::Reverse(*weight));
        found.truncate(MAX_FOUND);
        found.into_iter().map(|(_, listed)| listed).collect()
    }
}

impl Client {
    /// What a search finds. The client's calls may depend on the descriptions from now on.
    pub(super) fn search(&self, arguments: &str) -> String {
        let query: Value = serde_json::from_str(arguments).unwrap_or_default();
        let query = query.get("query").and_then(Value::as_str);
        let found = self.listing.find(query.unwrap_or_default());
        if found.is_empty() {
            return rpc::text("no tool has one of these words; try others", false);
        }
        for listed in found.iter().filter(|listed| listed.is_quoted) {
            self.record_description(listed, &listed.shown.to_string());
        }
        let shown: Vec<&Value> = found.iter().map(|listed| &listed.shown).collect();
        rpc::text(&json!({ "tools": shown }).to_string(), false)
    }
}
