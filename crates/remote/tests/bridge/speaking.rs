//! Servers that mean well, of every generation.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use crate::client::{Client, HANDSHAKE, INITIALIZE, INITIALIZED, SECRET, TRACEPARENT, settings};
use test_support::{Reply, Request, Server, events, json, json_with, status};

/// A server with a session, which answers calls as JSON.
fn with_session(request: &Request) -> Reply {
    match () {
        () if request.asks("initialize") => {
            json_with(200, &[("Mcp-Session-Id", "s-1")], request.result(HANDSHAKE))
        }
        () if request.method == "GET" => status(405),
        () if request.id() == "null" => status(202),
        () => json(request.result("{\n  \"content\": []\n}")),
    }
}

#[test]
fn each_request_has_session_version_and_header() {
    let server = Server::start(with_session);
    let mut client = Client::open(&settings(&server.url("/mcp")));
    client.call(1);
    // One line, however the server writes its JSON.
    assert_eq!(
        client.hear(),
        r#"{"jsonrpc":"2.0","id":1,"result":{"content":[]}}"#
    );
    let (done, said) = client.leave();
    assert!(done, "{said}");
    let requests = server.requests();
    let of = |request: &Request| {
        let (session, version) = (
            request.header("mcp-session-id"),
            request.header("mcp-protocol-version"),
        );
        format!("{} {session} {version}", request.method)
    };
    assert!(
        requests
            .iter()
            .all(
                |request| request.header("authorization") == format!("Bearer {SECRET}")
                    && request.path == "/mcp"
            )
    );
    let first = requests.iter().find(|request| request.asks("initialize"));
    assert_eq!(of(first.unwrap()), "POST  ");
    let call = requests.iter().find(|request| request.asks("tools/call"));
    let call = call.unwrap();
    assert_eq!(of(call), "POST s-1 2025-11-25");
    assert_eq!(call.header("accept"), "application/json, text/event-stream");
    assert_eq!(call.header("mcp-method"), "");
    assert_eq!(call.json()["params"]["_meta"]["traceparent"], TRACEPARENT);
    // The stream for what the server says by itself is asked for beside all this, and may be heard later.
    let end = requests.iter().find(|request| request.method == "DELETE");
    assert_eq!(of(end.unwrap()), "DELETE s-1 2025-11-25");
}

#[test]
fn a_session_that_the_server_has_ended_is_followed_by_another() {
    let begun = AtomicUsize::new(0);
    let server = Server::start(move |request| {
        if request.asks("initialize") {
            let id = format!("s-{}", begun.fetch_add(1, Ordering::Relaxed));
            return json_with(200, &[("Mcp-Session-Id", &id)], request.result(HANDSHAKE));
        }
        match request.asks("tools/call") && request.header("mcp-session-id") == "s-0" {
            true => status(404),
            false => with_session(request),
        }
    });
    let mut client = Client::open(&settings(&server.url("/mcp")));
    for id in [1, 2] {
        client.call(id);
        let answer = format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{"content":[]}}}}"#);
        assert_eq!(client.hear(), answer);
    }
    assert!(client.leave().0);
    let requests = server.requests();
    let count = |method: &str| requests.iter().filter(|it| it.asks(method)).count();
    assert_eq!((count("initialize"), count("tools/call")), (2, 3));
}

