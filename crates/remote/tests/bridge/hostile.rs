//! Servers that want what is not theirs, or do not end.

use std::thread;
use std::time::Duration;

use crate::client::{Client, HANDSHAKE, INITIALIZE, SECRET, settings};
use test_support::{Reply, Request, Server, events, free_port, json, json_with, status};

/// The handshake, and this for calls.
fn calls(request: &Request, reply: impl FnOnce() -> Reply) -> Reply {
    match () {
        () if request.asks("initialize") => json(request.result(HANDSHAKE)),
        () if request.asks("tools/call") => reply(),
        () if request.method == "GET" => status(405),
        () => status(202),
    }
}

fn after_a_call(reply: impl Fn(&Request) -> Reply + Send + Sync + 'static) -> (Server, Client) {
    let server = Server::start(move |request| calls(request, || reply(request)));
    let mut client = Client::open(&settings(&server.url("/mcp")));
    client.call(1);
    (server, client)
}

#[test]
fn a_redirect_takes_the_secret_nowhere() {
    for code in [301, 302, 303, 307, 308] {
        let thief = Server::start(|_| json(String::new()));
        let target = thief.url("/steal");
        let mut own_target = String::new();
        let reply = move || json_with(code, &[("Location", &target)], String::new());
        own_target.push_str(&thief.url(""));
        // At the handshake, where nothing works without it.
        let redirecting = reply.clone();
        let server = Server::start(move |_| redirecting());
        let mut client = Client::start(&settings(&server.url("/mcp")));
        client.say(INITIALIZE);
        let said = client.ends();
        assert!(said.contains(&own_target), "{said}");
        assert!(said.contains("not followed"), "{said}");
        // And at a call, which is refused.
        let (_server, mut client) = after_a_call(move |_| reply());
        let answer = client.hear();
        assert!(answer.contains("\"error\"") && answer.contains(&own_target));
        assert!(thief.requests().is_empty(), "{code}");
    }
}

#[test]
fn a_redirect_to_a_metadata_service_is_not_even_named() {
    let to = "http://169.254.169.254/latest/meta-data/";
    let server = Server::start(move |_| json_with(307, &[("Location", to)], String::new()));
    let mut client = Client::start(&settings(&server.url("/mcp")));
    client.say(INITIALIZE);
    let said = client.ends();
    assert!(said.contains("redirects to nowhere"), "{said}");
}

#[test]
fn a_secret_that_is_sent_back_is_masked() {
    let (_server, mut client) = after_a_call(|request| {
        let text = format!(
            "{{\"content\":[{{\"type\":\"text\",\"text\":\"{}\"}}]}}",
            request.header("authorization")
        );
        json(request.result(&text))
    });
    let answer = client.hear();
    assert!(answer.contains("Bearer [secret]"), "{answer}");
    assert!(!answer.contains(SECRET));
}

#[test]
fn who_is_not_known_is_told_what_to_do() {
    let server = Server::start(|_| status(401));
    let mut client = Client::start(&settings(&server.url("/mcp?key=in-the-query")));
    client.say(INITIALIZE);
    let said = client.ends();
    assert!(said.contains("HTTP 401"), "{said}");
    assert!(said.contains("sluice secret set NAME --for"), "{said}");
    assert!(
        !said.contains(SECRET) && !said.contains("in-the-query"),
        "{said}"
    );
}

#[test]
fn what_has_no_end_is_ended() {
    let endless = |start: &'static str, piece: &'static [u8]| {
        move |_: &Request| {
            Reply::Raw(Box::new(move |to| {
                to.write_all(start.as_bytes())?;
                let piece = piece.repeat(64 << 10);
                loop {
                    to.write_all(&piece)?;
                }
            }))
        }
    };
    let of_json = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n{\"a\":\"";
    let of_line = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\ndata: ";
    let of_lines = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n";
    for (start, piece) in [
        (of_json, &b"x"[..]),
        (of_line, b"x"),
        (of_lines, b"data: x\n"),
    ] {
        let (_server, client) = after_a_call(endless(start, piece));
        let said = client.ends();
        assert!(said.contains("more than 4194304 bytes"), "{said}");
    }
}

#[test]
fn whoever_answers_slowly_holds_up_nobody_else() {
    let server = Server::start(|request| {
        calls(request, || match request.id().as_str() {
            "1" => {
                thread::sleep(Duration::from_secs(60));
                status(200)
            }
            _ => json(request.result("{}")),
        })
    });
    let mut client = Client::open(&settings(&server.url("/mcp")));
    client.call(1);
    client.call(2);
    assert!(client.hear().contains("\"id\":2,\"result\""));
    let (done, said) = client.leave();
    assert!(done, "{said}");
}

#[test]
fn whoever_does_not_hear_that_a_call_is_given_up_holds_up_nobody_else() {
    let server = Server::start(|request| match request.asks("notifications/cancelled") {
        true => {
            thread::sleep(Duration::from_secs(60));
            status(202)
        }
        false => calls(request, || json(request.result("{}"))),
    });
    let mut client = Client::open(&settings(&server.url("/mcp")));
    let of_call = r#""params":{"requestId":7}"#;
    client.say(&format!(
        r#"{{"jsonrpc":"2.0","method":"notifications/cancelled",{of_call}}}"#
    ));
    client.call(2);
    assert!(client.hear().contains("\"id\":2,\"result\""));
    assert!(client.leave().0);
}

#[test]
fn a_refusal_is_an_answer_and_a_lost_server_is_none() {
    let (_server, mut client) = after_a_call(|_| status(403));
    let answer = client.hear();
    assert!(answer.contains("\"id\":1,\"error\"") && answer.contains("403"));
    // Nobody knows whether the call was made, so it must not look like one that was not.
    for reply in [
        (|_| status(502)) as fn(&Request) -> Reply,
        |_| Reply::Raw(Box::new(|_| Ok(()))),
        |_| events(|to| write!(to, ": nothing\n\n")),
        |_| {
            Reply::Raw(Box::new(|to| {
                to.write_all(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 99\r\n\r\n{")
            }))
        },
    ] {
        let (_server, mut client) = after_a_call(reply);
        client.call(2);
        let said = client.ends();
        assert!(said.contains("broke") || said.contains("502"), "{said}");
    }
}

#[test]
fn an_answer_of_another_request_is_a_breach() {
    let (_server, client) =
        after_a_call(|_| json(r#"{"jsonrpc":"2.0","id":7,"result":{}}"#.to_owned()));
    assert!(client.ends().contains("another's"));
}

#[test]
fn a_session_that_the_server_ended_ends_the_program() {
    let server = Server::start(|request| match request.asks("initialize") {
        true => json_with(200, &[("Mcp-Session-Id", "s")], request.result(HANDSHAKE)),
        false => calls(request, || status(404)),
    });
    let mut client = Client::open(&settings(&server.url("/mcp")));
    client.call(1);
    assert!(client.ends().contains("ended the session"));
}

#[test]
fn a_server_that_is_not_there_is_named() {
    let url = format!("http://127.0.0.1:{}/mcp", free_port());
    let mut client = Client::start(&settings(&url));
    client.say(INITIALIZE);
    let said = client.ends();
    assert!(
        said.contains(&url) && said.contains("no connection"),
        "{said}"
    );
}
