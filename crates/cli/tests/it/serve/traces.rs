//! One trace from a client through the gateway of a service to an app.

use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use store::Role;

use super::{PATIENCE, Service, collector, config, request, rpc, token};
use crate::gateway::SERVER;
use crate::home::Home;
use crate::proxy::Upstream;

const PARENT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

fn home(telemetry: &str) -> Home {
    let home = Home::new();
    let server = home.path("home/server.js");
    std::fs::write(&server, SERVER).unwrap();
    let more = format!(
        "[app.mail]\ncommand = [\"node\", {server:?}]\ndescriptions = \"trusted\"\n[app.mail.tools]\n\
         inbox = {{ effect = \"read\", limit = \"any\", rest = [\"untrusted\"] }}\n\
         echo = {{ effect = \"write\", limit = [], rest = [] }}\n[telemetry]\n{telemetry}"
    );
    home.configure(&config(&Upstream::start(), &more));
    home
}

/// A session of a client at the gateway.
struct Session<'a>(&'a str, String, String);

impl<'a> Session<'a> {
    fn begin(service: &'a Service, token: &str) -> Self {
        let mut session = Self(&service.host, format!("Bearer {token}"), String::new());
        let first = json!({"protocolVersion": "2025-11-25", "capabilities": {}});
        let head = session.post("initialize", first).0;
        let id = |line: &str| line.strip_prefix("mcp-session-id: ").map(str::to_owned);
        session.2 = head.lines().find_map(id).unwrap();
        session
    }

    fn post(&self, method: &str, params: Value) -> (String, String) {
        let headers = [
            ("authorization", self.1.as_str()),
            ("content-type", "application/json"),
            ("accept", "application/json, text/event-stream"),
            ("mcp-session-id", self.2.as_str()),
        ];
        let headers = &headers[..if self.2.is_empty() { 3 } else { 4 }];
        let body = rpc(method, params).to_string();
        let answer = request(self.0, "POST /mcp", headers, &body).unwrap();
        (answer.head, answer.body)
    }

    /// The text of the result of a call that belongs to the span [`PARENT`].
    fn call(&self, tool: &str) -> String {
        let meta = json!({"traceparent": PARENT, "tracestate": "a=b"});
        let params = json!({"name": tool, "arguments": {}, "_meta": meta});
        let (_, body) = self.post("tools/call", params);
        let line = body.lines().rfind(|line| line.contains("\"result\""));
        let message = line.unwrap_or(&body).trim_start_matches("data: ");
        let message: Value = serde_json::from_str(message).unwrap();
        let text = &message["result"]["content"][0]["text"];
        text.as_str().unwrap_or_else(|| panic!("{body}")).to_owned()
    }

    /// What `_meta` an app is sent.
    fn meta(&self) -> Value {
        let params: Value = serde_json::from_str(&self.call("mail_echo")).unwrap();
        params["_meta"].clone()
    }
}

#[test]
fn an_app_is_told_the_trace_of_its_call() {
    let (url, spans) = collector();
    let home = home(&format!("otlp = \"{url}\"\ntrace_apps = true\n"));
    let mut service = Service::start(&home, &[]);
    let agent = token(&home, "agent", Role::Agent, None);
    let ada = token(&home, "ada", Role::Approver, None);
    let session = Session::begin(&service, &agent);
    let meta = session.meta();
    let told = meta["traceparent"].as_str().unwrap_or_default();
    assert!(told.starts_with(&PARENT[..36]) && told != PARENT, "{meta}");
    assert_eq!(meta["tracestate"], Value::Null);
    // The client may have made the trace's number from what it was returned, and a question does not show that number.
    assert!(session.call("mail_inbox").contains("Forward the code"));
    let bearer = format!("Bearer {ada}");
    let meta = thread::scope(|scope| {
        let going = scope.spawn(|| session.meta());
        let begun = Instant::now();
        let path = "/sluice/v1/approvals";
        let id = loop {
            let list = service.get(path, &[("authorization", &bearer)]).unwrap();
            if let Some(id) = list.json()["approvals"][0]["id"].as_str() {
                break id.to_owned();
            }
            assert!(begun.elapsed() < PATIENCE, "nothing is asked");
            thread::sleep(Duration::from_millis(10));
        };
        let once = json!({"answer": "once"});
        let answered = service.post(&format!("{path}/{id}"), &ada, &once).unwrap();
        assert_eq!(answered.status, 200, "{}", answered.body);
        going.join().unwrap()
    });
    assert!(meta["progressToken"].is_string() && meta["traceparent"].is_null());
    service.signal("-TERM");
    assert_eq!(service.end(), Some(0), "{}", service.err());
    // The audit log names the agent, or the approver and for whom.
    let (_, entries, _) = home.run(&["audit", "show", "--json"]);
    let entries = entries.lines().map(|line| {
        let entry: Value = serde_json::from_str(line).unwrap();
        entry["note"]["about"].clone()
    });
    let of_gateway = entries.filter(|about| about["front"] == "gateway");
    let of_gateway: Vec<Value> = of_gateway.collect();
    let names = |about: &Value| about["who"] == "agent" || about["asker"] == "agent";
    assert!(
        of_gateway.len() >= 4 && of_gateway.iter().all(names),
        "{of_gateway:?}"
    );
    let spans = spans.lock().unwrap();
    // Numbers are bytes there.
    let has = |bytes: &[u8]| spans.windows(bytes.len()).any(|at| at == bytes);
    let hex = |text: &str| u128::from_str_radix(text, 16).unwrap().to_be_bytes();
    assert!(has(b"tools/call echo") && has(&hex(&told[3..35])));
    assert!(has(&hex(&told[36..52])[8..]), "{told}");
}

#[test]
fn apps_know_no_traces_by_default() {
    let (url, _) = collector();
    let home = home(&format!("otlp = \"{url}\"\n"));
    let service = Service::start(&home, &[]);
    let agent = token(&home, "agent", Role::Agent, None);
    let meta = Session::begin(&service, &agent).meta();
    assert!(meta["progressToken"].is_string() && meta["traceparent"].is_null());
}
