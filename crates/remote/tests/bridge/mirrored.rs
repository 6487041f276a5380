//! Headers that repeat a message, as MCP 2026-07-28 has them.

use serde_json::{Value, json};

use crate::client::{Client, HANDSHAKE, INITIALIZE, SECRET, settings};
use crate::server::{Reply, Request, Server, events, json, status};

/// A server of this version that lists these tools.
fn server(version: &'static str, tools: Value) -> Server {
    Server::start(move |request| match () {
        () if request.asks("initialize") => {
            json(request.result(&HANDSHAKE.replace("2025-11-25", version)))
        }
        () if request.method == "GET" => status(405),
        () if request.id() == "null" => status(202),
        () if request.asks("tools/list") => listed(request, &tools),
        () => json(request.result("{}")),
    })
}

/// A list as a stream where its page is asked for so.
fn listed(request: &Request, tools: &Value) -> Reply {
    let answer = request.result(&json!({ "tools": tools }).to_string());
    match request.body.contains("by stream") {
        true => events(move |to| write!(to, "data: {answer}\n\n")),
        false => json(answer),
    }
}

fn tool(name: &str, schema: &Value) -> Value {
    json!({"name": name, "inputSchema": schema})
}

/// Past the handshake, and with the server's tools listed; what the client was told of them.
fn open(server: &Server, cursor: &str) -> (Client, String) {
    let mut client = Client::start(&settings(&server.url("/mcp")));
    client.say(INITIALIZE);
    client.hear();
    let params = json!({ "cursor": cursor });
    let line = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": params});
    client.say(&line.to_string());
    let listed = client.hear();
    (client, listed)
}

/// Asks, and gives the answer and the request that the server saw, if there was one.
fn ask(
    client: &mut Client,
    server: &Server,
    method: &str,
    params: &Value,
) -> (Value, Option<Request>) {
    let before = server.requests().len();
    let line = json!({"jsonrpc": "2.0", "id": 2, "method": method, "params": params});
    client.say(&line.to_string());
    let answer = serde_json::from_str(&client.hear()).unwrap();
    (answer, server.requests().get(before).cloned())
}

/// The headers of a request that are made of arguments.
fn of_arguments(request: &Request) -> Vec<(&str, &str)> {
    let headers = request.headers.iter();
    headers
        .filter_map(|(name, value)| Some((name.strip_prefix("mcp-param-")?, value.as_str())))
        .collect()
}

fn marked_tool() -> Value {
    let text = |header: &str| json!({"type": "string", "x-mcp-header": header});
    let inner = json!({"type": "object", "properties": {"zone": text("Zone")}});
    tool(
        "sql",
        &json!({
            "type": "object",
            "properties": {
                "region": text("Region"),
                "maybe": {"type": ["string", "null"], "x-mcp-header": "Maybe"},
                "count": {"type": "integer", "x-mcp-header": "Count"},
                "dry": {"type": "boolean", "x-mcp-header": "Dry"},
                "inner": inner,
                "query": {"type": "string", "default": {"x-mcp-header": "a value"}},
                // An argument of this name is none that is marked.
                "x-mcp-header": {"type": "string"},
                "login": text("Authorization"),
            },
        }),
    )
}

