//! The place of a data argument in the arguments of a call.

use std::fmt;
use std::ops::Range;
use std::str::FromStr;

use crate::json::{self, Json, Kind};

/// A place in the arguments of a call: `body`, `message.body`, `items[*].note`.
///
/// It begins with an argument's name. `.NAME` is a member of an object, `[*]` every element of a list. A name with one of
/// the characters `.`, `[`, `]` and `"` is written as in JSON, in brackets: `["a.b"].note`.
///
/// An argument that is a string of JSON counts as what it says: the places are in the text of the string.
///
/// The names on the way to a place and the number of elements of a list belong to the control part. An argument of which
/// something on the way has another type has no such place, and then all of it belongs to the control part.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ArgumentPath {
    argument: String,
    steps: Vec<Step>,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Step {
    Member(String),
    Elements,
}

/// Why a text is no [`ArgumentPath`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum PathError {
    /// It is not of the form `NAME`, `NAME.NAME`, `NAME[*].NAME`.
    Form,
    /// It has more than [`ArgumentPath::MAX_STEPS`] steps.
    TooLong,
}

impl fmt::Display for PathError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Form => {
                f.write_str("not an argument's path, like body, message.body or items[*].note")
            }
            Self::TooLong => write!(
                f,
                "an argument's path of more than {} steps",
                ArgumentPath::MAX_STEPS
            ),
        }
    }
}

impl std::error::Error for PathError {}

impl ArgumentPath {
    /// The most steps below an argument. Schemas of tools are less deep.
    pub const MAX_STEPS: usize = 16;

    /// The most places of one path in one call. Each is a region of the history.
    pub const MAX_PLACES: usize = 64;

    /// All of the argument of this name.
    pub fn of(argument: impl Into<String>) -> Self {
        Self {
            argument: argument.into(),
            steps: Vec::new(),
        }
    }

    /// This member of the object at this place.
    #[must_use]
    pub(crate) fn member(&self, name: impl Into<String>) -> Self {
        self.with(Step::Member(name.into()))
    }

    /// Every element of the list at this place.
    #[must_use]
    pub(crate) fn elements(&self) -> Self {
        self.with(Step::Elements)
    }

    fn with(&self, step: Step) -> Self {
        let mut path = self.clone();
        path.steps.push(step);
        path
    }

    /// The argument that it is in.
    pub fn argument(&self) -> &str {
        &self.argument
    }

    /// The last name in it: `note` for `items[*].note`.
    pub fn last_name(&self) -> &str {
        let mut steps = self.steps.iter().rev();
        let last = steps.find_map(|step| match step {
            Step::Member(name) => Some(name),
            Step::Elements => None,
        });
        last.unwrap_or(&self.argument)
    }

    /// Whether it is an argument as a whole.
    pub fn is_whole(&self) -> bool {
        self.steps.is_empty()
    }

    /// Whether the other path leads to this place or into it.
    #[must_use]
    pub fn contains(&self, other: &Self) -> bool {
        self.argument == other.argument && other.steps.starts_with(&self.steps)
    }

    /// Follows this path from `schema`, the schema of all arguments. `step` goes from a schema to that of a member
    /// (`Some`) or of the elements (`None`).
    pub fn follow<S>(
        &self,
        schema: S,
        mut step: impl FnMut(S, Option<&str>) -> Option<S>,
    ) -> Option<S> {
        let argument = step(schema, Some(&self.argument))?;
        let mut steps = self.steps.iter();
        steps.try_fold(argument, |schema, one| match one {
            Step::Member(name) => step(schema, Some(name)),
            Step::Elements => step(schema, None),
        })
    }

