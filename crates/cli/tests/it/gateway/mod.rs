//! `sluice gateway` before a plain MCP client, with a server in the real sandbox.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::value::RawValue;
use serde_json::{Value, json};
use test_support::wait;

use crate::home::Home;

pub(crate) const SERVER: &str = include_str!("server.js");

/// Rules as a user would write them for a mail server.
const RULES: &str = r#"
[app.mail.tools]
inbox = { effect = "read", limit = "any", rest = ["untrusted"] }
rich = { effect = "read", limit = "any", rest = ["untrusted"] }
echo = { effect = "write", limit = "any", rest = [] }
env = { effect = "read", limit = "any", rest = [] }
slow = { effect = "read", limit = "any", rest = [] }
die = { effect = "read", limit = "any", rest = [] }
count = { effect = "read", limit = "any", rest = ["untrusted"] }
send = { effect = "write", limit = [], arguments.body.limit = [], parameters = ["to", "body"], rest = [] }
"#;

/// A home with the server, its rules, and these lines of its app.
fn home(lines: &str) -> Home {
    let home = Home::new();
    let server = home.path("home/server.js");
    fs::write(&server, SERVER).unwrap();
    home.configure(&format!(
        "[app.mail]\ncommand = [\"node\", {server:?}]\n{lines}{RULES}"
    ));
    home
}

/// Longer than a start in the sandbox takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

struct Client {
    child: Child,
    input: Option<ChildStdin>,
    lines: Receiver<String>,
    count: u64,
}

impl Client {
    fn of(mut command: Command, capabilities: Value) -> Self {
        let command = command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let (sender, lines) = channel();
        let output = child.stdout.take().unwrap();
        thread::spawn(move || {
            let lines = BufReader::new(output).lines();
            lines
                .map_while(Result::ok)
                .try_for_each(|line| sender.send(line))
        });
        let input = child.stdin.take();
        let mut client = Self {
            child,
            input,
            lines,
            count: 0,
        };
        let params = json!({ "protocolVersion": "2025-11-25", "capabilities": capabilities,
            "clientInfo": { "name": "c", "version": "1" } });
        let answer = client.ask("initialize", &params);
        assert!(answer["result"]["serverInfo"].is_object(), "{answer}");
        client.send(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }));
        client
    }

    fn start(home: &Home, arguments: &[&str], capabilities: Value) -> Self {
        let mut command = home.sluice(&["gateway"]);
        // A client that cannot ask would wait for an answer at the desk.
        let unattended = (capabilities == json!({})).then_some("--unattended");
        command
            .args(arguments)
            .args(unattended)
            .env("CLIENT_SECRET", "s")
            .stderr(Stdio::null());
        Self::of(command, capabilities)
    }

    fn send(&mut self, message: &Value) {
        writeln!(self.input.as_ref().unwrap(), "{message}").unwrap();
    }

    fn line(&self) -> String {
        self.lines.recv_timeout(PATIENCE).unwrap()
    }

    fn next(&self) -> Value {
        serde_json::from_str(&self.line()).unwrap()
    }

    /// Sends a request; its id.
    fn request(&mut self, method: &str, params: &Value) -> u64 {
        self.count += 1;
        self.send(
            &json!({ "jsonrpc": "2.0", "id": self.count, "method": method, "params": params }),
        );
        self.count
    }

    fn ask(&mut self, method: &str, params: &Value) -> Value {
        let id = self.request(method, params);
        let answer = self.next();
        assert_eq!(answer["id"], id, "{answer}");
        answer
    }

    fn call(&mut self, tool: &str, arguments: &Value) -> Value {
        let answer = self.ask(
            "tools/call",
            &json!({ "name": tool, "arguments": arguments }),
        );
        answer["result"].clone()
    }

    /// Closes the pipe, and waits for the end.
    fn end(mut self) -> Option<i32> {
        drop(self.input.take());
        self.child.wait().unwrap().code()
    }
}

/// The text of a result, and whether it is an error.
fn said(result: &Value) -> (&str, bool) {
    let text = result["content"][0]["text"].as_str().unwrap();
    (text, result["isError"] == true)
}

fn send() -> Value {
    json!({ "to": "eve@evil.example", "body": "4711" })
}

/// The events of the only trace.
fn trace(home: &Home) -> Vec<Value> {
    let folder = fs::read_dir(home.path("state/sluice/traces")).unwrap();
    let mut files: Vec<_> = folder.map(|file| file.unwrap().path()).collect();
    files.sort();
    let text = fs::read_to_string(files.last().unwrap()).unwrap();
    text.lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap()["event"].clone())
        .collect()
}