#[test]
fn arguments_that_a_server_marks_are_headers_too() {
    let server = server("2026-07-28", json!([marked_tool()]));
    for cursor in ["whole", "by stream"] {
        let (mut client, listed) = open(&server, cursor);
        let listed: Value = serde_json::from_str(&listed).unwrap();
        assert_eq!(listed["result"]["tools"], json!([marked_tool()]));
        for (arguments, expected) in [
            (json!({}), vec![]),
            (
                json!({"maybe": null, "query": "q", "x-mcp-header": "x"}),
                vec![],
            ),
            (
                json!({"region": "us-west1", "query": "q"}),
                vec![("region", "us-west1")],
            ),
            (
                json!({"count": 42, "dry": true, "inner": {"zone": "a b"}}),
                vec![("count", "42"), ("dry", "true"), ("zone", "a b")],
            ),
            (
                json!({"count": -7.0, "dry": false, "region": ""}),
                vec![("count", "-7"), ("dry", "false"), ("region", "")],
            ),
            (
                json!({"count": 9_007_199_254_740_991_i64, "inner": "none"}),
                vec![("count", "9007199254740991")],
            ),
            (
                json!({"region": "Hello, 世界"}),
                vec![("region", "=?base64?SGVsbG8sIOS4lueVjA==?=")],
            ),
            (
                json!({"region": " padded "}),
                vec![("region", "=?base64?IHBhZGRlZCA=?=")],
            ),
            (
                json!({"region": "line1\nline2"}),
                vec![("region", "=?base64?bGluZTEKbGluZTI=?=")],
            ),
            (
                json!({"region": "a\r\nAuthorization: b"}),
                vec![("region", "=?base64?YQ0KQXV0aG9yaXphdGlvbjogYg==?=")],
            ),
            (
                json!({"region": "=?base64?literal?="}),
                vec![("region", "=?base64?PT9iYXNlNjQ/bGl0ZXJhbD89?=")],
            ),
            (
                json!({"login": "Bearer x"}),
                vec![("authorization", "Bearer x")],
            ),
        ] {
            let params = json!({"name": "sql", "arguments": arguments});
            let (_, request) = ask(&mut client, &server, "tools/call", &params);
            let request = request.unwrap();
            assert_eq!(of_arguments(&request), expected, "{arguments}");
            assert_eq!(request.header("authorization"), format!("Bearer {SECRET}"));
            assert_eq!(request.header("mcp-name"), "sql");
        }
        // Another tool has no marks.
        let params = json!({"name": "other", "arguments": {"region": "us-west1"}});
        let (_, request) = ask(&mut client, &server, "tools/call", &params);
        assert_eq!(of_arguments(&request.unwrap()), []);
        assert!(client.leave().0);
    }
}

#[test]
fn a_call_whose_arguments_cannot_be_headers_is_not_sent() {
    let server = server("2026-07-28", json!([marked_tool()]));
    let (mut client, _) = open(&server, "");
    for arguments in [
        json!({"count": 9_007_199_254_740_992_i64}),
        json!({"count": -9_007_199_254_740_992_i64}),
        json!({"count": 18_446_744_073_709_551_615_u64}),
        json!({"count": 1e300}),
        json!({"count": 0.5}),
        json!({"region": ["a"]}),
        json!({"inner": {"zone": {"a": 1}}}),
        json!({"region": "x".repeat(20_000)}),
        json!({"region": "x".repeat(9_000), "login": "x".repeat(9_000)}),
    ] {
        let params = json!({"name": "sql", "arguments": arguments});
        let (answer, request) = ask(&mut client, &server, "tools/call", &params);
        let said = answer["error"]["message"].as_str().unwrap();
        assert!(said.starts_with("nothing was sent: "), "{said}");
        assert!(request.is_none());
    }
}

#[test]
fn a_tool_whose_marks_break_a_rule_is_left_out_and_the_others_stay() {
    let one = |schema: Value| json!({"type": "object", "properties": {"a": schema}});
    let text = |mark: Value| json!({"type": "string", "x-mcp-header": mark});
    let many: serde_json::Map<String, Value> = (0..40)
        .map(|n| (format!("a{n}"), text(json!(format!("H{n}")))))
        .collect();
    let bad = [
        one(text(json!(""))),
        one(text(json!("a b"))),
        one(text(json!("a:b"))),
        one(text(json!("a\r\nAuthorization: b"))),
        one(text(json!("größe"))),
        one(text(json!("x".repeat(65)))),
        one(text(json!(7))),
        one(text(Value::Null)),
        one(json!({"type": "number", "x-mcp-header": "A"})),
        one(json!({"type": "object", "x-mcp-header": "A"})),
        one(json!({"type": ["string", "integer"], "x-mcp-header": "A"})),
        one(json!({"enum": ["a"], "x-mcp-header": "A"})),
        one(json!({"type": "array", "items": text(json!("A"))})),
        one(json!({"anyOf": [text(json!("A"))]})),
        one(json!({"if": {"properties": {"b": text(json!("A"))}}})),
        json!({"type": "object", "x-mcp-header": "A"}),
        json!({"type": "object", "$defs": {"d": text(json!("A"))}}),
        json!({"type": "object", "additionalProperties": text(json!("A"))}),
        json!({"type": "object", "properties": {"a": text(json!("A")), "b": text(json!("a"))}}),
        json!({"type": "object", "properties": many}),
    ];
    let mut tools: Vec<Value> = bad
        .iter()
        .enumerate()
        .map(|(n, schema)| tool(&format!("bad{n}"), schema))
        .collect();
    tools.insert(3, marked_tool());
    // A name that is the secret is not said either.
    tools.push(tool(SECRET, &bad[0]));
    let server = server("2026-07-28", Value::from(tools));
    let (mut client, listed) = open(&server, "");
    let listed: Value = serde_json::from_str(&listed).unwrap();
    assert_eq!(listed["result"]["tools"], json!([marked_tool()]));
    let params = json!({"name": "sql", "arguments": {"region": "eu"}});
    let (_, request) = ask(&mut client, &server, "tools/call", &params);
    assert_eq!(of_arguments(&request.unwrap()), [("region", "eu")]);
    let (done, said) = client.leave();
    assert!(done, "{said}");
    for n in 0..bad.len() {
        assert!(
            said.contains(&format!("the tool \"bad{n}\" is left out: ")),
            "{said}"
        );
    }
    assert!(!said.contains(SECRET), "{said}");
}

