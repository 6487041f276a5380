//! The name that a TLS client asks for (SNI, RFC 6066 §3), read off its first bytes.
//!
//! Where the client hides its real name (encrypted ClientHello), this is the outer one: that of the
//! server that the connection goes to.

use crate::reader::Reader;

/// The longest ClientHello. With post-quantum key shares and a resumed session they have about 2,000 bytes.
pub(crate) const MAX_HELLO: usize = 16 << 10;

const HANDSHAKE: u8 = 22;
const CLIENT_HELLO: u8 = 1;
/// The most that one record may carry (RFC 8446 §5.1).
const MAX_RECORD: u16 = 1 << 14;
const EXTENSION_SERVER_NAME: u16 = 0;
const HOST_NAME: u8 = 0;

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

/// Whether it begins like TLS. Every version since SSL 3 does.
pub(crate) fn may_be_tls(bytes: &[u8]) -> bool {
    matches!(bytes, [] | [HANDSHAKE] | [HANDSHAKE, 3, ..])
}

/// Reads the first bytes of a client.
pub(crate) fn read(bytes: &[u8]) -> Hello {
    let message = match message(bytes) {
        Ok(Some(message)) => message,
        // The limit on the message does not bound these: in records of one byte each it takes six times its length.
        Ok(None) if bytes.len() > MAX_HELLO => return Hello::Bad,
        Ok(None) => return Hello::More,
        Err(NotTls) => return Hello::Bad,
    };
    match server_name(Reader(&message)) {
        Some(name) => Hello::For(name),
        None => Hello::Bad,
    }
}

/// The bytes are none of TLS.
struct NotTls;

/// The body of the first handshake message, put together from its records; `None` while some is missing.
fn message(bytes: &[u8]) -> Result<Option<Vec<u8>>, NotTls> {
    let (mut records, mut handshake) = (Reader(bytes), Vec::new());
    loop {
        if let Some(message) = whole(&handshake)? {
            return Ok(Some(message));
        }
        let mut header = records;
        let (kind, major) = (header.u8(), header.u8());
        if kind.is_some_and(|kind| kind != HANDSHAKE) || major.is_some_and(|major| major != 3) {
            return Err(NotTls);
        }
        let (_minor, length) = (header.u8(), header.u16());
        // An empty record says nothing, and could be sent for ever.
        if length.is_some_and(|length| length == 0 || length > MAX_RECORD) {
            return Err(NotTls);
        }
        let Some(fragment) = length.and_then(|length| header.take(length.into())) else {
            return Ok(None);
        };
        handshake.extend(fragment);
        records = header;
    }
}

/// The first message's body, if all of it is there.
fn whole(handshake: &[u8]) -> Result<Option<Vec<u8>>, NotTls> {
    let mut reader = Reader(handshake);
    if reader.u8().is_some_and(|kind| kind != CLIENT_HELLO) {
        return Err(NotTls);
    }
    let Some(length) = reader.u24() else {
        return Ok(None);
    };
    let length = usize::try_from(length).map_err(|_| NotTls)?;
    if length > MAX_HELLO {
        return Err(NotTls);
    }
    Ok(reader.take(length).map(<[u8]>::to_vec))
}

/// The name in a ClientHello (RFC 8446 §4.1.2). Outer `None`: it is malformed.
fn server_name(mut hello: Reader<'_>) -> Option<Option<String>> {
    let _version = hello.take(2)?;
    let _random = hello.take(32)?;
    let _session = hello.vector8()?;
    let _ciphers = hello.vector16()?;
    let _compressions = hello.vector8()?;
    // Before TLS 1.2 there may be none.
    if hello.is_empty() {
        return Some(None);
    }
    let mut extensions = hello.vector16()?;
    if !hello.is_empty() {
        return None;
    }
    let mut found = None;
    while !extensions.is_empty() {
        let kind = extensions.u16()?;
        let content = extensions.vector16()?;
        if kind == EXTENSION_SERVER_NAME {
            // Of two, servers could take either.
            if found.is_some() {
                return None;
            }
            found = Some(host_name(content)?);
        }
    }
    Some(found)
}

