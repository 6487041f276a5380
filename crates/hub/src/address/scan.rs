//! Where a word could hold an address.

use std::ops::Range;

use super::skeleton::Read;

/// Schemes that are addresses without `//`.
const SCHEMES: &[&str] = &[
    "about",
    "blob",
    "callto",
    "data",
    "facetime",
    "feed",
    "file",
    "ftp",
    "ftps",
    "geo",
    "http",
    "https",
    "intent",
    "javascript",
    "magnet",
    "mailto",
    "market",
    "sip",
    "sips",
    "skype",
    "sms",
    "tel",
    "vbscript",
    "view-source",
    "ws",
    "wss",
    "xmpp",
];

/// What counts as a host without a scheme.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Hosts {
    /// Whatever chat programs make a link of, and what could carry anything: a path, a query, or labels
    /// below a domain. `main.rs` and `example.com` alone carry nothing.
    Carrying,
    /// Every name with a dot: what a user may have meant by it.
    All,
    /// None but those that begin with `www.`: terminals know no others.
    Www,
}

/// Whether a word could hold an address at all: each has a full stop or a colon, or what is read as one.
pub(super) fn could_hold(word: &str) -> bool {
    let is_sign = |byte: u8| matches!(byte, b'.' | b':') || !byte.is_ascii();
    word.bytes().any(is_sign)
}

/// Where the first address of a word begins, in its skeleton. It ends where the word does.
pub(super) fn address(word: &[Read], hosts: Hosts) -> Option<usize> {
    let mut found = [scheme(word, hosts), www(word), None];
    if hosts != Hosts::Www {
        found[2] = host(word, hosts);
    }
    found.into_iter().flatten().min()
}

fn at(word: &[Read], index: usize) -> Option<char> {
    word.get(index).map(|read| read.c)
}

/// `SCHEME://`, whatever the scheme, or `SCHEME:` with one of [`SCHEMES`].
fn scheme(word: &[Read], hosts: Hosts) -> Option<usize> {
    let part_of_scheme = |c: char| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.');
    let mut begin = 0;
    for (index, read) in word.iter().enumerate() {
        if read.c == ':' {
            if at(word, index + 1) == Some('/') && at(word, index + 2) == Some('/') {
                return Some(begin);
            }
            let name = word.get(begin..index).unwrap_or_default();
            // With nothing behind its colon, as in "the data:", it carries nothing.
            if hosts != Hosts::Www && index + 1 < word.len() && is_known(name) {
                return Some(begin);
            }
        }
        if !part_of_scheme(read.c) {
            begin = index + 1;
        }
    }
    None
}

fn is_known(name: &[Read]) -> bool {
    SCHEMES.iter().any(|scheme| {
        scheme.len() == name.len()
            && scheme
                .chars()
                .zip(name)
                .all(|(c, read)| c == read.c.to_ascii_lowercase())
    })
}

/// `www.` and something.
fn www(word: &[Read]) -> Option<usize> {
    let is_www = |index: usize| {
        let mut own = (index..index + 3).map(|index| at(word, index));
        own.all(|c| matches!(c, Some('w' | 'W')))
            && at(word, index + 3) == Some('.')
            && at(word, index + 4).is_some()
    };
    let begins = |index: usize| match index.checked_sub(1) {
        Some(before) => !at(word, before).is_some_and(char::is_alphanumeric),
        None => true,
    };
    (0..word.len()).find(|index| begins(*index) && is_www(*index))
}

/// Where the name begins in the midst of which an address was found: with the address broken, what stands before it would
/// be a name of its own.
pub(super) fn begin_of_host(word: &[Read], index: usize) -> usize {
    let before = word.get(..index).unwrap_or_default();
    let own = before.iter().rev().take_while(|read| in_host(read.c));
    index - own.count()
}

/// Whether names of hosts are made of it.
fn in_host(c: char) -> bool {
    c.is_alphanumeric() || matches!(c, '.' | '-' | '_')
}

/// A host name or an IPv4 address without a scheme.
fn host(word: &[Read], hosts: Hosts) -> Option<usize> {
    let mut index = 0;
    while index < word.len() {
        let begin = index;
        while at(word, index).is_some_and(in_host) {
            index += 1;
        }
        let name = begin..index;
        index += 1;
        if name.is_empty() || !is_address(word, name.clone(), hosts) {
            continue;
        }
        // What stands before an `@` belongs to the address.
        let with_user = begin > 0 && at(word, begin - 1) == Some('@');
        return Some(if with_user { 0 } else { begin });
    }
    None
}

