//! The JSONPath of a label rule.

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

use serde_json::Value;
use serde_json_path::JsonPath;

/// Longest path, in bytes.
const MAX_PATH_BYTES: usize = 1024;

/// Most opening parentheses. The time of the parser grows exponentially with them.
const MAX_GROUPS: usize = 4;

/// An RFC 9535 JSONPath that selects the values a label is for.
///
/// The document is hostile, so paths that could cost more than its size times its depth are refused: more than one `..`, more
/// than one filter, a query from the root inside a filter, several selectors in brackets other than distinct names and
/// numbers, and the functions `match` and `search`.
#[derive(Clone)]
pub struct LabelPath {
    text: String,
    query: JsonPath,
    filter: Option<usize>,
    names: BTreeSet<String>,
}

/// Why a path cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct PathError {
    /// The mistake, and how to correct it.
    pub message: String,
    /// The place in the path, in bytes.
    pub offset: usize,
}

impl LabelPath {
    /// Parses a path.
    ///
    /// # Errors
    /// It is not an RFC 9535 path, or is one that could cost too much.
    pub fn parse(text: &str) -> Result<Self, PathError> {
        let refuse = |message: &str, offset| PathError {
            message: message.to_owned(),
            offset,
        };
        if text.len() > MAX_PATH_BYTES {
            return Err(refuse("the path is longer than 1024 bytes", MAX_PATH_BYTES));
        }
        // The parser panics on an escape that the end of the path cuts off, and any character can be written as it is.
        if let Some(offset) = unicode_escape(text) {
            return Err(refuse(
                "an escape '\\u'; write the character itself",
                offset,
            ));
        }
        // Before the parser runs, because of the limit on parentheses.
        let parts = Parts::of(text);
        // Each of these runs once for every value that the path before it selects.
        let limits = [
            (
                &parts.descents,
                1,
                "'..' stands twice; name the steps between",
            ),
            (&parts.filters, 1, "two filters; write one with '&&'"),
            (
                &parts.roots,
                1,
                "'$' inside a filter; compare with '@' or a literal",
            ),
            (
                &parts.groups,
                MAX_GROUPS,
                "too many '('; write a simpler filter",
            ),
            // A value that is selected twice is selected four times behind a second such list.
            (
                &parts.overlaps,
                0,
                "this may select a value twice; in brackets write '*', or names or numbers, each once",
            ),
        ];
        for (places, most, message) in limits {
            if let Some(offset) = places.get(most) {
                return Err(refuse(message, *offset));
            }
        }
        let query = JsonPath::parse(text).map_err(|error| PathError {
            message: format!("not a JSONPath: {}", error.message()),
            offset: error.position(),
        })?;
        Ok(Self {
            text: text.to_owned(),
            query,
            filter: parts.filters.first().copied(),
            names: parts.names,
        })
    }

    /// The path as written.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// The first byte of a filter, if there is one. It selects a value by the values of others.
    #[must_use]
    pub fn filter(&self) -> Option<usize> {
        self.filter
    }

    /// The key names in the path. The author of the rule chose them.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.names.iter().map(String::as_str)
    }

    /// The selected values.
    pub(crate) fn select<'v>(&self, value: &'v Value) -> impl Iterator<Item = &'v Value> {
        self.query.query(value).all().into_iter()
    }
}

/// The first byte of a `\u` whose backslash is not escaped.
fn unicode_escape(text: &str) -> Option<usize> {
    let mut escaped = false;
    text.char_indices().find_map(|(at, c)| {
        let found = escaped && c == 'u';
        escaped = c == '\\' && !escaped;
        found.then(|| at - 1)
    })
}

impl fmt::Debug for LabelPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "LabelPath({})", self.text)
    }
}

impl FromStr for LabelPath {
    type Err = PathError;

    fn from_str(text: &str) -> Result<Self, PathError> {
        Self::parse(text)
    }
}