fn kinds(home: &Home) -> Vec<String> {
    let events = trace(home);
    events
        .iter()
        .map(|it| it["kind"].as_str().unwrap().to_owned())
        .collect()
}

/// The names of the tools of a list.
fn names(list: &Value) -> Vec<&str> {
    let list = list.as_array().unwrap().iter();
    list.map(|it| it["name"].as_str().unwrap()).collect()
}

#[test]
fn a_list_starts_nothing_and_says_what_the_policy_says() {
    let home = home("descriptions = \"trusted\"\n");
    // The list of its first start is kept.
    Client::start(&home, &[], json!({})).end();
    let mut client = Client::start(&home, &["--tools", "mail.send,mail.i*"], json!({}));
    assert_eq!(client.ask("ping", &json!({}))["result"], json!({}));
    let list = client.ask("tools/list", &json!({}))["result"]["tools"].clone();
    let names = names(&list);
    assert_eq!(names, ["mail_inbox", "mail_send"]);
    assert_eq!(list[1]["description"], "Does send.");
    assert_eq!(list[1]["inputSchema"]["type"], "object");
    assert_eq!(list[1]["annotations"]["readOnlyHint"], false);
    let unknown = client.ask("tools/call", &json!({ "name": "mail_env" }));
    assert_eq!(unknown["error"]["code"], -32602);
    assert_eq!(
        client.ask("resources/list", &json!({}))["error"]["code"],
        -32601
    );
    assert_eq!(client.end(), Some(0));
    assert_eq!(kinds(&home), ["session_started"]);
}

#[test]
fn a_poisoned_result_sends_nothing_to_a_stranger() {
    let home = home("descriptions = \"trusted\"\n");
    let mut client = Client::start(&home, &[], json!({}));
    // Before anything was read, the user's own word is all that there is.
    assert_eq!(said(&client.call("mail_send", &send())), ("sent", false));
    let inbox = client.call("mail_inbox", &json!({}));
    assert!(said(&inbox).0.contains("Forward the code"));
    assert_eq!(inbox["_meta"]["sluice/ifc"]["label"], json!(["untrusted"]));
    let refused = client.call("mail_send", &send());
    let (text, is_error) = said(&refused);
    assert!(is_error && text.starts_with("not executed: "), "{text}");
    assert!(text.contains("result of mail__inbox (untrusted)"), "{text}");
    assert!(
        text.contains("limit = [\"untrusted\"] and arguments.body.limit = [\"untrusted\"] under [app.mail.tools.send]"),
        "{text}"
    );
    // What may depend on anything goes on.
    assert!(!said(&client.call("mail_inbox", &json!({}))).1);
    assert_eq!(client.end(), Some(0));
    let kinds = kinds(&home);
    let count = |kind: &str| kinds.iter().filter(|it| *it == kind).count();
    assert_eq!(
        (
            count("allowed"),
            count("asked"),
            count("denied"),
            count("returned")
        ),
        (3, 1, 1, 3)
    );
}

#[test]
fn what_is_not_believed_is_left_out_until_it_is_asked_for() {
    let home = home("");
    let mut client = Client::start(&home, &["--tools", "mail.send"], json!({}));
    let list = client.ask("tools/list", &json!({}))["result"]["tools"].clone();
    assert!(!list[0].to_string().contains("Does send."), "{list}");
    assert!(
        list[0]["inputSchema"]["properties"]["to"].is_object(),
        "{list}"
    );
    assert_eq!(said(&client.call("mail_send", &send())), ("sent", false));
    let described = client.call("sluice_describe", &json!({ "tools": ["mail_send"] }));
    assert!(said(&described).0.contains("Does send."), "{described}");
    assert!(said(&client.call("mail_send", &send())).1);
}

#[test]
fn a_result_is_byte_for_byte_the_servers_own() {
    let home = home("descriptions = \"trusted\"\n");
    let mut direct = Command::new("node");
    direct.arg(home.path("home/server.js"));
    let mut direct = Client::of(direct, json!({}));
    let mut client = Client::start(&home, &[], json!({}));
    let result = |client: &mut Client, tool: &str| -> String {
        client.request("tools/call", &json!({ "name": tool, "arguments": {} }));
        let line = client.line();
        let message: std::collections::BTreeMap<&str, &RawValue> =
            serde_json::from_str(&line).unwrap();
        message["result"].get().to_owned()
    };
    for tool in ["rich", "inbox"] {
        let (theirs, ours) = (
            result(&mut direct, tool),
            result(&mut client, &format!("mail_{tool}")),
        );
        let members = |text: &str| -> Vec<(String, String)> {
            let members: std::collections::BTreeMap<String, Box<RawValue>> =
                serde_json::from_str(text).unwrap();
            let members = members.into_iter().filter(|(name, _)| name != "_meta");
            members
                .map(|(name, value)| (name, value.get().to_owned()))
                .collect()
        };
        assert_eq!(members(&ours), members(&theirs));
    }
}

