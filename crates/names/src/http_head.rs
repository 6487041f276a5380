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
    let Some(line) = bytes.iter().position(|byte| *byte == b'\n') else {
        return match bytes.len() <= MAX_HEAD && bytes.iter().all(|byte| may_be_of_a_line(*byte)) {
            true => Head::More,
            false => Head::Other,
        };
    };
    let line = bytes.get(..line).unwrap_or_default();
    let Some(target) = target(line) else {
        return Head::Other;
    };
    let end = bytes.windows(4).position(|four| four == b"\r\n\r\n");
    let Some(head) = end.and_then(|end| bytes.get(..end + 2)) else {
        return match bytes.len() <= MAX_HEAD {
            true => Head::More,
            false => Head::Bad,
        };
    };
    host(target, head).map_or(Head::Bad, Head::For)
}

fn may_be_of_a_line(byte: u8) -> bool {
    byte == b'\r' || byte == b' ' || byte.is_ascii_graphic()
}

/// The target of a request line of HTTP, whatever its version.
fn target(line: &[u8]) -> Option<&str> {
    let line = std::str::from_utf8(line).ok()?.trim_end_matches('\r');
    let (rest, version) = line.rsplit_once(' ')?;
    let (_method, target) = rest.split_once(' ')?;
    version.starts_with("HTTP/").then_some(target)
}

/// The host of a head that ends with an empty line. `None` if it is not said in one way.
fn host(target: &str, head: &[u8]) -> Option<String> {
    let head = std::str::from_utf8(head)
        .ok()
        .filter(|head| head.is_ascii())?;
    let mut lines = head.strip_suffix("\r\n")?.split("\r\n");
    let (method, version) = request_line(lines.next()?)?;
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
    let absolute = target.split_once("://");
    let same = match absolute {
        None => target.starts_with('/') || target == "*",
        Some((_, rest)) => {
            let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
            authority.eq_ignore_ascii_case(host)
        }
    };
    same.then(|| host.to_owned())
}

fn request_line(line: &str) -> Option<(&str, &str)> {
    let mut words = line.split(' ');
    let (method, target, version) = (words.next()?, words.next()?, words.next()?);
    let plain = !method.is_empty() && method.bytes().all(is_token) && !target.is_empty();
    (plain && words.next().is_none()).then_some((method, version))
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
            b"*1\r\n$4\r\nPING\r\n",
        ] {
            assert_eq!(read(text), Head::Other, "{text:?}");
        }
        assert_eq!(read(&[b'a'; MAX_HEAD + 1]), Head::Other);
    }

    proptest! {
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
