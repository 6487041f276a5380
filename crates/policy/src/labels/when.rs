//! Conditions of label rules on the arguments of the call that a result answers.

use std::fmt;

use ifc::{Arguments, Labeled, http_host, url_host};
use serde_json::Value;

use super::folder::{Folder, differ};

/// Longest list of texts that is read. For a longer one the condition is unknown.
const MAX_TEXTS: usize = 256;

/// A condition of a [`LabelRule`](super::rule::LabelRule) on an argument of the call: "files in my own folder are mine".
///
/// It is about a text, or about all texts of a list. For any other value, and for an absent argument, it is unknown; see
/// [`Met`].
///
/// The model chooses the arguments. The label of the call says who may have influenced that choice, and the result has this
/// label in any case, so an attacker who names a trusted place gains nothing. A condition is right if only trusted programs
/// *write* at the place that it names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct When {
    /// The name of the argument.
    pub argument: String,
    /// The required value.
    pub is: ArgumentIs,
}

/// The possible values of an argument.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ArgumentIs {
    /// A text, to the byte.
    OneOf(Vec<String>),
    /// A path of a folder, or of something in it; see [`Folder::holds`].
    Under(Vec<Folder>),
    /// An `https` URL at a host of this name, without a user, a port, or a sign about which readers of URLs disagree. A name
    /// that begins with `http://` is that of an `http` URL, and may have a port. Redirects are not seen.
    Host(Vec<String>),
    /// The user of the session, to the byte; see `ResultLabels::for_user`. Unknown where no user is named.
    User,
}

/// Whether a condition holds for a call.
///
/// It certainly does *not* hold for a text only if the text meets another condition of the tool on the same argument, and
/// differs from the names in this one in more than case and signs. A path in no named folder is unknown:
/// `/proc/self/root/home/me` is `/home/me`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Met {
    /// It certainly holds: the rule counts.
    Yes,
    /// It certainly does not: the rule does not count.
    No,
    /// It is not known. The selected values have the most restrictive label.
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
        // A name that no condition mentions may lead anywhere, also into the places of this one.
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
        // All texts of a list must agree.
        let first = found.next().unwrap_or(Met::Unknown);
        match found.all(|other| other == first) {
            true => first,
            false => Met::Unknown,
        }
    }
}

/// The text that an argument is, or the texts of the list that it is. A whole number is its digits, as an id is.
fn texts(arguments: &Arguments, name: &str) -> Option<Vec<String>> {
    let text = arguments.get(name).map(Labeled::reveal_tcb)?;
    match serde_json::from_str(text).ok()? {
        Value::String(text) => Some(vec![text]),
        Value::Number(number) => Some(vec![number.as_i64()?.to_string()]),
        // An empty list says nothing.
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
            Self::User => false,
            Self::Host(hosts) => hosts.iter().any(|own| names_host(own, text)),
        }
    }

    /// Whether a text that meets another condition certainly does not meet this one.
    fn excludes(&self, text: &str, other: &Self) -> bool {
        match self {
            // The text is then one of the author's words, which have one spelling.
            Self::OneOf(words) => {
                matches!(other, Self::OneOf(_)) && words.iter().all(|word| differ(word, text))
            }
            Self::Under(folders) => folders.iter().all(|folder| folder.excludes(text)),
            Self::User => false,
            Self::Host(hosts) => {
                // A dot at the end makes no other host.
                let is_dotted = |found: &str| found.ends_with('.');
                let found = url_host(text).or_else(|| http_host(text));
                found.is_some_and(|found| !is_dotted(found))
                    && hosts.iter().all(|own| !names_host(own, text))
            }
        }
    }
}

/// Whether a URL is at this host.
fn names_host(own: &str, url: &str) -> bool {
    let (own, found) = match own.strip_prefix("http://") {
        Some(own) => (own, http_host(url)),
        None => (own, url_host(url)),
    };
    found.is_some_and(|found| found.eq_ignore_ascii_case(own))
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
                hosts
                    .iter()
                    .map(|it| match it.starts_with("http://") {
                        true => it.clone(),
                        false => format!("https://{it}"),
                    })
                    .collect(),
            ),
            ArgumentIs::User => ("is", vec!["the user of the session".to_owned()]),
        };
        write!(f, "{} {verb} {}", self.argument, names.join(" or "))
    }
}
