//! The tool filter: before the first step of a turn, the model says which tools the user's request
//! needs. For comparison (RTBAS §8); nothing is enforced but that the other tools do not exist.

use ifc::{History, Labeled, Message, redact};

use super::Agent;
use super::prompted;
use super::state::State;
use crate::{
    AnswerShape, Completion, CompletionRequest, Event, Mode, PromptDefence, ProposedCall, Purpose,
};

/// What the model is asked, as the last message of the whole conversation.
const QUESTION: &str = "\
Which of the tools are needed to do what the user asked for? Do not do it yet, and do not call a tool.
Answer with one JSON object: {\"tools\": [names of the needed tools]}. Only tools that exist; if none is needed, the list is empty.";

impl Agent {
    /// The names of the tools that the filter has left for this turn; `None` before it was asked,
    /// and in every other mode.
    ///
    /// Whoever holds a conversation from outside ([`Agent::resume`]) keeps them until the next
    /// request and brings them back with [`Agent::with_filtered_tools`].
    #[must_use]
    pub fn filtered_tools(&self) -> Option<&[String]> {
        self.filtered.as_deref()
    }

    /// A turn taken over goes on with what the filter has left for it, and the model is not asked
    /// again. A history in which the user spoke last is a new turn: there the names are ignored,
    /// so it does no harm to bring those of the turn before.
    #[must_use]
    pub fn with_filtered_tools(mut self, tools: Vec<String>) -> Self {
        let last = self.history.messages().last();
        let begins = matches!(last, Some((_, Message::User(_))));
        if self.filters() && !begins {
            self.filtered = Some(tools);
        }
        self
    }

    /// Whether the filter must be asked before the next step. Without tools there is nothing to
    /// ask.
    pub(super) fn must_filter(&self) -> bool {
        self.filters() && self.filtered.is_none() && !self.history.tools().is_empty()
    }

    /// Whether a tool may be offered and called in this turn.
    pub(super) fn offers(&self, tool: &str) -> bool {
        let left = self.filtered.as_ref();
        left.is_none_or(|left| left.iter().any(|name| name == tool))
    }

    /// The history as a prompt defence shows it. The stored one stays as it is.
    pub(super) fn shown(&self, defence: PromptDefence) -> History {
        match defence {
            PromptDefence::Sandwiching => prompted::sandwich(&self.history),
            PromptDefence::Delimiting => prompted::delimit(&self.history),
            PromptDefence::ToolFilter => {
                prompted::with_tools(&self.history, |tool| self.offers(tool))
            }
        }
    }

    /// All tools and the whole conversation, then the question.
    pub(super) fn filter_request(&mut self) -> CompletionRequest {
        let mut asked = self.history.clone();
        asked.push_user(Labeled::trusted_tcb(QUESTION));
        let prompt = redact(&asked, &asked.label());
        self.events.push(Event::Redacted {
            step: self.turn.step + 1,
            label: prompt.label().clone(),
            kept: prompt.kept(),
            masked: prompt.masked(),
        });
        let names = self.history.tools().iter().map(|tool| tool.name.as_str());
        CompletionRequest {
            prompt,
            purpose: Purpose::Filter,
            shape: AnswerShape::Json {
                schema: schema(names),
            },
            max_tokens: self.settings.limits.completion_tokens,
        }
    }

    /// Takes the names. What the answer does not name is gone for this turn; an answer that names
    /// nothing, whatever it says, leaves nothing, as in `AgentDojo`.
    pub(super) fn filter_answered(&mut self, provider: &str, completion: &Completion) {
        self.events.push(Event::Completed {
            step: self.turn.step + 1,
            provider: provider.to_owned(),
            usage: completion.usage,
            stop: completion.stop,
            calls: completion.calls.len(),
        });
        // Some models call the tools instead of naming them.
        let called = |name: &str| {
            let is = |call: &ProposedCall| call.tool == name;
            completion.calls.iter().any(is)
        };
        let names = self.history.tools().iter().map(|tool| &tool.name);
        let named = names.filter(|name| named(&completion.text, name) || called(name));
        self.filtered = Some(named.cloned().collect());
        self.state = State::Step;
    }

    fn filters(&self) -> bool {
        self.settings.mode == Mode::Prompted(PromptDefence::ToolFilter)
    }
}

/// Whether an answer names a tool: its whole name stands anywhere in it. So a list separated by
/// commas and an answer that was cut off count as far as they go, and unknown names count nothing.
fn named(answer: &str, name: &str) -> bool {
    // The key of the JSON form is no name.
    let answer = match answer.trim_ascii_start().starts_with('{') {
        true => answer.split_once('[').map_or("", |(_, list)| list),
        false => answer,
    };
    let outside = |next: Option<char>| next.is_none_or(|c| !is_of_name(c));
    !name.is_empty()
        && answer.match_indices(name).any(|(at, name)| {
            let (before, after) = (answer.get(..at), answer.get(at + name.len()..));
            outside(before.and_then(|text| text.chars().next_back()))
                && outside(after.and_then(|text| text.chars().next()))
        })
}

/// Whether a name goes on with this character. `get_mail` is no part of `get_mails`.
fn is_of_name(c: char) -> bool {
    c.is_alphanumeric() || matches!(c, '_' | '-')
}

/// The form of the answer. Names that need no escaping are listed, so that a model that is held to
/// the form cannot invent one.
fn schema<'a>(names: impl Iterator<Item = &'a str>) -> String {
    let plain = |name: &&str| {
        name.chars()
            .all(|c| is_of_name(c) || matches!(c, '.' | '/'))
    };
    let (plain, odd): (Vec<&str>, Vec<&str>) = names.partition(plain);
    let known = match odd.is_empty() {
        true => format!(r#","enum":["{}"]"#, plain.join(r#"",""#)),
        false => String::new(),
    };
    format!(
        r#"{{"type":"object","properties":{{"tools":{{"type":"array","items":{{"type":"string"{known}}}}}}},"required":["tools"],"additionalProperties":false}}"#
    )
}

#[cfg(test)]
mod tests {
    use super::{named, schema};

    #[test]
    fn a_name_counts_where_it_stands_alone() {
        for (answer, expected) in [
            (r#"{"tools": ["get_mail", "send"]}"#, true),
            (r#"{"tools": ["send"]}"#, false),
            (r#"{"tools": []}"#, false),
            (r#"{"tools": ["send", "get_mail"#, true),
            (r#"{"get_mail": ["send"]}"#, false),
            (r#"{"get_mail": true}"#, false),
            ("send, get_mail", true),
            ("I need `get_mail`.", true),
            ("get_mails, my-get_mail, get_mail-2, forget_mail", false),
            ("get_mails and get_mail", true),
            ("ägét_mail", false),
            ("", false),
        ] {
            assert_eq!(named(answer, "get_mail"), expected, "{answer}");
        }
        assert!(!named("anything", ""));
    }

    #[test]
    fn the_form_lists_the_names_that_need_no_escaping() {
        let listed = schema(["a_b", "c.d/e"].into_iter());
        assert!(listed.contains(r#""enum":["a_b","c.d/e"]"#), "{listed}");
        let odd = schema(["a", "b\"c"].into_iter());
        assert!(!odd.contains("enum") && odd.contains(r#""type":"string""#));
    }
}
