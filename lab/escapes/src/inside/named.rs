//! Names: what a spoke that may reach one of them, through the product's hub, makes of it.

use std::io::{self, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream, ToSocketAddrs, UdpSocket};
use std::time::Duration;

use rustix::net::SocketType;

use super::hello::hello_for;
use super::network::in_the_place_of_another;
use crate::attempt::{Attempts, Observed, escaped, held};
use crate::by_name::{ANY, HOST, HTTP, HTTPS, INSIDE, OTHER, PERMITTED, REBOUND, rebound_name};

/// How long an answer may take. The hub decides within milliseconds.
pub(super) const PATIENCE: Duration = Duration::from_secs(30);
/// How long nothing has to come where nothing can.
const SOON: Duration = Duration::from_millis(300);
const RESOLVER: (Ipv4Addr, u16) = (Ipv4Addr::LOCALHOST, 53);

pub(super) fn add(attempts: &mut Attempts) {
    names(attempts);
    addresses(attempts);
    rebinding(attempts);
    datagrams(attempts);
    in_the_hubs_place(attempts);
}

fn in_the_hubs_place(attempts: &mut Attempts) {
    attempts.group("the hub's addresses", "no other socket has one of them");
    for address in [
        "127.0.0.1",
        "0.0.0.0",
        "25.18.0.1",
        "25.19.255.255",
        "::",
        "::ffff:25.18.0.1",
    ] {
        for port in [HTTPS, HTTP, ANY] {
            attempts.refused(format!("listen at {address} on port {port}"), move |_| {
                in_the_place_of_another(address, port, SocketType::STREAM)
            });
        }
    }
    for address in ["127.0.0.1", "0.0.0.0"] {
        attempts.refused(format!("answer for names at {address}"), move |_| {
            in_the_place_of_another(address, RESOLVER.1, SocketType::DGRAM)
        });
    }
}

/// What was heard from whoever answers on a connection.
fn said_to(to: SocketAddr, bytes: &[u8]) -> io::Result<Vec<u8>> {
    let mut stream = TcpStream::connect_timeout(&to, PATIENCE)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    stream.write_all(bytes)?;
    let mut heard = Vec::new();
    let mut portion = [0; 1024];
    while heard.len() < 1 << 16 {
        match stream.read(&mut portion) {
            Ok(0) => break,
            Ok(length) => heard.extend(portion.iter().take(length)),
            // Whatever came before it.
            Err(error) if heard.is_empty() => return Err(error),
            Err(_) => break,
        }
    }
    Ok(heard)
}

/// Nobody of the world or the inside may have answered.
pub(super) fn judged(heard: io::Result<Vec<u8>>) -> Observed {
    let heard = match heard {
        Ok(heard) => heard,
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
            // Silence is no refusal: a way that is broken would look like one that is closed.
            return Observed::Failed("neither an answer nor a refusal".to_owned());
        }
        Err(error) => return held(error),
    };
    let text = String::from_utf8_lossy(&heard);
    for mark in [HOST, INSIDE] {
        if text.contains(mark) {
            return escaped(mark);
        }
    }
    match heard.as_slice() {
        [] => held("closed"),
        [21, 3, 3, 0, 2, 2, 49] => held("an alert of TLS: access denied"),
        _ => held(text.lines().next().unwrap_or_default()),
    }
}

pub(super) fn resolved(name: &str, port: u16) -> io::Result<SocketAddr> {
    let mut addresses = (name, port).to_socket_addrs()?;
    addresses
        .next()
        .ok_or_else(|| io::Error::other("no address"))
}

/// Sends these bytes to the permitted name.
pub(super) fn to_permitted(port: u16, bytes: &[u8]) -> Observed {
    judged(resolved(PERMITTED, port).and_then(|to| said_to(to, bytes)))
}

pub(super) fn request(host: &str) -> String {
    format!("GET / HTTP/1.1\r\nHost: {host}\r\n\r\n")
}

