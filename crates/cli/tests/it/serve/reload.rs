//! What the files of a running service may become without changing its policy.

use std::fs;
use std::io::Write;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use store::Role;

use super::{PATIENCE, Service, config, rpc, token};
use crate::home::Home;
use crate::proxy::{Upstream, collect, user};

const RELOADED: &str = "the configuration is reloaded";
const REFUSED: &str = "the configuration is not reloaded";

/// Waits until the log has this so many times.
fn wait_for(service: &Service, text: &str, count: usize) {
    let begun = Instant::now();
    while service.err().matches(text).count() < count {
        assert!(begun.elapsed() < PATIENCE, "{text}: {}", service.err());
        thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn a_file_that_lost_rules_waits_for_sighup() {
    let upstream = Upstream::start();
    let rules = "[app.agent.tools.note]\neffect = \"write\"\nlimit = \"any\"\nparameters = [\"body\"]\narguments.body.limit = []\n";
    let full = config(
        &upstream,
        &format!("{rules}[tenant.team]\ncalls_per_hour = 1\n"),
    );
    let home = Home::with(&full);
    let mut service = Service::start(&home, &[]);
    let team = token(&home, "a", Role::Agent, Some("team"));
    let status = || service.chat(&team, &[user("read my mail")]).unwrap().status;
    assert_eq!(status(), 200);
    let file = home.path("config/sluice/sluice.toml");
    // Without its last line, its last table, and its only app.
    let (budget, tenant, argument, app) = (
        full.replace("calls_per_hour = 1\n", ""),
        config(&upstream, rules),
        full.replace("arguments.body.limit = []\n", ""),
        full.replace("app.agent", "app.other"),
    );
    let cuts = [
        (&budget, "it lacks tenant.team.calls_per_hour,"),
        (&tenant, "it lacks tenant,"),
        (&argument, "it lacks app.agent.tools.note.arguments,"),
        (&app, "it lacks app.agent,"),
    ];
    for (cut, reason) in cuts {
        home.configure(cut);
        service.wait_for(reason);
        assert_eq!(status(), 429, "{reason}");
    }
    assert!(service.err().contains("kill -HUP"), "{}", service.err());
    // These are no configuration.
    home.configure("# nothing\n");
    service.wait_for("is empty");
    service.signal("-HUP");
    wait_for(&service, "is empty", 2);
    fs::remove_file(&file).unwrap();
    service.wait_for("is gone");
    service.signal("-HUP");
    wait_for(&service, "is gone", 2);
    assert_eq!(status(), 429);
    assert!(!service.err().contains(RELOADED), "{}", service.err());
    // One that comes back counts, even in a folder that was made anew.
    fs::remove_dir_all(file.parent().unwrap()).unwrap();
    home.configure(&full);
    service.wait_for(RELOADED);
    assert_eq!(status(), 429);
    let refused = service.err().matches(REFUSED).count();
    // A writer that rests has half of the file there.
    let mut writer = fs::File::create(&file).unwrap();
    writer.write_all(tenant.as_bytes()).unwrap();
    writer.sync_all().unwrap();
    thread::sleep(Duration::from_millis(800));
    let rest = full.strip_prefix(&tenant).unwrap();
    writeln!(writer, "{rest}tokens_per_hour = 9").unwrap();
    drop(writer);
    wait_for(&service, RELOADED, 2);
    assert_eq!(service.err().matches(REFUSED).count(), refused);
    home.configure(&tenant);
    wait_for(&service, "it lacks tenant,", 2);
    service.signal("-HUP");
    wait_for(&service, RELOADED, 3);
    // Without tenants there is no budget.
    assert_eq!(status(), 200);
    service.signal("-TERM");
    assert_eq!(service.end(), Some(0), "{}", service.err());
}

/// `sluice init` writes such a client into the files of agents, which start it once.
#[test]
fn a_client_on_standard_input_outlives_a_reload() {
    let upstream = Upstream::start();
    let home = Home::with(&config(&upstream, ""));
    let service = Service::start(&home, &[]);
    let mut bridge = home.sluice(&["gateway", "--service"]);
    let bridge = bridge.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut client = bridge.stderr(Stdio::null()).spawn().unwrap();
    let mut input = client.stdin.take().unwrap();
    let answers = collect(client.stdout.take().unwrap());
    let mut ask = |id: usize, method: &str, params: Value| {
        let mut request = rpc(method, params);
        request["id"] = json!(id);
        writeln!(input, "{request}").unwrap();
        let begun = Instant::now();
        while answers.lock().unwrap().lines().count() < id {
            assert!(begun.elapsed() < PATIENCE, "{}", service.err());
            thread::sleep(Duration::from_millis(10));
        }
        let answers = answers.lock().unwrap();
        let last: Value = serde_json::from_str(answers.lines().last().unwrap()).unwrap();
        assert_eq!(last["id"], id, "{last}");
        last
    };
    let first = json!({"protocolVersion": "2025-11-25", "capabilities": {}});
    let begun = ask(1, "initialize", first);
    assert_eq!(begun["result"]["serverInfo"]["name"], "sluice");
    home.configure(&config(&upstream, "# again\n"));
    service.wait_for(RELOADED);
    // Its session was one of the gateway before.
    let list = ask(2, "tools/list", json!({}));
    assert!(list["result"]["tools"].is_array(), "{list}");
    let lost = ask(3, "no/such", json!({}));
    assert!(lost["error"]["code"].is_i64(), "{lost}");
    drop(input);
    assert!(client.wait().unwrap().success());
}

#[test]
fn a_pipe_in_place_of_the_file_stops_nothing() {
    let upstream = Upstream::start();
    let text = config(&upstream, "");
    let home = Home::with(&text);
    let mut service = Service::start(&home, &[]);
    let file = home.path("config/sluice/sluice.toml");
    fs::remove_file(&file).unwrap();
    let made = Command::new("mkfifo").arg(&file).status().unwrap();
    assert!(made.success());
    service.wait_for(REFUSED);
    service.signal("-HUP");
    wait_for(&service, REFUSED, 2);
    assert_eq!(service.get("/healthz", &[]).unwrap().status, 200);
    fs::remove_file(&file).unwrap();
    home.configure(&text);
    service.wait_for(RELOADED);
    service.signal("-TERM");
    assert_eq!(service.end(), Some(0), "{}", service.err());
}