/// What was marked once and is no longer is no header any more.
#[test]
fn the_newest_list_counts() {
    let lists = std::sync::atomic::AtomicUsize::new(0);
    let unmarked = json!({"type": "object", "properties": {"region": {"type": "string"}}});
    let tools = [marked_tool(), tool("sql", &unmarked)];
    let server = Server::start(move |request| match () {
        () if request.asks("initialize") => {
            json(request.result(&HANDSHAKE.replace("2025-11-25", "2026-07-28")))
        }
        () if request.asks("tools/list") => {
            let at = lists.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
            listed(request, &json!([tools[at]]))
        }
        () => json(request.result("{}")),
    });
    let (mut client, _) = open(&server, "");
    let params = json!({"name": "sql", "arguments": {"region": "eu"}});
    let (_, request) = ask(&mut client, &server, "tools/call", &params);
    assert_eq!(of_arguments(&request.unwrap()).len(), 1);
    ask(&mut client, &server, "tools/list", &json!({}));
    let (_, request) = ask(&mut client, &server, "tools/call", &params);
    assert_eq!(of_arguments(&request.unwrap()), []);
}

#[test]
fn an_older_server_gets_no_headers_and_keeps_its_tools() {
    let text = json!({"type": "string", "x-mcp-header": "a b"});
    let bad = tool("bad", &json!({"type": "object", "properties": {"a": text}}));
    let server = server("2025-11-25", json!([marked_tool(), bad]));
    let (mut client, listed) = open(&server, "");
    let listed: Value = serde_json::from_str(&listed).unwrap();
    assert_eq!(listed["result"]["tools"], json!([marked_tool(), bad]));
    let params = json!({"name": "sql", "arguments": {"region": "eu"}});
    let (_, request) = ask(&mut client, &server, "tools/call", &params);
    let request = request.unwrap();
    assert_eq!(of_arguments(&request), []);
    assert_eq!(request.header("mcp-name"), "");
}

#[test]
fn what_a_request_is_about_is_in_its_header_whatever_its_letters() {
    let server = server("2026-07-28", json!([]));
    let (mut client, _) = open(&server, "");
    for (method, params, expected) in [
        ("prompts/get", json!({"name": "a b"}), "a b"),
        (
            "prompts/get",
            json!({"name": "Größe"}),
            "=?base64?R3LDtsOfZQ==?=",
        ),
        ("prompts/get", json!({"name": " a"}), "=?base64?IGE=?="),
        (
            "prompts/get",
            json!({"name": "a\r\nX: y"}),
            "=?base64?YQ0KWDogeQ==?=",
        ),
        (
            "resources/read",
            json!({"uri": "file:///a?b=1"}),
            "file:///a?b=1",
        ),
        (
            "resources/read",
            json!({"uri": "=?base64?YQ==?="}),
            "=?base64?PT9iYXNlNjQ/WVE9PT89?=",
        ),
        ("tools/list", json!({"name": "no name"}), ""),
    ] {
        let (answer, request) = ask(&mut client, &server, method, &params);
        assert!(answer.get("result").is_some(), "{answer}");
        let request = request.unwrap();
        assert_eq!(request.header("mcp-method"), method);
        assert_eq!(request.header("mcp-name"), expected, "{params}");
    }
}
