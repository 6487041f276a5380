//! A question as data that can be kept: everything that any renderer shows, complete and by itself.
//!
//! Foreign text in it is raw, and each renderer escapes it for its medium. Sentences are ours, with foreign words in them
//! escaped.

use std::fmt;
use std::ops::Range;

use serde::{Deserialize, Serialize};

use super::arguments::{Argument, arguments};
use super::text::{Contents, words};
use super::view::QuestionView;
use crate::trace::{Cause, Quote};

/// Bytes of all sources that are kept in full. Of later ones the excerpt is kept.
const SOURCES: usize = 1 << 20;

/// Everything that a question shows. That of a version which has not all of its members cannot be read: an answer could allow
/// what is not shown.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Shown {
    /// What is asked, one sentence each.
    pub title: Vec<String>,
    /// The app, or several with `, ` between them.
    pub app: String,
    /// The tool; empty for an answer.
    pub tool: String,
    /// `read`, `write` or `irreversible`.
    pub effect: String,
    /// Whether it is about showing an answer, which is in `text`.
    pub is_answer: bool,
    /// The exact arguments of a call, the most important first.
    pub arguments: Vec<ShownArgument>,
    /// The text of an answer or a message, or arguments that cannot be read.
    #[serde(deserialize_with = "Option::deserialize")]
    pub text: Option<String>,
    /// Whether the arguments cannot be read.
    pub is_unreadable: bool,
    /// The other calls of the step, which `each` allows too.
    pub waiting: Vec<ShownCall>,
    /// The rule that asks.
    pub rule: String,
    /// The argument that it is about, if not about all of the call.
    pub argument: Option<String>,
    /// The labels that the rule allows.
    pub limit: Vec<String>,
    /// The labels beyond them.
    pub excess: Vec<String>,
    /// Why it is asked, one sentence each.
    pub reasons: Vec<String>,
    /// What the flow may depend on, the most relevant first.
    pub sources: Vec<ShownSource>,
    /// "3 tool descriptions (untrusted)", if it may depend on some.
    pub descriptions: Option<String>,
    /// What else is known, one sentence each.
    pub notes: Vec<String>,
    /// The texts that trust would cover, in full.
    pub trusted: Vec<ShownText>,
    /// The hosts at which `host` would allow any address.
    pub hosts: Vec<String>,
    /// Which values the policy would allow instead, in its words.
    pub instead: Option<String>,
    /// The answers that are offered, `no` last.
    pub choices: Vec<ShownChoice>,
    /// Who may allow it; if empty, everyone who may answer at all.
    pub approvers: Vec<String>,
}

/// An argument.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ShownArgument {
    /// Its name.
    pub name: String,
    /// Its value as JSON text.
    pub value: String,
    /// Its words that mix scripts, with every character outside ASCII as its number.
    pub mixed: Vec<String>,
    /// Whether an answer makes it the user's own request or covers it later: it is shown in full before that answer.
    pub is_covered: bool,
}

/// Another call of the step.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ShownCall {
    /// Its app.
    pub app: String,
    /// Its tool.
    pub tool: String,
    /// Its exact arguments.
    pub arguments: Vec<ShownArgument>,
}

/// A text that the flow may depend on. It is `before`, `text` and `after`, one after the other.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ShownSource {
    /// Where it comes from: `result of read_email`.
    pub source: String,
    /// Who wrote it, as far as the policy's rules tell.
    pub writers: Vec<String>,
    /// Its label.
    pub label: Vec<String>,
    /// What comes before the place that has a value of the call.
    pub before: String,
    /// The place; empty if no value of the call was found.
    pub text: String,
    /// What comes after it.
    pub after: String,
    /// The arguments whose values occur in it. It is a hint and proves nothing.
    pub shared: Vec<String>,
    /// Whether the screener left it in.
    pub is_relevant: bool,
    /// How often it was there.
    pub times: usize,
}

/// A text that trust would cover.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ShownText {
    /// Where it comes from.
    pub source: String,
    /// All of it.
    pub text: String,
}

