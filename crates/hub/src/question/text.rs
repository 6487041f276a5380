//! What a question says, in Sluice's own words. Quoted text is escaped.

use std::fmt;

use ifc::{Answer, Bound, Bounds, Direction, Effect, Ran, Stage, Until};

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
                "The answer{from} needs your approval before it is shown:"
            )];
        }
        let mut title = Vec::from_iter(self.waiting());
        title.push(self.message_title().unwrap_or_else(|| {
            let call = format!("{app}.{} ({})", escape(&self.tool), self.effect);
            match &self.message {
                Some(message) => {
                    let from = escape(&message.from);
                    let functionality = escape(&message.functionality);
                    match message.conversed {
                        true => format!(
                            "{call} needs your approval. {from} asked {app} for {functionality}:"
                        ),
                        false => format!("{from} asks {app} for {functionality}, by {call}:"),
                    }
                }
                None => format!("{call} needs your approval:"),
            }
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
                // What makes the call the user's own comes before data, which a policy limits by itself.
                let is_data = |it: &Argument| {
                    let own = self.endorses.as_ref();
                    own.is_some_and(|own| !own.contains(&it.name))
                };
                arguments
                    .sort_by_cached_key(|it| (is_data(it) && it.mixed().is_empty(), it.rank()));
                Contents::Arguments(arguments)
            }
            None if is_message => Contents::Text(&self.arguments),
            None => Contents::Unreadable(&self.arguments),
        }
    }

    /// What it is, in a sentence: `call`, `message`, `answer`, `connection`.
    fn noun(&self) -> &'static str {
        match (self.stage(), self.is_answer) {
            (Some(_), _) => "message",
            (None, true) => "answer",
            (None, false) if self.connection.is_some() => "connection",
            (None, false) => "call",
        }
    }

    /// Why the user is asked, one sentence each; in some cases for two reasons. Where a limit is exceeded, the
    /// [sources](QuestionView::sources) belong to it.
    #[must_use]
    pub fn reasons(&self) -> Vec<String> {
        let rule = escape(&self.rule);
        let mut reasons = Vec::new();
        if let Some(ran) = self.ran {
            let before = match ran {
                Ran::Answered => "has already run in this session",
                Ran::Unknown => "was already sent in this session; it is unknown whether it ran",
            };
            reasons.push(format!("! The same call {before}."));
        }
        if !self.excess.is_empty() {
            // Not what the limit allows: it would read as what the rule wants.
            let excess = escape(&self.excess.join(", "));
            let part = match &self.argument {
                Some(name) => format!(" in the argument {}", escape(name)),
                None => String::new(),
            };
            reasons.push(format!(
                "The rule {rule} requires approval for {excess}{part}."
            ));
        } else if reasons.is_empty() {
            let what = self.noun();
            reasons.push(format!(
                "The rule {rule} requires approval of every such {what}."
            ));
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
        if !self.approvers.is_empty() {
            let names = escape(&self.approvers.join(" or "));
            notes.push(format!("! Only {names} may allow it."));
        }
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

    /// What the answers that last longer than once allow, each behind its name.
    pub fn meanings(&self, lasts: impl fmt::Display) -> Vec<String> {
        let meanings = self.choices.iter().filter_map(|answer| {
            let meaning = self.meaning(*answer, &lasts)?;
            Some(format!("{}: {meaning}", answer.name()))
        });
        meanings.collect()
    }

    /// What an answer allows beyond this call, in the words of `sluice permissions list`. `lasts` says until when "always"
    /// holds.
    pub fn meaning(&self, answer: Answer, lasts: &dyn fmt::Display) -> Option<String> {
        let trust = |extent: fn(&TrustView, Until) -> String, until| {
            self.trust.as_ref().map(|trust| extent(trust, until))
        };
        match answer {
            Answer::No => None,
            Answer::Once => self.endorsement(),
            Answer::Each => {
                let count = self.waiting.len();
                let other = if count == 1 { "call" } else { "calls" };
                // How many calls there are can be a stranger's choice, so it is suggested only if they can be undone.
                let suggested = match self.effect != Effect::Irreversible.name() {
                    true => " Suggested: they are asked about for the same reasons.",
                    false => "",
                };
                Some(format!(
                    "this call and the {count} other {other} of the same step, each once.{suggested}"
                ))
            }
            Answer::TrustValue => trust(TrustView::value, Until::Task),
            Answer::Trust(until) => trust(TrustView::meaning, until),
            Answer::TrustSource => trust(TrustView::source, Until::Task),
            Answer::Host => {
                let hosts = escape(&self.hosts.join(" and "));
                Some(self.may(
                    &format!("for any address at {hosts}"),
                    "until your next message",
                ))
            }
            Answer::Session => Some(self.may("with any arguments", "until the session ends")),
            Answer::Always => Some(self.may(&self.only(&self.bounds), &lasts.to_string())),
            Answer::AlwaysFolder => Some(match self.bounds.in_folders() {
                Some(wider) => self.may(&self.only(&wider), &lasts.to_string()),
                // Of a connection of an agent: in the folder that it works in.
                None => self.may("", &format!("in this folder, {lasts}")),
            }),
        }
    }

    /// What an answer allows to the app: connections to a domain, a collaboration, or calls of the tool.
    fn may(&self, only: &str, until: &str) -> String {
        let app = escape(&self.app);
        match (&self.connection, &self.collaboration) {
            (Some(to), _) => {
                let domain = escape(&to.domain);
                format!(
                    "{app} may connect to {domain} {} {until}.",
                    with(&self.covers)
                )
            }
            (None, Some(it)) => {
                let may = may(&it.serves, &it.functionality, it.direction);
                format!(
                    "{} may {may} {} {until}.",
                    escape(&it.asks),
                    with(&self.covers)
                )
            }
            (None, None) if self.is_answer => {
                format!("such answers are shown {} {until}.", with(&self.covers))
            }
            (None, None) if self.tool.is_empty() => {
                format!(
                    "{app} may get such messages {} {until}.",
                    with(&self.covers)
                )
            }
            (None, None) => {
                let (tool, covers) = (escape(&self.tool), escape(&self.covers.join(", ")));
                format!(
                    "{app} may call {tool} {only}, also after reading text labelled {covers}, {until}."
                )
            }
        }
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

    /// The arguments of the calls that a lasting answer covers, in words. The control arguments are shown above, in full.
    fn only(&self, bounds: &Bounds) -> String {
        let (below, exact): (Vec<_>, Vec<_>) = bounds.iter().partition(|bound| bound.below);
        let exact: Vec<&str> = exact.iter().map(|bound| bound.name.as_str()).collect();
        let below = below.iter().map(|Bound { name, value, .. }| {
            format!("any {} below \"{}\"", escape(name), escape(value))
        });
        let own =
            (!exact.is_empty()).then(|| format!("exactly this {}", escape(&exact.join(", "))));
        let own: Vec<String> = below.chain(own).collect();
        let only = match own.as_slice() {
            [] => "with no other control argument".to_owned(),
            own => format!("with {}", own.join(" and ")),
        };
        let all = arguments(&self.arguments).unwrap_or_default();
        let names = all.iter().map(|argument| argument.name.as_str());
        let free = names.filter(|name| bounds.iter().all(|bound| bound.name != *name));
        match free.collect::<Vec<_>>().as_slice() {
            [] => only,
            free => format!("{only} (any {} within its limit)", escape(&free.join(", "))),
        }
    }

    /// What allowing the call does beside running it.
    fn endorsement(&self) -> Option<String> {
        let read = self.endorses.as_ref()?;
        let all = arguments(&self.arguments).unwrap_or_default().into_iter();
        let carried = all.map(|argument| argument.name);
        let carried: Vec<String> = carried.filter(|name| !read.contains(name)).collect();
        Some(match carried.as_slice() {
            [] => "this call, which then counts as your own request.".to_owned(),
            names => {
                let names = escape(&names.join(" and "));
                format!(
                    "this call with its {names}; only the rest of it counts as your own request."
                )
            }
        })
    }
}

impl TrustView {
    fn value(&self, _: Until) -> String {
        let (app, values) = (escape(&self.app), quoted(&self.values));
        let what = if self.values.len() == 1 {
            "value"
        } else {
            "values"
        };
        format!(
            "{app} may use the {what} {values} until your next message, and nothing else of the text."
        )
    }

    fn source(&self, _: Until) -> String {
        let but = match self.effect {
            Effect::Irreversible => "with no irreversible action but this one",
            Effect::Write => "except irreversible actions",
            _ => "as long as it only reads",
        };
        let (app, writers, more) = (escape(&self.app), quoted(&self.writers), self.more);
        let texts = if more == 1 { "text" } else { "texts" };
        format!(
            "{app} may do anything that text of {writers} asks ({more} more {texts} so far), also text that is read later, {but}, until your next message."
        )
    }

    fn meaning(&self, until: Until) -> String {
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
        let until = match until {
            Until::Task => "until your next message",
            Until::Session => "until the session ends",
        };
        format!(
            "{} may do anything that {texts}, {worst}, {until}.",
            escape(&self.app)
        )
    }
}

/// Foreign words in a sentence.
fn quoted(all: &[String]) -> String {
    let all = all.iter().map(|one| format!("\"{}\"", escape(one)));
    all.collect::<Vec<_>>().join(", ")
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
