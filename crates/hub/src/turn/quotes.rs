//! The texts that contain the values of a call in question: a hint for the user at their origin.
//!
//! It proves nothing, since the author of a text chooses its words. So it changes no label and no cause; a question only
//! shows these texts first.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::ops::Range;

use ifc::{
    Call, Flow, History, Lattice, Prompt, PromptMessage, Question, RegionId, Sink, Source, redact,
};

use super::value::leaves;
use crate::recognise::Shared;
use crate::trace::{Cause, Quote};

/// Values that are looked for. A call with more is looked at in its beginning.
const MAX_VALUES: usize = 32;

/// Shorter values occur anywhere.
const MIN_CHARS: usize = 3;

/// Bytes of texts that are looked through for one question; what comes after is not.
const MAX_BYTES: usize = 4 << 20;

/// Characters of a quotation before the value, and in all.
const BEFORE: usize = 40;
const EXCERPT: usize = 140;

/// Places of one value in a text that are compared.
const MAX_PLACES: usize = 32;

/// Bytes of a text that the user can have shown: some hundred lines.
const SHOWN: usize = 32 << 10;

/// A value of a call that is looked for.
struct Value {
    argument: String,
    /// As it is, and as JSON writes it.
    forms: [String; 2],
    /// Of a text that is long enough, its parts.
    parts: Shared,
    text: String,
}

/// Why a question is asked, with the values of the call that its causes contain.
pub(super) fn causes<F: Flow>(
    history: &History,
    lattice: &Lattice,
    question: &Question<F>,
) -> Vec<Cause> {
    let mut shown = Cause::all(question.causes(), lattice);
    let regions = history.regions();
    let texts: BTreeMap<RegionId, &str> = regions
        .map(|region| (region.id, region.reveal_tcb()))
        .collect();
    for (cause, shown) in question.causes().iter().zip(&mut shown) {
        if !matches!(cause.source, Source::Description(_)) {
            let texts = cause.regions().filter_map(|region| texts.get(&region));
            let mut text = texts.copied().collect::<Vec<_>>().join(" … ");
            let most = text.floor_char_boundary(SHOWN);
            if most < text.len() {
                let more = text.split_off(most).len();
                text += &format!(" … [{more} more bytes are not shown]");
            }
            shown.text = text.into();
            let writers = history.writers(cause).into_iter();
            shown.writers = writers.map(ToString::to_string).collect();
        }
    }
    let Sink::Call(call) = question.flow().sink() else {
        return shown;
    };
    let values = values(history, call, question);
    let all = call.arguments.iter();
    let all = all.flat_map(|(_, value)| leaves(value.reveal_tcb()));
    let all = all.filter(|text| (MIN_CHARS..=EXCERPT).contains(&text.chars().count()));
    let all: Vec<String> = all.take(MAX_VALUES).collect();
    let mut left = MAX_BYTES;
    for (cause, shown) in question.causes().iter().zip(&mut shown) {
        // Descriptions of tools block every call, and are no source of values.
        if matches!(cause.source, Source::Description(_)) {
            continue;
        }
        let texts = cause.regions().filter_map(|region| texts.get(&region));
        for text in texts {
            // A question must not wait for a hint.
            let Some(fewer) = left.checked_sub(text.len()) else {
                break;
            };
            left = fewer;
            for value in &values {
                let is_new = |quote: &Quote| quote.argument != value.argument;
                if shown.quotes.iter().all(is_new)
                    && let Some((excerpt, place)) = value.within(text, &all)
                {
                    shown.quotes.push(Quote {
                        argument: value.argument.clone(),
                        text: excerpt.into(),
                        place,
                    });
                }
            }
        }
    }
    shown
}

/// The values of the parts of a call that exceed their limits, without those in texts that these limits admit: the
/// user's own words, as a rule.
fn values<F: Flow>(history: &History, call: &Call, question: &Question<F>) -> Vec<Value> {
    let sink = Sink::Call(call);
    let rule = question.rule();
    let parts = rule.parts(&sink);
    let is_data = |name: &str| {
        let mut data = parts.iter().filter_map(|part| part.argument);
        data.any(|path| path.argument() == name)
    };
    let (mut values, mut looked_at) = (Vec::new(), 0);
    for part in parts.iter().filter(|part| part.exceeds()) {
        let json: Vec<(String, String)> = match part.argument {
            Some(path) => {
                let values = call.arguments.at(path).unwrap_or_default();
                let values = values.iter().map(|value| value.reveal_tcb().to_owned());
                values.map(|value| (path.to_string(), value)).collect()
            }
            None => {
                let control = call.arguments.iter().filter(|(name, _)| !is_data(name));
                let value = |(name, value): (&str, &ifc::Labeled)| {
                    (name.to_owned(), value.reveal_tcb().to_owned())
                };
                control.map(value).collect()
            }
        };
        // What the limit admits is no cause. A value that is in it, too, would point at a text that only
        // repeats it.
        let admitted = redact(history, part.limit);
        for (argument, json) in json {
            let long = leaves(&json).into_iter();
            let long = long.filter(|text| text.chars().count() >= MIN_CHARS);
            let room = MAX_VALUES.saturating_sub(looked_at);
            let new = long.take(room).map(|text| Value::new(&argument, text));
            let new: Vec<Value> = new.collect();
            looked_at += new.len();
            let new = new.into_iter();
            values.extend(new.filter(|value| !value.is_in(&admitted)));
        }
    }
    values
}