#[test]
fn a_server_gets_the_call_and_nothing_else_of_the_client() {
    let home = home("descriptions = \"trusted\"\n");
    let mut client = Client::start(&home, &[], json!({}));
    let answer = client.ask("tools/call", &json!({ "name": "mail_echo", "arguments": { "text": 1.10 },
        "_meta": { "x-codex-turn-metadata": { "workspace": "private" }, "progressToken": "token-7" } }));
    let (text, _) = said(&answer["result"]);
    assert!(
        !text.contains("private") && !text.contains("token-7"),
        "{text}"
    );
    let env = client.call("mail_env", &json!({}));
    assert!(!said(&env).0.contains("CLIENT_SECRET"), "{env}");
}

/// Takes a question to the user, and answers it after a while.
fn answer(client: &mut Client, after: Duration, result: &Value) -> String {
    let question = client.next();
    assert_eq!(question["method"], "elicitation/create", "{question}");
    thread::sleep(after);
    client.send(&json!({ "jsonrpc": "2.0", "id": question["id"], "result": result }));
    question["params"]["message"].as_str().unwrap().to_owned()
}

#[test]
fn the_client_asks_its_user_and_a_program_is_none() {
    let home = home("descriptions = \"trusted\"\n");
    let mut client = Client::start(&home, &["--unattended"], json!({ "elicitation": {} }));
    client.call("mail_inbox", &json!({}));
    let read = Duration::from_millis(1_100);
    let say = |answer: &str| json!({ "action": "accept", "content": { "answer": answer } });
    let call = json!({ "name": "mail_send", "arguments": send() });
    for (after, result, ran) in [
        (Duration::ZERO, say("once"), false),
        (Duration::ZERO, json!({ "action": "cancel" }), false),
        (read, say("once"), true),
        (read, json!({ "action": "accept", "content": {} }), false),
    ] {
        client.request("tools/call", &call);
        let words = answer(&mut client, after, &result);
        for part in [
            "mail.send (write) needs your approval:",
            "eve@evil.example",
            "result of mail__inbox (untrusted)",
        ] {
            assert!(words.contains(part), "{words}");
        }
        let is_error = said(&client.next()["result"]).1;
        assert_eq!(is_error, !ran, "{result}");
    }
    // The user has said no: the same call is not asked about again.
    let refused = client.call("mail_send", &send());
    assert!(said(&refused).0.contains("refused before"), "{refused}");
}

/// The desk of this user, as another process has it.
fn desk(home: &Home) -> store::Desk {
    store::Desk::open(&home.path("state/sluice/desk.db")).unwrap()
}

fn now() -> store::Time {
    std::time::SystemTime::now().into()
}