fn names(attempts: &mut Attempts) {
    attempts.group(
        "names",
        "only what is permitted has an address, and leads there",
    );
    for (how, port, bytes) in [
        ("TLS", HTTPS, hello_for(PERMITTED.as_bytes())),
        ("HTTP", HTTP, request(PERMITTED).into_bytes()),
        ("another protocol", ANY, b"EHLO me\r\n".to_vec()),
    ] {
        // Without this, an attempt could fail for the wrong reason.
        attempts.add_control(
            format!("reach the permitted name by {how}, as is meant"),
            move |_| match to_permitted(port, &bytes) {
                Observed::Escaped(heard) if heard == HOST => held("reached, as is meant"),
                other => Observed::Failed(format!("the way is broken: {other:?}")),
            },
        );
    }
    for name in [
        OTHER,
        "localhost",
        "metadata.google.internal",
        "example.org",
        "api.example.org.other.example.com",
        "xapi.example.org",
        "api.example.org\u{ad}.com",
        "аpi.example.org",
        "c2VjcmV0IG9mIHRoZSBodWI.other.example.com",
    ] {
        attempts.add(format!("reach {name:?}"), move |_| {
            judged(resolved(name, HTTP).and_then(|to| said_to(to, request(name).as_bytes())))
        });
    }
    for (what, kind) in [
        ("an IPv6 address", 28_u16),
        ("text", 16),
        ("a mail server", 15),
        ("services", 33),
        ("keys for hidden names", 65),
        ("everything", 255),
        ("the whole zone", 252),
    ] {
        attempts.add(format!("ask for {what} of a name"), move |_| {
            match asked(PERMITTED, kind) {
                Ok(0) => held("nothing"),
                Ok(answers) => escaped(format!("{answers} answers")),
                Err(error) => held(error),
            }
        });
    }
    attempts.add(
        "ask the resolver for a pointer that leads to itself",
        |_| {
            // A compressed name whose pointer leads to byte 12, where it begins itself.
            let mut query = question(&[0xc0, 12], 1);
            query.truncate(16);
            match exchanged(&query) {
                Ok(0) => held("nothing"),
                Ok(answers) => escaped(format!("{answers} answers")),
                Err(error) => held(error),
            }
        },
    );
}

/// How many answers the hub's resolver gives.
fn asked(name: &str, kind: u16) -> io::Result<u16> {
    let mut labels = Vec::new();
    for label in name.split('.') {
        labels.push(u8::try_from(label.len()).map_err(io::Error::other)?);
        labels.extend(label.as_bytes());
    }
    labels.push(0);
    exchanged(&question(&labels, kind))
}

fn question(name: &[u8], kind: u16) -> Vec<u8> {
    // Id 7, recursion wished for, one question.
    let mut query = vec![0, 7, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0];
    query.extend(name);
    query.extend(kind.to_be_bytes());
    query.extend([0, 1]);
    query
}

fn exchanged(query: &[u8]) -> io::Result<u16> {
    let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0))?;
    socket.set_read_timeout(Some(SOON))?;
    socket.send_to(query, RESOLVER)?;
    let mut answer = [0; 512];
    let length = socket.recv(&mut answer)?;
    match answer.get(6..8).filter(|_| length >= 12) {
        Some([high, low]) => Ok(u16::from_be_bytes([*high, *low])),
        _ => Err(io::Error::other("no answer of a resolver")),
    }
}

