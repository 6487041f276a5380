//! Domain names, and which of them an entry of the configuration covers.

use std::fmt;

/// Longest name in text (RFC 1035 §2.3.4 bounds the wire form to 255 bytes, which is 253 characters).
const MAX_NAME: usize = 253;
/// Longest part of a name between two dots.
const MAX_LABEL: usize = 63;

/// A domain name below a public suffix: lower case, ASCII, without a trailing dot. What is not one (an
/// address, `localhost`, `com`, `co.uk`) is nothing that a spoke can ask for.
///
/// A name with other letters stands here in punycode (`xn--…`), as it does in every query.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DomainName(String);

/// A text that is no name of a place on the internet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BadName {
    /// It has parts of a length or with characters that no name has.
    #[error(
        "a domain name has letters, digits, '-' and '_' between its dots; others are written in punycode (xn--…)"
    )]
    Form,
    /// It is an address.
    #[error("an address is no domain name")]
    Address,
    /// It is above every registrable domain.
    #[error(
        "it is a public suffix or has one part only; write a registrable domain such as example.org"
    )]
    NoOwner,
}

impl DomainName {
    /// Reads a name; case and one trailing dot do not matter.
    ///
    /// # Errors
    /// It is none.
    pub fn new(text: &str) -> Result<Self, BadName> {
        let text = text.strip_suffix('.').unwrap_or(text);
        if text.len() > MAX_NAME || !text.split('.').all(is_label) {
            return Err(BadName::Form);
        }
        // A last part of digits is an IPv4 address to many programs, in one of its odd notations.
        let last = text.rsplit('.').next().unwrap_or_default();
        let is_number = last.bytes().all(|byte| byte.is_ascii_digit());
        if is_number
            || last
                .get(..2)
                .is_some_and(|start| start.eq_ignore_ascii_case("0x"))
        {
            return Err(BadName::Address);
        }
        let text = text.to_ascii_lowercase();
        match psl::domain_str(&text) {
            Some(_) => Ok(Self(text)),
            None => Err(BadName::NoOwner),
        }
    }

    /// The name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Its registrable domain (eTLD+1): what has one owner, and what the user is asked about.
    #[must_use]
    pub fn registrable(&self) -> &str {
        // Every name has one, see `new`; the whole name covers less than any.
        psl::domain_str(&self.0).unwrap_or(&self.0)
    }
}

impl fmt::Display for DomainName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

fn is_label(label: &str) -> bool {
    // Underscores are no host names, and in use all the same.
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
    let edge = label.starts_with('-') || label.ends_with('-');
    (1..=MAX_LABEL).contains(&label.len()) && label.bytes().all(allowed) && !edge
}

/// An entry of the configuration: a name with everything below it. `example.org` and `*.example.org`
/// are the same: both have one owner.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Pattern(DomainName);

impl Pattern {
    /// Reads an entry.
    ///
    /// # Errors
    /// It names no registrable domain, and none below one.
    pub fn new(text: &str) -> Result<Self, BadName> {
        DomainName::new(text.strip_prefix("*.").unwrap_or(text)).map(Self)
    }

    /// Whether it covers this name.
    #[must_use]
    pub fn covers(&self, name: &DomainName) -> bool {
        let above = name.0.strip_suffix(self.0.as_str());
        above.is_some_and(|above| above.is_empty() || above.ends_with('.'))
    }

    /// The name at its top.
    #[must_use]
    pub fn name(&self) -> &DomainName {
        &self.0
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_has_one_form() {
        for (text, expected, registrable) in [
            ("Example.ORG", "example.org", "example.org"),
            ("a.b.example.co.uk.", "a.b.example.co.uk", "example.co.uk"),
            ("_dmarc.example.org", "_dmarc.example.org", "example.org"),
            (
                "xn--bcher-kva.example",
                "xn--bcher-kva.example",
                "xn--bcher-kva.example",
            ),
            // Everybody has a page of their own there.
            ("me.github.io", "me.github.io", "me.github.io"),
            ("www.me.github.io", "www.me.github.io", "me.github.io"),
        ] {
            let name = DomainName::new(text).unwrap();
            assert_eq!(name.as_str(), expected);
            assert_eq!(name.registrable(), registrable, "{text}");
        }
    }

    #[test]
    fn what_belongs_to_nobody_in_particular_is_no_name() {
        let long = format!("{}.org", "a".repeat(64));
        let longer = format!("{}example.org", "a.".repeat(130));
        for (text, why) in [
            ("", BadName::Form),
            (".", BadName::Form),
            ("example..org", BadName::Form),
            ("example.org..", BadName::Form),
            ("-a.org", BadName::Form),
            ("a b.org", BadName::Form),
            ("a\0.org", BadName::Form),
            ("bücher.example", BadName::Form),
            ("*.example.org", BadName::Form),
            (&long, BadName::Form),
            (&longer, BadName::Form),
            ("127.0.0.1", BadName::Address),
            ("2130706433", BadName::Address),
            ("example.0x7f", BadName::Address),
            ("localhost", BadName::NoOwner),
            ("org", BadName::NoOwner),
            ("co.uk", BadName::NoOwner),
            ("github.io", BadName::NoOwner),
        ] {
            assert_eq!(DomainName::new(text), Err(why), "{text}");
        }
    }

    #[test]
    fn an_entry_covers_its_name_and_what_is_below() {
        let covers = |pattern: &str, name: &str| {
            let name = DomainName::new(name).unwrap();
            Pattern::new(pattern).unwrap().covers(&name)
        };
        for pattern in ["example.org", "*.example.org", "Example.org."] {
            assert!(covers(pattern, "example.org"));
            assert!(covers(pattern, "a.b.EXAMPLE.org"));
            for other in ["badexample.org", "example.org.evil.com", "example.com"] {
                assert!(!covers(pattern, other), "{pattern} {other}");
            }
        }
        assert!(covers("api.example.org", "eu.api.example.org"));
        assert!(!covers("api.example.org", "example.org"));
        for bad in ["*", "*.org", "*.co.uk", "a.*.example.org", "**.example.org"] {
            assert!(Pattern::new(bad).is_err(), "{bad}");
        }
    }
}