/// An answer that is offered.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ShownChoice {
    /// Its name, by which it is given.
    pub answer: String,
    /// What it is called: `trust for this task`.
    pub words: String,
    /// What it allows beyond this call, as a sentence; empty if nothing.
    pub meaning: String,
}

impl QuestionView {
    /// The question as data. `lasts` says until when `always` holds.
    #[must_use]
    pub fn shown(&self, lasts: &dyn fmt::Display) -> Shown {
        let (arguments, text) = match self.contents() {
            Contents::Arguments(arguments) => (arguments, None),
            Contents::Text(text) | Contents::Unreadable(text) => (Vec::new(), Some(text)),
            Contents::Nothing => (Vec::new(), None),
        };
        let own = arguments.into_iter().map(|argument| {
            let mut endorsed = self.endorses.iter().flatten();
            let is_covered = endorsed.any(|name| *name == argument.name)
                || self.bounds.iter().any(|it| it.name == argument.name);
            ShownArgument::new(argument, is_covered)
        });
        let choices = self.choices.iter().map(|answer| ShownChoice {
            answer: answer.name().to_owned(),
            words: words(*answer).to_owned(),
            meaning: self.meaning(*answer, lasts).unwrap_or_default(),
        });
        let trusted = self.trust.iter().flat_map(|trust| &trust.texts);
        let waiting = self.waiting.iter().map(|call| ShownCall {
            app: call.app.clone(),
            tool: call.tool.clone(),
            arguments: read(&call.arguments),
        });
        Shown {
            title: self.title(),
            app: self.app.clone(),
            tool: self.tool.clone(),
            effect: self.effect.to_owned(),
            is_answer: self.is_answer,
            arguments: own.collect(),
            text: text.map(str::to_owned),
            is_unreadable: matches!(self.contents(), Contents::Unreadable(_)),
            waiting: waiting.collect(),
            rule: self.rule.clone(),
            argument: self.argument.clone(),
            limit: self.limit.clone(),
            excess: self.excess.clone(),
            reasons: self.reasons(),
            sources: self.shown_sources(),
            descriptions: self.sources().descriptions,
            notes: self.notes(),
            trusted: trusted
                .map(|text| ShownText {
                    source: text.source.to_string(),
                    text: text.text.clone(),
                })
                .collect(),
            hosts: self.hosts.clone(),
            instead: self.instead.clone(),
            choices: choices.collect(),
            approvers: self.approvers.clone(),
        }
    }

    fn shown_sources(&self) -> Vec<ShownSource> {
        let sources = self.sources();
        let all = sources.relevant.iter().chain(&sources.screened_out);
        let mut room = SOURCES;
        let shown = all.map(|(cause, times)| {
            let text = match room.checked_sub(cause.text.len()) {
                // A gateway and a connection have excerpts only.
                Some(left) if !cause.text.is_empty() => {
                    room = left;
                    &cause.text
                }
                _ => &cause.excerpt,
            };
            let mut quotes: Vec<&Quote> = cause.quotes.iter().collect();
            quotes.sort_by_key(|quote| self.place_of(quote));
            ShownSource::new(cause, text, *times, &quotes)
        });
        shown.collect()
    }
}

impl ShownArgument {
    fn new(argument: Argument, is_covered: bool) -> Self {
        Self {
            mixed: argument.mixed(),
            name: argument.name,
            value: argument.value,
            is_covered,
        }
    }
}

impl ShownSource {
    /// A text, divided at the first of these values of the call in it.
    fn new(cause: &Cause, text: &str, times: usize, quotes: &[&Quote]) -> Self {
        let place = quotes.first().map(|quote| {
            let (start, end) = (quote.place.start, quote.place.end);
            // A quote has an ellipsis where the text goes on. It is found only in a text that is kept in full.
            let words = quote.text.trim_matches('…');
            let cut = quote.text.len() - quote.text.trim_start_matches('…').len();
            match text.find(words) {
                Some(at) => (
                    text,
                    at + start.saturating_sub(cut),
                    at + end.saturating_sub(cut),
                ),
                None => (quote.text.as_str(), start, end),
            }
        });
        let (text, start, end) = place.unwrap_or((text, 0, 0));
        let part = |range: Range<usize>| text.get(range).unwrap_or_default().to_owned();
        Self {
            source: cause.source.to_string(),
            writers: cause.writers.clone(),
            label: cause.label.clone(),
            before: part(0..start),
            text: part(start..end),
            after: part(end..text.len()),
            shared: quotes.iter().map(|quote| quote.argument.clone()).collect(),
            is_relevant: cause.relevant,
            times,
        }
    }
}

