//! Dependencies by value: a step depends on the regions whose text holds what it says.
//!
//! This is the *oracle* of the benchmarks: it is told the step's values (the arguments of its
//! calls, or its answer) and finds where they stand. It sees the flow of values, not of control: a
//! call that an attacker asked for without dictating one of its values has no dependency here, and
//! a value that the model computed is found nowhere. So it is a measure of what perfect
//! value dependencies would cost, and no screener for use.

mod tokens;

use std::collections::BTreeSet;

use ifc::{History, Label, Labeled, Message, RegionId};

use tokens::is_hard;
pub use tokens::{is_trivial, tokens, without_year};

/// Strings of more tokens are prose, looked up piece by piece.
const PHRASE_TOKENS: usize = 6;

/// So many words of prose in the same order are copied, not chance.
const SHINGLE: usize = 4;

/// So many words in the same order are a quotation.
const PASSAGE: usize = 8;

/// The values of a call's arguments: every leaf of the JSON, at any depth.
pub fn argument_values(arguments: &str) -> Vec<String> {
    let mut found = Vec::new();
    match serde_json::from_str(arguments) {
        Ok(value) => leaves(&value, &mut found),
        // Not JSON: whatever it is, it is one value.
        Err(_) => found.push(arguments.to_owned()),
    }
    found
}

/// The regions of `history` that hold one of `values`, where no unlabelled text does.
///
/// Where several regions hold a value, those whose label is above another's are left out: the
/// value could be had from the lower one alone. Strings are compared without case, quotes,
/// escapes and line breaks; numbers and dates in any spelling. Values that say too little are left
/// out (true, numbers below 10, very short words). Prose counts by its pieces: names, numbers,
/// dates, addresses, and any four words in a row; so does a short string that stands nowhere as a
/// whole, but for the words in a row.
pub fn relevant(history: &History, values: &[String]) -> BTreeSet<RegionId> {
    if values.is_empty() {
        return BTreeSet::new();
    }
    let index = Index::new(history);
    let wanted = values.iter().flat_map(|value| index.wanted(value, &[]));
    wanted.flat_map(|value| index.sources(&value)).collect()
}

/// Whether somebody who sees `history` at `label` lacks one of `values`: it is in a masked
/// region, or in one of the texts of `withheld`, and nowhere else. A value that stands nowhere is
/// not lacking: it was computed or made up.
pub(crate) fn lacks(
    history: &History,
    label: &Label,
    withheld: &[String],
    values: &[String],
) -> bool {
    // The usual case, without the cost of an index: nothing is out of sight.
    if withheld.is_empty() && history.label().flows_to(label) {
        return false;
    }
    let index = Index::new(history);
    let withheld: Vec<Vec<String>> = withheld.iter().map(|text| tokens(text)).collect();
    let mut wanted = values
        .iter()
        .flat_map(|value| index.wanted(value, &withheld));
    let has = |value: &[String]| {
        let mut regions = index.regions.iter();
        index.is_free(value)
            || regions.any(|(_, own, text)| own.flows_to(label) && contains(text, value))
    };
    let hidden = |value: &[String]| {
        let regions = index.regions.iter().map(|(_, _, text)| text);
        let mut texts = regions.chain(&withheld);
        texts.any(|text| contains(text, value))
    };
    wanted.any(|value| !has(&value) && hidden(&value))
}

/// Whether a passage of `passages` is in `text`.
pub fn cites(text: &str, passages: &str) -> bool {
    let (text, all) = (tokens(text), tokens(passages));
    let mut passages = all.windows(PASSAGE.min(all.len().max(1)));
    passages.any(|passage| contains(&text, passage))
}

/// Whether a passage of `text` is in what is seen of `history` at `label`.
pub(crate) fn quotes(history: &History, label: &Label, text: &str) -> bool {
    let all = tokens(text);
    let index = Index::new(history);
    let mut passages = all.windows(PASSAGE.min(all.len().max(1)));
    passages.any(|passage| {
        let mut regions = index.regions.iter();
        index.is_free(passage)
            || regions.any(|(_, own, text)| own.flows_to(label) && contains(text, passage))
    })
}

/// Whether `text` holds `value`, as [`relevant`] compares. Values that say too little are held by
/// every text; of prose, one piece is enough.
pub fn holds(text: &str, value: &str) -> bool {
    let pieces = pieces(value);
    let text = tokens(text);
    pieces.is_empty() || pieces.iter().any(|piece| contains(&text, piece))
}

fn leaves(value: &serde_json::Value, found: &mut Vec<String>) {
    match value {
        serde_json::Value::Null | serde_json::Value::Bool(_) => {}
        serde_json::Value::Number(number) => found.push(number.to_string()),
        serde_json::Value::String(text) => found.push(text.clone()),
        serde_json::Value::Array(items) => items.iter().for_each(|item| leaves(item, found)),
        serde_json::Value::Object(fields) => {
            fields.values().for_each(|field| leaves(field, found));
        }
    }
}

