//! The host that an HTTP/1 request names (RFC 9112), read off its head.
//!
//! Stricter than servers are: what two readers could understand in two ways is refused.

/// The longest head. Servers take 8 to 64 KiB; what a program sends has a few hundred bytes.
pub(crate) const MAX_HEAD: usize = 16 << 10;

/// What was read.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Head {
    /// The head is not complete.
    More,
    /// It is no request of HTTP.
    Other,
    /// It is one of HTTP, and says nowhere, or not in one way, where it goes.
    Bad,
    /// It is one for this host: a name and perhaps a port.
    For(String),
}

/// Reads the first bytes of a client.
pub(crate) fn read(bytes: &[u8]) -> Head {
    // Servers skip empty lines before a request.
    if matches!(bytes.first(), Some(b'\r' | b'\n')) {
        return Head::Bad;
    }
    let mut words = bytes.split(|byte| matches!(byte, b' ' | b'\t'));
    let method = words.next().unwrap_or_default();
    let goes_on = words.next().is_some();
    if !method.iter().all(|byte| is_token(*byte)) || goes_on && method.is_empty() {
        return Head::Other;
    }
    let is_long = bytes.len() > MAX_HEAD;
    let Some(line) = bytes.iter().position(|byte| *byte == b'\n') else {
        return match (is_long, goes_on) {
            (false, _) => Head::More,
            (true, false) => Head::Other,
            (true, true) => Head::Bad,
        };
    };
    let line = bytes.get(..line).unwrap_or_default();
    // Whatever stands around it: a server may be lenient where this reader is not.
    let mut fives = line.windows(5);
    if !fives.any(|five| five.eq_ignore_ascii_case(b"HTTP/")) {
        return Head::Other;
    }
    let end = bytes.windows(4).position(|four| four == b"\r\n\r\n");
    match end.and_then(|end| bytes.get(..end + 2)) {
        Some(head) => host(head).map_or(Head::Bad, Head::For),
        None if is_long => Head::Bad,
        None => Head::More,
    }
}

/// The host of a head that ends with an empty line. `None` if it is not said in one way.
fn host(head: &[u8]) -> Option<String> {
    let head = std::str::from_utf8(head)
        .ok()
        .filter(|head| head.is_ascii())?;
    let mut lines = head.strip_suffix("\r\n")?.split("\r\n");
    let (method, target, version) = request_line(lines.next()?)?;
    // Of HTTP/2 nothing can be read here, and a tunnel leads elsewhere.
    if !matches!(version, "HTTP/1.1" | "HTTP/1.0") || method == "CONNECT" {
        return None;
    }
    let mut found = None;
    for line in lines {
        let (name, value) = line.split_once(':')?;
        // A space before the colon, a line that goes on, a lone CR or LF: readers disagree.
        if name.is_empty() || !name.bytes().all(is_token) || value.contains(['\r', '\n', '\0']) {
            return None;
        }
        if name.eq_ignore_ascii_case("host") && found.replace(value.trim()).is_some() {
            return None;
        }
    }
    let host = found?;
    // A path may hold an address, such as where to go on after a login. It is one of its own only where no path begins.
    let is_path = target.starts_with('/') || target == "*";
    let absolute = target.split_once("://").map(|(_, rest)| rest);
    let authority = absolute.and_then(|rest| rest.split(['/', '?', '#']).next());
    let same = is_path || authority.is_some_and(|authority| authority.eq_ignore_ascii_case(host));
    same.then(|| host.to_owned())
}

/// Method, target and version.
fn request_line(line: &str) -> Option<(&str, &str, &str)> {
    let mut words = line.split(' ');
    let (method, target, version) = (words.next()?, words.next()?, words.next()?);
    let plain = !method.is_empty()
        && method.bytes().all(is_token)
        && !target.is_empty()
        && target.bytes().all(|byte| byte.is_ascii_graphic());
    (plain && words.next().is_none()).then_some((method, target, version))
}

