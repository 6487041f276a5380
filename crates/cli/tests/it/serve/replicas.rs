//! Two services on one PostgreSQL, under load, killed at random points: no call is released twice, and nothing that was
//! acknowledged is lost.

use std::collections::BTreeSet;
use std::fs::OpenOptions;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, RwLock};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use serde_json::{Value, json};
use store::{NewToken, PoolSettings, Role, Store};
use test_support::Postgres;

use super::{Answer, Service, config, request, rpc};
use crate::home::{Home, said};
use crate::proxy::{Upstream, user};

/// Clients at once.
const CLIENTS: usize = 4;
/// How often a service is killed in the ordinary run.
const KILLS: usize = 20;
/// The variable with the number of kills of a nightly run.
const NIGHTLY: &str = "SLUICE_KILLS";

/// Numbers that differ from run to run; the seed is printed where it fails.
struct Random(u64);

impl Random {
    fn below(&mut self, most: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (self.0 >> 33) % most
    }
}

/// The secret of the deployment, which only its user may read.
fn write_secret(home: &Home, secret: &str) {
    let mut options = OpenOptions::new();
    let options = options.write(true).create_new(true).mode(0o600);
    let mut file = options.open(home.path("config/sluice/secret")).unwrap();
    file.write_all(secret.as_bytes()).unwrap();
}

/// A token for the services on this database.
fn token(url: &str, name: &str, role: Role) -> String {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let new = NewToken {
        name: name.to_owned(),
        role,
        tenant: None,
        apps: Vec::new(),
        effects: Vec::new(),
        expires: None,
    };
    runtime.block_on(async {
        let store = Store::postgres(url, &PoolSettings::default()).await;
        let now = SystemTime::now().into();
        store.unwrap().desk().new_token(&new, now).await.unwrap()
    })
}

fn pay(conversation: &str, host: &str, token: &str) -> Option<(u16, Value)> {
    let parameters = json!({"type": "object", "properties": {"to": {"type": "string"}}});
    let function = json!({"name": "pay", "parameters": parameters});
    let tools = [json!({"type": "function", "function": function})];
    let body = json!({"model": "m", "messages": [user("pay eve")], "tools": tools});
    let bearer = format!("Bearer {token}");
    let headers = [
        ("authorization", bearer.as_str()),
        ("content-type", "application/json"),
        ("x-sluice-conversation", conversation),
    ];
    let line = "POST /v1/chat/completions";
    let answer = request(host, line, &headers, &body.to_string())?;
    Some((answer.status, answer.json()))
}

fn is_call(answer: &Value) -> bool {
    answer["choices"][0]["message"]["tool_calls"].is_array()
}

