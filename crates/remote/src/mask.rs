//! Masking the secrets that a server sends back.

use std::borrow::Cow;
use std::collections::VecDeque;
use std::ops::Range;
use std::sync::{Arc, PoisonError, RwLock};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use memchr::memmem;

/// Shorter ones are words that may stand anywhere, as `Bearer`.
const MIN_SECRET: usize = 8;
/// Most tokens of a login that are remembered. They are renewed again and again, and the oldest have expired.
const MOST: usize = 64;
/// Layers of JSON in strings of JSON that are looked into, below the message itself.
const DEPTH: usize = 3;
/// Stands for letters that no secret has.
const OTHER: u8 = 0;
/// What stands in the place of a secret that a server sends back.
const MASK: &[u8] = b"[secret]";

/// The secrets that a server was sent. Copies share them.
///
/// Whatever of them comes back is masked: a server that quotes a token in an error would put it into the trace.
/// It is no protection against a server that means to pass a secret on, which can encode it in another way.
#[derive(Clone, Default)]
pub(crate) struct Mask(Arc<RwLock<Known>>);

#[derive(Default)]
struct Known {
    /// Of headers, which are sent as long as the program runs.
    headers: Vec<Secret>,
    /// Of a login, newest last.
    tokens: VecDeque<Secret>,
}

/// A secret as it is sent, and without the escapes of addresses.
struct Secret {
    sent: Vec<u8>,
    in_address: Vec<u8>,
}

impl Secret {
    fn new(text: &[u8]) -> Self {
        Self {
            sent: text.to_vec(),
            in_address: undone(text, of_address).0,
        }
    }
}

impl Mask {
    /// Knows the secret in a header's value from now on: `Bearer TOKEN` is one by its second word, `Basic CREDENTIALS` by
    /// the password in it, too.
    pub(crate) fn add(&self, value: &str) {
        let mut words: Vec<Vec<u8>> = value
            .split(' ')
            .map(|word| word.as_bytes().into())
            .collect();
        if let Some((scheme, credentials)) = value.split_once(' ')
            && scheme.eq_ignore_ascii_case("basic")
            && let Ok(pair) = STANDARD.decode(credentials)
            && let Some(colon) = pair.iter().position(|byte| *byte == b':')
        {
            words.extend(pair.get(colon + 1..).map(<[u8]>::to_vec));
        }
        words.retain(|word| word.len() >= MIN_SECRET);
        let mut known = self.0.write().unwrap_or_else(PoisonError::into_inner);
        let secrets = words.iter().map(|word| Secret::new(word));
        known.headers.extend(secrets);
    }

    /// Knows this token from now on.
    pub(crate) fn add_token(&self, token: &str) {
        if token.len() < MIN_SECRET {
            return;
        }
        let mut known = self.0.write().unwrap_or_else(PoisonError::into_inner);
        if known.tokens.len() >= MOST {
            known.tokens.pop_front();
        }
        known.tokens.push_back(Secret::new(token.as_bytes()));
    }