/// The one name of a list that may have no other entry.
fn host_name(mut content: Reader<'_>) -> Option<String> {
    let mut list = content.vector16()?;
    let kind = list.u8()?;
    let name = list.vector16()?;
    let alone = content.is_empty() && list.is_empty() && kind == HOST_NAME;
    let text = std::str::from_utf8(name.0).ok()?;
    alone.then(|| text.to_owned())
}

#[cfg(test)]
pub(crate) mod tests {
    use proptest::prelude::*;

    use super::*;

    fn vector16(content: &[u8]) -> Vec<u8> {
        let mut out = u16::try_from(content.len()).unwrap().to_be_bytes().to_vec();
        out.extend(content);
        out
    }

    fn extension(kind: u16, content: &[u8]) -> Vec<u8> {
        let mut out = kind.to_be_bytes().to_vec();
        out.extend(vector16(content));
        out
    }

    /// A `server_name` extension for these names.
    fn names(names: &[&str]) -> Vec<u8> {
        let mut list = Vec::new();
        for name in names {
            list.push(HOST_NAME);
            list.extend(vector16(name.as_bytes()));
        }
        extension(0, &vector16(&list))
    }

    /// A handshake message with these extensions.
    fn handshake(extensions: &[u8]) -> Vec<u8> {
        let mut body = vec![3, 3];
        body.extend([7; 32]);
        body.extend([0, 0, 2, 0x13, 1, 1, 0]);
        body.extend(vector16(extensions));
        let mut out = vec![CLIENT_HELLO, 0];
        out.extend(u16::try_from(body.len()).unwrap().to_be_bytes());
        out.extend(body);
        out
    }

    fn records(handshake: &[u8], size: usize) -> Vec<u8> {
        let mut out = Vec::new();
        for piece in handshake.chunks(size) {
            out.extend([HANDSHAKE, 3, 1]);
            out.extend(vector16(piece));
        }
        out
    }

    /// The first bytes of a client that wants this name.
    pub(crate) fn hello_for(name: &str) -> Vec<u8> {
        let mut extensions = extension(0x0a0a, &[]);
        extensions.extend(names(&[name]));
        extensions.extend(extension(43, &[2, 3, 4]));
        records(&handshake(&extensions), 1 << 14)
    }

    fn for_name(name: &str) -> Hello {
        Hello::For(Some(name.to_owned()))
    }

    #[test]
    fn the_name_is_found_however_it_is_cut() {
        let hello = hello_for("example.org");
        assert_eq!(read(&hello), for_name("example.org"));
        for cut in 0..hello.len() {
            assert_eq!(read(&hello[..cut]), Hello::More, "{cut} bytes");
        }
        let mut with_more = hello.clone();
        with_more.extend(b"whatever follows");
        assert_eq!(read(&with_more), for_name("example.org"));
        let small = records(&handshake(&names(&["example.org"])), 3);
        assert_eq!(read(&small), for_name("example.org"));
    }

    #[test]
    fn two_names_in_any_way_are_no_name() {
        let two = records(&handshake(&names(&["a.org", "b.org"])), 1000);
        assert_eq!(read(&two), Hello::Bad);
        let twice = [names(&["a.org"]), names(&["b.org"])].concat();
        assert_eq!(read(&records(&handshake(&twice), 1000)), Hello::Bad);
        let none = records(&handshake(&extension(43, &[2, 3, 4])), 1000);
        assert_eq!(read(&none), Hello::For(None));
        let empty = records(&handshake(&extension(0, &[])), 1000);
        assert_eq!(read(&empty), Hello::Bad);
    }

    #[test]
    fn what_is_no_hello_is_bad_at_once() {
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
            change(5, 2),    // a ServerHello
            change(6, 0xff), // sixteen megabytes
            vec![HANDSHAKE, 3, 1, 0, 0],
        ] {
            assert_eq!(read(&bytes), Hello::Bad, "{bytes:?}");
        }
        // A length that claims more than there is within the message.
        assert_eq!(read(&change(9 + 2 + 32, 255)), Hello::Bad);
    }

    proptest! {
        #[test]
        fn foreign_bytes_do_no_harm(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            read(&bytes);
            let mut hello = hello_for("example.org");
            for (at, byte) in hello.iter_mut().zip(&bytes) {
                if byte % 16 == 0 {
                    *at = byte.wrapping_mul(31);
                }
            }
            read(&hello);
        }
    }
}