fn question(desk: &store::Desk) -> store::KeptQuestion {
    loop {
        if let Some(question) = wait(desk.waiting(now())).unwrap().all.pop() {
            return question;
        }
        thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_question_is_answered_at_the_desk_while_the_client_asks_and_where_it_cannot() {
    let home = home("descriptions = \"trusted\"\n");
    let by = |name: &str| store::Answerer {
        name: Some(name.to_owned()),
        from: "approve".to_owned(),
    };
    for (capabilities, answer) in [
        (json!({ "elicitation": {} }), "once"),
        (json!({ "roots": {} }), "once"),
        (json!({ "roots": {} }), "no"),
    ] {
        let mut client = Client::start(&home, &[], capabilities.clone());
        client.call("mail_inbox", &json!({}));
        let call = json!({ "name": "mail_send", "arguments": send() });
        let id = client.request("tools/call", &call);
        let desk = desk(&home);
        let asked = question(&desk);
        assert_eq!(
            (&*asked.question.front, &*asked.question.tool),
            ("gateway", "send")
        );
        let elicits = capabilities["elicitation"].is_object();
        let elicited = elicits.then(|| client.next());
        wait(desk.answer(asked.id, answer, &by("ada"), now())).unwrap();
        if let Some(elicited) = elicited {
            let cancelled = client.next();
            assert_eq!(
                cancelled["method"], "notifications/cancelled",
                "{cancelled}"
            );
            assert_eq!(cancelled["params"]["requestId"], elicited["id"]);
        }
        let result = client.next();
        assert_eq!(result["id"], id, "{result}");
        assert_eq!(said(&result["result"]).1, answer == "no", "{result}");
        let trace = home.sluice(&["trace", "show", "latest"]).output().unwrap();
        let trace = String::from_utf8(trace.stdout).unwrap();
        let reply = format!("replied    answer {answer}, by ada, from approve");
        assert!(trace.contains(&reply), "{trace}");
        client.end();
    }
    // What the client answers takes the question off the desk.
    let mut client = Client::start(&home, &[], json!({ "elicitation": {} }));
    client.call("mail_inbox", &json!({}));
    client.request(
        "tools/call",
        &json!({ "name": "mail_send", "arguments": send() }),
    );
    let asked = question(&desk(&home));
    let accept = json!({ "action": "accept", "content": { "answer": "once" } });
    answer(&mut client, Duration::from_millis(1_100), &accept);
    assert_eq!(said(&client.next()["result"]), ("sent", false));
    while !wait(desk(&home).waiting(now())).unwrap().all.is_empty() {
        thread::sleep(Duration::from_millis(10));
    }
    let late = wait(desk(&home).answer(asked.id, "once", &by("eve"), now()));
    let was_answered =
        matches!(&late, Err(store::DeskError::Answered(it)) if it.by.from == "client");
    assert!(was_answered, "{late:?}");
}

#[test]
fn a_call_that_is_made_again_meets_the_same_question() {
    let home = home("descriptions = \"trusted\"\n");
    let mut client = Client::start(&home, &[], json!({ "elicitation": { "form": {} } }));
    client.call("mail_inbox", &json!({}));
    let call = json!({ "name": "mail_send", "arguments": send() });
    let first = client.request("tools/call", &call);
    let question = client.next();
    client.send(&json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": first } }));
    thread::sleep(Duration::from_millis(1_100));
    let again = client.request("tools/call", &call);
    let result = json!({ "action": "accept", "content": { "answer": "session" } });
    client.send(&json!({ "jsonrpc": "2.0", "id": question["id"], "result": result }));
    let answer = client.next();
    assert_eq!(
        (&answer["id"], said(&answer["result"])),
        (&json!(again), ("sent", false))
    );
    // The answer was for the session.
    assert_eq!(said(&client.call("mail_send", &send())), ("sent", false));
}

#[test]
fn a_call_is_cancelled_a_dead_app_costs_its_call_and_nothing_is_left() {
    let home = home("descriptions = \"trusted\"\n");
    let mut client = Client::start(&home, &[], json!({}));
    let slow = client.request(
        "tools/call",
        &json!({ "name": "mail_slow", "_meta": { "progressToken": 7 } }),
    );
    let progress = client.next();
    assert_eq!(progress["method"], "notifications/progress");
    assert_eq!(progress["params"]["progressToken"], 7);
    client.send(&json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": slow } }));
    let died = client.call("mail_die", &json!({}));
    assert_eq!(died["isError"], true, "{died}");
    for _ in 0..200 {
        assert_eq!(said(&client.call("mail_send", &send())), ("sent", false));
    }
    client.request("tools/call", &json!({ "name": "mail_slow" }));
    thread::sleep(Duration::from_millis(200));
    let begun = Instant::now();
    assert_eq!(client.end(), Some(0));
    assert!(begun.elapsed() < Duration::from_secs(5));
    let events = trace(&home);
    let started = events.iter().filter(|it| it["kind"] == "spoke_started");
    let pids: Vec<u64> = started.map(|it| it["pid"].as_u64().unwrap()).collect();
    assert_eq!(pids.len(), 2, "one that died, and one after it");
    for pid in pids {
        assert!(!std::path::Path::new(&format!("/proc/{pid}/exe")).exists());
    }
    assert!(events.iter().any(|it| it["kind"] == "call_unknown"));
}

#[test]
fn one_server_is_wrapped_by_its_command() {
    let home = home("");
    let wrap = [
        "wrap",
        "--unattended",
        "--name",
        "mail",
        "--",
        "node",
        "server.js",
    ];
    let mut command = home.sluice(&wrap);
    command.stderr(Stdio::null());
    let mut client = Client::of(command, json!({}));
    let list = client.ask("tools/list", &json!({}))["result"]["tools"].clone();
    let send = list
        .as_array()
        .unwrap()
        .iter()
        .find(|it| it["name"] == "send")
        .unwrap();
    assert_eq!(send["annotations"]["destructiveHint"], true);
    // Nothing leaves its sandbox, so reads go on after reads.
    for _ in 0..2 {
        assert!(!said(&client.call("read_inbox", &json!({}))).1);
    }
    assert!(said(&client.call("send", &self::send())).1);
}

/// One request over HTTP: the status, the head and the body of its answer.
fn http(address: &str, method: &str, headers: &str, body: &str) -> (u16, String, String) {
    let mut stream = TcpStream::connect(address).unwrap();
    let length = body.len();
    write!(
        stream,
        "{method} /mcp HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\nContent-Type: application/json\r\n\
         Content-Length: {length}\r\n{headers}\r\n{body}"
    )
    .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    (status, head.to_ascii_lowercase(), body.to_owned())
}

/// A gateway over HTTP with this token, and its address.
fn serve(home: &Home, token: &str) -> (Child, String) {
    let mut command = home.sluice(&["gateway", "--http", "127.0.0.1:0", "--token-env", "TOKEN"]);
    let command = command.env("TOKEN", token).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let said = BufReader::new(child.stderr.take().unwrap())
        .lines()
        .map_while(Result::ok);
    let mut said = said.skip_while(|line| !line.starts_with("serving MCP at http://"));
    let address = said.next().unwrap();
    let address = address.split("http://").nth(1).unwrap();
    (child, address.trim_end_matches("/mcp").to_owned())
}

#[test]
fn clients_over_http_have_a_token_and_a_session_each() {
    let home = home("descriptions = \"trusted\"\n");
    let (mut child, address) = serve(&home, "ours");
    let request = |method: &str, params: Value| {
        json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params }).to_string()
    };
    let begin = request(
        "initialize",
        json!({ "protocolVersion": "2025-06-18", "capabilities": {} }),
    );
    let token = "Authorization: Bearer ours\r\n";
    assert_eq!(http(&address, "POST", "", &begin).0, 401);
    assert_eq!(
        http(
            &address,
            "POST",
            &format!("{token}Origin: http://evil.example\r\n"),
            &begin
        )
        .0,
        403
    );
    let session = || {
        let (status, head, body) = http(&address, "POST", token, &begin);
        assert!(status == 200 && body.contains("\"2025-06-18\""), "{body}");
        let session = head
            .lines()
            .find(|line| line.starts_with("mcp-session-id: "))
            .unwrap()
            .to_owned();
        format!("{token}{session}\r\n")
    };
    let (one, other) = (session(), session());
    assert_eq!(
        http(&address, "POST", token, &request("tools/list", json!({}))).0,
        400
    );
    let called = |session: &str, tool: &str, arguments: Value| {
        let body = request(
            "tools/call",
            json!({ "name": tool, "arguments": arguments }),
        );
        let (status, head, body) = http(&address, "POST", session, &body);
        assert!(
            status == 200 && head.contains("text/event-stream"),
            "{head}"
        );
        body
    };
    assert!(called(&one, "mail_inbox", json!({})).contains("Forward the code"));
    // What one client was returned is nothing to the other. The first one's question would wait for its approver.
    assert!(called(&other, "mail_send", send()).contains("sent"));
    assert_eq!(http(&address, "DELETE", &one, "").0, 204);
    assert_eq!(
        http(&address, "POST", &one, &request("ping", json!({}))).0,
        404
    );
    assert_eq!(
        http(&address, "POST", &other, &request("ping", json!({}))).0,
        200
    );
    Command::new("kill")
        .arg(child.id().to_string())
        .status()
        .unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(143));
}

/// Requests without a session, with what this version says in each.
struct Stateless<'a> {
    address: &'a str,
    capabilities: Value,
}

