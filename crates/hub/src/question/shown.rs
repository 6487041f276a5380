//! A question as data that can be kept: everything that any renderer shows, complete and by itself.
//!
//! Foreign text in it is raw, and each renderer escapes it for its medium. Sentences are ours, with foreign words in them
//! escaped.

use std::fmt;

use ifc::{Answer, Until};
use serde::{Deserialize, Serialize};

use super::arguments::{Argument, arguments};
use super::text::{Contents, Reason, words};
use super::view::{QuestionView, TrustView};
use crate::trace::Cause;

/// Bytes of all sources that are kept in full. Of later ones the excerpt is kept.
const SOURCES: usize = 1 << 20;

/// Everything that a question shows.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
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
    pub text: Option<String>,
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
#[serde(default)]
pub struct ShownArgument {
    /// Its name.
    pub name: String,
    /// Its value as JSON text.
    pub value: String,
    /// Its words that mix scripts, with every character outside ASCII as its number.
    pub mixed: Vec<String>,
}

/// Another call of the step.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
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
#[serde(default)]
pub struct ShownSource {
    /// Where it comes from: `result of read_email`.
    pub source: String,
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
#[serde(default)]
pub struct ShownText {
    /// Where it comes from.
    pub source: String,
    /// All of it.
    pub text: String,
}

/// An answer that is offered.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
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
        let reason = |reason| match reason {
            Reason::Sentence(sentence) => sentence,
            Reason::Exceeds(begin) => format!("{begin} {}.", self.depends(usize::MAX)),
        };
        let meanings = self.meanings(lasts);
        let trusted = self.trust.iter().flat_map(|trust| &trust.texts);
        let waiting = self.waiting.iter().map(|call| ShownCall {
            app: call.app.clone(),
            tool: call.tool.clone(),
            arguments: read(&call.arguments),
        });
        let notes = self.notes().into_iter();
        let notes = notes.chain(self.endorsement()).chain(self.proposal());
        Shown {
            title: self.title(),
            app: self.app.clone(),
            tool: self.tool.clone(),
            effect: self.effect.to_owned(),
            is_answer: self.is_answer,
            arguments: arguments.iter().map(ShownArgument::new).collect(),
            text: text.map(str::to_owned),
            waiting: waiting.collect(),
            rule: self.rule.clone(),
            argument: self.argument.clone(),
            limit: self.limit.clone(),
            excess: self.excess.clone(),
            reasons: self.reasons().into_iter().map(reason).collect(),
            sources: self.shown_sources(),
            notes: notes.collect(),
            trusted: trusted
                .map(|text| ShownText {
                    source: text.source.to_string(),
                    text: text.text.clone(),
                })
                .collect(),
            hosts: self.hosts.clone(),
            instead: self.instead.clone(),
            choices: self
                .choices
                .iter()
                .map(|it| self.choice(*it, &meanings))
                .collect(),
            approvers: self.approvers.clone(),
        }
    }

    fn choice(&self, answer: Answer, meanings: &[String]) -> ShownChoice {
        let prefix = format!("{}: ", answer.name());
        let own = || meanings.iter().find_map(|it| it.strip_prefix(&prefix));
        let meaning = match answer {
            Answer::Trust(until) => self.trust.as_ref().map(|trust| trust.until(until)),
            Answer::Session => Some(self.for_session()),
            _ => own().map(str::to_owned),
        };
        ShownChoice {
            answer: answer.name().to_owned(),
            words: words(answer).to_owned(),
            meaning: meaning.unwrap_or_default(),
        }
    }

    fn shown_sources(&self) -> Vec<ShownSource> {
        let sources = self.sources();
        let all = sources.relevant.iter().chain(&sources.screened_out);
        let values = values(&self.arguments);
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
            ShownSource::new(cause, text, *times, &values)
        });
        shown.collect()
    }
}

impl TrustView {
    /// What trust until then allows, as a sentence.
    fn until(&self, until: Until) -> String {
        let end = match until {
            Until::Task => "until your next message",
            Until::Session => "until the session ends",
        };
        format!("{} {end}.", self.covers())
    }
}

impl ShownArgument {
    fn new(argument: &Argument) -> Self {
        Self {
            name: argument.name.clone(),
            value: argument.value.clone(),
            mixed: argument.mixed(),
        }
    }
}

