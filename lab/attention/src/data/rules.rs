//! Dependencies by written rules (`rules.toml`).

use std::collections::BTreeSet;

use agentdojo::value_match::tokens;
use anyhow::{Context, bail};
use ifc::{DraftCall, RegionId};
use serde::Deserialize;
use serde_json::{Map, Value};

use super::step::Step;
use super::text::Memo;
use super::values::Index;
use super::view::{Passage, Writer};

/// Shorter texts are no retelling.
const PROSE: usize = 8;

/// Words of so many letters say something; shorter ones are in every text.
const LONG: usize = 5;

/// So many long words in common are no chance.
const SHARED: usize = 3;

/// Words of so many letters identify what the user speaks of,
const TOPIC: usize = 4;

/// and so many of them in a text mean that it is about that.
const TOPIC_SHARED: usize = 2;

/// One word in so many of a retelling must be the original's.
const RATIO: usize = 10;

/// The rules.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rules {
    rule: Vec<Rule>,
}

/// One rule: when a call of a step depends on regions by more than their values.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rule {
    /// Its name, in labels and tables.
    pub name: String,
    /// The suite; all if left out.
    pub suite: Option<String>,
    /// The tools whose calls it is about; all if empty.
    #[serde(default)]
    pub to: Vec<String>,
    /// Why it is so, in a sentence.
    pub why: String,
    when: When,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
enum When {
    Item {
        from: Vec<String>,
        argument: String,
        field: String,
        parts: Vec<String>,
    },
    Whole {
        from: Vec<String>,
        argument: Option<String>,
        #[serde(default)]
        parts: Vec<String>,
    },
    Prose {
        from: Vec<String>,
        argument: Vec<String>,
    },
    Comparison {
        from: Vec<String>,
        of: String,
        argument: String,
        #[serde(default)]
        parts: Vec<String>,
        asked: Vec<String>,
    },
    Found {
        from: Vec<String>,
        of: String,
        argument: String,
    },
    Retry {},
    Injected {},
}

pub(super) struct Scene<'a> {
    pub(super) step: &'a Step,
    pub(super) passages: &'a [Passage<'a>],
    pub(super) index: &'a Index<'a>,
}

impl Rules {
    /// The rules that come with this crate.
    ///
    /// # Errors
    /// They do not parse, or two have one name.
    pub fn builtin() -> anyhow::Result<Self> {
        Self::parse(include_str!("rules.toml"))
    }

    /// Reads rules.
    ///
    /// # Errors
    /// They do not parse, or two have one name.
    pub fn parse(text: &str) -> anyhow::Result<Self> {
        let rules: Self = toml::from_str(text).context("rules.toml")?;
        let mut names = BTreeSet::new();
        if let Some(Rule { name, .. }) = rules.rule.iter().find(|rule| !names.insert(&rule.name)) {
            bail!("rules.toml has two rules '{name}'; rename one");
        }
        Ok(rules)
    }

    /// The rules.
    pub fn iter(&self) -> impl Iterator<Item = &Rule> {
        self.rule.iter()
    }
}

impl Rule {
    /// The tools that it names.
    pub fn tools(&self) -> impl Iterator<Item = &str> {
        let from: &[String] = match &self.when {
            When::Item { from, .. }
            | When::Whole { from, .. }
            | When::Prose { from, .. }
            | When::Comparison { from, .. }
            | When::Found { from, .. } => from,
            When::Retry {} | When::Injected {} => &[],
        };
        self.to.iter().chain(from).map(String::as_str)
    }

    /// The regions that a step depends on by this rule.
    pub(super) fn regions(&self, scene: &Scene<'_>, memo: &mut Memo) -> BTreeSet<RegionId> {
        let step = scene.step;
        if self
            .suite
            .as_ref()
            .is_some_and(|suite| *suite != step.suite)
        {
            return BTreeSet::new();
        }
        if matches!(self.when, When::Injected {}) {
            let obeyed = step.follows.then_some(&step.injected);
            return obeyed.into_iter().flatten().copied().collect();
        }
        // The other rules describe the user's reasons for a call, which are not the attacker's.
        if step.follows && !matches!(self.when, When::Prose { .. }) {
            return BTreeSet::new();
        }
        let calls = step.draft.calls.iter();
        let calls = calls.filter(|call| self.to.is_empty() || self.to.contains(&call.tool));
        calls
            .flat_map(|call| self.of_call(scene, call, memo))
            .collect()
    }

