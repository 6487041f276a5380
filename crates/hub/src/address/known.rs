//! The addresses in the texts that a model was shown.

use std::collections::HashMap;

use ifc::{Author, History, Label, Labeled, Message};

use super::scan::{Hosts, address, begin_behind_joint, could_hold};
use super::skeleton::skeleton;

/// Punctuation that may follow an address at the end of a sentence or of a Markdown construct.
const PUNCTUATION: &[char] = &[
    '.', ',', ';', ':', '!', '?', '\'', '"', '*', '_', '~', ')', ']', '}', '>', '|', '`', '。',
    '，', '、', '；', '：', '！', '？', '）', '」', '』', '】', '》', '”', '’', '…',
];
/// How much of it. It may end up in the address that a renderer reads, so it is not for any use.
const MOST_PUNCTUATION: usize = 4;
/// Places that are kept of one address: there are as many as there are labels, in practice one or two.
const MOST_PLACES: usize = 8;

/// A place of an address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// The label of the text there.
    pub label: Label,
    /// The app whose result it is.
    pub app: Option<String>,
}

/// The addresses of a history, as far as a prompt at one label shows it.
///
/// What the model itself wrote is none of them, unless it was trusted and public: an address that it put
/// together in one answer would otherwise be known in the next.
#[derive(Debug, Default)]
pub struct Known(HashMap<String, Vec<Place>>);

impl Known {
    /// Those that a prompt at `label` shows; `app_of` names the app of a tool.
    #[must_use]
    pub fn below(
        history: &History,
        label: &Label,
        app_of: impl Fn(&str) -> Option<String>,
    ) -> Self {
        let mut known = Self::default();
        for tool in history.tools() {
            // A tool that the prompt does not show lends no address.
            if tool.label.flows_to(label) {
                known.learn(&tool.description, label, None);
            }
        }
        let bottom = Label::bottom();
        for (existence, message) in history.messages() {
            if !existence.flows_to(label) {
                continue;
            }
            match message {
                // The user's own words, and what was pasted: each part with the label that it has.
                Message::System(text) | Message::User(text) => known.learn(text, label, None),
                Message::Result {
                    tool,
                    content,
                    author: Author::App,
                    ..
                } => known.learn(content, label, app_of(tool).as_deref()),
                // Neither an app's words nor the user's of this conversation: only what is ⊥ in them lends an address,
                // since one that a model put together would be known from then on.
                Message::Memory(text)
                | Message::Result { content: text, .. }
                | Message::Assistant { text, .. } => known.learn(text, &bottom, None),
            }
        }
        known
    }

    /// The places of exactly this address. Whether it begins with `https://` or `http://`, and
    /// ends with a slash, does not matter.
    #[must_use]
    pub fn places(&self, address: &str) -> &[Place] {
        self.0
            .get(essence(address))
            .map_or(&[], |places| places.as_slice())
    }

    fn learn(&mut self, text: &Labeled, label: &Label, app: Option<&str>) {
        let bottom = Label::bottom();
        let end = text.len();
        let mut covered = 0;
        for (span, own) in text.regions() {
            // Regions are what is above ⊥, so what lies between two of them is ⊥.
            self.learn_span(text, covered..span.start, &bottom, app);
            if own.flows_to(label) {
                self.learn_span(text, span.clone(), own, app);
            }
            covered = span.end;
        }
        self.learn_span(text, covered..end, &bottom, app);
    }

    fn learn_span(
        &mut self,
        text: &Labeled,
        span: std::ops::Range<usize>,
        label: &Label,
        app: Option<&str>,
    ) {
        let text = text.reveal_tcb().get(span).unwrap_or_default();
        let place = || Place {
            label: label.clone(),
            app: app.map(str::to_owned),
        };
        // An address in JSON or HTML ends at a quotation mark, one in words at a blank.
        let quoted = |c: char| c.is_ascii_whitespace() || matches!(c, '"' | '<' | '>' | '`');
        let marked = |c: char| quoted(c) || matches!(c, '\'' | ',' | '|' | '\\' | '(' | ')');
        let words = text.split_ascii_whitespace();
        let all = words.chain(text.split(quoted)).chain(text.split(marked));
        for word in all.filter(|word| could_hold(word)) {
            let read = skeleton(word);
            let Some(begin) = address(&read, Hosts::All) else {
                continue;
            };
            // In `source=example.com/x` both the whole and the part behind the sign may be meant.
            let behind = begin_behind_joint(&read, begin);
            let begins = std::iter::once(begin).chain((behind > begin).then_some(behind));
            let found = begins.filter_map(|begin| word.get(read.get(begin)?.at..));
            for candidate in found.flat_map(candidates) {
                let key = essence(candidate);
                let places = match self.0.get_mut(key) {
                    Some(places) => places,
                    None => self.0.entry(key.to_owned()).or_default(),
                };
                let place = place();
                // A place too many is passed over: its address is inert where only that one would admit it.
                if places.len() < MOST_PLACES && !places.contains(&place) {
                    places.push(place);
                }
            }
        }
    }
}

/// What may be meant by an address with punctuation after it, the longest first.
pub(super) fn candidates(found: &str) -> impl Iterator<Item = &str> {
    let shorter = std::iter::successors(Some(found), |rest| rest.strip_suffix(PUNCTUATION));
    shorter.take(MOST_PUNCTUATION + 1)
}

/// An address without what says nothing.
fn essence(address: &str) -> &str {
    let http = address.strip_prefix("http://");
    let rest = address.strip_prefix("https://").or(http).unwrap_or(address);
    rest.strip_suffix('/').unwrap_or(rest)
}

#[cfg(test)]
mod tests {
    use ifc::{Dimension, Lattice};

    use super::*;

    #[test]
    fn an_address_has_the_label_of_its_place() {
        let lattice = Lattice::four_point();
        let (low, high) = (
            lattice.whole(Dimension::Integrity),
            lattice.whole(Dimension::Confidentiality),
        );
        let mut history = History::new(Vec::new());
        history.push_user(Labeled::trusted_tcb(
            "Read \"https://a.org/x(1)\", b.org, [c](https://c.org/c) and at=e.org/e.",
        ));
        let ids = history.push_assistant(
            &low,
            Labeled::trusted_tcb("made up: https://made.org/up"),
            [("read".to_owned(), Labeled::trusted_tcb("{}"))],
        );
        let text = r#"{"url":"https://d.org/d","x":"https://secret.org/s"}"#;
        let secret = text.find("https://secret").unwrap_or_default();
        let content =
            Labeled::with_regions_tcb(text, [(secret..secret + 20, high.clone())]).unwrap();
        history.push_result(&low, ids[0], content);
        let known = Known::below(&history, &low, |tool| Some(format!("app of {tool}")));
        let labels = |address: &str| -> Vec<Label> {
            let places = known.places(address).iter();
            places.map(|place| place.label.clone()).collect()
        };
        for trusted in [
            "https://a.org/x(1)",
            "https://b.org/",
            "b.org",
            "https://c.org/c",
            "e.org/e",
            "at=e.org/e",
        ] {
            assert_eq!(labels(trusted), [Label::bottom()], "{trusted}");
        }
        assert_eq!(labels("https://d.org/d"), std::slice::from_ref(&low));
        let app = known.places("https://d.org/d")[0].app.as_deref();
        assert_eq!(app, Some("app of read"));
        for unknown in [
            "https://secret.org/s",
            "https://made.org/up",
            "https://a.org/x(1)?",
            "https://a.org/",
            "https://c.org/c?q=1",
        ] {
            assert_eq!(labels(unknown), Vec::<Label>::new(), "{unknown}");
        }
    }
}
