//! The name that a TLS client asks for (SNI, RFC 6066 §3), read off its first bytes by `rustls`.
//!
//! Where the client hides its real name (encrypted ClientHello), this is the outer one: that of the server that the
//! connection goes to.

use rustls::server::Acceptor;

/// The longest ClientHello. With post-quantum key shares and a resumed session it has about 2,000 bytes.
pub(crate) const MAX_HELLO: usize = 16 << 10;

/// The record type of a handshake.
const HANDSHAKE: u8 = 22;
/// All record types: before a hello, a server may skip one that is no handshake.
const FIRST: u8 = 20;
const LAST: u8 = 24;
/// The message type of a hello.
const CLIENT_HELLO: u8 = 1;

/// What was read.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Hello {
    /// The ClientHello is not complete.
    More,
    /// It is no ClientHello.
    Bad,
    /// It is one, for this name or none.
    For(Option<String>),
}

/// Whether it begins like TLS. Every version since SSL 3 does, but for a hello in the form of SSL 2.
pub(crate) fn may_be_tls(bytes: &[u8]) -> bool {
    match bytes {
        [] | [FIRST..=LAST] | [FIRST..=LAST, 3, ..] => true,
        [0x80..=0xFF, rest @ ..] => matches!(
            rest,
            [] | [_] | [_, CLIENT_HELLO] | [_, CLIENT_HELLO, 3, ..]
        ),
        _ => false,
    }
}

/// Reads the first bytes of a client.
pub(crate) fn read(bytes: &[u8]) -> Hello {
    match bytes {
        [] | [HANDSHAKE] | [HANDSHAKE, 3, ..] => {}
        [FIRST..=LAST] | [0x80..=0xFF] | [0x80..=0xFF, _] | [0x80..=0xFF, _, CLIENT_HELLO] => {
            return Hello::More;
        }
        // `rustls` waits for a whole record before it looks at what kind it is.
        _ => return Hello::Bad,
    }
    let mut acceptor = Acceptor::default();
    let mut rest = bytes;
    while !rest.is_empty() {
        if !acceptor.read_tls(&mut rest).is_ok_and(|read| read > 0) {
            return Hello::Bad;
        }
        match acceptor.accept() {
            Ok(Some(accepted)) => {
                let hello = accepted.client_hello();
                return Hello::For(hello.server_name().map(str::to_owned));
            }
            Ok(None) => {}
            Err(_) => return Hello::Bad,
        }
    }
    match bytes.len() > MAX_HELLO {
        true => Hello::Bad,
        false => Hello::More,
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    const HOST_NAME: u8 = 0;

    fn vector16(content: &[u8]) -> Vec<u8> {
        let mut out = u16::try_from(content.len()).unwrap().to_be_bytes().to_vec();
        out.extend(content);
        out
    }

    fn extension(kind: u16, content: &[u8]) -> Vec<u8> {
        [&kind.to_be_bytes(), &*vector16(content)].concat()
    }

    /// A `server_name` extension for these names.
    fn names(names: &[&str]) -> Vec<u8> {
        let name = |name: &&str| [&[HOST_NAME], &*vector16(name.as_bytes())].concat();
        let list: Vec<u8> = names.iter().flat_map(name).collect();
        extension(0, &vector16(&list))
    }

    /// The first bytes of a client with these extensions, in records of so many bytes.
    fn hello(extensions: &[u8], size: usize) -> Vec<u8> {
        // Signature algorithms, without which there is no TLS 1.2, and versions.
        let usual = [
            extension(13, &[0, 2, 4, 3]),
            extension(43, &[4, 3, 4, 3, 3]),
        ];
        let mut body = vec![3, 3];
        body.extend([7; 32]);
        body.extend([0, 0, 2, 0x13, 1, 1, 0]);
        body.extend(vector16(&[extensions, &usual.concat()].concat()));
        let mut message = vec![CLIENT_HELLO, 0];
        message.extend(vector16(&body));
        let record = |piece: &[u8]| [&[HANDSHAKE, 3, 1], &*vector16(piece)].concat();
        message.chunks(size).flat_map(record).collect()
    }

    /// The first bytes of a client that wants this name.
    pub(crate) fn hello_for(name: &str) -> Vec<u8> {
        hello(&names(&[name]), 1 << 14)
    }

    fn for_name(name: &str) -> Hello {
        Hello::For(Some(name.to_owned()))
    }

    #[test]
    fn the_name_is_found_however_it_is_cut() {
        let hello_bytes = hello_for("example.org");
        for cut in 0..hello_bytes.len() {
            assert_eq!(read(&hello_bytes[..cut]), Hello::More, "{cut} bytes");
        }
        let with_more = [&hello_bytes, &b"whatever follows"[..]].concat();
        for bytes in [hello_bytes, with_more, hello(&names(&["example.org"]), 3)] {
            assert_eq!(read(&bytes), for_name("example.org"));
        }
    }

    #[test]
    fn two_names_are_no_name() {
        let twice = [names(&["a.org"]), names(&["b.org"])].concat();
        for extensions in [names(&["a.org", "b.org"]), twice, extension(0, &[])] {
            assert_eq!(read(&hello(&extensions, 1000)), Hello::Bad);
        }
        assert_eq!(read(&hello(&[], 1000)), Hello::For(None));
    }

    #[test]
    fn what_is_no_hello_is_bad() {
        let hello = hello_for("example.org");
        let change = |at: usize, value: u8| {
            let mut bytes = hello.clone();
            bytes[at] = value;
            bytes
        };
        for bytes in [
            b"GET / HTTP/1.1\r\n".to_vec(),
            change(0, 23),
            change(1, 2),
            change(3, 0xff),
            change(5, 2),            // a ServerHello
            change(9 + 2 + 32, 255), // a length beyond the message
            vec![HANDSHAKE, 3, 1, 0, 0],
        ] {
            assert_eq!(read(&bytes), Hello::Bad, "{bytes:?}");
        }
        let endless = [&hello[..5], &vec![1; MAX_HELLO]].concat();
        assert_eq!(read(&endless), Hello::Bad);
    }
}