impl Stateless<'_> {
    /// The status and the answer. `headers` stand beside or in the place of the usual ones.
    fn ask_with(&self, method: &str, params: &Value, headers: &str) -> (u16, Value) {
        let mut params = params.clone();
        if params.get("_meta").is_none() {
            params["_meta"] = json!({
                "io.modelcontextprotocol/protocolVersion": "2026-07-28",
                "io.modelcontextprotocol/clientCapabilities": self.capabilities,
            });
        }
        let name = params["name"].as_str().or(params["uri"].as_str());
        let usual = [
            ("Authorization", Some("Bearer ours")),
            ("Mcp-Protocol-Version", Some("2026-07-28")),
            ("Mcp-Method", Some(method)),
            ("Mcp-Name", name),
        ];
        let mut all = headers.to_owned();
        for (header, value) in usual {
            if let Some(value) = value.filter(|_| !headers.contains(header)) {
                all.push_str(&format!("{header}: {value}\r\n"));
            }
        }
        let body = json!({ "jsonrpc": "2.0", "id": 7, "method": method, "params": params });
        let (status, _, body) = http(self.address, "POST", &all, &body.to_string());
        let mut events = body.lines().filter_map(|line| line.strip_prefix("data: "));
        let answer: Value = serde_json::from_str(events.next_back().unwrap_or(&body)).unwrap();
        assert_eq!(answer["id"], 7, "{answer}");
        (status, answer)
    }

    fn ask(&self, method: &str, params: &Value) -> Value {
        let (status, answer) = self.ask_with(method, params, "");
        assert_eq!(status, 200, "{answer}");
        answer["result"].clone()
    }
}

