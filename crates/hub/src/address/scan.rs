//! Where a word could hold an address.

use std::ops::Range;

use icu_properties::CodePointMapData;
use icu_properties::props::{GeneralCategory, GeneralCategoryGroup};

use super::skeleton::Read;

/// Schemes that are addresses without `//`.
const SCHEMES: &str = "about blob callto data facetime feed file ftp ftps geo http https intent javascript magnet \
    mailto market sip sips skype sms tel vbscript view-source ws wss xmpp";

/// What counts as a host without a scheme.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Hosts {
    /// Text that chat programs make a link of, and that could carry anything: a path, a query, or labels
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

/// `SCHEME://` with any scheme, or `SCHEME:` with one of [`SCHEMES`].
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
    SCHEMES.split(' ').any(|scheme| {
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

/// Where the name begins in the midst of which an address was found: with the address broken, the text before it would
/// be a name of its own.
pub(super) fn begin_of_host(word: &[Read], index: usize) -> usize {
    let before = word.get(..index).unwrap_or_default();
    let own = before.iter().rev().take_while(|read| in_host(read.c));
    let begin = index - own.count();
    // The name before an `@` was none of its own as long as another one stood behind that.
    match begin.checked_sub(1).and_then(|index| at(word, index)) {
        Some('@') => 0,
        _ => begin,
    }
}

/// Whether names of hosts are made of it. Linkifiers take any character that is not ASCII into a label, a heart or
/// the marks of a letter too, but for punctuation.
fn in_host(c: char) -> bool {
    c.is_alphanumeric() || matches!(c, '.' | '-' | '_') || is_sign(c)
}

/// Whether it is neither a letter nor a digit, and yet a part of a label.
fn is_sign(c: char) -> bool {
    !c.is_ascii() && !c.is_alphanumeric() && !c.is_whitespace() && !is_punctuation(c)
}

/// Whether it is punctuation by its Unicode category.
fn is_punctuation(c: char) -> bool {
    let category = CodePointMapData::<GeneralCategory>::new().get(c);
    GeneralCategoryGroup::Punctuation.contains(category)
}

/// ASCII that some linkifiers take into a label, and browsers look up. For others it separates two names.
fn joins(c: char) -> bool {
    matches!(c, '$' | '+' | '=' | '`' | '~')
}

/// A host name or an IPv4 address without a scheme.
fn host(word: &[Read], hosts: Hosts) -> Option<usize> {
    let mut index = 0;
    // Whether this is an authority: the part behind two slashes.
    let mut authority = false;
    while index < word.len() {
        let begin = index;
        while at(word, index).is_some_and(in_host) {
            index += 1;
        }
        let name = begin..index;
        if !name.is_empty() && is_address(word, name, authority, hosts) {
            // The part before an `@` belongs to the address.
            let with_user = begin > 0 && at(word, begin - 1) == Some('@');
            return Some(if with_user {
                0
            } else {
                begin_of_name(word, begin)
            });
        }
        match at(word, index) {
            Some('/') => authority = index > 0 && at(word, index - 1) == Some('/'),
            Some('?' | '#' | '\\' | '[' | ']' | '(' | ')') => authority = false,
            _ => {}
        }
        index += 1;
    }
    None
}

/// Where a name begins of which this is the end, without what is at most emphasis in front of it.
fn begin_of_name(word: &[Read], begin: usize) -> usize {
    let whole = begin - joined(word, begin).count();
    let name = word.get(whole..).unwrap_or_default().iter();
    whole
        + name
            .take_while(|read| read.c == '_' || joins(read.c))
            .count()
}

/// Where the part of an address begins that is a name of its own if no sign joins it with the text before.
pub(super) fn begin_behind_joint(word: &[Read], begin: usize) -> usize {
    let name = word.get(begin..).unwrap_or_default().iter();
    let name = name.take_while(|read| in_host(read.c) || joins(read.c));
    let joints = name.enumerate().filter(|(_, read)| joins(read.c));
    joints.last().map_or(begin, |(at, _)| begin + at + 1)
}

/// The text before a name that may be a part of it, from its end.
fn joined(word: &[Read], begin: usize) -> impl Iterator<Item = char> {
    let before = word.get(..begin).unwrap_or_default().iter().rev();
    let before = before.map(|read| read.c);
    before.take_while(|c| in_host(*c) || joins(*c))
}

fn is_address(word: &[Read], name: Range<usize>, authority: bool, hosts: Hosts) -> bool {
    let own = word.get(name.clone()).unwrap_or_default();
    // Most words have none, and need not be put together.
    if !own.iter().any(|read| read.c == '.') {
        return false;
    }
    let own: String = own.iter().map(|read| read.c).collect();
    let name_of = |text: &str| -> Vec<String> {
        let labels = text.trim_matches(AROUND).rsplit('.');
        let mut labels: Vec<String> = labels
            .take_while(|label| !label.is_empty())
            .map(str::to_owned)
            .collect();
        labels.reverse();
        labels
    };
    let is_number = |label: &String| label.len() <= 3 && label.bytes().all(|b| b.is_ascii_digit());
    let labels = name_of(&own);
    let is_ip = labels.len() == 4 && labels.iter().all(is_number);
    // Whether labels stand before it makes no difference to an IPv4 address.
    let before: Vec<char> = joined(word, name.start).take(LONGEST_PART).collect();
    let labels = match before.is_empty() || is_ip {
        true => labels,
        false => name_of(
            &before
                .into_iter()
                .rev()
                .chain(own.chars())
                .collect::<String>(),
        ),
    };
    let after = at(word, name.end);
    // A browser reads `203.7405` as an address too, and a linkifier any name, where it must be one.
    let is_top = |label: &str| authority || is_ip || is_top(label);
    let carries = matches!(after, Some('/' | '?' | '#' | ':' | '\\')) || hosts == Hosts::All;
    let is_mail = is_mail(word, &own, &name);
    labels.iter().enumerate().skip(1).any(|(index, label)| {
        let is_last = index + 1 == labels.len();
        // Some take the name to end where a sign begins.
        let head = label.split(is_sign).next().unwrap_or_default();
        let cut = head.len() < label.len() && is_word(head.trim_matches(AROUND));
        // A third label reaches the operator of the domain's name server as soon as the name is looked up. An IPv4
        // address alone has no room for anything, and by a mail address a click opens a letter, which sends nothing.
        let is_third = index >= 2 && !is_ip && !is_mail;
        (is_last && is_top(label) && (carries || is_third)) || (cut && is_third)
    })
}

/// What may stand around a name and is no part of it: emphasis, and the end of a sentence.
const AROUND: [char; 3] = ['.', '-', '_'];
/// Two labels of a name, the longest that there are. Of the text around one, this much says whether it has as many
/// more as make a difference.
const LONGEST_PART: usize = 128;

/// Whether names of hosts end in this label.
fn is_top(label: &str) -> bool {
    let prefix = label.get(..4);
    prefix.is_some_and(|prefix| prefix.eq_ignore_ascii_case("xn--")) || is_word(label)
}

/// Whether it consists of letters, with their marks.
fn is_word(label: &str) -> bool {
    let letters = label.chars().filter(|c| c.is_alphabetic()).count();
    letters >= 2 && label.chars().all(|c| c.is_alphabetic() || is_sign(c))
}

/// Whether this name is a part of a mail address, on either side of its `@`.
fn is_mail(word: &[Read], own: &str, name: &Range<usize>) -> bool {
    let in_user = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-' | '+');
    let before = |back: usize| name.start.checked_sub(back).and_then(|it| at(word, it));
    if before(1) == Some('@') {
        return before(2).is_some_and(in_user);
    }
    if at(word, name.end) != Some('@') || !own.chars().all(in_user) {
        return false;
    }
    // Without a name behind it, the text before it is one for a program that follows links.
    let behind = word.get(name.end + 1..).unwrap_or_default().iter();
    let behind = behind.map(|read| read.c).take(LONGEST_PART);
    let behind: String = behind.take_while(|c| in_host(*c)).collect();
    let mut labels = behind.trim_matches(AROUND).rsplit('.');
    let top = labels.next().is_some_and(is_top);
    let rest: Vec<&str> = labels.collect();
    top && !rest.is_empty() && rest.iter().all(|label| !label.is_empty())
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
        /// A text that is not read any further contains none.
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
            // In emphasis.
            ("_x.evil.com_", "x.evil.com_"),
            ("(__x.evil.com__)", "x.evil.com__)"),
            // Half of a mail address.
            ("x.evil.com@", "x.evil.com@"),
            ("x.evil.com@y", "x.evil.com@y"),
            ("x.evil.com@,y.com", "x.evil.com@,y.com"),
            ("секрет.зло.рф@y.com", "секрет.зло.рф@y.com"),
            ("@x.evil.com", "@x.evil.com"),
            // Signs and marks in a label.
            ("x❤.evil.com", "x❤.evil.com"),
            ("x.❤.com", "x.❤.com"),
            ("❤.com/secret", "❤.com/secret"),
            ("x.e→vil.com", "x.e→vil.com"),
            ("“x.evil.com”", "x.evil.com”"),
            ("e\u{301}.evil.com", "e\u{301}.evil.com"),
            ("x.evil.சிங்கப்பூர்", "x.evil.சிங்கப்பூர்"),
            ("x+.evil.com", "x+.evil.com"),
            ("a=b~.evil.com", "a=b~.evil.com"),
            ("=1.2.3.4/secret", "1.2.3.4/secret"),
            ("`evil.com/secret`", "evil.com/secret`"),
            ("secret=evil.com/x", "secret=evil.com/x"),
            // Signs behind it.
            ("x.evil.com❤", "x.evil.com❤"),
            ("x.evil.com-❤", "x.evil.com-❤"),
            ("x.evil.com❤5", "x.evil.com❤5"),
            ("x.evil.com❤.5", "x.evil.com❤.5"),
            ("x.evil.com=5", "x.evil.com=5"),
            ("secret.evil.XN--P1AI", "secret.evil.XN--P1AI"),
            ("a..x.evil.com", "a..x.evil.com"),
            // Behind two slashes, anything that a browser looks up.
            ("//203.7405/secret", "203.7405/secret"),
            ("(//0xcb.0x1ced:80", "0xcb.0x1ced:80"),
            ("//u:p@203.7405/secret", "//u:p@203.7405/secret"),
            ("//x.evil.c0m", "x.evil.c0m"),
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
            "_main.rs_",
            "self.foo.bar_baz",
            "x=main.rs",
            "~/.bashrc",
            "“main.rs”—“lib.rs”",
            "main.rs—lib.rs",
            "main.rs…",
            "✅main.rs",
            "main.rs❤",
            "e.g.❤",
            "v1.2.3❤",
            "3.50€/month",
            "21.5°C",
            "foo...bar",
            "//main.rs",
            "//203.7405",
            "and//or",
            "24.12.2024//x",
            "ada.m.lovelace@example.com.",
            "(ada@mail.example.com)",
            "@main.rs",
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
