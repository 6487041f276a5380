//! One mail file: from bytes that any sender may have written to the few fields that the tools return.

use std::panic::{AssertUnwindSafe, catch_unwind};

use app_support::{is_address, text};
use mail_parser::{Address, DateTime, Message, MessageParser, MimeHeaders, PartType};
use serde::Serialize;

use crate::html;

/// How much of a body is returned: about 2,000 tokens, which leaves a small model room to work.
pub const MAX_BODY_CHARS: usize = 8_000;
/// Longest subject returned; a longer one is no subject any more.
pub(crate) const MAX_SUBJECT_CHARS: usize = 300;
const MAX_NAME_CHARS: usize = 100;
/// Most recipients and attachments named for one mail.
const MAX_LISTED: usize = 50;
/// Most MIME parts that are parsed. More come only from mails made to exhaust the parser: nested messages cost
/// stack, and unfinished parts cost a pass over the file each.
const MAX_PARTS: usize = 300;
/// The last second of the year 9999, where RFC 3339 ends.
const MAX_TIMESTAMP: i64 = 253_402_300_799;

/// Who a mail says it is from.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Sender {
    /// The display name: any text that the sender liked, bounded to one line.
    pub(crate) name: String,
    /// The address when it is a plain one ([`is_address`]), else `null`. It is what the mail says, not who sent it.
    pub(crate) address: Option<String>,
}

/// A mail as [`parse`] reads it. Nothing in it is longer than its limit.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Parsed {
    pub(crate) from: Sender,
    pub(crate) to: Vec<String>,
    /// The `Date` header in seconds since 1970, where there is a valid one.
    pub(crate) date: Option<i64>,
    pub(crate) subject: String,
    pub(crate) body: String,
    pub(crate) attachments: Vec<String>,
    pub(crate) truncated: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Depth {
    Headers,
    /// The body and the attachments as well, the body up to so many characters.
    Body(usize),
}

/// Reads a mail. Every input gives a result: what cannot be parsed is shown as text.
pub(crate) fn parse(raw: &[u8], depth: Depth) -> Parsed {
    let structured = match depth {
        // The header is parsed by itself, so what is nested in the body costs nothing.
        Depth::Headers => true,
        Depth::Body(_) => parts(raw) <= MAX_PARTS,
    };
    // The parser is another's code and the input is an attacker's: a defect there costs this mail, not the app.
    let parsed = catch_unwind(AssertUnwindSafe(|| {
        let parser = MessageParser::default();
        match depth {
            Depth::Headers => parser.parse_headers(raw).map(|message| headers(&message)),
            Depth::Body(_) if !structured => parser
                .parse_headers(raw)
                .map(|message| with_raw_body(&message, raw)),
            Depth::Body(max) => parser.parse(raw).map(|message| with_body(&message, max)),
        }
    }));
    parsed.ok().flatten().unwrap_or_else(|| unreadable(raw))
}

/// RFC 3339 in UTC, for example `2026-11-20T09:14:00Z`.
pub(crate) fn rfc3339(timestamp: i64) -> String {
    DateTime::from_timestamp(timestamp.clamp(0, MAX_TIMESTAMP)).to_rfc3339()
}

fn headers(message: &Message<'_>) -> Parsed {
    Parsed {
        from: sender(message.from()),
        to: message.to().map(recipients).unwrap_or_default(),
        date: message
            .date()
            .filter(|date| date.is_valid())
            .map(DateTime::to_timestamp)
            .filter(|at| (0..=MAX_TIMESTAMP).contains(at)),
        subject: text::one_line(message.subject().unwrap_or_default(), MAX_SUBJECT_CHARS),
        ..Parsed::default()
    }
}

fn with_body(message: &Message<'_>, max: usize) -> Parsed {
    let mut whole = String::new();
    for part in message.text_bodies() {
        match &part.body {
            PartType::Text(plain) => whole.push_str(plain),
            PartType::Html(html) => whole.push_str(&html::from_html(html)),
            // Inline images and the like are named among the attachments or not at all.
            _ => continue,
        }
        whole.push('\n');
    }
    if whole.trim().is_empty() {
        // An empty plain text beside HTML: some newsletters do that.
        for part in message.html_bodies() {
            if let PartType::Html(html) = &part.body {
                whole.push_str(&html::from_html(html));
            }
        }
    }
    // Bounded here, after HTML has become text: before it, tags would use up the limit.
    let (body, truncated) = text::lines(whole.trim_start_matches('\n'), max);
    let attachments = message
        .attachments()
        .take(MAX_LISTED)
        .map(|part| attachment_name(part))
        .collect();
    Parsed {
        body,
        truncated,
        attachments,
        ..headers(message)
    }
}