/// The arguments of a call. An answer may allow it, so what cannot be read is shown as it is.
fn read(text: &str) -> Vec<ShownArgument> {
    let unread = || ShownArgument {
        value: text.to_owned(),
        is_covered: true,
        ..ShownArgument::default()
    };
    match arguments(text) {
        Some(arguments) => arguments
            .into_iter()
            .map(|it| ShownArgument::new(it, true))
            .collect(),
        None => vec![unread()],
    }
}

#[cfg(test)]
mod tests {
    use ifc::{Answer, Bounds, Effect, Source, Until};
    use serde_json::Value;

    use super::*;
    use crate::question::{Assessment, MessageView, TrustView, TrustedText, WaitingCall};

    /// A text that escaping changes, so that it is seen whether it is raw.
    fn mark(name: &str) -> String {
        format!("<{name}>\u{202e}\u{1b}[2J")
    }

    fn marks<const N: usize>(names: [&str; N]) -> Vec<String> {
        names.map(mark).into()
    }

    fn cause(name: &str, relevant: bool) -> Cause {
        let text = format!(
            "{}: pay {} to eve",
            mark(name),
            mark(&format!("value-{name}"))
        );
        let value = mark(&format!("value-{name}"));
        let quote = Quote {
            argument: mark(&format!("quoted-{name}")),
            text: format!("…pay {value} to…").into(),
            place: "…pay ".len().."…pay ".len() + value.len(),
        };
        Cause {
            region: 0,
            source: Source::Tool(mark(&format!("source-{name}"))),
            excerpt: "the beginning".into(),
            label: marks(["label"]),
            relevant,
            quotes: vec![quote],
            text: text.into(),
            writers: marks(["source-writer"]),
        }
    }

    /// A question with everything that a question can have.
    fn full() -> QuestionView {
        let arguments = serde_json::json!({ mark("name"): [mark("value-a"), {"x": mark("inner")}],
            "host": "p\u{430}ypal.com" });
        QuestionView {
            app: mark("app"),
            tool: mark("tool"),
            message: Some(MessageView {
                from: mark("from"),
                to: mark("app"),
                functionality: mark("functionality"),
                stage: None,
                conversed: false,
                waiting: marks(["earlier"]),
            }),
            is_answer: false,
            arguments: arguments.to_string(),
            ran: Some(ifc::Ran::Unknown),
            effect: "irreversible",
            rule: mark("rule"),
            argument: Some(mark("argument")),
            limit: marks(["limit"]),
            instead: Some(mark("instead")),
            excess: marks(["excess"]),
            causes: vec![cause("a", true), cause("b", false)],
            choices: vec![
                Answer::Once,
                Answer::Each,
                Answer::TrustValue,
                Answer::Trust(Until::Task),
                Answer::TrustSource,
                Answer::Trust(Until::Session),
                Answer::Host,
                Answer::Session,
                Answer::Always,
                Answer::No,
            ],
            approvers: marks(["approver"]),
            covers: marks(["covers"]),
            bounds: Bounds::default(),
            collaboration: None,
            trust: Some(TrustView {
                texts: vec![TrustedText {
                    source: Source::Tool(mark("trusted-source")),
                    text: mark("trusted"),
                }],
                app: mark("app"),
                effect: Effect::Irreversible,
                values: marks(["trusted-value"]),
                writers: marks(["writer"]),
                more: 3,
            }),
            endorses: Some(vec!["host".to_owned()]),
            connection: None,
            hosts: marks(["host"]),
            waiting: vec![
                WaitingCall {
                    app: mark("other-app"),
                    tool: mark("other-tool"),
                    arguments: serde_json::json!({"a": mark("other-value")}).to_string(),
                },
                WaitingCall {
                    app: "a".to_owned(),
                    tool: "b".to_owned(),
                    arguments: mark("unreadable"),
                },
            ],
            assessment: Assessment {
                unplanned: true,
                before: vec![Answer::No],
                same: None,
            },
            asker: None,
        }
    }