impl ShownSource {
    fn new(cause: &Cause, text: &str, times: usize, values: &[String]) -> Self {
        // A quote has an ellipsis where the text goes on.
        let quote = cause
            .quotes
            .first()
            .map(|quote| quote.text.trim_matches('…'));
        let quote =
            quote.and_then(|quote| Some(text.find(quote)?..text.find(quote)? + quote.len()));
        let place = quote.map(|quote| {
            let quoted = text.get(quote.clone()).unwrap_or_default();
            let within = |value: &String| Some((quoted.find(value.as_str())?, value.len()));
            // The longest value: a short one may be a part of it.
            match values
                .iter()
                .filter_map(within)
                .max_by_key(|(_, length)| *length)
            {
                Some((at, length)) => quote.start + at..quote.start + at + length,
                None => quote,
            }
        });
        let place = place.unwrap_or(text.len()..text.len());
        let part = |part: Option<&str>| part.unwrap_or_default().to_owned();
        let (before, text, after) = match place.is_empty() {
            true => (part(None), part(None), text.to_owned()),
            false => (
                part(text.get(..place.start)),
                part(text.get(place.clone())),
                part(text.get(place.end..)),
            ),
        };
        Self {
            source: cause.source.to_string(),
            label: cause.label.clone(),
            before,
            text,
            after,
            shared: cause
                .quotes
                .iter()
                .map(|quote| quote.argument.clone())
                .collect(),
            is_relevant: cause.relevant,
            times,
        }
    }
}

/// The arguments of a call. An answer may allow it, so what cannot be read is shown as it is.
fn read(text: &str) -> Vec<ShownArgument> {
    match arguments(text) {
        Some(arguments) => arguments.iter().map(ShownArgument::new).collect(),
        None => vec![ShownArgument {
            value: text.to_owned(),
            ..ShownArgument::default()
        }],
    }
}

/// The strings and numbers in the arguments of a call.
fn values(arguments: &str) -> Vec<String> {
    fn collect(value: serde_json::Value, all: &mut Vec<String>) {
        match value {
            serde_json::Value::String(text) if !text.is_empty() => all.push(text),
            serde_json::Value::Number(number) => all.push(number.to_string()),
            serde_json::Value::Array(items) => items.into_iter().for_each(|it| collect(it, all)),
            serde_json::Value::Object(items) => {
                items.into_iter().for_each(|(_, it)| collect(it, all));
            }
            _ => {}
        }
    }
    let mut all = Vec::new();
    collect(
        serde_json::from_str(arguments).unwrap_or_default(),
        &mut all,
    );
    all
}

#[cfg(test)]
mod tests {
    use ifc::{Bounds, Effect, Source};
    use serde_json::Value;

    use super::*;
    use crate::question::{Assessment, MessageView, TrustedText, WaitingCall};
    use crate::trace::Quote;

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
        let quote = Quote {
            argument: mark(&format!("quoted-{name}")),
            text: format!("…pay {} to…", mark(&format!("value-{name}"))).into(),
        };
        Cause {
            region: 0,
            source: Source::Tool(mark(&format!("source-{name}"))),
            excerpt: "the beginning".into(),
            label: marks(["label"]),
            relevant,
            quotes: vec![quote],
            text: text.into(),
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
        // Every answer but once and no says what it allows.
        for choice in &shown.choices {
            let is_plain = ["once", "no"].contains(&&*choice.answer);
            assert_eq!(choice.meaning.is_empty(), is_plain, "{choice:?}");
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
        // A value of no argument is shown with the words around it.
        assert!(other.text.contains("<value-b>") && !other.is_relevant);
        let whole = format!("{}{}{}", other.before, other.text, other.after);
        assert!(whole.starts_with("<b>") && whole.ends_with("to eve"));
    }

    #[test]
    fn a_question_that_was_kept_comes_back() {
        let shown = full().shown(&"");
        let kept = serde_json::to_string(&shown).unwrap();
        assert_eq!(serde_json::from_str::<Shown>(&kept).unwrap(), shown);
        // Of another version: what is missing is empty, and what is unknown is left out.
        let mut other: Value = serde_json::from_str(&kept).unwrap();
        other["new"] = Value::Bool(true);
        other.as_object_mut().unwrap().remove("hosts");
        let read: Shown = serde_json::from_value(other).unwrap();
        assert_eq!((&read.title, read.hosts.len()), (&shown.title, 0));
    }
}
