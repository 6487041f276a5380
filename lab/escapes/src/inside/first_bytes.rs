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
    let whole = |extensions: &[Vec<u8>]| records(&hello(extensions), 1 << 14);
    let both = hello(&[server_name(&[other])]);
    let games: Vec<(&str, u16, Vec<u8>)> = vec![
        ("another name", HTTPS, hello_for(other)),
        ("another name, on another port", ANY, hello_for(other)),
        ("no name", HTTPS, whole(&[])),
        ("no name, on another port", ANY, whole(&[])),
        ("an empty name", HTTPS, hello_for(b"")),
        ("an address", HTTPS, hello_for(b"127.0.0.2")),
        (
            "the address that stands for the name",
            HTTPS,
            hello_for(b"25.18.0.1"),
        ),
        ("a name below", HTTPS, hello_for(b"evil.api.example.org")),
        ("a name above", HTTPS, hello_for(b"example.org")),
        (
            "a name that begins alike",
            HTTPS,
            hello_for(b"api.example.org.other.example.com"),
        ),
        (
            "a name behind a zero byte",
            HTTPS,
            hello_for(b"api.example.org\0.other.example.com"),
        ),
        (
            "a name behind a space",
            HTTPS,
            hello_for(b"api.example.org other.example.com"),
        ),
        ("a star", HTTPS, hello_for(b"*.example.org")),
        ("bytes that are no text", HTTPS, hello_for(&[0xff, 0xfe])),
        (
            "two names, the permitted first",
            HTTPS,
            whole(&[server_name(&[permitted, other])]),
        ),
        (
            "two names, the other first",
            HTTPS,
            whole(&[server_name(&[other, permitted])]),
        ),
        (
            "two extensions, the permitted first",
            HTTPS,
            whole(&[server_name(&[permitted]), server_name(&[other])]),
        ),
        (
            "two extensions, the other first",
            HTTPS,
            whole(&[server_name(&[other]), server_name(&[permitted])]),
        ),
        (
            "another name in records of one byte",
            HTTPS,
            records(&both, 1),
        ),
        (
            "another name in records of seven bytes",
            ANY,
            records(&both, 7),
        ),
        (
            "an extension that is cut off",
            HTTPS,
            whole(&[extension(0, &[0, 40, 0])]),
        ),
        (
            "a hidden name alone",
            HTTPS,
            whole(&[extension(0xfe0d, &[0; 32])]),
        ),
        (
            "a hello of SSL 2",
            HTTPS,
            vec![0x80, 46, 1, 3, 1, 0, 3, 0, 0, 0, 32],
        ),
        (
            "HTTP where TLS is spoken",
            HTTPS,
            request(PERMITTED).into_bytes(),
        ),
        (
            "SSH where TLS is spoken",
            HTTPS,
            b"SSH-2.0-hostile\r\n".to_vec(),
        ),
        (
            "an alert before the hello",
            HTTPS,
            [&[21, 3, 3, 0, 2, 1, 0][..], &hello_for(other)].concat(),
        ),
    ];
    for (name, port, bytes) in games {
        attempts.add(format!("say {name} (SNI)"), move |_| {
            to_permitted(port, &bytes)
        });
    }
    attempts.add("say another name (SNI) byte by byte", |_| {
        let slow = || -> io::Result<Vec<u8>> {
            let mut stream = TcpStream::connect_timeout(&resolved(PERMITTED, ANY)?, PATIENCE)?;
            stream.set_nodelay(true)?;
            stream.set_read_timeout(Some(PATIENCE))?;
            for byte in hello_for(OTHER.as_bytes()) {
                stream.write_all(&[byte])?;
            }
            let mut heard = vec![0; 64];
            let length = stream.read(&mut heard)?;
            heard.truncate(length);
            Ok(heard)
        };
        judged(slow())
    });
}