    #[test]
    fn nothing_of_a_question_is_left_out() {
        let shown = full().shown(&"for 7 days");
        let text = format!("{shown:#?}");
        for name in [
            "from",
            "earlier",
            "functionality",
            "app",
            "tool",
            "name",
            "value-a",
            "inner",
            "rule",
            "argument",
            "limit",
            "instead",
            "excess",
            "a",
            "b",
            "value-b",
            "source-a",
            "source-b",
            "label",
            "quoted-a",
            "quoted-b",
            "approver",
            "covers",
            "trusted",
            "trusted-source",
            "trusted-value",
            "writer",
            "source-writer",
            "host",
            "other-app",
            "other-tool",
            "other-value",
            "unreadable",
        ] {
            assert!(text.contains(&format!("<{name}>")), "{name}: {text}");
        }
        for words in [
            "already sent",
            "does not need",
            "asked about",
            "own request",
            "3 more texts",
            "for 7 days",
        ] {
            assert!(text.contains(words), "{words}: {text}");
        }
        // Every answer but no says what it allows.
        for choice in &shown.choices {
            assert_eq!(
                choice.meaning.is_empty(),
                choice.answer == "no",
                "{choice:?}"
            );
        }
        // Sentences are ours: nothing foreign in them steers a terminal.
        let meanings = shown.choices.iter().map(|choice| &choice.meaning);
        let sentences = shown.title.iter().chain(&shown.reasons).chain(&shown.notes);
        for sentence in sentences.chain(meanings) {
            assert!(!sentence.contains(['\u{202e}', '\u{1b}']), "{sentence}");
        }
        assert_eq!(shown.arguments[0].mixed, ["p\\u{430}ypal.com"]);
    }

    #[test]
    fn a_source_shows_the_place_of_the_value() {
        let shown = full().shown(&"");
        let [source, other] = &shown.sources[..] else {
            panic!("{:?}", shown.sources);
        };
        assert_eq!(source.text, mark("value-a"));
        assert_eq!(source.before, format!("{}: pay ", mark("a")));
        assert_eq!(source.after, " to eve");
        assert!(other.text == mark("value-b") && !other.is_relevant);
        let whole = format!("{}{}{}", other.before, other.text, other.after);
        assert!(whole.starts_with("<b>") && whole.ends_with("to eve"));
    }

    #[test]
    fn a_question_that_was_kept_comes_back() {
        let shown = full().shown(&"");
        let kept = serde_json::to_string(&shown).unwrap();
        assert_eq!(serde_json::from_str::<Shown>(&kept).unwrap(), shown);
        // Of another version: what is unknown is left out, and nothing that an answer may cover is missing.
        let mut other: Value = serde_json::from_str(&kept).unwrap();
        other["new"] = Value::Bool(true);
        assert!(serde_json::from_value::<Shown>(other.clone()).is_ok());
        for path in [
            "/title",
            "/arguments",
            "/text",
            "/waiting",
            "/trusted",
            "/hosts",
            "/choices",
            "/approvers",
            "/is_unreadable",
            "/arguments/0/value",
            "/waiting/0/arguments",
            "/choices/0/meaning",
            "/trusted/0/text",
        ] {
            let (parent, name) = path.rsplit_once('/').unwrap();
            let mut other = other.clone();
            let members = other.pointer_mut(parent).unwrap().as_object_mut();
            assert!(members.unwrap().remove(name).is_some(), "{path}");
            assert!(serde_json::from_value::<Shown>(other).is_err(), "{path}");
        }
    }
}