    fn of_call(&self, scene: &Scene<'_>, call: &DraftCall, memo: &mut Memo) -> Vec<RegionId> {
        let arguments = object(&call.arguments);
        match &self.when {
            When::Item {
                from,
                argument,
                field,
                parts,
            } => match scalar(&arguments, argument) {
                Some(id) => scene.item(from, field, &id, parts, memo),
                None => Vec::new(),
            },
            When::Whole {
                from,
                argument,
                parts,
            } => {
                let open = |name: &String| {
                    let value = scalar(&arguments, name);
                    value.is_some_and(|value| !scene.index.is_given(&tokens(&value)))
                };
                match argument.as_ref().is_none_or(open) {
                    true => scene.newest(from, parts),
                    false => Vec::new(),
                }
            }
            When::Prose { from, argument } => {
                let texts = argument.iter().filter_map(|name| scalar(&arguments, name));
                texts
                    .flat_map(|text| scene.retold(from, &text, memo))
                    .collect()
            }
            When::Comparison {
                from,
                of,
                argument,
                parts,
                asked,
            } => match scalar(&arguments, argument) {
                Some(chosen) if scene.asks(asked) => scene.compared(from, of, &chosen, parts),
                _ => Vec::new(),
            },
            When::Found { from, of, argument } => match scalar(&arguments, argument) {
                Some(chosen) => scene.found(from, of, &chosen, memo),
                None => Vec::new(),
            },
            When::Retry {} => scene.failed(call),
            When::Injected {} => Vec::new(),
        }
    }
}

impl<'a> Scene<'a> {
    /// The results of these tools, newest first.
    fn results(&self, from: &[String]) -> impl Iterator<Item = (&'a Passage<'a>, &'a str)> {
        let results = self.passages.iter().rev();
        results.filter_map(move |passage| match passage.writer {
            Writer::Tool { tool, arguments } => from
                .iter()
                .any(|name| name == tool)
                .then_some((passage, arguments)),
            _ => None,
        })
    }

    fn item(
        &self,
        from: &[String],
        field: &str,
        id: &str,
        parts: &[String],
        memo: &mut Memo,
    ) -> Vec<RegionId> {
        // An id that the user says was not chosen from a list.
        if self.index.is_given(&tokens(id)) {
            return Vec::new();
        }
        let wanted = format!("{field}: {id}");
        // As AgentDojo writes YAML: `- id_: '24'`, the id in quotes or not.
        let names = |line: &str| line.trim_start_matches(['-', ' ']).replace('\'', "") == wanted;
        let found = self.results(from).find_map(|(passage, _)| {
            let items = items(passage.text);
            let item = items.into_iter().find(|item| {
                let text = passage.text.get(item.clone()).unwrap_or_default();
                text.lines().any(names)
            })?;
            Some((passage, item))
        });
        let Some((passage, item)) = found else {
            return Vec::new();
        };
        let inside = passage
            .regions
            .iter()
            .filter(|(_, span, _)| item.contains(&span.start));
        let inside = inside
            .filter(|(_, span, _)| parts.iter().any(|it| it == key(passage.text, span.start)));
        let inside: Vec<(RegionId, bool)> = inside
            .map(|(id, span, _)| {
                let text = memo.text(passage.text.get(span.clone()).unwrap_or_default());
                let mut words = text.words();
                (*id, words.any(|word| self.requested(word)))
            })
            .collect();
        // Parts that share a word with the request; where none does, the choice may rest on each of
        // them.
        let any = inside.iter().any(|(_, asked)| *asked);
        let inside = inside.into_iter().filter(|(_, asked)| *asked || !any);
        inside.map(|(id, _)| id).collect()
    }

    fn newest(&self, from: &[String], parts: &[String]) -> Vec<RegionId> {
        let each = from.iter().filter_map(|tool| {
            let mut results = self.results(std::slice::from_ref(tool));
            results.next().map(|(passage, _)| passage)
        });
        each.flat_map(|passage| keyed(passage, parts)).collect()
    }

    fn retold(&self, from: &[String], text: &str, memo: &mut Memo) -> Vec<RegionId> {
        let text = memo.text(text);
        if text.len() < PROSE {
            return Vec::new();
        }
        let long = |word: &&str| word.chars().count() >= LONG;
        // A word that the user or the developer says is no sign of having read the region.
        let new = |word: &&str| !self.index.given.iter().any(|given| given.has(word));
        let words: Vec<&str> = text.words().filter(long).filter(new).collect();
        let enough = SHARED.max(words.len() / RATIO);
        let mut found = Vec::new();
        for (passage, _) in self.results(from) {
            for (id, span, _) in &passage.regions {
                let region = memo.text(passage.text.get(span.clone()).unwrap_or_default());
                if words.iter().filter(|word| region.has(word)).count() >= enough {
                    found.push(*id);
                }
            }
        }
        found
    }