fn is_address(word: &[Read], name: Range<usize>, hosts: Hosts) -> bool {
    let before = name.start.checked_sub(1).and_then(|index| at(word, index));
    let after = at(word, name.end);
    let own = word.get(name.clone()).unwrap_or_default();
    // Most words have none, and need not be put together.
    if !own.iter().any(|read| read.c == '.') {
        return false;
    }
    let name: String = own.iter().map(|read| read.c).collect();
    let labels: Vec<&str> = name.trim_matches(['.', '-']).split('.').collect();
    let is_number = |label: &&str| label.len() <= 3 && label.bytes().all(|b| b.is_ascii_digit());
    let top = labels.last().copied().unwrap_or_default();
    let is_top = top.chars().count() >= 2
        && (top.chars().all(char::is_alphabetic) || top.get(..4) == Some("xn--"));
    let is_ip = labels.len() == 4 && labels.iter().all(is_number);
    if labels.len() < 2 || labels.iter().any(|label| label.is_empty()) || !(is_top || is_ip) {
        return false;
    }
    let carries = matches!(after, Some('/' | '?' | '#' | ':' | '\\'));
    // A mail address: a click opens a letter, and sends nothing.
    let is_mail = before == Some('@') || after == Some('@');
    // A third label reaches whoever runs the domain's name server, as soon as the name is looked up. An IPv4 address
    // alone has no room for anything.
    carries || hosts == Hosts::All || (labels.len() >= 3 && is_top && !is_mail)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::skeleton::skeleton;
    use super::*;

    fn found(word: &str, hosts: Hosts) -> Option<&str> {
        let read = skeleton(word);
        let begin = address(&read, hosts)?;
        word.get(read.get(begin)?.at..)
    }

    proptest! {
        /// What is not read any further never held one.
        #[test]
        fn a_word_that_could_hold_no_address_has_none(word in "[-wtp1.:/@\\\\。．｡․：﹕∶\u{200b}]{0,8}") {
            let is_found = address(&skeleton(&word), Hosts::All).is_some();
            prop_assert!(could_hold(&word) || !is_found);
        }
    }

    #[test]
    fn addresses_are_found() {
        for (word, expected) in [
            ("https://evil.com/?q=1", "https://evil.com/?q=1"),
            ("(see:HTTPS://x", "HTTPS://x"),
            ("![](https://evil/)", "https://evil/)"),
            ("x-y+z.1://a", "x-y+z.1://a"),
            ("**://evil", "://evil"),
            ("\"javascript:alert(1)\"", "javascript:alert(1)\""),
            ("a,data:text/html,b", "data:text/html,b"),
            ("MAILTO:a@b.c?body=secret", "MAILTO:a@b.c?body=secret"),
            ("(www.evil.com)", "www.evil.com)"),
            ("evil.com/secret", "evil.com/secret"),
            ("evil.com./secret", "evil.com./secret"),
            ("evil.com:8080", "evil.com:8080"),
            ("evil.com?secret", "evil.com?secret"),
            ("evil.com#secret", "evil.com#secret"),
            ("secret.evil.com", "secret.evil.com"),
            ("secret.evil.xn--p1ai", "secret.evil.xn--p1ai"),
            ("секрет.зло.рф", "секрет.зло.рф"),
            ("1.2.3.4/secret", "1.2.3.4/secret"),
            ("secret@evil.com/x", "secret@evil.com/x"),
        ] {
            assert_eq!(found(word, Hosts::Carrying), Some(expected), "{word}");
        }
    }

    #[test]
    fn what_carries_nothing_is_no_address() {
        for word in [
            "",
            "main.rs",
            "example.com",
            "example.com.",
            "src/lib.rs",
            "e.g.",
            "i.e./e.g.",
            "a.m.",
            "1.2.3",
            "v1.2.3-beta",
            "3.50/month",
            "24.12.2024/x",
            "and/or",
            "note:",
            "a::b",
            "data:",
            "ada.m.lovelace@example.com",
            "ada@mail.example.com",
            "10:30",
            "...",
            "x.y",
        ] {
            assert_eq!(found(word, Hosts::Carrying), None, "{word}");
        }
        assert_eq!(found("example.com", Hosts::All), Some("example.com"));
        assert_eq!(found("a.b.c.de/x", Hosts::Www), None);
        assert_eq!(found("data:x", Hosts::Www), None);
        assert_eq!(found("x=www.evil.com", Hosts::Www), Some("www.evil.com"));
        assert_eq!(found("f(\"https://x", Hosts::Www), Some("https://x"));
    }
}
