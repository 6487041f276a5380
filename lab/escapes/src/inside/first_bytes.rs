//! First bytes of a connection that ask for another host than the connection is for.

use std::io::{self, Read, Write};
use std::net::TcpStream;

use super::hello::{extension, hello, hello_for, records, server_name};
use super::named::{PATIENCE, judged, request, resolved, to_permitted};
use crate::attempt::Attempts;
use crate::by_name::{ANY, HTTP, HTTPS, OTHER, PERMITTED};

pub(super) fn add(attempts: &mut Attempts) {
    tls(attempts);
    http(attempts);
}

fn tls(attempts: &mut Attempts) {
    attempts.group(
        "the first bytes of TLS",
        "none but for the name of the connection goes on",
    );
    let permitted = PERMITTED.as_bytes();
    let other = OTHER.as_bytes();
    let full = |extensions: &[Vec<u8>]| records(&hello(extensions), 1 << 14);
    let both = hello(&[server_name(&[other])]);
    let names = |names: &[&[u8]]| full(&[server_name(names)]);
    let mut say = |name: &str, port: u16, bytes: Vec<u8>| {
        attempts.add(format!("say {name} (SNI)"), move |_| {
            to_permitted(port, &bytes)
        });
    };
    let names_asked: [(&str, &[u8]); 11] = [
        ("another name", other),
        ("an empty name", b""),
        ("an address", b"127.0.0.2"),
        ("the address that stands for the name", b"25.18.0.1"),
        ("a name below", b"evil.api.example.org"),
        ("a name above", b"example.org"),
        (
            "a name that begins alike",
            b"api.example.org.other.example.com",
        ),
        (
            "a name behind a zero byte",
            b"api.example.org\0.other.example.com",
        ),
        (
            "a name behind a space",
            b"api.example.org other.example.com",
        ),
        ("a star", b"*.example.org"),
        ("bytes that are no text", &[0xff, 0xfe]),
    ];
    for (name, asked) in names_asked {
        say(name, HTTPS, hello_for(asked));
    }
    let two = |one, other| full(&[server_name(&[one]), server_name(&[other])]);
    let cut_off = extension(0, &[0, 40, 0]);
    let ssl2 = vec![0x80, 46, 1, 3, 1, 0, 3, 0, 0, 0, 32];
    for (name, bytes) in [
        ("no name", full(&[])),
        ("two names, the permitted first", names(&[permitted, other])),
        ("two names, the other first", names(&[other, permitted])),
        ("two extensions, the permitted first", two(permitted, other)),
        ("two extensions, the other first", two(other, permitted)),
        ("another name in records of one byte", records(&both, 1)),
        ("an extension that is cut off", full(&[cut_off])),
        ("a hidden name alone", full(&[extension(0xfe0d, &[0; 32])])),
        ("a hello of SSL 2", ssl2),
        ("HTTP where TLS is spoken", request(PERMITTED).into_bytes()),
        ("SSH where TLS is spoken", b"SSH-2.0-hostile\r\n".to_vec()),
    ] {
        say(name, HTTPS, bytes);
    }
    let behind = |record: &[u8]| [record, &hello_for(other)].concat();
    for (name, bytes) in [
        (
            "another name behind a record of type 20",
            behind(&[20, 3, 3, 0, 1, 1]),
        ),
        (
            "another name behind an alert",
            behind(&[21, 3, 3, 0, 2, 1, 0]),
        ),
        (
            "another name behind a record of type 23",
            behind(&[23, 3, 3, 0, 1, 0]),
        ),
        (
            "another name behind a record of type 24",
            behind(&[24, 3, 3, 0, 3, 1, 0, 0]),
        ),
        ("another name, on another port", hello_for(other)),
        ("no name, on another port", full(&[])),
        ("another name in records of seven bytes", records(&both, 7)),
    ] {
        say(name, ANY, bytes);
    }
    let alert = [&[21, 3, 3, 0, 2, 1, 0][..], &hello_for(other)].concat();
    say("an alert before the hello", HTTPS, alert);
    attempts.add("say another name (SNI) byte by byte", |_| {
        judged(byte_by_byte(&hello_for(OTHER.as_bytes())))
    });
}

/// What is heard after these bytes, each in a piece of its own, on a port of any protocol.
fn byte_by_byte(bytes: &[u8]) -> io::Result<Vec<u8>> {
    let mut stream = TcpStream::connect_timeout(&resolved(PERMITTED, ANY)?, PATIENCE)?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    for byte in bytes {
        stream.write_all(&[*byte])?;
    }
    let mut heard = vec![0; 64];
    let length = stream.read(&mut heard)?;
    heard.truncate(length);
    Ok(heard)
}