    /// The spans of the values at this place in the canonical text of its argument; none for a missing member or an
    /// empty list.
    ///
    /// `None` if something on the way has another type, or there are more than [`ArgumentPath::MAX_PLACES`].
    pub(crate) fn places(&self, argument: &str) -> Option<Vec<Range<usize>>> {
        if self.steps.is_empty() {
            return Some(std::iter::once(0..argument.len()).collect());
        }
        if !argument.starts_with('"') {
            return self.places_in(argument);
        }
        let (text, _) = json::leading_string(argument)?;
        // Canonical text has one escape of each character.
        let written = |end: usize| {
            let mut written = String::new();
            json::write_string(text.get(..end)?, &mut written);
            Some(written.len() - 1)
        };
        let places = self.places_in(&text)?.into_iter();
        let places = places.map(|place| Some(written(place.start)?..written(place.end)?));
        places.collect()
    }

    /// The same in a text of JSON.
    fn places_in(&self, argument: &str) -> Option<Vec<Range<usize>>> {
        let json = Json::read(argument).ok()?;
        let mut found = vec![0];
        for step in &self.steps {
            let mut next = Vec::new();
            for of in found {
                let children = json.children(of);
                match (step, json.nodes().get(of)?.kind) {
                    (Step::Member(wanted), Kind::Object) => {
                        let is_it = |(_, node): &(usize, &json::Node)| {
                            (node.key.as_ref()).is_some_and(|key| json.name(key) == wanted)
                        };
                        next.extend(children.filter(is_it).map(|(at, _)| at));
                    }
                    (Step::Elements, Kind::Array) => next.extend(children.map(|(at, _)| at)),
                    // A value of another type may hold all that the members would. Skipped, it would get around
                    // their limit.
                    _ => return None,
                }
                // Not cut to that many, since the rest would have no limit of its own.
                if next.len() > Self::MAX_PLACES {
                    return None;
                }
            }
            found = next;
        }
        let spans = found.into_iter();
        let spans = spans.map(|at| json.nodes().get(at).map(|node| node.span.clone()));
        spans.collect()
    }
}

impl fmt::Display for ArgumentPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_name(&self.argument, "", f)?;
        self.steps.iter().try_for_each(|step| match step {
            Step::Member(name) => write_name(name, ".", f),
            Step::Elements => f.write_str("[*]"),
        })
    }
}

fn write_name(name: &str, dot: &str, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    if !name.is_empty() && !name.contains(is_special) {
        return write!(f, "{dot}{name}");
    }
    let mut quoted = String::new();
    json::write_string(name, &mut quoted);
    write!(f, "[{quoted}]")
}

fn is_special(c: char) -> bool {
    matches!(c, '.' | '[' | ']' | '"') || c.is_control()
}

impl FromStr for ArgumentPath {
    type Err = PathError;

    fn from_str(text: &str) -> Result<Self, PathError> {
        let (argument, mut rest) = match text.starts_with('[') {
            true => quoted(text).ok_or(PathError::Form)?,
            false => plain(text).ok_or(PathError::Form)?,
        };
        let mut path = Self::of(argument);
        while !rest.is_empty() {
            let step;
            (step, rest) = read_step(rest).ok_or(PathError::Form)?;
            path.steps.push(step);
        }
        match path.steps.len() > Self::MAX_STEPS {
            true => Err(PathError::TooLong),
            false => Ok(path),
        }
    }
}

/// The next step of a path, and what follows it.
fn read_step(text: &str) -> Option<(Step, &str)> {
    if let Some(rest) = text.strip_prefix("[*]") {
        return Some((Step::Elements, rest));
    }
    let (name, rest) = match text.strip_prefix('.') {
        Some(rest) => plain(rest)?,
        None => quoted(text)?,
    };
    Some((Step::Member(name), rest))
}

/// A name without special characters.
fn plain(text: &str) -> Option<(String, &str)> {
    let end = text.find(is_special).unwrap_or(text.len());
    let (name, rest) = text.split_at_checked(end)?;
    (!name.is_empty()).then(|| (name.to_owned(), rest))
}

/// `["NAME"]`.
fn quoted(text: &str) -> Option<(String, &str)> {
    let (name, read) = json::leading_string(text.strip_prefix('[')?)?;
    let rest = text.get(1 + read..)?.strip_prefix(']')?;
    Some((name, rest))
}
