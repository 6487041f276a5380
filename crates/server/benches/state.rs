//! What a store adds to a proxy: milliseconds to a request at 200 requests a second, processor time, and memory.
//! `cargo bench -p server --bench state [-- REQUESTS_A_SECOND CONVERSATIONS]`. PostgreSQL writes through to the disk, as in
//! production.
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
use std::process::{Command, Stdio};
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

/// Requests a second unless a number is given, and how long.
const RATE: u32 = 200;
const SECONDS: u32 = 15;
/// The stores, of which the first is today's memory.
const STORES: [&str; 3] = ["none", "SQLite", "PostgreSQL"];
const ROUNDS: usize = 3;
/// The threads of the proxy. The kernel keeps 15 bytes.
const THREAD: &str = "bench-proxy";
/// Clients, each of which is a tenant with a log.
const CLIENTS: usize = 50;
/// Conversations, unless another number is given, that are begun before memory is looked at.
const CONVERSATIONS: usize = 10_000;

const MAIL: &str = "Dear reader, the minutes of the board are attached. Please read them until Friday, and tell me \
    what you think of the offer; I would like to answer it before the end of the month.";

/// What one run of one store came to.
const COLUMNS: usize = 6;
type Row = [f64; COLUMNS];

/// Runs each store in a process of its own, since memory that was freed would be used again, and prints medians of the rounds.
fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let mut numbers = words.iter().filter_map(|it| it.parse::<u32>().ok());
    let rate = numbers.next().unwrap_or(RATE);
    let conversations = numbers.next().map_or(CONVERSATIONS, |it| it as usize);
    if let Some(store) = words.iter().find_map(|it| it.strip_prefix("store=")) {
        if let Some(row) = measure(store, rate, conversations) {
            println!("{}", row.map(|it| it.to_string()).join(" "));
        }
        return;
    }
    let run = |store: &str| {
        let mut child = Command::new(std::env::current_exe().unwrap());
        child.arg(format!("store={store}"));
        child.args([rate.to_string(), conversations.to_string()]);
        let output = child.stderr(Stdio::inherit()).output().unwrap();
        assert!(output.status.success(), "{store}: {}", output.status);
        let text = String::from_utf8(output.stdout).unwrap();
        let row: Vec<f64> = text.split_whitespace().flat_map(str::parse).collect();
        Row::try_from(row).ok()
    };
    let rounds: Vec<_> = (0..ROUNDS).map(|_| STORES.map(run)).collect();
    println!(
        "store       p50 ms  p99 ms  added p50  added p99  CPU ms/request  ratio failed  RSS MB at {conversations} conversations  new replica s"
    );
    for (at, name) in STORES.iter().enumerate() {
        // Beside the run without a store of the same round.
        let rows = rounds
            .iter()
            .filter_map(|round| Some((round[0]?, round[at]?)));
        let rows: Vec<(Row, Row)> = rows.collect();
        if rows.is_empty() {
            continue;
        }
        let median = |of: &dyn Fn(&(Row, Row)) -> f64| {
            let mut all: Vec<f64> = rows.iter().map(of).collect();
            all.sort_by(f64::total_cmp);
            all[all.len() / 2]
        };
        let [p50, p99, cpu, failed, rss, new] =
            std::array::from_fn(|column| median(&|(_, row)| row[column]));
        let [more50, more99] = [0, 1].map(|it| median(&|(base, row)| row[it] - base[it]));
        let ratio = median(&|(base, row)| row[2] / base[2]);
        println!(
            "{name:<10} {p50:>7.2} {p99:>7.2} {more50:>10.2} {more99:>10.2} {cpu:>15.3} {ratio:>6.2} {failed:>6} {rss:>7.0} {new:>10.2}"
        );
    }
}