fn http(attempts: &mut Attempts) {
    attempts.group(
        "the first bytes of HTTP",
        "no request but for the name of the connection goes on",
    );
    let line = "GET / HTTP/1.1\r\n";
    let own = format!("Host: {PERMITTED}\r\n");
    let their = format!("Host: {OTHER}\r\n");
    let mut say = |name: &str, port: u16, text: String| {
        attempts.add(format!("say {name} (Host)"), move |_| {
            to_permitted(port, text.as_bytes())
        });
    };
    for (name, host) in [
        ("another host", OTHER.to_owned()),
        ("a host of two words", format!("{PERMITTED} {OTHER}")),
        ("a host of two names", format!("{PERMITTED},{OTHER}")),
        ("a host with a user", format!("{PERMITTED}@{OTHER}")),
        ("a host with another port", format!("{PERMITTED}:8080")),
        ("a host behind a zero byte", format!("{PERMITTED}\0{OTHER}")),
        ("an address as the host", "127.0.0.2".to_owned()),
    ] {
        say(name, HTTP, request(&host));
    }
    say(
        "another host, on another port",
        ANY,
        request(&format!("{OTHER}:{ANY}")),
    );
    let heads = [
        ("no host", format!("{line}\r\n")),
        (
            "no host, of an old version",
            "GET / HTTP/1.0\r\n\r\n".to_owned(),
        ),
        (
            "two hosts, the permitted first",
            format!("{line}{own}{their}\r\n"),
        ),
        (
            "two hosts, the other first",
            format!("{line}{their}host: {PERMITTED}\r\n\r\n"),
        ),
        (
            "a host that goes on in the next line",
            format!("{line}{own} {OTHER}\r\n\r\n"),
        ),
        (
            "a host before the colon's space",
            format!("{line}Host : {OTHER}\r\n{own}\r\n"),
        ),
        (
            "a host behind a lone line feed",
            format!("{line}X: y\n{their}{own}\r\n"),
        ),
        (
            "a host behind a lone carriage return",
            format!("{line}X: y\r{their}{own}\r\n"),
        ),
        (
            "another host in the target",
            format!("GET http://{OTHER}/ HTTP/1.1\r\n{own}\r\n"),
        ),
        (
            "another host as the target",
            format!("GET //{OTHER}/ HTTP/1.1\r\n{their}\r\n"),
        ),
        (
            "a target with a user",
            format!("GET http://{PERMITTED}@{OTHER}/ HTTP/1.1\r\n{own}\r\n"),
        ),
        (
            "a tunnel",
            format!("CONNECT {OTHER}:443 HTTP/1.1\r\n{own}\r\n"),
        ),
        (
            "HTTP/2 without TLS",
            "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_owned(),
        ),
        (
            "a request behind an empty line",
            format!("\r\n{}", request(OTHER)),
        ),
        (
            "no space in the first line",
            format!("GET/HTTP/1.1\r\n{their}\r\n"),
        ),
        (
            "lines that end in line feeds alone",
            format!("GET / HTTP/1.1\nHost: {OTHER}\n\n\r\n\r\n"),
        ),
        (
            "a head without end",
            format!("{line}X: {}\r\n{their}\r\n", "x".repeat(20_000)),
        ),
        (
            "TLS where HTTP is spoken",
            String::from_utf8_lossy(&hello_for(b"a")).into_owned(),
        ),
        ("SSH where HTTP is spoken", "SSH-2.0-hostile\r\n".to_owned()),
    ];
    for (name, head) in heads {
        say(name, HTTP, head);
    }
    let tunnel = format!("CONNECT {OTHER}:443 HTTP/1.1\r\nHost: {PERMITTED}:{ANY}\r\n\r\n");
    say("a tunnel, on another port", ANY, tunnel);
    for (name, head) in [
        (
            "line feeds alone, on another port",
            format!("GET / HTTP/1.1\nHost: {OTHER}\n\n"),
        ),
        (
            "a method that is no word, on another port",
            format!("G(T / HTTP/1.1\r\n{their}\r\n"),
        ),
        (
            "a blank before the request, on another port",
            format!(" {}", request(OTHER)),
        ),
    ] {
        say(name, ANY, head);
    }
    attempts.add("say another host (Host) byte by byte", |_| {
        judged(byte_by_byte(request(OTHER).as_bytes()))
    });
}
