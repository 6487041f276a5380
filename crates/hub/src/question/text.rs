//! What a question says, in Sluice's own words. Quoted text is escaped.

use std::fmt;

use ifc::{Answer, Direction, Effect, Ran, Stage, Until};

use super::arguments::{Argument, arguments};
use super::view::{Assessment, QuestionView};
use crate::trace::escape;

/// What a question is about.
#[derive(Debug, PartialEq, Eq)]
pub enum Contents<'a> {
    /// The arguments of a call or a request, in the order in which they are to be read.
    Arguments(Vec<Argument>),
    /// The text of an answer or a message.
    Text(&'a str),
    /// The arguments of a call that cannot be told apart.
    Unreadable(&'a str),
    /// Nothing beside the title.
    Nothing,
}

/// Why the user is asked.
#[derive(Debug, PartialEq, Eq)]
pub enum Reason {
    /// The same call was sent before.
    Ran(String),
    /// The rule asks about every such flow.
    Always(String),
    /// The flow exceeds the rule's limit. The sentence goes on with the [sources](QuestionView::sources).
    Exceeds(String),
}

impl QuestionView {
    fn stage(&self) -> Option<Stage> {
        self.message.as_ref().and_then(|message| message.stage)
    }

    /// What is asked, one sentence each.
    #[must_use]
    pub fn title(&self) -> Vec<String> {
        let app = escape(&self.app);
        if let Some(to) = &self.connection {
            let given = match to.given.is_empty() {
                true => "nothing untrusted or secret".to_owned(),
                false => escape(&to.given.join(", ")),
            };
            return vec![
                format!(
                    "{app} wants to connect to {}, port {}:",
                    escape(&to.host),
                    to.port
                ),
                format!("It was given {given}, and may send all of it."),
            ];
        }
        if self.is_answer {
            let about = match self.app.is_empty() {
                true => String::new(),
                false => format!(" about {app}"),
            };
            return vec![format!(
                "The answer{about} holds more than your policy shows by itself:"
            )];
        }
        let mut title = Vec::from_iter(self.waiting());
        title.push(self.message_title().unwrap_or_else(|| {
            let (tool, effect) = (escape(&self.tool), self.effect);
            let who = match &self.message {
                Some(message) => {
                    let (from, functionality) =
                        (escape(&message.from), escape(&message.functionality));
                    match message.conversed {
                        true => format!(
                            "{app}, asked by {from} for {functionality}, asks for {tool} ({effect})"
                        ),
                        false => {
                            format!("{from} asks {app} for {functionality}: {tool} ({effect})")
                        }
                    }
                }
                None => format!("{app} asks for {tool} ({effect})"),
            };
            format!("{who}, which your policy does not allow by itself:")
        }));
        title
    }

    /// The title of a message between apps.
    fn message_title(&self) -> Option<String> {
        let message = self.message.as_ref()?;
        let (from, to) = (escape(&message.from), escape(&message.to));
        let functionality = escape(&message.functionality);
        Some(match message.stage? {
            Stage::Probe => format!("{from} wants to ask {to} for {functionality}."),
            Stage::Request => format!("{from} asks {to} for {functionality}:"),
            Stage::Response => format!("{from} answers {to}, about {functionality}:"),
        })
    }

    /// For whom the asking app asks, if others wait for it.
    fn waiting(&self) -> Option<String> {
        let message = self.message.as_ref()?;
        // Of a response it is the app that gets it.
        let asks = match message.stage {
            Some(Stage::Response) => &message.to,
            _ => &message.from,
        };
        let apps = message.waiting.iter().chain([asks]).rev();
        let apps: Vec<String> = apps.map(|app| escape(app)).collect();
        match apps.as_slice() {
            [] | [_] => None,
            [first, rest @ ..] => {
                let rest = rest.join(", which was asked by ");
                Some(format!("{first} was asked by {rest}."))
            }
        }
    }

    /// What would flow.
    #[must_use]
    pub fn contents(&self) -> Contents<'_> {
        let is_message = self.stage().is_some();
        if self.connection.is_some() || self.stage() == Some(Stage::Probe) {
            return Contents::Nothing;
        }
        if self.is_answer {
            return Contents::Text(&self.arguments);
        }
        match arguments(&self.arguments) {
            Some(mut arguments) => {
                // A stable sort: within a rank they stay in the order of the call.
                arguments.sort_by_key(Argument::rank);
                Contents::Arguments(arguments)
            }
            None if is_message => Contents::Text(&self.arguments),
            None => Contents::Unreadable(&self.arguments),
        }
    }

    /// Why the user is asked; in some cases for two reasons.
    #[must_use]
    pub fn reasons(&self) -> Vec<Reason> {
        let what = match (self.stage(), self.is_answer) {
            (Some(_), _) => "message",
            (None, true) => "answer",
            (None, false) if self.connection.is_some() => "connection",
            (None, false) => "call",
        };
        let rule = escape(&self.rule);
        let mut reasons = Vec::new();
        if let Some(ran) = self.ran {
            let before = match ran {
                Ran::Answered => "already ran in this session",
                Ran::Unknown => "was already sent in this session, and nobody knows whether it ran",
            };
            reasons.push(Reason::Ran(format!("! This very call {before}.")));
        }
        if !self.excess.is_empty() {
            let limit = match self.limit.is_empty() {
                true => "trusted and public text only".to_owned(),
                false => escape(&self.limit.join(", ")),
            };
            let part = match &self.argument {
                Some(name) => format!("What this {what} carries as {}", escape(name)),
                None => format!("This {what}"),
            };
            let depends = format!("The rule {rule} allows {limit}. {part} may also depend on");
            reasons.push(Reason::Exceeds(depends));
        } else if reasons.is_empty() {
            reasons.push(Reason::Always(format!(
                "The rule {rule} asks about every such {what}."
            )));
        }
        reasons
    }

    /// What else the hub knows, one sentence each.
    #[must_use]
    pub fn notes(&self) -> Vec<String> {
        let Assessment {
            unplanned,
            before,
            same,
        } = &self.assessment;
        let mut notes = Vec::new();
        if *unplanned {
            let app = escape(&self.app);
            notes.push(format!(
                "! The planner did not find that your request needs {app}."
            ));
        }
        if let (Some(last), count) = (before.last(), before.len()) {
            let times = match count {
                1 => "once".to_owned(),
                count => format!("{count} times"),
            };
            let answer = match same {
                Some(same) => format!("to this very call you said {}", same.name()),
                None => format!("the last answer was {}", last.name()),
            };
            let tool = escape(&self.tool);
            notes.push(format!(
                "Asked {times} before in this session about {tool}; {answer}."
            ));
        }
        notes
    }

    /// What the answer "trust" allows, in one sentence.
    #[must_use]
    pub fn meaning_of_trust(&self) -> Option<String> {
        let trust = self.trust.as_ref()?;
        let [task, session] = [Until::Task, Until::Session].map(Answer::Trust);
        let app = escape(&trust.app);
        let words = match trust.texts.len() {
            1 => "this text asks",
            _ => "these texts ask",
        };
        let worst = match trust.effect {
            Effect::Irreversible => "also what cannot be undone",
            Effect::Write => "as long as it can be undone",
            _ => "as long as it only reads",
        };
        Some(format!(
            "\"{}\" lets {app} do whatever {words} of it, {worst}, unasked, until you write again (\"{}\": until the session ends).",
            task.name(),
            session.name()
        ))
    }

    /// What the answer "always" allows, where it is a choice: in the words of `sluice permissions list`. `lasts` says
    /// until when.
    pub fn meaning_of_always(&self, lasts: impl fmt::Display) -> Option<String> {
        if !self.choices.contains(&Answer::Always) {
            return None;
        }
        let covers = &self.covers;
        let lets = match (&self.connection, &self.collaboration) {
            (Some(to), _) => {
                let (app, domain) = (escape(&self.app), escape(&to.domain));
                format!(
                    "{app} connect to {domain} and what is below it {}",
                    with(covers)
                )
            }
            (None, Some(it)) => {
                let may = may(&it.serves, &it.functionality, it.direction);
                format!("{} {may} {}", escape(&it.asks), with(covers))
            }
            (None, None) => {
                let (app, tool) = (escape(&self.app), escape(&self.tool));
                format!("{app} take {} for {tool}", escape(&covers.join(", ")))
            }
        };
        Some(format!(
            "\"always\" lets {lets} {lasts} (sluice permissions)."
        ))
    }

    /// The names of the arguments that a yes does not make the user's own word, where it makes the call so.
    #[must_use]
    pub fn carried(&self) -> Option<Vec<String>> {
        let read = self.endorses.as_ref()?;
        let carried = arguments(&self.arguments).unwrap_or_default().into_iter();
        let carried = carried.map(|argument| argument.name);
        Some(carried.filter(|name| !read.contains(name)).collect())
    }

    /// What a yes does, in a few words.
    #[must_use]
    pub fn request(&self) -> String {
        if let Some(to) = &self.connection {
            return format!(
                "Let {} connect to {}?",
                escape(&self.app),
                escape(&to.domain)
            );
        }
        if self.is_answer {
            return "Show this answer?".to_owned();
        }
        match (&self.message, self.stage()) {
            (Some(message), Some(Stage::Probe)) => {
                format!("Let {} ask {}?", escape(&message.from), escape(&message.to))
            }
            (Some(message), Some(_)) => format!("Deliver this to {}?", escape(&message.to)),
            _ => escape(&self.tool),
        }
    }
}

/// What one app may do with another, after its own name: "ask mail for dates", "take dates from mail".
#[must_use]
pub fn may(serves: &str, functionality: &str, direction: Direction) -> String {
    let (serves, functionality) = (escape(serves), escape(functionality));
    match direction {
        Direction::Asking => format!("ask {serves} for {functionality}"),
        Direction::Answering => format!("take {functionality} from {serves}"),
    }
}

/// The taints of what may flow, in words.
#[must_use]
pub fn with(taints: &[String]) -> String {
    match taints.is_empty() {
        true => "with nothing untrusted or secret".to_owned(),
        false => format!("with {}", escape(&taints.join(", "))),
    }
}