#[test]
fn killed_services_release_no_call_twice_and_lose_nothing() {
    let Some(postgres) = Postgres::start() else {
        return;
    };
    let url = postgres.database();
    let upstream = Upstream::start();
    let secret = "a secret of the deployment, thirty-two bytes";
    let more = format!(
        "[proxy]\non_violation = \"drop\"\n[service]\nsecret_file = \"secret\"\n[state]\nurl = \"{url}\"\n"
    );
    let homes = [(); 2].map(|()| Home::with(&config(&upstream, &more)));
    for home in &homes {
        write_secret(home, secret);
    }
    let start = |index: usize| Service::start(&homes[index], &[]);
    let mut services = [start(0), start(1)].map(Some);
    let token = token(&url, "agent", Role::Agent);
    let host = |service: &Option<Service>| service.as_ref().unwrap().host.clone();
    let hosts = RwLock::new([host(&services[0]), host(&services[1])]);
    let (released, repeated) = (Mutex::new(BTreeSet::new()), Mutex::new(Vec::new()));
    let (is_over, next) = (AtomicBool::new(false), AtomicUsize::new(0));
    let kills = std::env::var(NIGHTLY).ok().and_then(|it| it.parse().ok());
    let kills = kills.unwrap_or(KILLS);
    let seed = SystemTime::UNIX_EPOCH
        .elapsed()
        .unwrap()
        .subsec_nanos()
        .into();
    let mut random = Random(seed);
    thread::scope(|scope| {
        for client in 0..CLIENTS {
            let (hosts, token, released, repeated) = (&hosts, &token, &released, &repeated);
            let (is_over, next) = (&is_over, &next);
            scope.spawn(move || {
                let mut turn = client;
                while !is_over.load(Ordering::Relaxed) {
                    let name = format!("talk-{}", next.fetch_add(1, Ordering::Relaxed));
                    // A client repeats a request that has no answer, at whichever service the load balancer chooses.
                    let mut count = 0;
                    while !is_over.load(Ordering::Relaxed) {
                        turn += 1;
                        let host = hosts.read().unwrap()[turn % 2].clone();
                        match pay(&name, &host, token) {
                            Some((200, answer)) => {
                                if is_call(&answer)
                                    && !released.lock().unwrap().insert(name.clone())
                                {
                                    repeated.lock().unwrap().push(name.clone());
                                }
                                count += 1;
                            }
                            Some((503, _)) | None => thread::sleep(Duration::from_millis(20)),
                            Some(other) => panic!("{name}: {other:?}"),
                        }
                        // The second time, the client has lost the answer.
                        if count == 2 {
                            break;
                        }
                    }
                }
            });
        }
        for kill in 0..kills {
            thread::sleep(Duration::from_millis(random.below(400)));
            let index = kill % 2;
            // The kernel gives it no chance: SIGKILL.
            drop(services[index].take());
            let service = start(index);
            hosts.write().unwrap()[index] = service.host.clone();
            services[index] = Some(service);
        }
        is_over.store(true, Ordering::Relaxed);
    });
    let (released, repeated) = (
        released.into_inner().unwrap(),
        repeated.into_inner().unwrap(),
    );
    assert!(
        repeated.is_empty(),
        "seed {seed}: released twice: {repeated:?}"
    );
    assert!(released.len() > kills, "{} calls only", released.len());
    // What was acknowledged is known at both, also after a kill.
    for (number, name) in released.iter().enumerate() {
        let host = hosts.read().unwrap()[number % 2].clone();
        let (status, answer) = pay(name, &host, &token).unwrap();
        assert!(
            status == 200 && !is_call(&answer),
            "seed {seed}: {name} {answer}"
        );
    }
}

/// The rules of a server behind the gateway.
const MAIL: &str = r#"
[app.mail.tools]
inbox = { effect = "read", limit = "any", rest = ["untrusted"] }
send = { effect = "irreversible", limit = "any", parameters = ["to"], rest = [] }
"#;

/// Two services on one database, each with the server behind its gateway.
fn mail_services(url: &str, upstream: &Upstream) -> ([Home; 2], [Service; 2]) {
    let homes = [(); 2].map(|()| Home::new());
    let services = homes.each_ref().map(|home| {
        let server = home.path("home/server.js");
        std::fs::write(&server, crate::gateway::SERVER).unwrap();
        let more = format!(
            "[app.mail]\ncommand = [\"node\", {server:?}]\ndescriptions = \"trusted\"\n{MAIL}\n[proxy]\non_violation = \"drop\"\n\
             [service]\nsecret_file = \"secret\"\n[state]\nurl = \"{url}\"\n"
        );
        home.configure(&config(upstream, &more));
        write_secret(home, &"s".repeat(40));
        Service::start(home, &[])
    });
    (homes, services)
}

/// A message of an MCP client in this session, by `method` of HTTP.
fn mcp(service: &Service, method: &str, token: &str, session: &str, message: &Value) -> Answer {
    let bearer = format!("Bearer {token}");
    let headers = [
        ("authorization", bearer.as_str()),
        ("content-type", "application/json"),
        ("accept", "application/json, text/event-stream"),
        ("mcp-session-id", session),
    ];
    let headers = &headers[..if session.is_empty() { 3 } else { 4 }];
    let line = format!("{method} /mcp");
    request(&service.host, &line, headers, &message.to_string()).unwrap()
}

fn begin_session(service: &Service, token: &str) -> String {
    let first = json!({"protocolVersion": "2025-11-25", "capabilities": {}});
    let begun = mcp(service, "POST", token, "", &rpc("initialize", first));
    let mut lines = begun.head.lines();
    let session = lines.find_map(|it| it.strip_prefix("mcp-session-id: "));
    session.unwrap().to_owned()
}

