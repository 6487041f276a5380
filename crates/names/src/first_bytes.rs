//! What the first bytes of a connection say of where it goes, compared with the name that was decided on.
//!
//! Behind one address many names can be served, and a client says in its first bytes which one it wants. Without this check
//! a program that may reach one of them could reach the others (domain fronting). What a client says *inside* of TLS
//! cannot be seen from outside, and of plain HTTP only the first request is looked at: a later one on the same connection may name
//! another host that the same server has.

use std::fmt;

use crate::http_head::{self, Head};
use crate::tls_hello::{self, Hello};
use crate::{BadName, DomainName};

/// Where TLS is spoken, and nothing else.
pub const HTTPS: u16 = 443;
/// Where plain HTTP is spoken, and nothing else.
pub const HTTP: u16 = 80;
/// The first bytes that are looked at. After so many there is a verdict.
pub const MOST: usize = if http_head::MAX_HEAD > tls_hello::MAX_HELLO {
    http_head::MAX_HEAD
} else {
    tls_hello::MAX_HELLO
} + 1;

/// What the first bytes say. While they say nothing yet, no server of TLS or HTTP acts on them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// Nothing yet.
    More,
    /// They are for this name, or of a protocol that says no name.
    Fits,
    /// The same so far, to be looked at again with what follows: their first line is not complete.
    FitsYet,
    /// They are not.
    Refused(Misfit),
}

/// Why first bytes do not fit their name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Misfit {
    /// They are for another name.
    OtherName(String),
    /// TLS without a name.
    NoName,
    /// HTTP that does not say in one way which host it wants.
    NoHost,
    /// Not the protocol that the port is for.
    OtherProtocol(&'static str),
}

impl fmt::Display for Misfit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OtherName(name) => write!(f, "its first bytes ask for {name:?}"),
            Self::NoName => f.write_str("it speaks TLS and says no server name (SNI)"),
            Self::NoHost => {
                f.write_str("it speaks HTTP and does not say in one way which host it wants")
            }
            Self::OtherProtocol(expected) => write!(f, "it does not speak {expected}"),
        }
    }
}

/// Whether the port is for a protocol whose first bytes say a name: then nothing is connected before they do.
#[must_use]
pub fn come_first(port: u16) -> bool {
    matches!(port, HTTP | HTTPS)
}

/// Compares the first bytes of a client with the name and port that it connects to.
#[must_use]
pub fn look(name: &DomainName, port: u16, bytes: &[u8]) -> Verdict {
    // Port 443 is for TLS alone and port 80 for HTTP alone. Elsewhere the first bytes say which of them it is,
    // if any.
    if tls_hello::may_be_tls(bytes) && port != HTTP || port == HTTPS {
        return match tls_hello::read(bytes) {
            Hello::More => Verdict::More,
            Hello::Bad if port == HTTPS => Verdict::Refused(Misfit::OtherProtocol("TLS")),
            Hello::Bad | Hello::For(None) => Verdict::Refused(Misfit::NoName),
            Hello::For(Some(asked)) => compare(name, &asked),
        };
    }
    match http_head::read(bytes) {
        Head::More => Verdict::More,
        Head::Other | Head::NoneYet if port == HTTP => {
            Verdict::Refused(Misfit::OtherProtocol("HTTP"))
        }
        Head::Other => Verdict::Fits,
        Head::NoneYet => Verdict::FitsYet,
        Head::Bad => Verdict::Refused(Misfit::NoHost),
        Head::For(host) => {
            let (asked, at) = host.rsplit_once(':').unwrap_or((&host, ""));
            // A header that names another port names another place than the one that was decided on.
            match at.is_empty() || at.parse() == Ok(port) {
                true => compare(name, asked),
                false => Verdict::Refused(Misfit::OtherName(host)),
            }
        }
    }
}

