//! The server over real sockets.
#![expect(clippy::unwrap_used, reason = "tests fail by panicking")]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::thread;
use std::time::Duration;

use smtp_sink::SmtpSink;

fn start() -> SmtpSink {
    SmtpSink::start(SocketAddr::from(([127, 0, 0, 1], 0))).unwrap()
}

/// Writes everything at once (pipelined), reads until the server closes.
fn exchange(sink: &SmtpSink, input: &[u8]) -> String {
    let mut stream = TcpStream::connect(sink.addr()).unwrap();
    stream
        .set_read_timeout(Some(Duration::from_secs(60)))
        .unwrap();
    stream.write_all(input).unwrap();
    let mut answer = Vec::new();
    // A reset after the server's last words still leaves the words.
    let _ = stream.read_to_end(&mut answer);
    String::from_utf8(answer).unwrap()
}

#[test]
fn a_pipelined_message_is_kept() {
    let sink = start();
    let answer = exchange(
        &sink,
        "EHLO t\r\nMAIL FROM:<a@x.org>\r\nRCPT TO:<b@y.org>\r\nDATA\r\nSubject: ü\r\n\r\n..\r\n.\r\nQUIT\r\n".as_bytes(),
    );
    assert!(
        answer.starts_with("220 ")
            && answer.contains("354 ")
            && answer.ends_with("221 2.0.0 goodbye\r\n"),
        "{answer}"
    );
    let messages = sink.messages();
    assert_eq!(messages.len(), 1);
    assert_eq!(messages[0].data, "Subject: ü\r\n\r\n.\r\n");
}

#[test]
fn only_loopback_is_bound() {
    for addr in ["0.0.0.0:0", "[::]:0", "192.0.2.1:0"] {
        let error = SmtpSink::start(addr.parse().unwrap()).unwrap_err();
        assert_eq!(error.kind(), std::io::ErrorKind::InvalidInput, "{addr}");
    }
}

#[test]
fn a_long_line_and_a_bare_line_feed_end_the_conversation() {
    let sink = start();
    let answer = exchange(&sink, &[b'x'; 5000]);
    assert!(answer.contains("\r\n500 "), "{answer}");
    // With a bare LF dot a lenient server would see two messages here.
    let answer = exchange(
        &sink,
        b"HELO t\r\nMAIL FROM:<a@x>\r\nRCPT TO:<b@x>\r\nDATA\r\none\r\n\n.\nMAIL FROM:<c@x>\r\nRCPT TO:<d@x>\r\nDATA\r\ntwo\r\n.\r\n",
    );
    assert!(answer.contains("500 5.5.2"), "{answer}");
    assert!(sink.messages().is_empty());
}

#[test]
fn too_many_connections_are_refused_and_places_come_free_again() {
    let sink = start();
    let mut held = Vec::new();
    for _ in 0..16 {
        let mut reader = BufReader::new(TcpStream::connect(sink.addr()).unwrap());
        let mut line = String::new();
        reader.read_line(&mut line).unwrap();
        assert!(line.starts_with("220"), "{line}");
        held.push(reader);
    }
    assert!(exchange(&sink, b"").starts_with("421"));
    held.clear();
    while !exchange(&sink, b"QUIT\r\n").starts_with("220") {
        thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn dropping_stops_the_server_and_closes_connections() {
    let sink = start();
    let addr = sink.addr();
    let mut reader = BufReader::new(TcpStream::connect(addr).unwrap());
    let mut line = String::new();
    reader.read_line(&mut line).unwrap();
    drop(sink);
    line.clear();
    assert_eq!(reader.read_line(&mut line).unwrap_or(0), 0, "{line}");
    // Not at once: a process that another test is starting holds all descriptors until it has become its program, and
    // another test's server may get the port.
    while TcpStream::connect(addr).is_ok() {
        thread::sleep(Duration::from_millis(20));
    }
}