    /// The text without secrets.
    pub(crate) fn apply(&self, text: Vec<u8>) -> Vec<u8> {
        let known = self.0.read().unwrap_or_else(PoisonError::into_inner);
        let secrets = || known.headers.iter().chain(&known.tokens);
        let mut places: Vec<Range<usize>> = Vec::new();
        // What is left of the text, where each byte of that begins in it, and the same after the first round.
        let mut level = Cow::from(&text);
        let mut begins: Option<Vec<usize>> = None;
        let mut units: Option<Vec<usize>> = None;
        // Each round looks for the secrets as they were sent, and then with the escapes of addresses undone.
        // After that it undoes one layer of the escapes of JSON, which gives the text of the next round.
        for _ in 0..=DEPTH {
            let of_text = |place: Range<usize>| match &begins {
                None => Some(place),
                Some(begins) => Some(*begins.get(place.start)?..*begins.get(place.end)?),
            };
            for Secret { sent, .. } in secrets() {
                places.extend(found(&level, sent).filter_map(of_text));
            }
            if level.contains(&b'%') {
                let (plain, of_level) = undone(&level, of_address);
                for Secret { in_address, .. } in secrets() {
                    let found = found(&plain, in_address);
                    let found = found.filter_map(|place| {
                        of_text(*of_level.get(place.start)?..*of_level.get(place.end)?)
                    });
                    places.extend(found);
                }
            }
            if !level.contains(&b'\\') {
                break;
            }
            let (plain, of_level) = undone(&level, of_json);
            let at = |index: &usize| match &begins {
                None => *index,
                Some(begins) => begins.get(*index).copied().unwrap_or(text.len()),
            };
            let composed: Vec<usize> = of_level.iter().map(at).collect();
            units.get_or_insert_with(|| composed.clone());
            begins = Some(composed);
            level = Cow::from(plain);
        }
        if let Some(units) = units {
            // Half of an escape would be none: a reader of JSON could read nothing of such a text.
            for place in &mut places {
                let inside = units.partition_point(|begin| *begin <= place.start);
                let behind = units.partition_point(|begin| *begin < place.end);
                let at = |index: usize| units.get(index).copied().unwrap_or(text.len());
                *place = at(inside.saturating_sub(1))..at(behind);
            }
        }
        masked(&text, places)
    }
}

/// Where a secret stands in a text.
fn found(text: &[u8], secret: &[u8]) -> impl Iterator<Item = Range<usize>> {
    let length = secret.len();
    // What is left of it without escapes may be as short as a word.
    let long = (length >= MIN_SECRET).then(|| memmem::find_iter(text, secret).collect::<Vec<_>>());
    long.into_iter().flatten().map(move |at| at..at + length)
}

/// The text with these places masked, of which some may overlap.
fn masked(text: &[u8], mut places: Vec<Range<usize>>) -> Vec<u8> {
    places.sort_unstable_by_key(|place| (place.start, place.end));
    let mut masked = Vec::with_capacity(text.len());
    let mut done = 0;
    for place in places {
        if place.start >= done {
            masked.extend_from_slice(text.get(done..place.start).unwrap_or_default());
            masked.extend_from_slice(MASK);
        }
        done = done.max(place.end);
    }
    masked.extend_from_slice(text.get(done..).unwrap_or_default());
    masked
}

/// The text with escapes undone, and where each of its bytes begins in the text, with the end of the text at last.
fn undone(text: &[u8], first: fn(&[u8]) -> (u8, usize)) -> (Vec<u8>, Vec<usize>) {
    let (mut plain, mut begins) = (Vec::new(), Vec::new());
    let mut rest = text;
    while !rest.is_empty() {
        let (byte, length) = first(rest);
        plain.push(byte);
        begins.push(text.len() - rest.len());
        rest = rest.get(length..).unwrap_or_default();
    }
    begins.push(text.len());
    (plain, begins)
}

/// What the first byte of JSON is meant to be, and how many bytes are written for it. Many writers escape `/` or `+`, which
/// tokens have.
fn of_json(text: &[u8]) -> (u8, usize) {
    match text {
        [b'\\', b'u', b'0', b'0', high, low, ..]
            if let Some(byte) = hexadecimal(&[*high, *low]) =>
        {
            (byte, 6)
        }
        // Letters that no secret has.
        [b'\\', b'u', digits @ ..]
            if let Some(digits) = digits.first_chunk::<4>()
                && digits.iter().all(u8::is_ascii_hexdigit) =>
        {
            (OTHER, 6)
        }
        [b'\\', b'b' | b'f' | b'n' | b'r' | b't', ..] => (OTHER, 2),
        [b'\\', byte, ..] => (*byte, 2),
        text => (text.first().copied().unwrap_or_default(), 1),
    }
}