/// What to look for of a value, each in tokens: the whole value if it is short, otherwise those parts of it that
/// do not match by chance.
pub fn pieces(value: &str) -> Vec<Vec<String>> {
    let all = tokens(value);
    if all.iter().all(|token| is_trivial(token)) {
        return Vec::new();
    }
    // Short values name one thing and must be found whole. Of prose a part is enough: who copies a
    // paragraph seldom copies all of it.
    if all.len() <= PHRASE_TOKENS {
        return vec![all];
    }
    let shingles = all.windows(SHINGLE).map(<[String]>::to_vec);
    let pieces: BTreeSet<Vec<String>> = fragments(value, &all).chain(shingles).collect();
    pieces.into_iter().collect()
}

/// What in a value names one thing: numbers, dates, addresses, names. `all` are its tokens.
pub fn fragments<'a>(
    value: &str,
    all: &'a [String],
) -> impl Iterator<Item = Vec<String>> + use<'a> {
    let hard = all
        .iter()
        .filter(|token| is_hard(token))
        .map(|token| vec![token.clone()]);
    let names = names(value).into_iter().map(|name| vec![name]);
    hard.chain(names)
}

fn names(prose: &str) -> Vec<String> {
    let words: Vec<&str> = prose.split_whitespace().collect();
    let inside = words.windows(2).filter_map(|pair| match pair {
        // The first word of a sentence or list item is capitalised whatever it is.
        [before, word] if !before.ends_with(['.', ':', '!', '?', '-', '*']) => Some(*word),
        _ => None,
    });
    let capital = inside.filter(|word| word.starts_with(char::is_uppercase));
    let names = capital.flat_map(tokens);
    /// Capitalised words of three letters are mostly `The`, `You`, `May`.
    const SHORTEST: usize = 4;
    names
        .filter(|name| name.chars().count() >= SHORTEST)
        .collect()
}

/// Whether these tokens are in a text in a row; a date also without its year.
pub fn contains(text: &[String], value: &[String]) -> bool {
    let same = |(text, value): (&String, &String)| {
        text == value || without_year(value).is_some_and(|day| text == day)
    };
    text.windows(value.len())
        .any(|window| window.iter().zip(value).all(same))
}

/// The texts of a history, in tokens.
struct Index {
    unlabelled: Vec<Vec<String>>,
    regions: Vec<(RegionId, Label, Vec<String>)>,
}

impl Index {
    fn new(history: &History) -> Self {
        let regions = history.regions();
        let regions =
            regions.map(|region| (region.id, region.label.clone(), tokens(region.reveal_tcb())));
        let tools = history.tools().iter();
        let tools = tools.flat_map(|tool| [&tool.description, &tool.parameters]);
        let messages = history.messages().flat_map(|(_, message)| match message {
            Message::System(text) | Message::User(text) | Message::Memory(text) => vec![text],
            Message::Result { content, .. } => vec![content],
            Message::Assistant { text, calls } => {
                let calls = calls.iter().map(|call| &call.arguments);
                std::iter::once(text).chain(calls).collect()
            }
        });
        Self {
            regions: regions.collect(),
            unlabelled: tools.chain(messages).flat_map(gaps).map(tokens).collect(),
        }
    }

    /// What to look for, of one value. A short one that occurs nowhere in full, neither here nor
    /// in `others`, counts by what is in it.
    fn wanted(&self, value: &str, others: &[Vec<String>]) -> Vec<Vec<String>> {
        let wanted = pieces(value);
        match wanted.as_slice() {
            [whole] if !self.knows(whole) && !others.iter().any(|text| contains(text, whole)) => {
                fragments(value, whole).collect()
            }
            _ => wanted,
        }
    }

    fn knows(&self, value: &[String]) -> bool {
        let mut regions = self.regions.iter();
        self.is_free(value) || regions.any(|(_, _, text)| contains(text, value))
    }

    fn is_free(&self, value: &[String]) -> bool {
        self.unlabelled.iter().any(|text| contains(text, value))
    }

    /// The regions to have `value` from; none if it is free.
    fn sources(&self, value: &[String]) -> Vec<RegionId> {
        if self.unlabelled.iter().any(|text| contains(text, value)) {
            return Vec::new();
        }
        let holders: Vec<&(RegionId, Label, Vec<String>)> = self
            .regions
            .iter()
            .filter(|(_, _, text)| contains(text, value))
            .collect();
        // A region above another holder adds nothing: the value could be read from the lower one.
        let above = |label: &Label| {
            let mut others = holders.iter().map(|(_, other, _)| other);
            others.any(|other| other != label && other.flows_to(label))
        };
        let lowest = holders.iter().filter(|(_, label, _)| !above(label));
        lowest.map(|(id, _, _)| *id).collect()
    }
}

/// The unlabelled stretches of a text.
fn gaps(text: &Labeled) -> Vec<&str> {
    let revealed = text.reveal_tcb();
    let mut from = 0;
    let mut gaps = Vec::new();
    for (span, _) in text.regions() {
        gaps.extend(revealed.get(from..span.start));
        from = span.end;
    }
    gaps.extend(revealed.get(from..));
    gaps.retain(|gap| !gap.is_empty());
    gaps
}

#[cfg(test)]
mod tests;
