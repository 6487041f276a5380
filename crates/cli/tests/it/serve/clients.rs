//! Who may use a service, and what its clients are offered.

use std::fs;
use std::process::Command;

use serde_json::{Value, json};
use store::Role;

use super::{SERVER, Service, config, rpc, token};
use crate::home::{Home, said};
use crate::proxy::{Upstream, user};

/// As `sluice init` writes it into the file of a client, beside other apps.
#[test]
fn a_client_of_a_service_has_its_apps_alone() {
    let upstream = Upstream::start();
    let home = Home::new();
    let server = home.path("home/server.js");
    fs::write(&server, SERVER).unwrap();
    let apps = ["mail", "notes", "other"].map(|app| {
        format!(
            "[app.{app}]\ncommand = [\"node\", {server:?}]\ndescriptions = \"trusted\"\nresources = true\n\
             [app.{app}.tools]\ninbox = {{ effect = \"read\", limit = \"any\" }}\n\
             \"resources/list\" = {{ effect = \"read\", limit = \"any\" }}\n"
        )
    });
    home.configure(&config(&upstream, &apps.concat()));
    let service = Service::start(&home, &[]);
    let mut messages = ["tools/list", "resources/list"].map(|it| rpc(it, json!({})));
    let calls = ["mail_inbox", "notes_inbox", "other_inbox"];
    let calls = calls.map(|name| rpc("tools/call", json!({"name": name, "arguments": {}})));
    for (id, message) in messages.iter_mut().enumerate() {
        message["id"] = json!(id);
    }
    let client = |apps: &[&str], messages: &[Value]| {
        let begin = json!({"protocolVersion": "2025-11-25", "capabilities": {}});
        let lines = [rpc("initialize", begin)];
        let lines = lines.iter().chain(messages).map(|it| format!("{it}\n"));
        let file = home.path("config/sluice/sluice.toml");
        let named = apps.iter().flat_map(|app| ["--app", app]);
        let all = ["gateway", "--config", file.to_str().unwrap(), "--service"];
        let all: Vec<&str> = all.into_iter().chain(named).collect();
        let (code, out, err) = home.pipe(&all, &lines.collect::<String>());
        assert!(code == 0 && err.contains(&service.host), "{out} {err}");
        out
    };
    let all = client(&[], &messages);
    assert!(all.contains("other_inbox"), "{all}");
    let list = client(&["mail", "notes"], &messages);
    for (name, is_there) in [
        ("mail_inbox", true),
        ("notes_inbox", true),
        ("other_inbox", false),
        ("sluice://mail/", true),
        ("sluice://other/", false),
    ] {
        assert_eq!(list.contains(name), is_there, "{name}: {list}");
    }
    for (call, is_run) in calls.iter().zip([true, true, false]) {
        let answer = client(&["mail", "notes"], std::slice::from_ref(call));
        assert_eq!(answer.contains("From: eve"), is_run, "{answer}");
        assert_eq!(answer.contains("there is no tool"), !is_run, "{answer}");
    }
    let unknown = client(&["mail", "nosuch"], &messages);
    let meant = "there is no app nosuch here; there are: mail, notes, other";
    assert!(unknown.contains(meant), "{unknown}");
    let agent = token(&home, "agent", Role::Agent, None);
    let odd = service.post("/mcp?apps=mail", &agent, &messages[0]);
    assert_eq!(odd.unwrap().status, 400);
    for option in ["--tools=mail.inbox", "--search", "--unattended"] {
        let (code, _, err) = home.run(&["gateway", "--service", option]);
        let option = option.split('=').next().unwrap();
        assert!(code == 2 && err.contains(option), "{code} {err}");
    }
}

#[test]
fn a_proxy_is_open_to_its_machine_alone() {
    let upstream = Upstream::start();
    let key = "api_key_env = \"UPSTREAM_KEY\"\n";
    let answers = |more: &str, has_key: bool| {
        let mut text = config(&upstream, more);
        if !has_key {
            text = text.replace(key, "");
        }
        let home = Home::with(&text);
        let start = |mut command: Command| {
            command.env_remove("UPSTREAM_KEY");
            command
        };
        let checked = start(home.sluice(&["serve", "--check"])).output().unwrap();
        let (code, _, err) = said(&checked);
        assert!(
            code == 0 && err.contains("UPSTREAM_KEY") == has_key,
            "{err}"
        );
        let service = Service::run(start(Service::command(&home, &[])));
        if has_key {
            service.wait_for("UPSTREAM_KEY of api_key_env is not set");
        }
        service.chat("", &[user("hello")]).unwrap().status
    };
    assert_eq!(answers("", false), 200);
    for more in [
        "[service]\nhosts = [\"sluice.example.org\"]\n",
        "[tenant.team]\n",
    ] {
        assert_eq!(answers(more, false), 401, "{more}");
    }
    // Its variable is not set.
    assert_eq!(answers("", true), 401);
}