#[test]
fn an_answer_may_be_a_stream_with_requests_before_it() {
    let server = Server::start(|request| match () {
        () if request.asks("tools/call") => {
            let answer = request.result("{}");
            events(move |to| {
                write!(
                    to,
                    "data: {{\"jsonrpc\":\"2.0\",\"id\":9,\"method\":\"ping\"}}\n\n"
                )?;
                to.flush()?;
                thread::sleep(Duration::from_millis(50));
                write!(to, "event: message\ndata: {answer}\n\n")
            })
        }
        () => with_session(request),
    });
    let mut client = Client::open(&settings(&server.url("/mcp")));
    client.call(1);
    assert!(client.hear().contains("\"ping\""));
    client.say(r#"{"jsonrpc":"2.0","id":9,"result":{"pong":true}}"#);
    assert!(client.hear().contains("\"id\":1,\"result\""));
    assert!(client.leave().0);
    let requests = server.requests();
    assert!(requests.iter().any(|request| request.body.contains("pong")));
}

#[test]
fn what_a_server_says_unasked_is_heard_and_taken_up_again() {
    let server = Server::start(|request| {
        match (&*request.method, request.header("last-event-id")) {
            ("GET", "") => events(|to| {
                write!(
                    to,
                    "id: 7\nretry: 10\ndata: {{\"jsonrpc\":\"2.0\",\"method\":\"notifications/one\"}}\n\n"
                )
            }),
            ("GET", "7") => events(|to| {
                write!(
                    to,
                    "data: {{\"jsonrpc\":\"2.0\",\"method\":\"notifications/two\"}}\n\n"
                )?;
                to.flush()?;
                thread::sleep(Duration::from_secs(60));
                Ok(())
            }),
            _ => with_session(request),
        }
    });
    let mut client = Client::open(&settings(&server.url("/mcp")));
    assert!(client.hear().contains("notifications/one"));
    assert!(client.hear().contains("notifications/two"));
}

#[test]
fn an_answer_that_breaks_off_is_taken_up_again() {
    let server = Server::start(|request| match request.header("last-event-id") {
        "e1" => events(|to| {
            write!(
                to,
                "data: {{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{{}}}}\n\n"
            )
        }),
        _ if request.asks("tools/call") => events(|to| {
            write!(
                to,
                "retry: 10\nid: e1\ndata: {{\"jsonrpc\":\"2.0\",\"method\":\"notifications/x\"}}\n\n"
            )
        }),
        _ => with_session(request),
    });
    let mut client = Client::open(&settings(&server.url("/mcp")));
    client.call(1);
    assert!(client.hear().contains("notifications/x"));
    assert!(client.hear().contains("\"id\":1,\"result\""));
}

#[test]
fn a_call_that_is_given_up_is_no_longer_listened_to() {
    let (gone, is_gone) = std::sync::mpsc::channel();
    let gone = std::sync::Mutex::new(gone);
    let server = Server::start(move |request| match () {
        () if request.asks("tools/call") => {
            let gone = gone.lock().unwrap().clone();
            events(move |to| {
                // Comments until nobody takes them.
                while to
                    .write_all(b": wait\n\n")
                    .and_then(|()| to.flush())
                    .is_ok()
                {
                    thread::sleep(Duration::from_millis(10));
                }
                let _ = gone.send(());
                Ok(())
            })
        }
        () => with_session(request),
    });
    let mut client = Client::open(&settings(&server.url("/mcp")));
    client.call(1);
    while !server.requests().iter().any(|it| it.asks("tools/call")) {
        thread::sleep(Duration::from_millis(5));
    }
    client.say(r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}"#);
    is_gone.recv_timeout(Duration::from_secs(30)).unwrap();
    assert!(client.leave().0);
    let requests = server.requests();
    assert!(requests.iter().any(|it| it.asks("notifications/cancelled")));
}

#[test]
fn a_server_without_handshake_is_asked_what_it_is() {
    let server = Server::start(|request| {
        match () {
        () if request.asks("initialize") => json_with(
            404,
            &[],
            format!(r#"{{"jsonrpc":"2.0","id":{},"error":{{"code":-32601,"message":"no"}}}}"#, request.id()),
        ),
        () if request.asks("server/discover") => json(request.result(
            r#"{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{}},"instructions":"i","_meta":{"io.modelcontextprotocol/serverInfo":{"name":"new","version":"2"}}}"#,
        )),
        () => json(request.result("{}")),
    }
    });
    let mut client = Client::start(&settings(&server.url("/mcp")));
    client.say(INITIALIZE);
    let answer: serde_json::Value = serde_json::from_str(&client.hear()).unwrap();
    assert_eq!(answer["id"], 0);
    assert_eq!(answer["result"]["protocolVersion"], "2026-07-28");
    assert_eq!(answer["result"]["serverInfo"]["name"], "new");
    assert_eq!(answer["result"]["instructions"], "i");
    client.say(INITIALIZED);
    client.call(1);
    client.hear();
    // Nothing but requests is sent: whoever gives one up only listens no longer, and the server may ask nothing.
    client.say(r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}"#);
    client.say(r#"{"jsonrpc":"2.0","id":9,"result":{}}"#);
    client.call(2);
    client.hear();
    assert!(client.leave().0);
    let requests = server.requests();
    // Neither a stream nor the end of a handshake that there was not.
    assert!(requests.iter().all(|request| request.method == "POST"));
    assert_eq!(requests.len(), 4);
    let discover = &requests[1];
    assert!(
        discover
            .body
            .contains("\"io.modelcontextprotocol/clientInfo\":{\"name\":\"c\"")
    );
    let call = &requests[2];
    let headers = ["mcp-protocol-version", "mcp-method", "mcp-name"];
    assert_eq!(
        headers.map(|name| call.header(name)),
        ["2026-07-28", "tools/call", "t"]
    );
}

#[test]
fn tls_is_checked_against_the_name_and_the_certificates() {
    let (server, certificate) = Server::start_tls(&["localhost"], with_session);
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("ca.pem");
    std::fs::write(&file, certificate).unwrap();
    let mut known = settings(&format!("https://localhost:{}/mcp", server.port));
    known.ca_file = Some(file.clone());
    let mut client = Client::open(&known);
    client.call(1);
    assert!(client.hear().contains("\"result\""));
    assert!(client.leave().0);

    let mut unknown = known.clone();
    unknown.url = format!("https://localhost:{}/unknown", server.port);
    unknown.ca_file = None;
    let mut other_name = known.clone();
    other_name.url = format!("https://127.0.0.1:{}/other", server.port);
    for settings in [unknown, other_name] {
        let mut client = Client::start(&settings);
        client.say(INITIALIZE);
        let said = client.ends();
        assert!(said.contains("no connection"), "{said}");
    }
    // By their paths: the first client's last words may be heard late.
    let mut heard = server.requests().into_iter();
    assert!(heard.all(|request| request.path == "/mcp"));
}
