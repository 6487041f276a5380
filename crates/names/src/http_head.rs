//! The host that an HTTP/1 request names (RFC 9112), read off its head.
//!
//! Stricter than servers are: what two readers could understand in two ways is refused.

/// The longest head. Servers take 8 to 64 KiB; what a program sends has a few hundred bytes.
pub(crate) const MAX_HEAD: usize = 16 << 10;
/// Most headers of a head; servers take as many.
const MAX_HEADERS: usize = 100;

/// What was read.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Head {
    /// The head is not complete.
    More,
    /// It is no request of HTTP.
    Other,
    /// It is none so far: the first line is not complete.
    NoneYet,
    /// It is one of HTTP, and says nowhere, or not in one way, where it goes.
    Bad,
    /// It is one for this host: a name and perhaps a port.
    For(String),
}

/// Reads the first bytes of a client.
pub(crate) fn read(bytes: &[u8]) -> Head {
    // Servers skip empty lines before a request, and some skip blanks.
    if bytes.first().is_some_and(u8::is_ascii_whitespace) {
        return Head::Bad;
    }
    let is_long = bytes.len() > MAX_HEAD;
    // No server takes a zero byte in a request line, and protocols of binary lengths have one in their first bytes.
    let mut lines = bytes.split(|byte| matches!(byte, b'\n' | 0));
    let line = lines.next().unwrap_or_default();
    let is_complete = lines.next().is_some();
    let mut words = line.split(|byte| matches!(byte, b' ' | b'\t'));
    let method = words.next().unwrap_or_default();
    let is_token = method.iter().all(|byte| is_token(*byte));
    // Anywhere in the line, and whatever the method is: a server may be lenient where this reader is not.
    let mut fives = line.windows(5);
    if !fives.any(|five| five.eq_ignore_ascii_case(b"HTTP/")) {
        return match (is_token, is_long) {
            _ if is_complete => Head::Other,
            (true, false) => Head::More,
            (true, true) if words.next().is_some() => Head::Bad,
            (_, true) => Head::Other,
            (false, false) => Head::NoneYet,
        };
    }
    if !is_token {
        return Head::Bad;
    }
    // Servers take a bare line feed for the end of a line. What has one in its head is bad.
    let is_end = |at: &usize| {
        let from = bytes.get(*at..).unwrap_or_default();
        from.starts_with(b"\n\n") || from.starts_with(b"\n\r\n")
    };
    let end = (0..bytes.len()).find(is_end);
    match end.and_then(|end| bytes.get(..bytes.len().min(end + 3))) {
        Some(head) => host(head).map_or(Head::Bad, Head::For),
        None if is_long => Head::Bad,
        None => Head::More,
    }
}

/// The host of a head, to the end of its empty line. `None` if it is not said in one way.
fn host(head: &[u8]) -> Option<String> {
    // A lone CR or LF, and other characters than those of ASCII: readers disagree.
    let text = std::str::from_utf8(head).ok()?;
    let plain = |line: &str| line.is_ascii() && !line.contains(['\r', '\n', '\0']);
    if !text.split("\r\n").all(plain) {
        return None;
    }
    let mut headers = [httparse::EMPTY_HEADER; MAX_HEADERS];
    let mut request = httparse::Request::new(&mut headers);
    // `httparse` refuses a space before a colon, a header that goes on in the next line, and versions other than 1.0
    // and 1.1.
    if !request.parse(head).ok()?.is_complete() {
        return None;
    }
    let (method, target) = (request.method?, request.path?);
    let mut hosts = request
        .headers
        .iter()
        .filter(|header| header.name.eq_ignore_ascii_case("host"));
    let host = std::str::from_utf8(hosts.next()?.value).ok()?;
    // A tunnel leads elsewhere.
    if method == "CONNECT" || hosts.next().is_some() {
        return None;
    }
    // A path may hold an address, such as where to go on after a login. It is one of its own only where no path begins.
    let is_path = target.starts_with('/') || target == "*";
    let absolute = target.split_once("://").map(|(_, rest)| rest);
    let authority = absolute.and_then(|rest| rest.split(['/', '?', '#']).next());
    let same = is_path || authority.is_some_and(|authority| authority.eq_ignore_ascii_case(host));
    same.then(|| host.to_owned())
}

/// A character of a token (RFC 9110 §5.6.2).
fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

#[cfg(test)]
mod tests {
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
            " GET / HTTP/1.1\r\nHost: a.org\r\n\r\n",
            " ",
            "GET / HTTP/1.1\nHost: a.org\n\n",
            "GET / HTTP/1.1\r\nHost: a.org\r\n\n",
            "GET / HTTP/1.1\nHost: a.org\n\r\n",
            "G(T / HTTP/1.1\r\nHost: a.org\r\n\r\n",
            "\u{1}GET / HTTP/1.1\r\n",
            "{ / HTTP/",
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
            b"0032git-upload-pack /a.git\0host=a.org\0",
        ] {
            assert_eq!(read(text), Head::Other, "{text:?}");
        }
        let json = b"{\"jsonrpc\": \"2.0\", \"method\": \"ping\"}";
        assert_eq!(read(json), Head::NoneYet);
        assert_eq!(read(&[json, &b"\n"[..]].concat()), Head::Other);
        assert_eq!(read(&[b'a'; MAX_HEAD + 1]), Head::Other);
    }
}
