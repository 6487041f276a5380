//! What a store adds to a proxy: milliseconds to a request at 200 requests a second, processor time, and memory.
//! `cargo bench -p server --bench state`. PostgreSQL writes through to the disk, as in production.
#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::indexing_slicing,
    reason = "a benchmark fails by panicking, and prints"
)]

#[expect(dead_code, reason = "the tests of one proxy use the rest")]
#[path = "../tests/proxy/stage.rs"]
mod stage;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::json;
use server::StateSetup;
use server::proxy::Proxy;
use store::{PoolSettings, SessionState, Store};
use test_support::{Postgres, Upstream, calls, newest, says};
use tokio::runtime::{Builder, Runtime};
use tokio::time::{interval, sleep};

use crate::stage::{Stage, result, setup, user};

/// Requests a second, and how long.
const RATE: u32 = 200;
const SECONDS: u32 = 15;
/// Conversations that are begun before memory is looked at.
const CONVERSATIONS: usize = 10_000;

const MAIL: &str = "Dear reader, the minutes of the board are attached. Please read them until Friday, and tell me \
    what you think of the offer; I would like to answer it before the end of the month.";

fn main() {
    let upstream = Upstream::start(|body| match newest(body) {
        text if text.starts_with("read") => calls(&[("inbox", "{}")]),
        _ => says("It is about the minutes of the board."),
    });
    let folder = tempfile::tempdir().unwrap();
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o700)).unwrap();
    let server = Postgres::start();
    let client = Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .unwrap();
    let stores: [(&str, Option<Arc<dyn SessionState>>); 3] = [
        ("none", None),
        (
            "SQLite",
            Some(Store::sqlite(folder.path()).unwrap().state()),
        ),
        (
            "PostgreSQL",
            server.as_ref().map(|server| {
                let url = server.database();
                let settings = PoolSettings::default();
                let connect = Store::postgres(&url, &settings);
                client.block_on(connect).unwrap().state()
            }),
        ),
    ];
    println!("store       p50 ms  p99 ms  CPU ms/request  RSS MB at {CONVERSATIONS} conversations");
    for (name, store) in stores {
        if name == "PostgreSQL" && store.is_none() {
            continue;
        }
        // Threads of its own, whose processor time is that of the proxy.
        let mut threads = Builder::new_multi_thread();
        let threads = threads
            .worker_threads(1)
            .thread_name("proxy-bench")
            .enable_all();
        let proxy = threads.build().unwrap();
        let stage = Arc::new(serve(&proxy, &upstream, store));
        let before = resident();
        // The first requests open connections.
        client.block_on(converse(&stage, 0));
        let cpu = processor_time();
        let mut times = client.block_on(load(&stage));
        let cpu = (processor_time() - cpu) / times.len() as f64;
        times.sort();
        let at = |percent: usize| times[times.len() * percent / 100].as_secs_f64() * 1e3;
        let measured = times.len() / 2;
        client.block_on(async {
            let mut tasks = Vec::new();
            for task in 0..8 {
                let stage = Arc::clone(&stage);
                tasks.push(tokio::spawn(async move {
                    for number in (measured + task..CONVERSATIONS).step_by(8) {
                        converse(&stage, number).await;
                    }
                }));
            }
            for task in tasks {
                task.await.unwrap();
            }
        });
        let grown = (resident() - before) as f64 / 1024.0;
        println!(
            "{name:<10} {:>7.2} {:>7.2} {cpu:>15.3} {grown:>8.0}",
            at(50),
            at(99)
        );
        proxy.shutdown_background();
    }
}

fn serve(proxy: &Runtime, upstream: &Upstream, store: Option<Arc<dyn SessionState>>) -> Stage {
    let mut setup = setup(upstream);
    let secret = [7; 32];
    setup.state = store.map(|store| StateSetup { store, secret });
    let bound = proxy.block_on(Proxy::bind(setup)).unwrap();
    let url = bound.base_url();
    proxy.spawn(bound.serve(std::future::pending()));
    let client = reqwest::Client::builder()
        .no_proxy()
        .tls_certs_only([])
        .build()
        .unwrap();
    Stage { url, client }
}

/// Two requests of one conversation, of which the second brings a result. Returns how long each took.
async fn converse(stage: &Stage, number: usize) -> [Duration; 2] {
    let name = format!("conversation-{number}");
    let key = format!("key-{}", number % 50);
    let ask = async |messages: &[serde_json::Value]| {
        let begun = Instant::now();
        let asked = stage.as_client(&key, Some(&name), messages, json!({}));
        let (status, answer) = asked.await;
        assert_eq!(status, 200, "{answer}");
        (begun.elapsed(), answer["choices"][0]["message"].clone())
    };
    let mut messages = vec![user(&format!("read {number}"))];
    let (first, answer) = ask(&messages).await;
    messages.extend([
        answer.clone(),
        result(&answer, 0, &format!("{number}: {MAIL}")),
    ]);
    let (second, _) = ask(&messages).await;
    [first, second]
}

async fn load(stage: &Arc<Stage>) -> Vec<Duration> {
    // Each conversation has two requests.
    let mut ticks = interval(Duration::from_secs(2) / RATE);
    let mut tasks = Vec::new();
    for number in 1..=RATE * SECONDS / 2 {
        ticks.tick().await;
        let stage = Arc::clone(stage);
        let number = usize::try_from(number).unwrap();
        tasks.push(tokio::spawn(async move { converse(&stage, number).await }));
    }
    let mut times = Vec::new();
    for task in tasks {
        times.extend(task.await.unwrap());
    }
    sleep(Duration::from_secs(1)).await;
    times
}

/// Milliseconds of all threads of the proxy.
fn processor_time() -> f64 {
    let tasks = fs::read_dir("/proc/self/task").unwrap();
    let ticks = tasks.filter_map(|task| {
        // A thread may end meanwhile.
        let stat = fs::read_to_string(task.unwrap().path().join("stat")).ok()?;
        let (name, rest) = stat.rsplit_once(')')?;
        let fields: Vec<&str> = rest.split_whitespace().collect();
        let of = |at: usize| fields.get(at).and_then(|it| it.parse::<u64>().ok());
        name.contains("proxy-bench")
            .then(|| of(11).unwrap_or(0) + of(12).unwrap_or(0))
    });
    // A tick is 10 ms.
    ticks.sum::<u64>() as f64 * 10.0
}

/// Kilobytes of memory.
fn resident() -> usize {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status
        .lines()
        .find(|line| line.starts_with("VmRSS"))
        .unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}