impl PartialEq for LabelPath {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl Eq for LabelPath {}

/// The parts of a path outside of quotes, and all names.
#[derive(Default)]
struct Parts {
    names: BTreeSet<String>,
    descents: Vec<usize>,
    filters: Vec<usize>,
    roots: Vec<usize>,
    groups: Vec<usize>,
    /// Selectors that may select the same value as another one in their brackets.
    overlaps: Vec<usize>,
}

impl Parts {
    fn of(text: &str) -> Self {
        let mut parts = Self::default();
        // The starts of the selectors in each open bracket; none in a parenthesis.
        let mut open: Vec<Vec<usize>> = Vec::new();
        let mut chars = text.char_indices().peekable();
        let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_' || !c.is_ascii();
        while let Some((at, c)) = chars.next() {
            match c {
                '\'' | '"' => {
                    let rest = text.get(at + 1..).unwrap_or_default();
                    let mut escaped = false;
                    let end = rest.find(|d: char| {
                        let ends = d == c && !escaped;
                        escaped = d == '\\' && !escaped;
                        ends
                    });
                    // The parser refuses a path with an open quote.
                    let name = rest.get(..end.unwrap_or(rest.len())).unwrap_or_default();
                    // A name with an escape is left out. Its key is not known then, which is safe.
                    if !name.contains('\\') {
                        parts.names.insert(name.to_owned());
                    }
                    let past = at + 1 + name.len();
                    while chars.next_if(|(next, _)| *next <= past).is_some() {}
                }
                '.' if chars.next_if(|(_, next)| *next == '.').is_some() => {
                    parts.descents.push(at);
                }
                '?' => parts.filters.push(at),
                '$' => parts.roots.push(at),
                '(' => {
                    parts.groups.push(at);
                    open.push(Vec::new());
                }
                '[' => open.push(vec![at + 1]),
                // Between arguments of a function a comma separates no selectors.
                ',' => {
                    let selectors = open.last_mut().filter(|selectors| !selectors.is_empty());
                    if let Some(selectors) = selectors {
                        selectors.push(at + 1);
                    }
                }
                // The parser refuses brackets that do not fit.
                ')' | ']' => {
                    let selectors = open.pop().unwrap_or_default();
                    parts.overlaps.extend(overlap(text, &selectors, at));
                }
                _ if is_name(c) => {
                    let rest = text.get(at..).unwrap_or_default();
                    let end = rest.find(|d| !is_name(d)).unwrap_or(rest.len());
                    // A number selects an element and names no key.
                    if !c.is_ascii_digit() {
                        let name = rest.get(..end).unwrap_or_default();
                        parts.names.insert(name.to_owned());
                    }
                    while chars.next_if(|(next, _)| *next < at + end).is_some() {}
                }
                _ => {}
            }
        }
        parts
    }
}

/// The first of the selectors, from these starts to `end`, that may select the same value as one before it.
fn overlap(text: &str, starts: &[usize], end: usize) -> Option<usize> {
    if starts.len() < 2 {
        return None;
    }
    // Each ends where its comma stands.
    let ends = starts.iter().skip(1).map(|next| next - 1).chain([end]);
    let mut seen = BTreeSet::new();
    let mut selectors = starts.iter().zip(ends);
    let found = selectors.find(|(start, end)| {
        let selector = text.get(**start..*end).unwrap_or_default();
        !single(selector.trim()).is_some_and(|one| seen.insert(one))
    });
    found.map(|(start, _)| *start)
}

/// The name or number of the one member or element that a selector selects; `None` for others.
fn single(selector: &str) -> Option<(bool, String)> {
    let quoted = |quote: char| selector.strip_prefix(quote)?.strip_suffix(quote);
    if let Some(name) = quoted('\'').or_else(|| quoted('"')) {
        return Some((true, unescaped(name)));
    }
    // A negative number may mean any element.
    let is_number = selector.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| (false, selector.to_owned()))
}

/// The name with its escapes resolved. There is no `\u`, see [`LabelPath::parse`].
fn unescaped(name: &str) -> String {
    let mut chars = name.chars();
    let next = || {
        Some(match chars.next()? {
            '\\' => match chars.next()? {
                'b' => '\u{8}',
                'f' => '\u{c}',
                'n' => '\n',
                'r' => '\r',
                't' => '\t',
                other => other,
            },
            c => c,
        })
    };
    std::iter::from_fn(next).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_names_of_a_path_are_found() {
        let path = LabelPath::parse(r#"$.emails[*]['from', "a\"b", 7, '8']..x_1"#).unwrap();
        let names: Vec<_> = path.names().collect();
        assert_eq!(names, ["8", "emails", "from", "x_1"]);
    }

    #[test]
    fn costly_paths_are_refused() {
        for (path, offset) in [
            ("$..a..b", 4),
            ("$[?@.a][?@.b]", 8),
            ("$[?$.a]", 3),
            ("$.a[?match(@.b, 'x')]", 5),
            ("$[?(((((@.a)))))]", 7),
            ("$['a\\u", 4),
            ("$[*,*][*,*]", 2),
            ("$[0, 0]", 4),
            ("$['a',\"a\"]", 6),
            ("$.a['b'][0:2,7]", 9),
            ("$['b'][1,-1]", 9),
            (r"$['a/b','a\/b']", 8),
            ("$[?@['a','a']]", 9),
            ("$['a',?@.b]", 6),
        ] {
            assert_eq!(LabelPath::parse(path).unwrap_err().offset, offset, "{path}");
        }
        for path in [
            "$",
            "$..a",
            "$[?@.a == '$..x?']",
            "$['..', '...']",
            "$[ 'a', 'b' ]['c,d', \"]\", 0,10][*]",
            "$[?count(@['a','b']) == 2]",
            "$[?length(@.a) > 1 && @[0,1]]",
            "$[0:3].a",
            "$[?((((@.a))))]",
            r"$['a\\u']",
        ] {
            assert!(LabelPath::parse(path).is_ok(), "{path}");
        }
        assert!(LabelPath::parse("a.b").is_err());
    }
}