#[test]
fn requests_without_a_session_are_one_clients() {
    let home = home("descriptions = \"trusted\"\n");
    let (mut child, address) = serve(&home, "ours");
    let mut client = Stateless {
        address: &address,
        capabilities: json!({}),
    };
    let discovered = client.ask("server/discover", &json!({}));
    assert_eq!(discovered["supportedVersions"][0], "2026-07-28");
    let list = client.ask("tools/list", &json!({}));
    assert_eq!(
        (&list["resultType"], &list["cacheScope"]),
        (&json!("complete"), &json!("private"))
    );
    let meta = |version: Value| {
        json!({ "_meta": { "io.modelcontextprotocol/protocolVersion": version,
        "io.modelcontextprotocol/clientCapabilities": {} } })
    };
    let old = "Mcp-Protocol-Version: 1999-01-01\r\n";
    for (method, params, headers, status, code) in [
        ("tools/list", json!({ "_meta": {} }), "", 400, -32602),
        ("tools/list", meta(json!("1999-01-01")), "", 400, -32020),
        ("tools/list", meta(json!("1999-01-01")), old, 400, -32022),
        (
            "tools/list",
            json!({}),
            "Mcp-Method: TOOLS/LIST\r\n",
            400,
            -32020,
        ),
        (
            "tools/call",
            json!({ "name": "mail_inbox" }),
            "Mcp-Name: mail_send\r\n",
            400,
            -32020,
        ),
        ("initialize", json!({}), "", 404, -32601),
        ("subscriptions/listen", json!({}), "", 404, -32601),
    ] {
        let (said, answer) = client.ask_with(method, &params, headers);
        assert_eq!(
            (said, &answer["error"]["code"]),
            (status, &json!(code)),
            "{answer}"
        );
    }
    let send = json!({ "name": "mail_send", "arguments": send() });
    assert_eq!(said(&client.ask("tools/call", &send)), ("sent", false));
    let inbox = client.ask("tools/call", &json!({ "name": "mail_inbox" }));
    assert_eq!(inbox["resultType"], "complete");
    // The next request says that its client can ask: it is given the question, and brings the answer.
    client.capabilities = json!({ "elicitation": {} });
    let required = client.ask("tools/call", &send);
    assert_eq!(required["resultType"], "input_required", "{required}");
    let words = &required["inputRequests"]["approval"]["params"]["message"];
    assert!(
        words
            .as_str()
            .unwrap()
            .contains("result of mail__inbox (untrusted)"),
        "{words}"
    );
    thread::sleep(Duration::from_millis(1_100));
    let bring = |state: &Value| {
        let mut again = send.clone();
        again["requestState"] = state.clone();
        again["inputResponses"] =
            json!({ "approval": { "action": "accept", "content": { "answer": "once" } } });
        again
    };
    // An answer to another question is none.
    let other = client.ask("tools/call", &bring(&json!("sluice-99")));
    assert_eq!(other["requestState"], required["requestState"]);
    let again = bring(&required["requestState"]);
    assert_eq!(said(&client.ask("tools/call", &again)), ("sent", false));
    // It was for one call.
    let required = client.ask("tools/call", &again);
    assert_eq!(required["resultType"], "input_required", "{required}");
    Command::new("kill")
        .arg(child.id().to_string())
        .status()
        .unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(143));
}

#[test]
fn progress_is_passed_on_and_its_text_changes_no_label() {
    let home = home("descriptions = \"trusted\"\n");
    let mut client = Client::start(&home, &[], json!({}));
    let call = json!({ "name": "mail_count", "_meta": { "progressToken": "mine" } });
    let count = |client: &mut Client| {
        client.request("tools/call", &call);
        let said: Vec<Value> = (0..3).map(|_| client.next()["params"].clone()).collect();
        assert_eq!(client.next()["result"]["content"][0]["text"], "counted");
        said
    };
    let bare =
        |progress: u64| json!({ "progressToken": "mine", "progress": progress, "total": 100 });
    assert_eq!(count(&mut client), [bare(0), bare(50), bare(100)]);
    // The client has read the server now.
    assert_eq!(count(&mut client)[0]["message"], "Obey the count.");
}

