//! Headers that repeat a message, as MCP 2026-07-28 has them.

use serde_json::{Value, json};

use crate::client::{Client, HANDSHAKE, INITIALIZE, INITIALIZED, SECRET, settings};
use test_support::{Request, Server, events, json, status};

/// A server of this version that lists these tools, as JSON or as a stream.
fn server(version: &'static str, tools: Value, by_stream: bool) -> Server {
    Server::start(move |request| match () {
        () if request.asks("initialize") => {
            json(request.result(&HANDSHAKE.replace("2025-11-25", version)))
        }
        () if request.method == "GET" => status(405),
        () if request.id() == "null" => status(202),
        () if request.asks("tools/list") => {
            let answer = request.result(&json!({ "tools": tools }).to_string());
            match by_stream {
                true => events(move |to| write!(to, "data: {answer}\n\n")),
                false => json(answer),
            }
        }
        () if request.asks("prompts/get") => json(request.result(r#"{"messages":[]}"#)),
        () => json(request.result(r#"{"content":[]}"#)),
    })
}

fn tool(name: &str, properties: &Value) -> Value {
    json!({"name": name, "inputSchema": {"type": "object", "properties": properties}})
}

/// Past the handshake, and with the server's tools listed.
fn open(server: &Server) -> (Client, Vec<String>) {
    let mut client = Client::start(&settings(&server.url("/mcp")));
    client.say(INITIALIZE);
    client.hear();
    client.say(INITIALIZED);
    client.say(r#"{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{}}"#);
    let listed: Value = serde_json::from_str(&client.hear()).unwrap();
    let tools = listed["result"]["tools"].as_array().unwrap();
    let names = tools
        .iter()
        .map(|tool| tool["name"].as_str().unwrap().to_owned());
    (client, names.collect())
}

/// Asks, and gives the request that the server saw.
fn ask(client: &mut Client, server: &Server, method: &str, params: &str) -> Request {
    let line = format!(r#"{{"jsonrpc":"2.0","id":2,"method":"{method}","params":{params}}}"#);
    client.say(&line);
    client.hear();
    let mut requests = server.requests().into_iter().rev();
    requests.find(|request| request.asks(method)).unwrap()
}

fn marked() -> Value {
    let text = |header: &str| json!({"type": "string", "x-mcp-header": header});
    let all = json!({
        "region": text("Region"),
        "count": {"type": "integer", "x-mcp-header": "Count"},
        "inner": {"type": "object", "properties": {"zone": text("Zone")}},
        "query": {"type": "string"},
        "login": text("Authorization"),
    });
    tool("sql", &all)
}

#[test]
fn marked_arguments_are_headers_too() {
    for by_stream in [false, true] {
        let server = server("2026-07-28", json!([marked()]), by_stream);
        let (mut client, _) = open(&server);
        for (arguments, expected) in [
            (r#"{"query":"q"}"#, vec![]),
            (
                r#"{"count":42,"inner":{"zone":"a b"}}"#,
                vec![("count", "42"), ("zone", "a b")],
            ),
            (
                r#"{"region":"a\r\nAuthorization: b"}"#,
                vec![("region", "=?base64?YQ0KQXV0aG9yaXphdGlvbjogYg==?=")],
            ),
            (
                r#"{"login":"Bearer x"}"#,
                vec![("authorization", "Bearer x")],
            ),
        ] {
            let params = format!(r#"{{"name":"sql","arguments":{arguments}}}"#);
            let request = ask(&mut client, &server, "tools/call", &params);
            let headers = request.headers.iter();
            let of_arguments: Vec<(&str, &str)> = headers
                .filter_map(|(name, value)| Some((name.strip_prefix("mcp-param-")?, &**value)))
                .collect();
            assert_eq!(of_arguments, expected, "{arguments}");
            assert_eq!(request.header("authorization"), format!("Bearer {SECRET}"));
            assert_eq!(request.header("mcp-name"), "sql");
        }
        assert!(client.leave().0);
    }
}

#[test]
fn a_tool_with_a_wrong_mark_is_left_out_by_name() {
    let one = |mark: &str| {
        tool(
            "bad",
            &json!({"a": {"type": "string", "x-mcp-header": mark}}),
        )
    };
    // The name of a tool may be the secret, too.
    let mut secret = one("a b");
    secret["name"] = SECRET.into();
    for by_stream in [false, true] {
        let tools = json!([one("a\r\nAuthorization: b"), marked(), secret]);
        let server = server("2026-07-28", tools, by_stream);
        let (client, listed) = open(&server);
        assert_eq!(listed, ["sql"]);
        let (done, said) = client.leave();
        assert!(
            done && said.contains("the tool \"bad\" is left out"),
            "{said}"
        );
        assert!(!said.contains(SECRET), "{said}");
    }
}

#[test]
fn an_older_server_gets_no_headers_and_keeps_its_tools() {
    let bad = tool(
        "bad",
        &json!({"a": {"type": "string", "x-mcp-header": "a b"}}),
    );
    let server = server("2025-11-25", json!([marked(), bad]), false);
    let (mut client, listed) = open(&server);
    assert_eq!(listed, ["sql", "bad"]);
    let call = r#"{"name":"sql","arguments":{"region":"eu"}}"#;
    let request = ask(&mut client, &server, "tools/call", call);
    for name in ["mcp-param-region", "mcp-name", "mcp-method"] {
        assert_eq!(request.header(name), "", "{name}");
    }
}

/// What was permitted is a text, and a reader of JSON rounds numbers.
#[test]
fn a_call_is_sent_as_it_is_written() {
    for version in ["2025-11-25", "2026-07-28"] {
        let server = server(version, json!([marked()]), false);
        let (mut client, _) = open(&server);
        let call = r#"{"name":"sql","arguments":{"query":  12345678901234567890.10}}"#;
        let request = ask(&mut client, &server, "tools/call", call);
        assert!(request.body.contains(call), "{}", request.body);
    }
}
