//! Conditions of label rules on the arguments of the call that a result answers.

use std::fmt;

use ifc::{Arguments, Labeled};
use serde_json::Value;

use super::folder::{Folder, differ};
use crate::host::host;

/// Most texts of a list that are looked at. About a longer one nothing is certain.
const MAX_TEXTS: usize = 256;

/// A condition of a [`LabelRule`](super::rule::LabelRule) on an argument of the call: "what is read in my own folder is mine".
///
/// It is about a text, or a list of texts all of which it must hold for. About anything else, an argument that
/// is absent included, nothing is certain; see [`Met`].
///
/// The model chooses the arguments, and whoever influenced the choice is in the label of the call,
/// which its result has in any case. So an attacker who names a trusted place gets nothing trusted. What a
/// condition rests on is that nobody else *writes* what lies there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct When {
    /// The name of the argument.
    pub argument: String,
    /// What it must be.
    pub is: ArgumentIs,
}

/// What an argument must be, any one of these.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ArgumentIs {
    /// A text, to the byte.
    OneOf(Vec<String>),
    /// A path of a folder, or of something in it; see [`Folder::holds`].
    Under(Vec<Folder>),
    /// An `https` URL at a host of this name, without user, port, or any sign that readers of URLs take
    /// differently. Where the host redirects to, it does not say.
    Host(Vec<String>),
}

/// Whether a condition holds for a call.
///
/// It holds, or cannot be told. That it does *not* hold is certain of a text only if it meets
/// another condition of the tool on the same argument, so that it is known where it belongs, and
/// if it differs from what this one names in more than case and signs. Of a path that lies in no named folder
/// nothing is known: `/proc/self/root/home/me` is `/home/me`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Met {
    /// It certainly holds: the rule counts.
    Yes,
    /// It certainly does not: the rule does not count.
    No,
    /// Nobody knows. What the rule selects has the most restrictive label.
    Unknown,
}

impl Met {
    /// Whether all of several hold.
    pub(super) fn all(all: impl IntoIterator<Item = Self>) -> Self {
        all.into_iter()
            .fold(Self::Yes, |all, one| match (all, one) {
                (Self::No, _) | (_, Self::No) => Self::No,
                (Self::Unknown, _) | (_, Self::Unknown) => Self::Unknown,
                (Self::Yes, Self::Yes) => Self::Yes,
            })
    }
}

impl When {
    /// Whether it holds, beside all conditions of the tool.
    pub(super) fn met(&self, arguments: &Arguments, all: &[&When]) -> Met {
        let Some(texts) = texts(arguments, &self.argument) else {
            return Met::Unknown;
        };
        // Only what another condition claims for itself is known to be elsewhere: a name that no rule mentions may lead
        // anywhere, also into what this one names.
        let same = all.iter().filter(|other| other.argument == self.argument);
        let is_elsewhere = |text: &str| {
            let mut others = same.clone().filter(|other| other.is.holds(text));
            others.any(|other| self.is.excludes(text, &other.is))
        };
        let mut found = texts.iter().map(|text| match text {
            text if self.is.holds(text) => Met::Yes,
            text if is_elsewhere(text) => Met::No,
            _ => Met::Unknown,
        });
        // A list is of one kind, or nothing is certain about the result that mixes them.
        let first = found.next().unwrap_or(Met::Unknown);
        match found.all(|other| other == first) {
            true => first,
            false => Met::Unknown,
        }
    }

    /// Whether every call for which this condition holds meets the other one too.
    #[must_use]
    pub fn implies(&self, other: &Self) -> bool {
        let every = |texts: &[String], is: &ArgumentIs| texts.iter().all(|text| is.holds(text));
        self.argument == other.argument
            && match (&self.is, &other.is) {
                (ArgumentIs::OneOf(words), other) => every(words, other),
                (ArgumentIs::Under(own), ArgumentIs::Under(others)) => own.iter().all(|folder| {
                    let mut others = others.iter();
                    others.any(|other| other.holds(folder.as_str()))
                }),
                (ArgumentIs::Host(own), ArgumentIs::Host(others)) => own.iter().all(|host| {
                    let mut others = others.iter();
                    others.any(|other| other.eq_ignore_ascii_case(host))
                }),
                _ => false,
            }
    }
}

/// The text that an argument is, or the texts of the list that it is.
fn texts(arguments: &Arguments, name: &str) -> Option<Vec<String>> {
    let text = arguments.get(name).map(Labeled::reveal_tcb)?;
    match serde_json::from_str(text).ok()? {
        Value::String(text) => Some(vec![text]),
        // Everything holds of the texts of an empty list, so nothing follows from it.
        Value::Array(items) if (1..=MAX_TEXTS).contains(&items.len()) => {
            let texts = items.into_iter().map(|item| match item {
                Value::String(text) => Some(text),
                _ => None,
            });
            texts.collect()
        }
        _ => None,
    }
}

impl ArgumentIs {
    fn holds(&self, text: &str) -> bool {
        match self {
            Self::OneOf(words) => words.iter().any(|word| word == text),
            Self::Under(folders) => folders.iter().any(|folder| folder.holds(text)),
            Self::Host(hosts) => {
                let found = host(text);
                found.is_some_and(|found| hosts.iter().any(|own| own.eq_ignore_ascii_case(found)))
            }
        }
    }

    /// Whether a text, of which another condition holds, is certainly none of these.
    fn excludes(&self, text: &str, other: &Self) -> bool {
        match self {
            // Then the text is a word of the author's. Of others too much may be written in two ways.
            Self::OneOf(words) => {
                matches!(other, Self::OneOf(_)) && words.iter().all(|word| differ(word, text))
            }
            Self::Under(folders) => folders.iter().all(|folder| folder.excludes(text)),
            Self::Host(hosts) => {
                let found = host(text);
                // A dot at the end is the root of all names: the same host.
                found.is_some_and(|found| {
                    let found = found.trim_end_matches('.');
                    hosts.iter().all(|own| !own.eq_ignore_ascii_case(found))
                })
            }
        }
    }
}

impl fmt::Display for When {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (verb, names): (_, Vec<String>) = match &self.is {
            ArgumentIs::OneOf(words) => ("is", words.iter().map(|it| format!("{it:?}")).collect()),
            ArgumentIs::Under(folders) => (
                "is under",
                folders.iter().map(|it| it.as_str().to_owned()).collect(),
            ),
            ArgumentIs::Host(hosts) => (
                "is at",
                hosts.iter().map(|it| format!("https://{it}")).collect(),
            ),
        };
        write!(f, "{} {verb} {}", self.argument, names.join(" or "))
    }
}