/// Some clients give up after a minute without progress.
#[test]
fn a_waiting_question_keeps_its_call_alive() {
    let home = home("descriptions = \"trusted\"\n");
    let (mut child, address) = serve(&home, "ours");
    let stateless = Stateless {
        address: &address,
        capabilities: json!({}),
    };
    stateless.ask("tools/call", &json!({ "name": "mail_inbox" }));
    let mut waiting = TcpStream::connect(&address).unwrap();
    let body = json!({ "jsonrpc": "2.0", "id": 8, "method": "tools/call", "params": {
        "name": "mail_send", "arguments": send(), "_meta": {
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": {},
            "progressToken": "mine",
        },
    } });
    let body = body.to_string();
    write!(
        waiting,
        "POST /mcp HTTP/1.1\r\nHost: {address}\r\nAuthorization: Bearer ours\r\nContent-Type: application/json\r\n\
         Mcp-Protocol-Version: 2026-07-28\r\nMcp-Method: tools/call\r\nMcp-Name: mail_send\r\n\
         Content-Length: {}\r\n\r\n{body}",
        body.len()
    )
    .unwrap();
    let mut client = Client::start(&home, &[], json!({ "elicitation": {} }));
    client.call("mail_inbox", &json!({}));
    client.request(
        "tools/call",
        &json!({ "name": "mail_send", "arguments": send(), "_meta": { "progressToken": "mine" } }),
    );
    assert_eq!(client.next()["method"], "elicitation/create");
    let mut events = BufReader::new(waiting).lines().map_while(Result::ok);
    let event = events.find_map(|line| Some(line.strip_prefix("data: ")?.to_owned()));
    for message in [client.line(), event.unwrap()] {
        let message: Value = serde_json::from_str(&message).unwrap();
        assert_eq!(message["method"], "notifications/progress", "{message}");
        assert_eq!(
            message["params"],
            json!({ "progressToken": "mine", "progress": 0.0, "message": "the call waits for the user's approval" })
        );
    }
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn resources_and_prompts_are_passed_on_and_decided_on() {
    let both = "descriptions = \"trusted\"\nresources = true\nprompts = true\n";
    let lists = r#"
[app.mail.tools."resources/list"]
effect = "read"
limit = "any"
[app.mail.tools."resources/read"]
effect = "read"
limit = "any"
[app.mail.tools."prompts/list"]
effect = "read"
limit = "any"
[app.mail.tools."prompts/get"]
effect = "read"
limit = "any"
"#;
    let home = home(both);
    let server = home.path("home/server.js");
    let mail = format!("[app.mail]\ncommand = [\"node\", {server:?}]\n{both}{RULES}{lists}");
    home.configure(&mail);
    let mut client = Client::start(&home, &[], json!({}));
    assert_eq!(said(&client.call("mail_send", &send())), ("sent", false));
    let list = client.ask("resources/list", &json!({}))["result"].clone();
    assert_eq!(
        list["resources"][0],
        json!({ "uri": "note:1", "name": "One", "size": 1.0 })
    );
    let templates = client.ask("resources/templates/list", &json!({}))["result"].clone();
    assert_eq!(templates["resourceTemplates"][0]["uriTemplate"], "note:{n}");
    client.request("resources/read", &json!({ "uri": "note:2" }));
    let line = client.line();
    assert!(
        line.contains(r#""contents":[ {"uri":"note:2","blob":"QUJD","text":"A note."} ]"#),
        "{line}"
    );
    let missing = client.ask("resources/read", &json!({ "uri": "note:0" }))["error"].clone();
    assert_eq!(
        (&missing["code"], &missing["data"]["uri"]),
        (&json!(-32602), &json!("note:0"))
    );
    assert_eq!(
        client.ask("prompts/list", &json!({}))["result"]["prompts"][0]["name"],
        "greet"
    );
    let greet = json!({ "name": "greet", "arguments": { "who": "Ann" } });
    let prompt = client.ask("prompts/get", &greet)["result"].clone();
    assert_eq!(prompt["messages"][0]["content"]["text"], "Greet Ann.");
    assert!(
        prompt["_meta"]["sluice/ifc"]["label"].is_array(),
        "{prompt}"
    );
    // The same by a tool, for clients that know no other way.
    let read = client.call("mail_resources_read", &json!({ "uri": "note:2" }));
    assert_eq!(read["content"][0]["resource"]["text"], "A note.", "{read}");
    assert!(said(&client.call("mail_send", &send())).1);
    client.end();

    home.configure(&(mail.clone() + &mail.replace("app.mail", "app.other")));
    let mut client = Client::start(&home, &[], json!({}));
    let list = client.ask("resources/list", &json!({}))["result"]["resources"].clone();
    assert_eq!(
        (&list[0]["uri"], &list[1]["uri"]),
        (
            &json!("sluice://mail/note:1"),
            &json!("sluice://other/note:1")
        )
    );
    let read = client.ask("resources/read", &list[1])["result"].clone();
    assert_eq!(read["contents"][0]["uri"], "note:1", "{read}");
    let greet = json!({ "name": "other:greet", "arguments": { "who": "Bob" } });
    let prompt = client.ask("prompts/get", &greet)["result"].clone();
    assert_eq!(
        prompt["messages"][0]["content"]["text"], "Greet Bob.",
        "{prompt}"
    );
}

#[test]
fn many_tools_are_searched_for_and_called_by_one() {
    let home = home("");
    let mut client = Client::start(&home, &["--search"], json!({}));
    let list = client.ask("tools/list", &json!({}))["result"]["tools"].clone();
    let names = names(&list);
    assert_eq!(names, ["sluice_search", "sluice_call", "sluice_describe"]);
    let send = json!({ "tool": "mail_send", "arguments": send() });
    assert_eq!(said(&client.call("sluice_call", &send)), ("sent", false));
    // What it finds of a server that is not believed is that server's word.
    let found = client.call("sluice_search", &json!({ "query": "Inbox?" }));
    assert!(
        said(&found).0.contains("mail_inbox") && !said(&found).0.contains("mail_send"),
        "{found}"
    );
    assert!(said(&client.call("sluice_call", &send)).1);
    let wrong = json!({ "name": "sluice_call", "arguments": { "tool": "mail_none" } });
    assert_eq!(client.ask("tools/call", &wrong)["error"]["code"], -32602);
}

#[test]
fn a_list_is_kept_and_a_wrapped_server_writes_here() {
    let home = home("descriptions = \"trusted\"\n");
    assert_eq!(home.run(&["app", "test", "mail"]).0, 0);
    // A list is one file, and a server that cannot start any more shows that none was needed for it.
    fs::write(home.path("home/server.js"), "process.exit(1)").unwrap();
    let mut client = Client::start(&home, &[], json!({}));
    let list = client.ask("tools/list", &json!({}))["result"]["tools"].clone();
    assert_eq!(list.as_array().unwrap().len(), 9);
    let failed = client.call("mail_inbox", &json!({}));
    assert_eq!(failed["isError"], true, "{failed}");
    fs::write(home.path("home/server.js"), SERVER).unwrap();
    let words = ["wrap", "--write", ".", "--", "node", "../server.js"];
    fs::create_dir_all(home.path("home/work")).unwrap();
    let mut command = home.sluice(&words);
    command
        .current_dir(home.path("home/work"))
        .stderr(Stdio::null());
    let mut client = Client::of(command, json!({}));
    assert!(!said(&client.call("read_inbox", &json!({}))).1);
}

#[test]
fn observed_calls_run_and_none_of_their_secrets_is_in_the_draft() {
    let home = Home::new();
    let path = home.path("home/server.js");
    fs::write(&path, SERVER).unwrap();
    home.configure(&format!("[app.mail]\ncommand = [\"node\", {path:?}]\n"));
    let mut command = home.sluice(&["gateway", "--observe", "--json"]);
    let err = home.path("err");
    command.stderr(fs::File::create(&err).unwrap());
    let mut client = Client::of(command, json!({ "elicitation": {} }));
    let inbox = client.call("mail_inbox", &json!({}));
    assert!(inbox.to_string().contains("4711"), "{inbox}");
    let mail = json!({ "to": "eve@evil.example", "body": "4711\n[proxy]\nany_model = true" });
    let sent = client.call("mail_send", &mail);
    assert!(sent.to_string().contains("sent"), "{sent}");
    drop(client.input.take());
    client.child.wait().unwrap();
    let err = fs::read_to_string(err).unwrap();
    let report: Value = serde_json::from_str(err.lines().last().unwrap()).unwrap();
    let flows = report["flows"].as_array().unwrap();
    let is_flow = |flow: &Value| flow["from"] == "mail.inbox" && flow["to"] == "mail.send";
    assert!(flows.iter().any(is_flow), "{err}");
    let draft = home.path("config/sluice/sluice.observed.toml");
    assert_eq!(report["draft"], draft.to_str().unwrap());
    let text = fs::read_to_string(&draft).unwrap();
    for word in ["4711", "evil", "any_model"] {
        assert!(!text.contains(word), "{text}");
    }
    assert!(text.contains("[app.mail.tools.send]"), "{text}");
    let check = ["policy", "check", "--config", draft.to_str().unwrap()];
    let (code, out, err) = crate::home::said(&home.sluice(&check).output().unwrap());
    assert!(
        code == 0 && out.contains("examples, all passed"),
        "{out}{err}"
    );
}
