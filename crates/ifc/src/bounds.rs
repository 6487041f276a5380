//! What a stored permission says of the arguments of a call.
//!
//! A permission covers the control arguments that its question showed, and no others. A data argument that the call had
//! may vary, since the policy limits it. Nothing here reads a text of a model or an app but the arguments themselves.

use std::fmt;

use crate::json::{Json, leading_string};
use crate::{Arguments, Label};

/// The control arguments that a permission covers. A call without one of them, with another one, or with a data argument
/// that the permitted call lacked is not covered.
///
/// `Debug` shows no value.
#[derive(Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Bounds {
    /// A JSON object in canonical form, and on a line each the JSON strings of the names of data arguments.
    arguments: String,
    /// Whether the path of a file stands for every file below its folder.
    folders: bool,
}

/// One argument of [`Bounds`].
#[derive(Debug, PartialEq, Eq)]
pub struct Bound {
    /// Its name.
    pub name: String,
    /// Its value, JSON text in canonical form; or the folder, whose name ends in `/`.
    pub value: String,
    /// Whether it is any path below this folder.
    pub below: bool,
}

/// Most characters of a string that is no free text: identifiers, addresses and paths are shorter.
const PLAIN: usize = 128;

impl Bounds {
    /// Bounds as they were stored. Text of another form covers nothing.
    pub fn new(arguments: String, folders: bool) -> Self {
        Self { arguments, folders }
    }

    /// The text for [`Bounds::new`].
    pub fn stored(&self) -> &str {
        &self.arguments
    }

    /// The JSON object of the control arguments, of whose paths only the folders count if [`Bounds::folders`].
    pub fn arguments(&self) -> &str {
        // Canonical JSON has no line break.
        self.arguments.lines().next().unwrap_or_default()
    }

    /// The names of the data arguments that may vary within their limits, in quotes.
    pub fn data(&self) -> impl Iterator<Item = &str> {
        self.arguments.lines().skip(1)
    }

    /// Whether the path of a file stands for every file below its folder.
    pub fn folders(&self) -> bool {
        self.folders
    }

    /// The same with each path of a file widened to the folder that it is in; `None` if there is none.
    #[must_use]
    pub fn in_folders(&self) -> Option<Self> {
        let wider = Self::new(self.arguments.clone(), true);
        Some(wider).filter(|it| it.iter().any(|bound| bound.below))
    }

    /// Whether these cover the arguments of a call, by the canonical text of each value of the control part.
    #[must_use]
    pub fn cover(&self, call: &Self) -> bool {
        let allows = |(bound, given): (Bound, Bound)| {
            let is_allowed = match bound.below {
                false => bound.value == given.value,
                // No folder leads out of it: see `is_path`.
                true => leading_string(&given.value)
                    .is_some_and(|(path, _)| path.starts_with(&bound.value) && is_path(&path)),
            };
            bound.name == given.name && is_allowed
        };
        let is_as_long = self.in_folders().is_some() && self.iter().len() == call.iter().len();
        let is_same = self.arguments() == call.arguments();
        call.data()
            .all(|given| self.data().any(|data| data == given))
            && (is_same || self.folders && is_as_long && self.iter().zip(call.iter()).all(allows))
    }

    /// Each argument, sorted by name.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = Bound> {
        let all = Arguments::parse(self.arguments(), &Label::bottom()).unwrap_or_default();
        let bounds = all.iter().map(|(name, value)| {
            let value = value.reveal_tcb().to_owned();
            let folder = folder(&value).filter(|_| self.folders && names_path(name));
            Bound {
                name: name.to_owned(),
                below: folder.is_some(),
                value: folder.unwrap_or(value),
            }
        });
        bounds.collect::<Vec<_>>().into_iter()
    }
}

impl fmt::Debug for Bounds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Bounds({} bytes)", self.arguments.len())
    }
}

/// Whether a name or a description speaks of a program or a request in some language.
#[must_use]
pub fn speaks_of_code(text: &str) -> bool {
    let text = text.to_lowercase();
    let within = ["sql", "query", "command", "shell", "expression"];
    // "description" is no code.
    let ends = ["script", "code", "cmd", "exec", "eval", "bash", "statement"];
    let words = text.split(|c: char| !c.is_alphanumeric());
    let mut words = words.map(|word| word.trim_end_matches('s'));
    within.iter().any(|part| text.contains(part))
        || words.any(|word| ends.iter().any(|end| word.ends_with(end)))
}

/// Whether arguments are more than identifiers, addresses, paths, numbers and dates, by their names or values.
pub(crate) fn has_free_text(arguments: &str) -> bool {
    let Ok(json) = Json::read(arguments) else {
        return true;
    };
    json.nodes().iter().any(|node| {
        let name = node.key.as_ref().map_or("", |key| json.name(key));
        let text = json.string(node).unwrap_or_default();
        let is_plain = is_plain(&text) || names_path(name) && is_path(&text);
        !is_plain || !self::is_plain(name) || speaks_of_code(name)
    })
}

/// Whether a string is short and one word.
fn is_plain(text: &str) -> bool {
    let plain = |c: char| c.is_alphanumeric() || "-_.@/:+,#=&?%~".contains(c);
    text.chars().count() <= PLAIN && text.chars().all(plain)
}

/// Whether an argument of this name is the path of a file or folder.
fn names_path(name: &str) -> bool {
    let name = name.to_lowercase();
    let ends = ["path", "filename", "folder", "directory", "_file", "_dir"];
    ["file", "dir"].contains(&name.as_str()) || ends.iter().any(|end| name.ends_with(end))
}

/// Whether every program reads a path alike: no empty, hidden or parent folder in it, and no character that a shell, an
/// address or another system takes for something else.
fn is_path(path: &str) -> bool {
    let plain = |c: char| c.is_alphanumeric() || "-_. ".contains(c);
    let is_name = |name: &str| {
        let is_shown = !name.is_empty() && name.trim() == name && !name.starts_with('.');
        is_shown && name.chars().all(plain)
    };
    let path = path.strip_prefix('/').unwrap_or(path);
    path.split('/').all(is_name)
}

/// The folder of a path, if it says more than the root or a folder directly below it.
fn folder(value: &str) -> Option<String> {
    let (path, _) = leading_string(value)?;
    let (folder, _) = path.rsplit_once('/').filter(|_| is_path(&path))?;
    let depth = folder.split('/').count();
    (depth > 2 || !path.starts_with('/')).then(|| format!("{folder}/"))
}
