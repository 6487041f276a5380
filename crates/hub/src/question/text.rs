//! What a question says, in Sluice's own words. Quoted text is escaped.

use std::fmt;

use ifc::{Answer, Bound, Direction, Effect, Ran, Stage, Until};

use super::arguments::{Argument, arguments};
use super::view::{Assessment, QuestionView, TrustView};
use crate::trace::escape;

/// What a question is about.
#[derive(Debug, PartialEq, Eq)]
pub enum Contents<'a> {
    /// The arguments of a call or a request, the most important first.
    Arguments(Vec<Argument>),
    /// The text of an answer or a message.
    Text(&'a str),
    /// The arguments of a call that are no JSON object.
    Unreadable(&'a str),
    /// Nothing beside the title.
    Nothing,
}

/// Why the user is asked.
#[derive(Debug, PartialEq, Eq)]
pub enum Reason {
    /// A complete sentence: the same call was sent before, or the rule requires approval of every such flow.
    Sentence(String),
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
            let received = match to.given.is_empty() {
                true => "nothing untrusted or secret".to_owned(),
                false => escape(&to.given.join(", ")),
            };
            let (host, domain) = (escape(&to.host), escape(&to.domain));
            return vec![
                format!("{app} wants to connect to {host}, port {}.", to.port),
                format!("It has received {received} and could send any of it."),
                format!("A lasting answer covers {domain} and all its subdomains."),
            ];
        }
        if self.is_answer {
            let from = match self.app.is_empty() {
                true => String::new(),
                false => format!(" from {app}"),
            };
            return vec![format!(
                "The answer{from} contains text that your policy shows only with your approval:"
            )];
        }
        let mut title = Vec::from_iter(self.waiting());
        title.push(self.message_title().unwrap_or_else(|| {
            let call = format!("{} ({})", escape(&self.tool), self.effect);
            let wants = match &self.message {
                Some(message) => {
                    let from = escape(&message.from);
                    let functionality = escape(&message.functionality);
                    match message.conversed {
                        true => format!(
                            "{app} wants to call {call}, because {from} asked it for {functionality}"
                        ),
                        false => format!("{from} asks {app} for {functionality}, by {call}"),
                    }
                }
                None => format!("{app} wants to call {call}"),
            };
            format!("{wants}. This needs your approval:")
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
            Stage::Response => format!("{from} answers the request of {to} for {functionality}:"),
        })
    }

    /// For which apps the asking app acts, if others wait for it.
    fn waiting(&self) -> Option<String> {
        let message = self.message.as_ref()?;
        // The receiver of a response is the app that asked.
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
                Ran::Answered => "has already run in this session",
                Ran::Unknown => "was already sent in this session; it is unknown whether it ran",
            };
            reasons.push(Reason::Sentence(format!("! The same call {before}.")));
        }
        if !self.excess.is_empty() {
            let limit = match self.limit.is_empty() {
                true => "trusted and public text".to_owned(),
                false => escape(&self.limit.join(", ")),
            };
            let part = match &self.argument {
                Some(name) => format!("The argument {}", escape(name)),
                None => format!("This {what}"),
            };
            let depends = format!("The rule {rule} allows only {limit}. {part} may also depend on");
            reasons.push(Reason::Exceeds(depends));
        } else if reasons.is_empty() {
            let always = format!("The rule {rule} requires approval of every such {what}.");
            reasons.push(Reason::Sentence(always));
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
        let instead = self.instead.iter();
        notes.extend(instead.map(|it| format!("Without approval {}.", escape(it))));
        if *unplanned {
            let app = escape(&self.app);
            notes.push(format!(
                "! According to the planner, your request does not need {app}."
            ));
        }
        if let (Some(last), count) = (before.last(), before.len()) {
            let times = match count {
                1 => "once".to_owned(),
                count => format!("{count} times"),
            };
            let answer = match same {
                Some(same) => format!("your answer to this same call was {}", same.name()),
                None => format!("your last answer was {}", last.name()),
            };
            let about = match &self.connection {
                Some(to) => format!("connections to {}", escape(&to.domain)),
                None => escape(&self.tool).to_string(),
            };
            notes.push(format!(
                "You were asked about {about} {times} in this session; {answer}."
            ));
        }
        notes
    }

    /// What the answers that last longer than once allow, one sentence each, in the words of `sluice permissions list`.
    /// `lasts` says until when "always" holds.
    pub fn meanings(&self, lasts: impl fmt::Display) -> Vec<String> {
        let trust = self.trust.iter().flat_map(TrustView::meanings);
        let always = self.choices.contains(&Answer::Always).then(|| {
            let covers = &self.covers;
            let may = match (&self.connection, &self.collaboration) {
                (Some(to), _) => {
                    let (app, domain) = (escape(&self.app), escape(&to.domain));
                    format!("{app} may connect to {domain} {}", with(covers))
                }
                (None, Some(it)) => {
                    let may = may(&it.serves, &it.functionality, it.direction);
                    format!("{} may {may} {}", escape(&it.asks), with(covers))
                }
                (None, None) => {
                    let (app, tool) = (escape(&self.app), escape(&self.tool));
                    let (only, covers) = (self.only(), escape(&covers.join(", ")));
                    format!(
                        "{app} may call {tool} {only}, also after reading text labelled {covers},"
                    )
                }
            };
            format!("always: {may} {lasts} (see `sluice permissions`).")
        });
        let each = (!self.waiting.is_empty()).then(|| {
            let count = self.waiting.len();
            let other = if count == 1 { "call" } else { "calls" };
            format!("each: allows this call and the {count} other {other} above, each once.")
        });
        let host = self.choices.contains(&Answer::Host).then(|| {
            let (app, tool) = (escape(&self.app), escape(&self.tool));
            let hosts = escape(&self.hosts.join(" and "));
            let covers = escape(&self.covers.join(", "));
            format!("host: {app} may call {tool} for any address at {hosts}, also after reading text labelled {covers}, until your next message.")
        });
        let lasting = trust.chain(host).chain(always).chain(self.folders());
        each.into_iter()
            .chain(lasting)
            .chain(self.proposal())
            .collect()
    }

    /// The answer that covers the other calls of the step. It is suggested only if they can be undone, and `source` never is:
    /// how many calls and texts there are can be a stranger's choice.
    pub(super) fn proposal(&self) -> Option<String> {
        if self.choices.contains(&Answer::Each) && self.effect != Effect::Irreversible.name() {
            let each = "Suggested: each (the listed calls are asked about for the same reasons).";
            return Some(each.to_owned());
        }
        let more = self.trust.as_ref().map_or(0, |trust| trust.more);
        let texts = if more == 1 { "text" } else { "texts" };
        let is_choice = self.choices.contains(&Answer::TrustSource) && more > 0;
        is_choice.then(|| format!("The conversation has {more} more {texts} of this source."))
    }

    /// What an answer for the session allows.
    pub(super) fn for_session(&self) -> String {
        let (app, tool) = (escape(&self.app), escape(&self.tool));
        let may = match (&self.connection, &self.collaboration) {
            (Some(to), _) => format!("connect to {}", escape(&to.domain)),
            (None, Some(it)) => may(&it.serves, &it.functionality, it.direction),
            (None, None) if self.is_answer => "have such answers shown".to_owned(),
            (None, None) => format!("call {tool}"),
        };
        let covers = with(&self.covers);
        format!("{app} may {may}, {covers} in the way, without approval until the session ends.")
    }

    /// What allowing the call does beside running it.
    pub(super) fn endorsement(&self) -> Option<String> {
        let carried = self.carried()?;
        let except = match carried.as_slice() {
            [] => String::new(),
            names => format!(", except for {}", escape(&names.join(" and "))),
        };
        Some(format!(
            "If you allow this call, it counts as your own request{except}."
        ))
    }

    /// What the flow depends on, with labels: the `most` most relevant results and messages, and the rest counted.
    #[must_use]
    pub fn depends(&self, most: usize) -> String {
        let sources = self.sources();
        let mut all: Vec<String> = sources
            .relevant
            .iter()
            .map(|(cause, _)| {
                let (source, label) = (cause.source.to_string(), cause.label.join(", "));
                format!("{} ({})", escape(&source), escape(&label))
            })
            .collect();
        all.dedup();
        let more = all.len().saturating_sub(most);
        all.truncate(most);
        all.extend((more > 0).then(|| format!("{more} more")));
        all.extend(sources.descriptions);
        match all.is_empty() {
            true => format!("text labelled {}", escape(&self.excess.join(", "))),
            false => all.join("; "),
        }
    }

    /// The arguments of the calls that "always" covers. The control arguments are shown above, in full.
    fn only(&self) -> String {
        let is_bound = |name: &str| self.bounds.iter().any(|bound| bound.name == name);
        let all = arguments(&self.arguments).unwrap_or_default();
        let names = all.iter().map(|argument| argument.name.as_str());
        let (bound, free): (Vec<&str>, Vec<&str>) = names.partition(|name| is_bound(name));
        let only = match bound.is_empty() {
            true => "with no other control argument".to_owned(),
            false => format!("with exactly this {}", escape(&bound.join(", "))),
        };
        match free.is_empty() {
            true => only,
            false => format!("{only} (any {} within its limit)", escape(&free.join(", "))),
        }
    }

    /// What "always-folder" covers beyond "always".
    fn folders(&self) -> Option<String> {
        let is_offered = self.choices.contains(&Answer::AlwaysFolder);
        let wider = self.bounds.in_folders().filter(|_| is_offered)?;
        let folders = wider.iter().filter(|bound| bound.below);
        let folders = folders.map(|Bound { name, value, .. }| {
            format!("any {} below \"{}\"", escape(&name), escape(&value))
        });
        let folders: Vec<String> = folders.collect();
        Some(format!(
            "always-folder: the same with {}.",
            folders.join(" and ")
        ))
    }

    /// The names of the arguments that remain data, where allowing the call makes it the user's own request.
    #[must_use]
    pub fn carried(&self) -> Option<Vec<String>> {
        let read = self.endorses.as_ref()?;
        let carried = arguments(&self.arguments).unwrap_or_default().into_iter();
        let carried = carried.map(|argument| argument.name);
        Some(carried.filter(|name| !read.contains(name)).collect())
    }
}