/// The header, and the rest unparsed: for a mail with more parts than a real mail has.
fn with_raw_body(message: &Message<'_>, raw: &[u8]) -> Parsed {
    let (body, _) = text::lines(&String::from_utf8_lossy(raw), MAX_BODY_CHARS);
    Parsed {
        body,
        truncated: true,
        ..headers(message)
    }
}

fn unreadable(raw: &[u8]) -> Parsed {
    let (body, truncated) = text::lines(&String::from_utf8_lossy(raw), MAX_BODY_CHARS);
    Parsed {
        body,
        truncated,
        ..Parsed::default()
    }
}

fn sender(from: Option<&Address<'_>>) -> Sender {
    let Some(first) = from.and_then(|from| from.first()) else {
        return Sender::default();
    };
    let name = first.name().unwrap_or_default();
    match first.address() {
        Some(address) if is_address(address) => Sender {
            name: text::one_line(name, MAX_NAME_CHARS),
            address: Some(address.to_owned()),
        },
        // Something that is no address is text, and goes where the text is.
        Some(other) => Sender {
            name: text::one_line(&format!("{name} <{other}>"), MAX_NAME_CHARS),
            address: None,
        },
        None => Sender {
            name: text::one_line(name, MAX_NAME_CHARS),
            address: None,
        },
    }
}

fn recipients(to: &Address<'_>) -> Vec<String> {
    to.iter()
        .filter_map(|one| one.address())
        .filter(|address| is_address(address))
        .take(MAX_LISTED)
        .map(str::to_owned)
        .collect()
}

fn attachment_name(part: &mail_parser::MessagePart<'_>) -> String {
    let name = part.attachment_name().unwrap_or(match part.body {
        PartType::Message(_) => "message.eml",
        PartType::Html(_) => "page.html",
        PartType::Text(_) => "text.txt",
        _ => "unnamed",
    });
    text::one_line(name, MAX_NAME_CHARS)
}

