//! What a server says with a 401 or 403 (`WWW-Authenticate`, RFC 6750 §3). No I/O here.

use std::collections::BTreeMap;

use reqwest::header::{HeaderMap, WWW_AUTHENTICATE};

const MAX_HEADER: usize = 4 << 10;
/// Scopes that are read, and the longest of them.
const MAX_SCOPES: usize = 64;
const MAX_SCOPE: usize = 128;

#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Challenge {
    /// Where the server says who gives out tokens for it.
    pub(crate) metadata: Option<String>,
    /// What tokens have to be for.
    pub(crate) scopes: Vec<String>,
    error: Option<String>,
}

impl Challenge {
    /// The first demand for a bearer token in these headers.
    pub(crate) fn of(headers: &HeaderMap) -> Option<Self> {
        let all = headers.get_all(WWW_AUTHENTICATE).into_iter();
        let mut all = all.filter_map(|value| value.to_str().ok());
        all.find_map(Self::read)
    }

    fn read(header: &str) -> Option<Self> {
        let (scheme, rest) = header.split_once(' ').unwrap_or((header, ""));
        if !scheme.eq_ignore_ascii_case("bearer") || header.len() > MAX_HEADER {
            return None;
        }
        let mut parameters = parameters(rest);
        Some(Self {
            metadata: parameters.remove("resource_metadata"),
            scopes: scopes(parameters.remove("scope").iter().flat_map(|s| s.split(' '))),
            error: parameters.remove("error"),
        })
    }

    /// Whether the server accepts the token and wants it to be for more scopes.
    pub(crate) fn is_about_scope(&self) -> bool {
        self.error.as_deref() == Some("insufficient_scope")
    }
}

/// Those of these that are scopes (RFC 6749 §3.3), without quotes and backslashes and so fit to be shown.
pub(crate) fn scopes<'a>(texts: impl IntoIterator<Item = &'a str>) -> Vec<String> {
    let is_scope = |text: &&str| {
        let allowed = |byte: u8| byte.is_ascii_graphic() && !matches!(byte, b'"' | b'\\');
        (1..=MAX_SCOPE).contains(&text.len()) && text.bytes().all(allowed)
    };
    let scopes = texts.into_iter().filter(is_scope).take(MAX_SCOPES);
    scopes.map(str::to_owned).collect()
}

/// `name=value` and `name="value"`, by names in lower case, up to what is neither.
fn parameters(mut rest: &str) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    while let Some((name, after)) = rest.split_once('=') {
        let name = name.trim_matches([' ', ',']).to_ascii_lowercase();
        let read = match after.strip_prefix('"') {
            Some(quoted) => quoted_string(quoted),
            None => {
                let end = after.find([',', ' ']).unwrap_or(after.len());
                after.split_at_checked(end).map(|(v, r)| (v.to_owned(), r))
            }
        };
        let Some((value, after)) = read else { break };
        found.entry(name).or_insert(value);
        rest = after;
    }
    found
}

/// The text up to its closing quote, and what comes after it.
fn quoted_string(text: &str) -> Option<(String, &str)> {
    let mut value = String::new();
    let mut chars = text.char_indices();
    while let Some((at, c)) = chars.next() {
        match c {
            '"' => return Some((value, text.get(at + 1..)?)),
            '\\' => value.push(chars.next()?.1),
            c => value.push(c),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_demand_is_read() {
        for (header, metadata, scopes, about_scope) in [
            ("Bearer", None, &[][..], false),
            (
                r#"bearer realm="a, b=\"c\"", resource_metadata="https://example.org/x",scope="a b:c""#,
                Some("https://example.org/x"),
                &["a", "b:c"],
                false,
            ),
            (
                "Bearer error=insufficient_scope, scope=files",
                None,
                &["files"],
                true,
            ),
            (r#"Bearer scope="a" b"#, None, &["a"], false),
            (r#"Bearer scope="a"#, None, &[], false),
            ("Bearer scope=\"\u{1b}[2J ok\"", None, &["ok"], false),
        ] {
            let read = Challenge::read(header).unwrap();
            assert_eq!(read.metadata.as_deref(), metadata, "{header}");
            assert_eq!(read.scopes, scopes, "{header}");
            assert_eq!(read.is_about_scope(), about_scope, "{header}");
        }
        for none in [
            "",
            "Basic realm=x",
            &format!("Bearer {}", "x".repeat(MAX_HEADER)),
        ] {
            assert_eq!(Challenge::read(none), None, "{none}");
        }
    }
}