fn addresses(attempts: &mut Attempts) {
    attempts.group(
        "addresses that stand for names",
        "one that was given to no name leads nowhere",
    );
    for address in [
        [25, 18, 0, 0],
        [25, 18, 0, 77],
        [25, 18, 16, 1],
        [25, 18, 255, 255],
        [25, 19, 0, 1],
        [25, 19, 255, 255],
        [127, 0, 0, 1],
        [127, 9, 9, 9],
    ] {
        let address = Ipv4Addr::from(address);
        for (port, bytes) in [
            (HTTPS, hello_for(PERMITTED.as_bytes())),
            (HTTP, request(PERMITTED).into_bytes()),
            (ANY, b"EHLO me\r\n".to_vec()),
        ] {
            attempts.add(format!("connect to {address}:{port}"), move |_| {
                judged(said_to((address, port).into(), &bytes))
            });
        }
    }
    for address in [
        "::ffff:25.18.0.1",
        "::ffff:25.18.0.77",
        "64:ff9b::1912:1",
        "2002:1912:1::1",
        "::1",
    ] {
        attempts.add(format!("connect to [{address}]:443"), move |_| {
            let to = address.parse::<Ipv6Addr>().map_err(io::Error::other);
            // Behind the first there may be a name by now, which is another than is asked for.
            judged(to.and_then(|to| said_to((to, HTTPS).into(), &hello_for(OTHER.as_bytes()))))
        });
    }
    for port in [1, 22, 53, 81, 444, 8080, 65535] {
        attempts.add(
            format!("connect to the permitted name on port {port}"),
            move |_| to_permitted(port, b"EHLO me\r\n"),
        );
    }
}

fn rebinding(attempts: &mut Attempts) {
    attempts.group(
        "names that are rebound",
        "nothing but a public address is connected to, and none that was not looked at",
    );
    for (label, to, answers) in REBOUND {
        let name = rebound_name(label);
        attempts.add(format!("a name that leads to {to}"), move |_| {
            // Whoever is behind the public address may answer.
            for _ in 0..3 {
                let heard =
                    resolved(&name, HTTP).and_then(|to| said_to(to, request(&name).as_bytes()));
                match judged(heard) {
                    Observed::Escaped(who) if who == HOST => {}
                    held @ Observed::Held(_) if answers.len() == 1 => return held,
                    Observed::Held(_) => {}
                    other => return other,
                }
            }
            held("the public address, or none")
        });
    }
}

fn datagrams(attempts: &mut Attempts) {
    attempts.group("datagrams", "none leads anywhere but to the resolver");
    // The first byte of a long header of QUIC version 1, and its version.
    const QUIC: [u8; 64] = {
        let mut packet = [0; 64];
        packet[0] = 0xc3;
        packet[4] = 1;
        packet
    };
    for (name, port) in [
        ("QUIC", HTTPS),
        ("a datagram", HTTP),
        ("a datagram", ANY),
        ("a question", 53),
    ] {
        attempts.add(
            format!("send {name} to the permitted name's port {port}"),
            move |_| answered(resolved(PERMITTED, port), &QUIC),
        );
    }
    for to in [
        "8.8.8.8:53",
        "1.1.1.1:443",
        "169.254.169.254:53",
        "255.255.255.255:67",
        "224.0.0.251:5353",
        "25.18.0.77:53",
        "127.0.0.53:53",
    ] {
        attempts.add(format!("send a datagram to {to}"), move |_| {
            answered(to.parse().map_err(io::Error::other), &QUIC)
        });
    }
    attempts.add(
        "send a datagram to the host, around the resolver",
        |ground| answered(Ok((Ipv4Addr::LOCALHOST, ground.udp).into()), &QUIC),
    );
    attempts.add(
        "send a datagram to the host's other address",
        |ground| match ground
            .host_address
            .as_ref()
            .and_then(|it| it.parse::<IpAddr>().ok())
        {
            Some(address) => answered(Ok((address, ground.udp).into()), &QUIC),
            None => Observed::Absent("this machine has no other address".to_owned()),
        },
    );
}

fn answered(to: io::Result<SocketAddr>, packet: &[u8]) -> Observed {
    let exchanged = to.and_then(|to| {
        let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0))?;
        let _ = socket.set_broadcast(true);
        socket.set_read_timeout(Some(SOON))?;
        socket.send_to(packet, to)?;
        let mut answer = [0; 512];
        socket.recv(&mut answer)
    });
    match exchanged {
        Ok(length) => escaped(format!("{length} bytes came back")),
        Err(error) => held(error),
    }
}
