//! Folders and paths as arguments of calls.

/// Signs that have no meaning for a shell, a glob, a URL or a file system.
const PLAIN_SIGNS: &str = " ._-+,=@()";

/// A folder, by its path in normal form: `/home/me/private`, or `notes` where paths begin at a root of the
/// app's.
///
/// Conditions on paths are about *names*, and do not see where a link leads. Name a folder in which no other program makes
/// links.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Folder(String);

impl Folder {
    /// The folder of this path, with or without a slash at its end.
    ///
    /// `None` if the path is empty, the root itself, or not in the normal form of [`Folder::holds`].
    #[must_use]
    pub fn new(path: &str) -> Option<Self> {
        let parts = Path::read(path)?.parts;
        let path = path.strip_suffix('/').unwrap_or(path);
        (!parts.is_empty()).then(|| Self(path.to_owned()))
    }

    /// The path.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether a path is certainly this folder or in it: its first parts are the folder's to the byte, and it is in normal
    /// form. That has no `.` or `..`, no empty part, and only letters, digits, inner blanks and a few signs: no backslash,
    /// percent sign, tilde, wildcard or control character.
    #[must_use]
    pub fn holds(&self, path: &str) -> bool {
        let (Some(own), Some(path)) = (Path::read(&self.0), Path::read(path)) else {
            return false;
        };
        own.absolute == path.absolute && path.parts.starts_with(&own.parts)
    }

    /// Whether a path is certainly outside of this folder, and not above it: some part is another name in spite of case,
    /// blanks and signs.
    pub(super) fn excludes(&self, path: &str) -> bool {
        let (Some(own), Some(path)) = (Path::read(&self.0), Path::read(path)) else {
            return false;
        };
        let mut pairs = own.parts.iter().zip(&path.parts);
        // The start of a relative path is not known.
        own.absolute == path.absolute && pairs.any(|(own, part)| differ(own, part))
    }
}

/// A path in normal form.
struct Path<'p> {
    absolute: bool,
    parts: Vec<&'p str>,
}

impl<'p> Path<'p> {
    fn read(path: &'p str) -> Option<Self> {
        let rest = path.strip_prefix('/');
        let absolute = rest.is_some();
        let rest = rest.unwrap_or(path);
        if rest.is_empty() {
            return absolute.then_some(Self {
                absolute,
                parts: Vec::new(),
            });
        }
        // One slash at the end changes nothing. A second one is an empty part.
        let rest = rest.strip_suffix('/').unwrap_or(rest);
        let parts: Vec<&str> = rest.split('/').collect();
        let is_normal = parts.iter().all(|part| is_name(part));
        is_normal.then_some(Self { absolute, parts })
    }
}

/// Whether every reader takes this part of a path as a file name.
fn is_name(part: &str) -> bool {
    let plain = |c: char| c.is_alphanumeric() || PLAIN_SIGNS.contains(c);
    // Dots alone lead elsewhere, and some readers trim blanks.
    let is_something = part.chars().any(char::is_alphanumeric);
    is_something && part.chars().all(plain) && part.trim() == part
}

/// Whether two texts are certainly two names: they differ in a letter or a digit, ignoring case. After a letter beyond ASCII
/// it is not certain, since readers normalise those in several ways.
pub(super) fn differ(one: &str, other: &str) -> bool {
    let (one, other) = (Letters::of(one), Letters::of(other));
    let pairs = one.known.bytes().zip(other.known.bytes());
    // If one text ends first, they differ only if all of it is known.
    let goes_on =
        |short: &Letters, long: &Letters| short.are_all && short.known.len() < long.known.len();
    pairs.into_iter().any(|(one, other)| one != other)
        || goes_on(&one, &other)
        || goes_on(&other, &one)
}

/// The letters and digits of a text, in lower case, up to the first character beyond ASCII.
struct Letters {
    known: String,
    are_all: bool,
}

impl Letters {
    fn of(text: &str) -> Self {
        let end = text.find(|c: char| !c.is_ascii());
        let known = text.get(..end.unwrap_or(text.len())).unwrap_or_default();
        let known = known.chars().filter(char::is_ascii_alphanumeric);
        Self {
            known: known.map(|c| c.to_ascii_lowercase()).collect(),
            are_all: end.is_none(),
        }
    }
}