fn compare(name: &DomainName, asked: &str) -> Verdict {
    let same: Result<bool, BadName> = DomainName::new(asked).map(|asked| asked == *name);
    match same {
        Ok(true) => Verdict::Fits,
        _ => Verdict::Refused(Misfit::OtherName(asked.to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tls_hello::tests::hello_for;

    fn check(port: u16, bytes: &[u8], expected: &str) {
        let name = DomainName::new("api.example.org").unwrap();
        let found = match look(&name, port, bytes) {
            Verdict::More => "more".to_owned(),
            Verdict::Fits => "fits".to_owned(),
            Verdict::FitsYet => "fits yet".to_owned(),
            Verdict::Refused(misfit) => misfit.to_string(),
        };
        assert_eq!(found, expected, "{:?}", String::from_utf8_lossy(bytes));
    }

    #[test]
    fn tls_is_for_its_name() {
        for port in [443, 8443, 587] {
            check(port, &hello_for("api.example.org"), "fits");
            check(port, &hello_for("API.Example.org."), "fits");
            check(
                port,
                &hello_for("evil.example.org"),
                "its first bytes ask for \"evil.example.org\"",
            );
            let no_name = "it speaks TLS and says no server name (SNI)";
            check(port, &hello_for("198.18.0.1"), no_name);
            check(port, &[22, 3], "more");
            check(port, &[], "more");
        }
        check(
            443,
            b"GET / HTTP/1.1\r\nHost: api.example.org\r\n\r\n",
            "it does not speak TLS",
        );
        check(443, b"SSH-2.0-", "it does not speak TLS");
        check(
            8443,
            &[22, 3, 1, 0, 0],
            "it speaks TLS and says no server name (SNI)",
        );
    }

    #[test]
    fn plain_http_is_for_its_host() {
        let request = |host: &str| format!("GET / HTTP/1.1\r\nHost: {host}\r\n\r\n");
        for (port, host, expected) in [
            (80, "api.example.org", "fits"),
            (80, "api.example.org:80", "fits"),
            (80, "API.example.org.", "fits"),
            (8080, "api.example.org:8080", "fits"),
            (
                80,
                "api.example.org:8080",
                "its first bytes ask for \"api.example.org:8080\"",
            ),
            (
                80,
                "evil.example",
                "its first bytes ask for \"evil.example\"",
            ),
            (
                8080,
                "evil.example:8080",
                "its first bytes ask for \"evil.example\"",
            ),
        ] {
            check(port, request(host).as_bytes(), expected);
        }
        let no_host = "it speaks HTTP and does not say in one way which host it wants";
        check(80, b"GET / HTTP/1.0\r\n\r\n", no_host);
        check(80, &hello_for("api.example.org"), "it does not speak HTTP");
        check(80, b"SSH-2.0-\r\n", "it does not speak HTTP");
        check(80, b"GET /", "more");
    }

    #[test]
    fn a_protocol_without_names_goes_where_it_was_let_go() {
        check(587, b"EHLO me\r\n", "fits");
        check(5432, &[0, 0, 0, 8, 4, 210, 22, 47], "fits");
        check(587, b"EHLO", "more");
        check(9876, b"{\"type\": 1", "fits yet");
    }

    #[test]
    fn no_record_of_tls_goes_before_the_hello() {
        let no_name = "it speaks TLS and says no server name (SNI)";
        for kind in [20, 21, 23, 24] {
            let before = [&[kind, 3, 3, 0, 1, 1][..], &hello_for("api.example.org")].concat();
            check(443, &before, "it does not speak TLS");
            for cut in 2..before.len() {
                check(8443, &before[..cut], no_name);
            }
        }
        // Its first byte may be one of a length.
        check(3306, &[20, 0, 0, 1, 133], "fits");
        check(8443, &[0x80, 46, 1, 3, 1, 0, 3, 0, 0, 0, 32], no_name);
        check(9090, &[0x80, 1, 0, 1, 0, 0, 0, 4], "fits");
    }
}