/// The same of an address, which tokens stand in where they are quoted by their request.
fn of_address(text: &[u8]) -> (u8, usize) {
    match text {
        [b'%', high, low, ..] => match hexadecimal(&[*high, *low]) {
            Some(byte) => (byte, 3),
            None => (b'%', 1),
        },
        text => (text.first().copied().unwrap_or_default(), 1),
    }
}

fn hexadecimal(digits: &[u8; 2]) -> Option<u8> {
    let digits = std::str::from_utf8(digits).ok()?;
    // It would take a sign, too.
    let is_hexadecimal = digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    u8::from_str_radix(digits, 16)
        .ok()
        .filter(|_| is_hexadecimal)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_server_sends_back_of_a_secret_is_masked() {
        let mask = Mask::default();
        mask.add("Bearer token-of-mine");
        let check = |text: &str, expected: &str| {
            let masked = mask.apply(text.as_bytes().to_vec());
            assert_eq!(String::from_utf8(masked).unwrap(), expected);
        };
        check("the bearer of nothing", "the bearer of nothing");
        check("token-of-mine, token-of-mine!", "[secret], [secret]!");
        check("token-of", "token-of");
        mask.clone().add_token("another-one");
        check("token-of-mine another-one", "[secret] [secret]");
    }

    #[test]
    fn a_secret_is_masked_however_it_is_written() {
        let mask = Mask::default();
        mask.add("Bearer ab/cd+ef==");
        mask.add_token("token-of-mine");
        let check = |text: &str, expected: &str| {
            let masked = mask.apply(text.as_bytes().to_vec());
            assert_eq!(String::from_utf8(masked).unwrap(), expected, "{text}");
        };
        for written in [
            // By writers of JSON in PHP, .NET and Go.
            r"ab\/cd+ef==",
            r"ab/cd\u002Bef==",
            r"ab\u002fcd\u002bef\u003d\u003d",
            // JSON in a string of JSON.
            r"ab\\\/cd+ef==",
            r"ab/cd\\u002Bef==",
            // In an address.
            "ab%2Fcd%2bef%3D%3D",
            r"\u0061b/cd+ef==",
        ] {
            check(
                &format!(r#"{{"error":"no: \"{written}\""}}"#),
                r#"{"error":"no: \"[secret]\""}"#,
            );
        }
        check(
            r"ab\u00e9cd \ud83d\ude00 100% \",
            r"ab\u00e9cd \ud83d\ude00 100% \",
        );
        // What looks like the beginning of an escape hides nothing, and no half of an escape is left.
        check("%ab/cd+ef==", "%[secret]");
        check(r#""a\token-of-mine""#, r#""a[secret]""#);
        check("token-of-minetoken-of-mine", "[secret][secret]");
        mask.add_token("e9token-of-mine");
        check(r#""\u00e9token-of-mine""#, r#""[secret]""#);
        // One kind of escape is none of the other kind.
        mask.add_token("token%aa-of-mine");
        check(r#""token%\u0061a-of-mine""#, r#""[secret]""#);
    }

    #[test]
    fn a_password_is_masked_too_if_the_server_is_sent_it_by_basic() {
        let mask = Mask::default();
        // `user:open sesame`
        mask.add("Basic dXNlcjpvcGVuIHNlc2FtZQ==");
        let masked = mask.apply(b"'open sesame' is wrong, dXNlcjpvcGVuIHNlc2FtZQ==".to_vec());
        assert_eq!(
            String::from_utf8(masked).unwrap(),
            "'[secret]' is wrong, [secret]"
        );
    }

    #[test]
    fn tokens_come_and_go_and_a_header_stays() {
        let mask = Mask::default();
        mask.add("key-in-a-header");
        for number in 0..=MOST {
            mask.add_token(&format!("token-{number:02}-of-many"));
        }
        let newest = format!("key-in-a-header token-{MOST:02}-of-many token-00-of-many");
        let masked = mask.apply(newest.into_bytes());
        assert_eq!(
            String::from_utf8(masked).unwrap(),
            "[secret] [secret] token-00-of-many"
        );
    }
}