fn http(attempts: &mut Attempts) {
    attempts.group(
        "the first bytes of HTTP",
        "no request but for the name of the connection goes on",
    );
    let line = "GET / HTTP/1.1\r\n";
    let games: Vec<(&str, u16, String)> = vec![
        ("another host", HTTP, request(OTHER)),
        (
            "another host, on another port",
            ANY,
            request(&format!("{OTHER}:{ANY}")),
        ),
        ("no host", HTTP, format!("{line}\r\n")),
        (
            "no host, of an old version",
            HTTP,
            "GET / HTTP/1.0\r\n\r\n".to_owned(),
        ),
        (
            "two hosts, the permitted first",
            HTTP,
            format!("{line}Host: {PERMITTED}\r\nHost: {OTHER}\r\n\r\n"),
        ),
        (
            "two hosts, the other first",
            HTTP,
            format!("{line}Host: {OTHER}\r\nhost: {PERMITTED}\r\n\r\n"),
        ),
        (
            "a host of two words",
            HTTP,
            request(&format!("{PERMITTED} {OTHER}")),
        ),
        (
            "a host of two names",
            HTTP,
            request(&format!("{PERMITTED},{OTHER}")),
        ),
        (
            "a host with a user",
            HTTP,
            request(&format!("{PERMITTED}@{OTHER}")),
        ),
        (
            "a host with another port",
            HTTP,
            request(&format!("{PERMITTED}:8080")),
        ),
        (
            "a host that goes on in the next line",
            HTTP,
            format!("{line}Host: {PERMITTED}\r\n {OTHER}\r\n\r\n"),
        ),
        (
            "a host before the colon's space",
            HTTP,
            format!("{line}Host : {OTHER}\r\nHost: {PERMITTED}\r\n\r\n"),
        ),
        (
            "a host behind a lone line feed",
            HTTP,
            format!("{line}X: y\nHost: {OTHER}\r\nHost: {PERMITTED}\r\n\r\n"),
        ),
        (
            "a host behind a lone carriage return",
            HTTP,
            format!("{line}X: y\rHost: {OTHER}\r\nHost: {PERMITTED}\r\n\r\n"),
        ),
        (
            "a host behind a zero byte",
            HTTP,
            request(&format!("{PERMITTED}\0{OTHER}")),
        ),
        ("an address as the host", HTTP, request("127.0.0.2")),
        (
            "another host in the target",
            HTTP,
            format!("GET http://{OTHER}/ HTTP/1.1\r\nHost: {PERMITTED}\r\n\r\n"),
        ),
        (
            "another host as the target",
            HTTP,
            format!("GET //{OTHER}/ HTTP/1.1\r\nHost: {OTHER}\r\n\r\n"),
        ),
        (
            "a target with a user",
            HTTP,
            format!("GET http://{PERMITTED}@{OTHER}/ HTTP/1.1\r\nHost: {PERMITTED}\r\n\r\n"),
        ),
        (
            "a tunnel",
            HTTP,
            format!("CONNECT {OTHER}:443 HTTP/1.1\r\nHost: {PERMITTED}\r\n\r\n"),
        ),
        (
            "a tunnel, on another port",
            ANY,
            format!("CONNECT {OTHER}:443 HTTP/1.1\r\nHost: {PERMITTED}:{ANY}\r\n\r\n"),
        ),
        (
            "HTTP/2 without TLS",
            HTTP,
            "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_owned(),
        ),
        (
            "a request behind an empty line",
            HTTP,
            format!("\r\n{}", request(OTHER)),
        ),
        (
            "no space in the first line",
            HTTP,
            format!("GET/HTTP/1.1\r\nHost: {OTHER}\r\n\r\n"),
        ),
        (
            "lines that end in line feeds alone",
            HTTP,
            format!("GET / HTTP/1.1\nHost: {OTHER}\n\n\r\n\r\n"),
        ),
        (
            "a head without end",
            HTTP,
            format!("{line}X: {}\r\nHost: {OTHER}\r\n\r\n", "x".repeat(20_000)),
        ),
        (
            "TLS where HTTP is spoken",
            HTTP,
            String::from_utf8_lossy(&hello_for(b"a")).into_owned(),
        ),
        (
            "SSH where HTTP is spoken",
            HTTP,
            "SSH-2.0-hostile\r\n".to_owned(),
        ),
    ];
    for (name, port, text) in games {
        attempts.add(format!("say {name} (Host)"), move |_| {
            to_permitted(port, text.as_bytes())
        });
    }
}