/// `None` where the store is not installed.
fn measure(name: &str, rate: u32, conversations: usize) -> Option<Row> {
    let upstream = Upstream::forgetful(|body| match newest(body) {
        text if text.starts_with("read") => calls(&[("inbox", "{}")]),
        _ => says("It is about the minutes of the board."),
    });
    let folder = tempfile::tempdir().unwrap();
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o700)).unwrap();
    let client = Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .unwrap();
    // Threads of its own, whose processor time is that of the proxy.
    let mut threads = Builder::new_multi_thread();
    let threads = threads
        .worker_threads(1)
        .thread_name(THREAD)
        // The time of a thread that ends would be lost.
        .thread_keep_alive(Duration::from_secs(3600))
        .enable_all();
    let proxy = threads.build().unwrap();
    let server = match name {
        "PostgreSQL" => Some(Postgres::start()?),
        _ => None,
    };
    let store = match &server {
        // In the threads of the proxy, which has its connections.
        Some(server) => {
            let (url, settings) = (server.database(), PoolSettings::default());
            Some(proxy.block_on(Store::postgres(&url, &settings)).unwrap())
        }
        None => (name == "SQLite").then(|| Store::sqlite(folder.path()).unwrap()),
    };
    let store = store.map(|store| store.state());
    let stage = Arc::new(serve(&proxy, &upstream, store.clone()));
    let before = resident();
    // The first requests open connections.
    client.block_on(converse(&stage, 0)).unwrap();
    let cpu = processor_time();
    let mut times = client.block_on(load(&stage, rate));
    let asked = (rate * SECONDS) as usize;
    let cpu = (processor_time() - cpu) / asked as f64;
    let failed = asked - times.len();
    assert!(!times.is_empty(), "{name} answers nothing in time");
    times.sort();
    let at = |percent: usize| times[times.len() * percent / 100].as_secs_f64() * 1e3;
    let measured = asked / 2;
    client.block_on(async {
        let mut tasks = Vec::new();
        for task in 0..8 {
            let stage = Arc::clone(&stage);
            tasks.push(tokio::spawn(async move {
                for number in (measured + task..conversations).step_by(8) {
                    assert!(converse(&stage, number).await.is_some(), "{number}");
                }
            }));
        }
        for task in tasks {
            task.await.unwrap();
        }
    });
    let grown = (resident() - before) as f64 / 1024.0;
    // Another replica reads the logs of all clients before it answers them.
    let new = serve(&proxy, &upstream, store);
    let begun = Instant::now();
    for number in 0..CLIENTS {
        client.block_on(converse(&new, number)).unwrap();
    }
    let new = begun.elapsed().as_secs_f64();
    proxy.shutdown_background();
    Some([at(50), at(99), cpu, failed as f64, grown, new])
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

/// Two requests of one conversation, of which the second brings a result. Returns how long each took, or `None` where one was
/// refused because the proxy or the store is too slow for this rate.
async fn converse(stage: &Stage, number: usize) -> Option<[Duration; 2]> {
    let name = format!("conversation-{number}");
    let key = format!("key-{}", number % CLIENTS);
    let ask = async |messages: &[serde_json::Value]| {
        let begun = Instant::now();
        let asked = stage.as_client(&key, Some(&name), messages, json!({}));
        let (status, answer) = asked.await;
        assert!(matches!(status, 200 | 503), "{status}: {answer}");
        let message = answer["choices"][0]["message"].clone();
        (status == 200).then(|| (begun.elapsed(), message))
    };
    let mut messages = vec![user(&format!("read {number}"))];
    let (first, answer) = ask(&messages).await?;
    messages.extend([
        answer.clone(),
        result(&answer, 0, &format!("{number}: {MAIL}")),
    ]);
    let (second, _) = ask(&messages).await?;
    Some([first, second])
}

async fn load(stage: &Arc<Stage>, rate: u32) -> Vec<Duration> {
    // Each conversation has two requests.
    let mut ticks = interval(Duration::from_secs(2) / rate);
    let mut tasks = Vec::new();
    for number in 1..=rate * SECONDS / 2 {
        ticks.tick().await;
        let stage = Arc::clone(stage);
        let number = usize::try_from(number).unwrap();
        tasks.push(tokio::spawn(async move { converse(&stage, number).await }));
    }
    let mut times = Vec::new();
    for task in tasks {
        times.extend(task.await.unwrap().into_iter().flatten());
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
        name.ends_with(THREAD)
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