    fn compared(&self, from: &[String], of: &str, chosen: &str, parts: &[String]) -> Vec<RegionId> {
        let value = |arguments: &str| scalar(&object(arguments), of);
        let asked: BTreeSet<String> = self.results(from).filter_map(|(_, it)| value(it)).collect();
        // One value is no comparison, and a value that was never asked about was not chosen by one.
        if asked.len() < 2 || !asked.contains(chosen) || self.index.is_given(&tokens(chosen)) {
            return Vec::new();
        }
        let results = self.results(from).map(|(passage, _)| passage);
        results.flat_map(|passage| keyed(passage, parts)).collect()
    }

    /// Whether the user says one of these words.
    fn asks(&self, words: &[String]) -> bool {
        words.iter().any(|word| self.requested(word))
    }

    /// Whether a word is in what the user says; the first text that is given is the developer's.
    fn requested(&self, word: &str) -> bool {
        self.index.given.iter().skip(1).any(|text| text.has(word))
    }

    fn found(&self, from: &[String], of: &str, chosen: &str, memo: &mut Memo) -> Vec<RegionId> {
        if self.index.is_given(&tokens(chosen)) {
            return Vec::new();
        }
        let asked = |arguments: &str| scalar(&object(arguments), of).is_some_and(|it| it == chosen);
        let newest = self.results(from).find(|(_, arguments)| asked(arguments));
        let regions = newest.into_iter().flat_map(|(passage, _)| {
            let regions = passage.regions.iter();
            regions.map(|(id, span, _)| (*id, passage.text.get(span.clone()).unwrap_or_default()))
        });
        let scored: Vec<(RegionId, usize)> = regions
            .map(|(id, text)| {
                let text = memo.text(text);
                let words = text.words().filter(|word| word.chars().count() >= TOPIC);
                (id, words.filter(|word| self.requested(word)).count())
            })
            .collect();
        let most = scored
            .iter()
            .map(|(_, count)| *count)
            .max()
            .unwrap_or_default();
        let best = scored
            .into_iter()
            .filter(|(_, count)| *count == most && most >= TOPIC_SHARED);
        best.map(|(id, _)| id).collect()
    }

    fn failed(&self, call: &DraftCall) -> Vec<RegionId> {
        // Only where the failure is the last text of all: the steps that follow an older one have
        // answered it already.
        let newest = self.passages.last();
        newest
            .filter(|passage| match passage.writer {
                Writer::Tool { tool, arguments } => {
                    tool == call.tool && arguments != call.arguments && says_no(passage.text)
                }
                _ => false,
            })
            .map(|passage| keyed(passage, &[]).collect())
            .unwrap_or_default()
    }
}

/// An error as AgentDojo writes it, or nothing.
fn says_no(text: &str) -> bool {
    let text = text.trim();
    // The name of an exception, such as `ValueError: …`, and not a sentence before a colon.
    let name = text.split(':').next().unwrap_or_default();
    matches!(text, "" | "[]" | "{}") || name.ends_with("Error") && !name.contains(' ')
}

/// The regions of a result, or those under one of these keys.
fn keyed<'a>(passage: &'a Passage<'a>, parts: &'a [String]) -> impl Iterator<Item = RegionId> {
    let regions = passage.regions.iter();
    let wanted = regions.filter(move |(_, span, _)| {
        parts.is_empty()
            || parts
                .iter()
                .any(|part| part == key(passage.text, span.start))
    });
    wanted.map(|(id, ..)| *id)
}

/// The key of the YAML line that a value starts on; of the line before, where that announces a
/// value on lines of its own.
fn key(text: &str, start: usize) -> &str {
    let before = text.get(..start).unwrap_or_default();
    let (above, line) = before.rsplit_once('\n').unwrap_or(("", before));
    let above = above.rsplit('\n').next().unwrap_or_default();
    let announces =
        above.ends_with(':') || above.trim_end_matches(['-', '+']).ends_with(['|', '>']);
    let line = match line.trim().is_empty() {
        true if announces => above,
        _ => line,
    };
    let key = line.trim_start_matches(['-', ' ']).split(':').next();
    key.unwrap_or_default()
}

/// The items of a YAML list at the left margin; a text without one is one item.
fn items(text: &str) -> Vec<std::ops::Range<usize>> {
    let mut starts: Vec<usize> = text.match_indices("\n- ").map(|(at, _)| at + 1).collect();
    // The first item has no line break before it; a text without a list is one item.
    starts.insert(0, 0);
    let ends = starts.iter().skip(1).copied().chain([text.len()]);
    starts
        .iter()
        .copied()
        .zip(ends)
        .map(|(start, end)| start..end)
        .collect()
}

fn object(arguments: &str) -> Map<String, Value> {
    serde_json::from_str(arguments).unwrap_or_default()
}

/// A text or a number.
fn scalar(arguments: &Map<String, Value>, name: &str) -> Option<String> {
    match arguments.get(name)? {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    }
}