/// An upper bound for the parts of a mail: nesting and splitting both need a `Content-Type` each.
fn parts(raw: &[u8]) -> usize {
    const NAME: &[u8] = b"content-type";
    raw.windows(NAME.len())
        .filter(|window| window.eq_ignore_ascii_case(NAME))
        .count()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn read(raw: &str) -> Parsed {
        parse(raw.as_bytes(), Depth::Body(MAX_BODY_CHARS))
    }

    #[test]
    fn headers_and_plain_body() {
        let mail = read(
            "From: =?UTF-8?Q?J=C3=BCrgen?= <j@example.org>\r\nTo: a@example.com, B <b@example.com>\r\nDate: Fri, 20 Nov 2026 10:14:00 +0100\r\nSubject: =?UTF-8?B?R3LDvMOfZQ==?=\r\n\r\nHello\r\n",
        );
        assert_eq!(
            mail.from,
            Sender {
                name: "Jürgen".to_owned(),
                address: Some("j@example.org".to_owned())
            }
        );
        assert_eq!(mail.to, ["a@example.com", "b@example.com"]);
        assert_eq!(
            mail.date.map(rfc3339).as_deref(),
            Some("2026-11-20T09:14:00Z")
        );
        assert_eq!(mail.subject, "Grüße");
        assert_eq!(mail.body, "Hello");
        assert!(!mail.truncated && mail.attachments.is_empty());
    }

    #[test]
    fn plain_text_wins_over_html_and_attachments_are_named() {
        let mail = read(concat!(
            "Content-Type: multipart/mixed; boundary=o\r\n\r\n--o\r\nContent-Type: multipart/alternative; boundary=i\r\n\r\n",
            "--i\r\nContent-Type: text/plain\r\n\r\nplain\r\n--i\r\nContent-Type: text/html\r\n\r\n<b>html</b>\r\n--i--\r\n",
            "--o\r\nContent-Type: application/pdf\r\nContent-Disposition: attachment; filename=\"a\u{202e}b.pdf\"\r\n\r\nx\r\n--o--\r\n",
        ));
        assert_eq!(mail.body, "plain");
        assert_eq!(mail.attachments, ["ab.pdf"]);
        assert_eq!(
            read("Content-Type: text/html\r\n\r\n<p>only <i>html</i></p>").body,
            "only html"
        );
    }

    #[test]
    fn what_is_not_an_address_is_text() {
        for (from, name, address) in [
            ("x@example.org", "", Some("x@example.org")),
            (
                "\"send it to evil\" <\"a b\"@example.org>",
                "send it to evil",
                None,
            ),
            ("Anna <not an address>", "Anna", None),
            ("", "", None),
        ] {
            let mail = read(&format!("From: {from}\r\n\r\n"));
            assert!(mail.from.name.starts_with(name), "{from}: {:?}", mail.from);
            assert_eq!(mail.from.address.as_deref(), address, "{from}");
        }
    }

    #[test]
    fn a_long_body_is_cut_and_says_so() {
        let mail = read(&format!(
            "Subject: x\r\n\r\n{}",
            "ä".repeat(MAX_BODY_CHARS + 1)
        ));
        assert_eq!(mail.body.chars().count(), MAX_BODY_CHARS);
        assert!(mail.truncated);
    }

    #[test]
    fn a_mail_made_to_exhaust_the_parser_is_shown_unparsed() {
        let nested = "Content-Type: message/rfc822\r\n\r\n".repeat(100_000);
        let mail = read(&format!("Subject: deep\r\n{nested}"));
        assert_eq!(mail.subject, "deep");
        assert!(mail.truncated);
    }

    #[test]
    fn the_deepest_parsed_nesting_fits_a_small_stack() {
        let nested = "Content-Type: message/rfc822\r\n\r\n".repeat(MAX_PARTS);
        let multipart: String = (0..MAX_PARTS)
            .map(|n| format!("Content-Type: multipart/mixed; boundary=b{n}\r\n\r\n--b{n}\r\n"))
            .collect();
        let reader = std::thread::Builder::new()
            .stack_size(1 << 20)
            .spawn(move || {
                read(&nested);
                read(&multipart);
            });
        reader.unwrap().join().unwrap();
    }

    proptest! {
        #[test]
        fn any_bytes_are_read(raw in prop::collection::vec(any::<u8>(), 0..400)) {
            for depth in [Depth::Headers, Depth::Body(MAX_BODY_CHARS)] {
                check(&parse(&raw, depth))?;
            }
        }

        #[test]
        fn any_mail_like_text_is_read(lines in prop::collection::vec(line(), 0..30)) {
            let raw = lines.concat();
            for depth in [Depth::Headers, Depth::Body(MAX_BODY_CHARS)] {
                check(&parse(raw.as_bytes(), depth))?;
            }
        }
    }

    fn check(mail: &Parsed) -> Result<(), TestCaseError> {
        prop_assert!(mail.from.address.as_deref().is_none_or(is_address));
        prop_assert!(mail.to.iter().all(|address| is_address(address)));
        prop_assert!(mail.subject.chars().count() <= MAX_SUBJECT_CHARS + 1);
        prop_assert!(mail.body.chars().count() <= MAX_BODY_CHARS);
        prop_assert!(mail.date.is_none_or(|at| rfc3339(at).ends_with('Z')));
        Ok(())
    }

    /// Pieces that reach deeper into the parser than random bytes do.
    fn line() -> impl Strategy<Value = String> {
        prop_oneof![
            Just("\r\n".to_owned()),
            Just("--b\r\n".to_owned()),
            Just("--b--\r\n".to_owned()),
            Just("Content-Type: multipart/mixed; boundary=b\r\n".to_owned()),
            Just("Content-Type: message/rfc822\r\n".to_owned()),
            Just("Content-Type: text/html; charset=utf-16\r\n".to_owned()),
            Just("Content-Transfer-Encoding: base64\r\n".to_owned()),
            Just("Content-Transfer-Encoding: quoted-printable\r\n".to_owned()),
            "(From|To|Subject|Date|Content-Type): .{0,40}\r\n",
            "Date: [A-Z][a-z]{2}, [0-9]{1,2} [A-Z][a-z]{2} [0-9]{1,6} [0-9:]{0,9} [+-][0-9]{1,5}\r\n",
            "Subject: =\\?[a-zA-Z0-9-]{0,8}\\?[QBqb]\\?[ -~]{0,20}\\?=\r\n",
            ".{0,60}\r\n",
        ]
    }
}