/// A character of a token (RFC 9110 §5.6.2).
fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn check(text: &str, expected: Option<&str>) {
        let expected = expected.map_or(Head::Bad, |host| Head::For(host.to_owned()));
        assert_eq!(read(text.as_bytes()), expected, "{text:?}");
    }

    #[test]
    fn the_host_is_found_however_the_head_is_cut() {
        let text = "GET /a?b=c HTTP/1.1\r\nAccept: */*\r\nhOsT:  example.org:80 \r\n\r\nbody";
        check(text, Some("example.org:80"));
        for cut in 0..text.len() - 4 {
            assert_eq!(read(&text.as_bytes()[..cut]), Head::More, "{cut} bytes");
        }
        check(
            "POST http://a.org/x HTTP/1.1\r\nHost: a.org\r\n\r\n",
            Some("a.org"),
        );
        check("OPTIONS * HTTP/1.1\r\nHost: a.org\r\n\r\n", Some("a.org"));
        for target in ["/login?next=http://b.org/", "//b.org/x", "/http://b.org"] {
            let text = format!("GET {target} HTTP/1.1\r\nHost: a.org\r\n\r\n");
            check(&text, Some("a.org"));
        }
    }

    #[test]
    fn what_readers_could_disagree_about_is_bad() {
        for text in [
            "GET / HTTP/1.1\r\n\r\n",
            "GET / HTTP/1.0\r\nAccept: */*\r\n\r\n",
            "GET / HTTP/1.1\r\nHost: a.org\r\nHost: b.org\r\n\r\n",
            "GET / HTTP/1.1\r\nHost : a.org\r\n\r\n",
            "GET / HTTP/1.1\r\nHost: a.org\r\n b.org\r\n\r\n",
            "GET / HTTP/1.1\r\nX: y\nHost: a.org\r\n\r\n",
            "GET / HTTP/1.1\nHost: a.org\n\n\r\n\r\n",
            "GET http://b.org/ HTTP/1.1\r\nHost: a.org\r\n\r\n",
            "GET http://a.org@b.org/ HTTP/1.1\r\nHost: a.org\r\n\r\n",
            "GET b.org HTTP/1.1\r\nHost: a.org\r\n\r\n",
            "GET  / HTTP/1.1\r\nHost: a.org\r\n\r\n",
            "GET\t/\tHTTP/1.1\r\nHost: a.org\r\n\r\n",
            "GET / HTTP/1.1 \r\nHost: a.org\r\n\r\n",
            "GET / http/1.1\r\nHost: a.org\r\n\r\n",
            "GET /\u{e9} HTTP/1.1\r\nHost: a.org\r\n\r\n",
            "GET /\u{1}\r HTTP/1.1\r\nHost: a.org\r\n\r\n",
            "\r\nGET / HTTP/1.1\r\nHost: a.org\r\n\r\n",
            "CONNECT a.org:443 HTTP/1.1\r\nHost: a.org\r\n\r\n",
            "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        ] {
            check(text, None);
        }
        let endless = format!("GET / HTTP/1.1\r\nX: {}", "a".repeat(MAX_HEAD));
        check(&endless, None);
    }

    #[test]
    fn other_protocols_are_other() {
        for text in [
            &b"EHLO example.org\r\n"[..],
            b"SSH-2.0-OpenSSH_9.9\r\n",
            b"\0\0\0\x08\x04\xd2\x16\x2f",
            b"SSH-2.0-OpenSSH_9.9 Debian\r\n",
            b"*1\r\n$4\r\nPING\r\n",
            b" leading",
        ] {
            assert_eq!(read(text), Head::Other, "{text:?}");
        }
        assert_eq!(read(&[b'a'; MAX_HEAD + 1]), Head::Other);
    }

    proptest! {
        /// A verdict stands whatever follows: nobody looks again.
        #[test]
        fn what_follows_changes_no_verdict(
            text in "(GET|get|\r|[ -~]{0,3}|\\PC{0,2})[ \t]?(/|\\PC{0,4})[ \t](HTTP/1.[01]|\\PC{0,3})[ ]?(\r\n|\n)(Host: ?a.org\r\n){0,2}(\r\n|\n){0,2}\\PC{0,9}",
        ) {
            let bytes = text.as_bytes();
            let mut verdict = Head::More;
            for end in 0..=bytes.len() {
                let now = read(&bytes[..end]);
                if verdict != Head::More {
                    prop_assert_eq!(&now, &verdict, "{:?}", &text[..]);
                }
                verdict = now;
            }
        }

        #[test]
        fn foreign_bytes_do_no_harm(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            read(&bytes);
            let mut text = b"GET / HTTP/1.1\r\nHost: a.org\r\n".to_vec();
            text.extend(&bytes);
            text.extend(b"\r\n\r\n");
            if let Head::For(host) = read(&text) {
                prop_assert_eq!(host, "a.org");
            }
        }
    }
}
