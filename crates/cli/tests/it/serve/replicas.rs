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

use super::{Service, config, request};
use crate::home::Home;
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
    let token = {
        let runtime = tokio::runtime::Runtime::new().unwrap();
        let new = NewToken {
            name: "agent".to_owned(),
            role: Role::Agent,
            tenant: None,
            apps: Vec::new(),
            effects: Vec::new(),
            expires: None,
        };
        runtime.block_on(async {
            let store = Store::postgres(&url, &PoolSettings::default())
                .await
                .unwrap();
            let now = SystemTime::now().into();
            store.desk().new_token(&new, now).await.unwrap()
        })
    };
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

/// A database that is gone refuses requests, and its return is enough.
#[test]
fn without_its_database_a_service_permits_nothing() {
    let Some(postgres) = Postgres::fast() else {
        return;
    };
    let upstream = Upstream::start();
    let more = format!(
        "[service]\nsecret_file = \"secret\"\n[state]\nurl = \"{}\"\n",
        postgres.database()
    );
    let home = Home::with(&config(&upstream, &more));
    write_secret(&home, &"s".repeat(40));
    let service = Service::start(&home, &[]);
    let ready = || service.get("/readyz", &[]).unwrap();
    assert_eq!(ready().status, 200);
    postgres.stop();
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
    let metrics = service.get("/metrics", &[]).unwrap().body;
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