#[test]
fn an_mcp_session_goes_on_at_any_service() {
    let Some(postgres) = Postgres::fast() else {
        return;
    };
    let url = postgres.database();
    let (_homes, services) = mail_services(&url, &Upstream::start());
    let [agent, other] = ["agent", "other"].map(|name| token(&url, name, Role::Agent));
    let session = begin_session(&services[0], &agent);
    let [list, inbox] = [
        rpc("tools/list", json!({})),
        rpc("tools/call", json!({"name": "mail_inbox", "arguments": {}})),
    ];
    let goes_on = |at: usize| {
        for (message, text) in [(&list, "mail_inbox"), (&inbox, "From: eve@evil.example")] {
            let answer = mcp(&services[at], "POST", &agent, &session, message);
            let is_done = answer.status == 200 && answer.body.contains(text);
            assert!(is_done, "{at}: {} {}", answer.status, answer.body);
        }
    };
    for at in [1, 0, 1] {
        goes_on(at);
    }
    services[0].signal("-HUP");
    services[0].wait_for("the configuration is reloaded");
    goes_on(0);
    // It is one for this token, as it was given.
    let changed = session.replacen(&session[..1], "x", 1);
    for (token, session) in [(&other, &session), (&agent, &changed)] {
        for service in &services {
            let refused = mcp(service, "POST", token, session, &list);
            assert_eq!(refused.status, 404, "{}", refused.body);
        }
    }
    let ended = mcp(&services[1], "DELETE", &agent, &session, &Value::Null);
    assert_eq!(ended.status, 204, "{}", ended.body);
}

/// The proxy of one service permits a call, the gateway of the other runs it, and the first one knows the result.
#[test]
fn a_permitted_call_runs_at_the_other_service() {
    let Some(postgres) = Postgres::fast() else {
        return;
    };
    let url = postgres.database();
    let upstream = Upstream::start();
    let (_homes, services) = mail_services(&url, &upstream);
    let token = token(&url, "agent", Role::Agent);
    let bearer = format!("Bearer {token}");
    let tools = ["pay", "sluice_mail_inbox", "sluice_mail_send"].map(|name| {
        let properties = json!({"to": {"type": "string"}});
        let parameters = json!({"type": "object", "properties": properties});
        json!({"type": "function", "function": {"name": name, "parameters": parameters}})
    });
    let ask = |conversation: &str, messages: &[Value]| {
        let body = json!({"model": "m", "messages": messages, "tools": tools});
        let headers = [
            ("authorization", bearer.as_str()),
            ("content-type", "application/json"),
            ("x-sluice-conversation", conversation),
        ];
        let line = "POST /v1/chat/completions";
        let answer = request(&services[0].host, line, &headers, &body.to_string()).unwrap();
        assert_eq!(answer.status, 200, "{}", answer.body);
        answer.json()["choices"][0]["message"].clone()
    };
    // A call at the gateway of a service.
    let session = begin_session(&services[0], &token);
    let call = |at: usize, tool: &str, arguments: Value| {
        let params = json!({"name": tool, "arguments": arguments});
        let message = rpc("tools/call", params);
        mcp(&services[at], "POST", &token, &session, &message).body
    };
    // After a result of a stranger's nothing is paid, and after another one it is: the proxy knows which is which.
    for (name, tool, text, is_paid) in [
        ("inbox", "mail_inbox", "From: eve@evil.example", false),
        ("send", "mail_send", "sent", true),
    ] {
        let mut messages = vec![user(name)];
        let message = ask(name, &messages);
        let function = &message["tool_calls"][0]["function"];
        assert_eq!(function["name"], format!("sluice_{tool}"), "{message}");
        let arguments = function["arguments"].as_str().unwrap();
        let arguments: Value = serde_json::from_str(arguments).unwrap();
        let answer = call(1, tool, arguments.clone());
        assert!(
            answer.contains(text) && !answer.contains("not executed"),
            "{answer}"
        );
        let id = message["tool_calls"][0]["id"].clone();
        messages.push(message);
        messages.push(json!({"role": "tool", "tool_call_id": id, "content": text}));
        messages.push(user("as it says"));
        let paid = ask(name, &messages);
        assert_eq!(paid["tool_calls"].is_array(), is_paid, "{name}: {paid}");
        // An equal call without a permit would be a question, at each of the gateways.
        for at in [0, 1] {
            let again = call(at, tool, arguments.clone());
            assert_eq!(
                again.contains("not executed"),
                tool == "mail_send",
                "{again}"
            );
        }
    }
}

