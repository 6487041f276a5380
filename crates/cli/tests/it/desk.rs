//! `sluice desk`, from its start to its end.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::process::Stdio;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::home::Home;
use crate::terminal::typed;

const DESK: [&str; 4] = ["desk", "--json", "--listen", "127.0.0.1:0"];

#[test]
fn a_person_gets_a_login_and_a_program_does_not() {
    let home = Home::new();
    let shown = typed(&home.sluice(&DESK), &[("\"login\"", b"\x03")]);
    assert!(
        shown.contains("/login?code=") && shown.contains("code 0"),
        "{shown}"
    );
    // Not broken at the width of the terminal, since it is copied.
    let own = home.sluice(&["desk", "--listen", "127.0.0.1:0"]);
    let shown = typed(&own, &[("Ctrl-C ends", b"\x03")]);
    let address = shown
        .split_whitespace()
        .find(|it| it.contains("/login?code="));
    let code = address.unwrap().split_once('=').unwrap().1;
    assert_eq!(code.len(), 64, "{shown}");
    let mut desk = home.sluice(&DESK);
    let desk = desk.stdin(Stdio::null()).stdout(Stdio::piped());
    let mut desk = desk.spawn().unwrap();
    let mut line = String::new();
    BufReader::new(desk.stdout.take().unwrap())
        .read_line(&mut line)
        .unwrap();
    let printed: Value = serde_json::from_str(&line).unwrap();
    assert_eq!(printed["login"], Value::Null);
    let host = printed["url"]
        .as_str()
        .unwrap()
        .strip_prefix("http://")
        .unwrap();
    let (name, port) = host.split_once(':').unwrap();
    assert!(name.ends_with(".localhost"), "{name}");
    let mut stream = TcpStream::connect(("127.0.0.1", port.parse::<u16>().unwrap())).unwrap();
    write!(
        stream,
        "GET / HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n"
    )
    .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(
        answer.starts_with("HTTP/1.1 303") && answer.contains("location: /login"),
        "{answer}"
    );
    let file = home.path("state/sluice/desk.db").metadata().unwrap();
    assert_eq!(file.permissions().mode() & 0o777, 0o600);
    kill_process(Pid::from_child(&desk), Signal::TERM).unwrap();
    assert_eq!(desk.wait().unwrap().code(), Some(143));
}

#[test]
fn other_machines_need_a_name_with_tls() {
    let home = Home::new();
    let (code, _, stderr) = home.run(&["desk", "--listen", "0.0.0.0:0"]);
    assert!(code == 1 && stderr.contains("--host NAME"), "{stderr}");
    let (code, _, stderr) = home.run(&["desk", "--host", "https://desk.example.org"]);
    assert!(code == 2 && stderr.contains("without https://"), "{stderr}");
}
