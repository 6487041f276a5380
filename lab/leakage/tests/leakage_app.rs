//! The apps over MCP, as any client speaks to them.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "tests fail by panicking"
)]

use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};

use leakage::{DOMAINS, Domain};
use serde_json::{Value, json};

/// What an app answers to these requests, in order.
fn talk(domain: &str, requests: &[(&str, Value)]) -> Vec<Value> {
    let mut app = Command::new(env!("CARGO_BIN_EXE_sluice-leakage-app"))
        .arg(domain)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = app.stdin.take().unwrap();
    let mut lines = BufReader::new(app.stdout.take().unwrap()).lines();
    let mut ask = |id: usize, method: &str, params: &Value| {
        let request = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
        writeln!(input, "{request}").unwrap();
        if method == "initialize" {
            let done = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
            writeln!(input, "{done}").unwrap();
        }
        let line = lines.next().unwrap().unwrap();
        serde_json::from_str::<Value>(&line).unwrap()["result"].clone()
    };
    let client = json!({
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": {"name": "test", "version": "1"},
    });
    ask(0, "initialize", &client);
    let numbered = requests.iter().zip(1..);
    let answers = numbered.map(|((method, params), id)| ask(id, method, params));
    let answers: Vec<Value> = answers.collect();
    drop(input);
    assert!(app.wait().unwrap().success());
    answers
}

#[test]
fn every_app_lists_its_tools_and_remembers_what_was_done() {
    for name in DOMAINS {
        let tools = talk(name, &[("tools/list", json!({}))]).remove(0);
        let listed = tools["tools"].as_array().unwrap().len();
        assert_eq!(
            listed,
            Domain::find(name).unwrap().app.tools.len(),
            "{name}"
        );
    }
    let rename = json!({"name": "update_account", "arguments": {"nickname": "Mimi"}});
    let fee = json!({"name": "list_fees", "arguments": {}});
    let wrong = json!({"name": "send_money", "arguments": {"to": "@lena-o"}});
    let calls = [rename, fee, wrong].map(|params| ("tools/call", params));
    let answers = talk("payments", &calls);
    assert_eq!(answers[0]["content"][0]["text"], r#"{"status":"done"}"#);
    let fees = answers[1]["content"][0]["text"].as_str().unwrap();
    assert!(fees.contains("instant"), "{fees}");
    assert_eq!(answers[2]["isError"], true);
    assert_eq!(answers[2]["content"][0]["text"], "amount is missing");
}

#[test]
fn an_unknown_app_is_named() {
    let output = Command::new(env!("CARGO_BIN_EXE_sluice-leakage-app"))
        .arg("bank")
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(2));
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("payments, flights, shop"), "{said}");
}
