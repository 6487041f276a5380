//! The first message of a TLS client, put together by hand.

/// The `server_name` extension with these names. RFC 6066 §3 allows one host name only.
pub(super) fn server_name(names: &[&[u8]]) -> Vec<u8> {
    let mut list = Vec::new();
    for name in names {
        // Of the kind that is a host's.
        list.push(0);
        list.extend(short(name.len()));
        list.extend(*name);
    }
    let mut body = short(list.len()).to_vec();
    body.extend(list);
    extension(0, &body)
}

pub(super) fn extension(kind: u16, body: &[u8]) -> Vec<u8> {
    let mut extension = kind.to_be_bytes().to_vec();
    extension.extend(short(body.len()));
    extension.extend(body);
    extension
}

/// A `ClientHello` with these extensions, as a handshake message.
pub(super) fn hello(extensions: &[Vec<u8>]) -> Vec<u8> {
    let mut body = vec![3, 3];
    body.extend([7; 32]);
    // No session; one suite of ciphers; no compression.
    body.extend([0, 0, 2, 0x13, 0x01, 1, 0]);
    let mut extensions = extensions.concat();
    // Algorithms of signatures, without which no server answers.
    extensions.extend(extension(13, &[0, 2, 4, 3]));
    body.extend(short(extensions.len()));
    body.extend(extensions);
    let mut message = vec![1, 0];
    message.extend(short(body.len()));
    message.extend(body);
    message
}

/// These bytes of the handshake as records of so many bytes.
pub(super) fn records(handshake: &[u8], size: usize) -> Vec<u8> {
    let record = |part: &[u8]| {
        let mut record = vec![22, 3, 1];
        record.extend(short(part.len()));
        record.extend(part);
        record
    };
    handshake.chunks(size).flat_map(record).collect()
}

/// The first bytes of a client that asks for this name.
pub(super) fn hello_for(name: &[u8]) -> Vec<u8> {
    let hello = hello(&[server_name(&[name])]);
    records(&hello, hello.len())
}

fn short(length: usize) -> [u8; 2] {
    u16::try_from(length).unwrap_or(u16::MAX).to_be_bytes()
}