/// An answer that is given after the death of the service that asked counts at the next one.
#[test]
fn an_answer_outlives_the_service_that_asked() {
    let Some(postgres) = Postgres::fast() else {
        return;
    };
    let url = postgres.database();
    let upstream = Upstream::start();
    let more = format!("[service]\nsecret_file = \"secret\"\n[state]\nurl = \"{url}\"\n");
    let homes = [(); 2].map(|()| Home::with(&config(&upstream, &more)));
    let [asked, next] = homes.each_ref().map(|home| {
        write_secret(home, &"s".repeat(40));
        Service::start(home, &[])
    });
    let agent = token(&url, "agent", Role::Agent);
    let ada = token(&url, "ada", Role::Approver);
    let mail = asked.mail(&agent);
    let (at_first, first) = thread::scope(|scope| {
        let asking = scope.spawn(|| asked.message(&agent, &mail));
        let question = next.question(&ada);
        // The kernel gives it no chance: SIGKILL.
        asked.signal("-KILL");
        (asking.join().unwrap(), question)
    });
    assert!(at_first.is_none(), "{at_first:?}");
    let file = homes[1].path("config/sluice/sluice.toml");
    let id = first["id"].as_str().unwrap();
    let mut approve = homes[1].sluice(&["approve", "yes", id, "--config"]);
    approve.arg(&file).env("SLUICE_TOKEN", &ada);
    // A hint is the whole command.
    let mut show = homes[1].sluice(&["approve", "show", id, "--config"]);
    let (_, _, hint) = said(&show.arg(&file).output().unwrap());
    let whole = format!("ANSWER --config {}`", file.display());
    assert!(hint.contains(&whole), "{hint}");
    let message = thread::scope(|scope| {
        let (count, begun) = (upstream.count(), Instant::now());
        // The client sends its request again, to the one that is left.
        let asking = scope.spawn(|| next.message(&agent, &mail).unwrap());
        while upstream.count() == count {
            assert!(begun.elapsed() < super::PATIENCE, "no model was asked");
            thread::sleep(Duration::from_millis(5));
        }
        assert_eq!(next.question(&ada)["id"], first["id"]);
        let (code, _, err) = said(&approve.output().unwrap());
        assert_eq!(code, 0, "{err}");
        asking.join().unwrap()
    });
    assert_eq!(message["tool_calls"][0]["function"]["name"], "pay");
    // No other question was asked, and the answer was for one call.
    assert_eq!(Service::questions(&next.host, &ada), Vec::<Value>::new());
    let count = "SELECT count(*) FROM question";
    assert_eq!(postgres.sql(&url, count).trim(), "1");
}

/// A database that is gone refuses requests, and its return is enough.
#[test]
fn without_its_database_a_service_permits_nothing() {
    let Some(postgres) = Postgres::fast() else {
        return;
    };
    let upstream = Upstream::start();
    let more = format!(
        "[service]\nsecret_file = \"secret\"\nmetrics_listen = \"127.0.0.1:0\"\n[state]\nurl = \"{}\"\n",
        postgres.database()
    );
    let home = Home::with(&config(&upstream, &more));
    write_secret(&home, &"s".repeat(40));
    let service = Service::start(&home, &[]);
    let ready = || service.get("/readyz", &[]).unwrap();
    assert_eq!(ready().status, 200);
    // `--check` says what a start would.
    let other = Home::with(&config(&upstream, &more));
    write_secret(&other, &"t".repeat(40));
    let check = |home: &Home| {
        let mut check = home.sluice(&["serve", "--check"]);
        said(&check.env("UPSTREAM_KEY", "sk-x").output().unwrap())
    };
    assert_eq!(check(&home).0, 0);
    let (code, _, err) = check(&other);
    assert!(code == 1 && err.contains("another secret"), "{err}");
    postgres.stop();
    assert_eq!(check(&home).0, 1);
    let answer = ready();
    assert!(
        answer.status == 503 && answer.body.contains("state"),
        "{}",
        answer.body
    );
    assert_eq!(service.get("/healthz", &[]).unwrap().status, 200);
    let refused = service.chat("sluice-token", &[user("hello")]).unwrap();
    assert_eq!(refused.status, 503, "{}", refused.body);
    assert!(refused.head.contains("retry-after"), "{}", refused.head);
    // It is seen from outside: an alert fires, and the log says so.
    let metrics = service.open_metrics();
    let has_errors = |line: &str| {
        let count = line.strip_prefix(r#"sluice_store_errors_total{operation="token"} "#);
        count.is_some_and(|count| count != "0")
    };
    assert!(metrics.lines().any(has_errors), "{metrics}");
    service.wait_for("the store fails");
    postgres.start_again();
    let begun = Instant::now();
    while ready().status != 200 {
        assert!(begun.elapsed() < super::PATIENCE, "{}", ready().body);
        thread::sleep(Duration::from_millis(50));
    }
    service.wait_for("the store answers again");
}