impl Value {
    fn new(argument: &str, text: String) -> Self {
        let written = serde_json::Value::from(text.as_str()).to_string();
        let written = written.get(1..written.len() - 1).unwrap_or_default();
        Self {
            argument: argument.to_owned(),
            forms: [text.clone(), written.to_owned()],
            parts: Shared::new(&text),
            text,
        }
    }

    /// Whether a message of a prompt that is not the model's contains it.
    fn is_in(&self, prompt: &Prompt) -> bool {
        let mut messages = prompt.messages().iter();
        messages.any(|message| match message {
            PromptMessage::Assistant { .. } => false,
            PromptMessage::System(text)
            | PromptMessage::User(text)
            | PromptMessage::Tool { content: text, .. } => self.within(text, &[]).is_some(),
        })
    }

    /// The value in a text with the text around it, and its place there; of a long one, the part that the text contains in
    /// some form. Of several places, the first of those with the most values of the call around it.
    fn within(&self, text: &str, all: &[String]) -> Option<(String, Range<usize>)> {
        let mut forms = self.forms.iter();
        let whole = forms.find_map(|form| {
            let places = places(text, form).take(MAX_PLACES);
            let found = places.map(|at| excerpt(text, at, form.len()));
            let count =
                |(text, _): &(String, _)| all.iter().filter(|it| text.contains(*it)).count();
            found.min_by_key(|found| Reverse(count(found)))
        });
        whole.or_else(|| {
            let part = self.text.get(self.parts.within(text).into_iter().next()?)?;
            Some(excerpt(part, 0, part.len()))
        })
    }
}

/// The places of a value in a text, as a word or several: `10` is not in `2310`.
fn places(text: &str, value: &str) -> impl Iterator<Item = usize> {
    let is_word = |c: Option<char>| c.is_some_and(char::is_alphanumeric);
    let places = text.match_indices(value).map(|(at, _)| at);
    places.filter(move |at| {
        let (before, from) = text.split_at(*at);
        let after = from.get(value.len()..).unwrap_or_default();
        let joined_before = is_word(before.chars().next_back()) && is_word(value.chars().next());
        let joined_after = is_word(after.chars().next()) && is_word(value.chars().next_back());
        !joined_before && !joined_after
    })
}

/// The text around a place of it, and where the place is in that.
fn excerpt(text: &str, at: usize, length: usize) -> (String, Range<usize>) {
    let (before, from) = text.split_at(at);
    let start = before.char_indices().rev().take(BEFORE).last();
    let start = start.map_or(at, |(start, _)| start);
    let kept = before.get(start..).unwrap_or_default();
    let mut chars = kept.chars().chain(from.chars());
    let mut excerpt = String::from(if start > 0 { "…" } else { "" });
    let begin = excerpt.len() + kept.len();
    excerpt.extend(chars.by_ref().take(EXCERPT));
    let end = excerpt.len().min(begin + length);
    if chars.next().is_some() {
        excerpt.push('…');
    }
    (excerpt, begin..end)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_stands_where_it_is_a_word() {
        let place = |text, value| places(text, value).next();
        assert_eq!(place("pay 2310, then 10.", "10"), Some(15));
        assert_eq!(place("pay 2310", "10"), None);
        assert_eq!(place("to:eve@evil.example,", "eve@evil.example"), Some(3));
        assert_eq!(place("steve@evil.example", "eve@evil.example"), None);
        let long = format!("{}IBAN{}", "ä ".repeat(100), " ö".repeat(100));
        let at = long.find("IBAN").unwrap();
        let (shown, place) = excerpt(&long, at, 4);
        assert!(shown.starts_with('…') && shown.ends_with('…'), "{shown}");
        assert_eq!(shown.chars().count(), EXCERPT + 2);
        assert_eq!(&shown[place], "IBAN");
        assert_eq!(excerpt("IBAN", 0, 4), ("IBAN".to_owned(), 0..4));
        let (shown, place) = excerpt(&long, at, long.len() - at);
        assert_eq!(shown.len() - '…'.len_utf8(), place.end);
    }

    /// A list of who may read a file is no reason for a mail, and the task in it is.
    #[test]
    fn a_value_is_shown_beside_the_other_values() {
        let value = Value::new("to", "david@x.example".to_owned());
        let text = format!(
            "david@x.example: rw.{} david@x.example: review by 2024-05-20.",
            " words".repeat(60)
        );
        let all = ["david@x.example", "2024-05-20"].map(str::to_owned);
        let (shown, place) = value.within(&text, &all).unwrap();
        assert!(shown.ends_with("review by 2024-05-20."), "{shown}");
        assert_eq!(&shown[place], "david@x.example");
        let (first, _) = value.within(&text, &[]).unwrap();
        assert!(first.starts_with("david@x.example: rw"), "{first}");
    }

    #[test]
    fn a_value_is_known_as_json_writes_it_and_a_long_one_in_parts() {
        let value = Value::new("body", "say\n\"yes\"".to_owned());
        assert!(
            value
                .within(r#"{"text":"Please say\n\"yes\"."}"#, &[])
                .is_some()
        );
        let long = Value::new(
            "body",
            format!(
                "Hello Ben, {} Yours",
                "the chairs come on Monday at ten o'clock"
            ),
        );
        assert!(
            long.within("THE CHAIRS COME\\non Monday at ten o'clock, I hope", &[])
                .is_some()
        );
        assert!(long.within("the chairs come", &[]).is_none());
    }
}