impl TrustView {
    /// What each scope of trust allows.
    fn meanings(&self) -> Vec<String> {
        let app = escape(&self.app);
        let quoted = |all: &[String]| {
            let all = all.iter().map(|one| format!("\"{}\"", escape(one)));
            all.collect::<Vec<_>>().join(", ")
        };
        let value = (!self.values.is_empty()).then(|| {
            let values = quoted(&self.values);
            let what = if self.values.len() == 1 { "value" } else { "values" };
            format!("value: {app} may use the {what} {values} until your next message, and nothing else of the text.")
        });
        let source = (!self.writers.is_empty()).then(|| {
            let but = match self.effect {
                Effect::Irreversible => ", but no other irreversible action",
                Effect::Write => ", but nothing irreversible",
                _ => ", as long as it only reads",
            };
            let writers = quoted(&self.writers);
            format!("source: the same for all text of {writers}, also text that is read later{but}, until your next message.")
        });
        value
            .into_iter()
            .chain([self.meaning()])
            .chain(source)
            .collect()
    }

    fn meaning(&self) -> String {
        let covers = self.covers();
        format!("trust: {covers} until your next message (trust-session: until the session ends).")
    }

    /// What trust in the texts allows, without its end.
    pub(super) fn covers(&self) -> String {
        let texts = match self.texts.len() {
            1 => "this text asks",
            _ => "these texts ask",
        };
        let worst = match self.effect {
            Effect::Irreversible => {
                "including irreversible actions with values that stand there or in your messages"
            }
            Effect::Write => "except irreversible actions",
            _ => "as long as it only reads",
        };
        format!(
            "{} may do anything that {texts}, {worst}, without approval",
            escape(&self.app)
        )
    }
}

/// What an answer is called.
#[must_use]
pub fn words(answer: Answer) -> &'static str {
    match answer {
        Answer::Once => "once",
        Answer::Each => "each of these calls once",
        Answer::TrustValue => "trust this value for this task",
        Answer::TrustSource => "trust this source for this task",
        Answer::Trust(Until::Task) => "trust for this task",
        Answer::Trust(Until::Session) => "trust for this session",
        Answer::Host => "any address at this host for this task",
        Answer::Session => "for this session",
        Answer::Always => "always",
        Answer::AlwaysFolder => "always in this folder",
        Answer::No => "deny",
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
