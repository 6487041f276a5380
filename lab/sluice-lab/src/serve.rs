//! Replicas of `sluice serve` over one state, under a steady load. In each minute one replica is reloaded and another is
//! restarted, and no client notices more than that a replica drains.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::PathBuf;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use clap::Args;
use clap::builder::RangedU64ValueParser;
use rustix::process::{Pid, Signal, kill_process};
use serde::Serialize;
use serde_json::{Value, json};
use tempfile::TempDir;
use test_support::{Postgres, Upstream, calls, newest, says};

use crate::exit::{Exit, interruptible};
use crate::progress::Progress;
use crate::quantile::at;
use crate::sluice::binary;
use crate::terminal::{print, say};

/// Clients at once, each of which has one conversation at a time.
const CLIENTS: u32 = 32;
/// Tenants: the state is kept by the agent's token.
const TOKENS: usize = 4;
/// A start, a stop, a reload, and an answer by any replica take no longer.
const PATIENCE: Duration = Duration::from_secs(30);
/// A load balancer hears of a stop so long before the replica.
const NOTICE: Duration = Duration::from_millis(50);
/// When in its minute a replica is reloaded, and when another is restarted.
const RELOAD: Duration = Duration::from_secs(20);
const RESTART: Duration = Duration::from_secs(40);
const MINUTE: Duration = Duration::from_secs(60);
/// Errors that are printed.
const SHOWN: usize = 10;

const RULES: &str = r#"
[app.agent]
client = true
[app.agent.tools.read]
effect = "read"
limit = "any"
[app.agent.tools.pay]
effect = "irreversible"
limit = []
parameters = { to = "string" }
[proxy]
on_violation = "drop"
"#;

#[derive(Debug, Args)]
pub(crate) struct Serve {
    /// Minutes of load.
    #[arg(long, default_value_t = 60)]
    minutes: u32,
    /// Requests a second.
    #[arg(long, default_value_t = 100, value_parser = RangedU64ValueParser::<u32>::new().range(1..))]
    rate: u32,
    /// Replicas that share the state.
    #[arg(long, default_value_t = 2, value_parser = RangedU64ValueParser::<usize>::new().range(1..))]
    replicas: usize,
    /// Keep the state in SQLite [default: in a private PostgreSQL on loopback].
    #[arg(long)]
    sqlite: bool,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// What the load came to.
#[derive(Debug, Default, Serialize)]
struct Report {
    /// Answers by status. A request that got 429, 503 or no connection while its replica was restarted is sent again.
    answers: BTreeMap<String, u64>,
    errors: Vec<String>,
    p50_ms: f64,
    p99_ms: f64,
    /// Processor time of all replicas to an answer; their starts are left out.
    cpu_ms: f64,
    /// Of each replica, at the end of each minute.
    rss_mib: Vec<Vec<u64>>,
    /// From SIGTERM until the replica serves again; the longest.
    restart_s: f64,
    #[serde(skip)]
    latencies: Vec<Duration>,
    /// In ticks of 10 ms.
    #[serde(skip)]
    cpu: u64,
}

/// Runs the load, and fails if any request did.
pub(crate) async fn serve(args: Serve) -> Result<Exit> {
    let is_over = std::sync::Arc::new(AtomicBool::new(false));
    let stop = std::sync::Arc::clone(&is_over);
    let mut work = tokio::task::spawn_blocking(move || endure(&args, &is_over));
    if let Some(done) = interruptible(&mut work).await {
        return done?;
    }
    // The replicas end before this program does.
    stop.store(true, Ordering::Relaxed);
    work.await??;
    Ok(Exit::Interrupted)
}

fn endure(args: &Serve, is_over: &AtomicBool) -> Result<Exit> {
    let upstream = Upstream::forgetful(|body| match newest(body) {
        text if text.starts_with("pay") => calls(&[("pay", r#"{"to":"ada"}"#)]),
        text if text.starts_with("read") => calls(&[("read", "{}")]),
        _ => says("That is done."),
    });
    let postgres = match args.sqlite {
        true => None,
        false => Some(Postgres::start().context(
            "PostgreSQL is not installed; `cargo xtask setup` installs it, or use --sqlite",
        )?),
    };
    let url = postgres.as_ref().map(Postgres::database);
    let home = Home::new(&upstream.url, url.as_deref())?;
    let mut replicas = Vec::new();
    for number in 0..args.replicas {
        replicas.push(Replica::start(&home, number)?);
    }
    let addresses = replicas.iter().map(|replica| {
        Mutex::new(Known {
            address: replica.address,
            is_leaving: false,
        })
    });
    let tokens = (0..TOKENS).map(|number| home.token(number));
    let load = Load {
        replicas: addresses.collect(),
        tokens: tokens.collect::<Result<_>>()?,
        is_over,
        report: Mutex::default(),
        begin: Instant::now(),
        every: Duration::from_secs(1) / args.rate,
        end: MINUTE * args.minutes,
    };
    thread::scope(|scope| {
        for number in 0..CLIENTS {
            let load = &load;
            scope.spawn(move || load.client(number));
        }
        let kept = load.disturb(args, &home, &mut replicas);
        if kept.is_err() {
            is_over.store(true, Ordering::Relaxed);
        }
        kept
    })?;
    let mut report = load
        .report
        .into_inner()
        .unwrap_or_else(PoisonError::into_inner);
    for replica in &replicas {
        report.cpu += replica.used()?;
    }
    report.latencies.sort_unstable();
    let ms = |percent| at(&report.latencies, percent).as_secs_f64() * 1e3;
    (report.p50_ms, report.p99_ms) = (ms(50), ms(99));
    let answered = report.latencies.len().max(1);
    report.cpu_ms = report.cpu as f64 * 10.0 / answered as f64;
    show(args, &report)?;
    let failed = !report.errors.is_empty() || report.latencies.is_empty();
    Ok(if failed { Exit::Failed } else { Exit::Done })
}

fn show(args: &Serve, report: &Report) -> Result<()> {
    if args.json {
        return Ok(print(&serde_json::to_string(report)?)?);
    }
    let store = if args.sqlite { "SQLite" } else { "PostgreSQL" };
    let (replicas, rate) = (args.replicas, args.rate);
    print(&format!(
        "{replicas} replicas on {store}, {rate} requests/s"
    ))?;
    for (status, count) in &report.answers {
        print(&format!("{count:>9}  {status}"))?;
    }
    let (p50, p99, cpu) = (report.p50_ms, report.p99_ms, report.cpu_ms);
    print(&format!(
        "latency p50 {p50:.1} ms, p99 {p99:.1} ms from the due time; processor {cpu:.2} ms/request; longest restart {:.1} s",
        report.restart_s
    ))?;
    for (minute, rss) in report.rss_mib.iter().enumerate() {
        let minute = minute + 1;
        print(&format!(
            "minute {minute:>3}: RSS MiB of each replica {rss:?}"
        ))?;
    }
    for error in report.errors.iter().take(SHOWN) {
        print(&format!("error: {error}"))?;
    }
    print(&format!("{} errors", report.errors.len()))?;
    Ok(())
}

/// Configuration and state of all replicas.
struct Home {
    folder: TempDir,
    sluice: PathBuf,
}

impl Home {
    fn new(upstream: &str, database: Option<&str>) -> Result<Self> {
        let own = Self {
            folder: tempfile::tempdir()?,
            sluice: binary("sluice")?,
        };
        for name in ["config", "home", "state"] {
            let mut folder = fs::DirBuilder::new();
            folder.mode(0o700).create(own.path(name))?;
        }
        // Others may not read the secret.
        let mut options = File::options();
        let options = options.write(true).create_new(true).mode(0o600);
        let mut file = options.open(own.path("config/secret"))?;
        file.write_all("s".repeat(40).as_bytes())?;
        let state = database.map(|url| format!("[state]\nurl = \"{url}\"\n"));
        let config = format!(
            "{RULES}\n[[provider]]\nname = \"up\"\nkind = \"openai\"\nmodel = \"m\"\nbase_url = \"{upstream}\"\n\
             api_key_env = \"UPSTREAM_KEY\"\nclearance = \"any\"\n[service]\nsecret_file = \"secret\"\n{}",
            state.unwrap_or_default()
        );
        fs::write(own.path("config/sluice.toml"), config)?;
        Ok(own)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(&self.sluice);
        command
            .args(words)
            .arg("--config")
            .arg(self.path("config/sluice.toml"));
        command
            .env("HOME", self.path("home"))
            .env("XDG_STATE_HOME", self.path("state"));
        command.env("UPSTREAM_KEY", "key").stdin(Stdio::null());
        command
    }

    /// A new token of an agent.
    fn token(&self, number: usize) -> Result<String> {
        let name = format!("agent-{number}");
        let made = self
            .command(&["token", "new", &name, "--role", "agent"])
            .output()?;
        if !made.status.success() {
            bail!("no token: {}", String::from_utf8_lossy(&made.stderr));
        }
        Ok(String::from_utf8(made.stdout)?.trim().to_owned())
    }
}

/// A running service.
struct Replica {
    child: Child,
    address: SocketAddr,
    /// Open, so that the service can write to it.
    _out: BufReader<ChildStdout>,
    log: PathBuf,
    /// Processor time of the start.
    started: u64,
}

impl Replica {
    fn start(home: &Home, number: usize) -> Result<Self> {
        let log = home.path(&format!("{number}.log"));
        let mut command = home.command(&["serve", "--listen", "127.0.0.1:0", "--json"]);
        let err = File::options().append(true).create(true).open(&log)?;
        let mut child = command.stdout(Stdio::piped()).stderr(err).spawn()?;
        let mut out = BufReader::new(child.stdout.take().context("it has no output")?);
        let mut line = String::new();
        out.read_line(&mut line)?;
        let told: Value = serde_json::from_str(&line).unwrap_or_default();
        let address = told.get("listening").and_then(Value::as_str);
        let Some(address) = address.and_then(|url| url.strip_prefix("http://")) else {
            child.wait()?;
            bail!(
                "replica {number} does not serve: {}",
                fs::read_to_string(&log)?
            );
        };
        let mut own = Self {
            child,
            address: address.parse()?,
            _out: out,
            log,
            started: 0,
        };
        own.started = own.used()?;
        Ok(own)
    }

    /// Processor time since it serves, in ticks.
    fn used(&self) -> Result<u64> {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.child.id()))?;
        // The name before may have spaces; then come the state and ten fields that are not needed.
        let fields = stat
            .rsplit_once(')')
            .map_or("", |(_, rest)| rest)
            .split_whitespace();
        let times = fields.skip(11).take(2).map(str::parse::<u64>);
        Ok(times.sum::<Result<u64, _>>()?.saturating_sub(self.started))
    }

    fn resident_mib(&self) -> Result<u64> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.id()))?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let kib = line.and_then(|line| line.split_whitespace().next());
        Ok(kib.context("no VmRSS")?.parse::<u64>()? / 1024)
    }

    fn signal(&self, signal: Signal) -> Result<()> {
        Ok(kill_process(Pid::from_child(&self.child), signal)?)
    }

    /// Reloads the configuration, which must be taken.
    fn reload(&self) -> Result<()> {
        let reloads = || -> Result<usize> {
            Ok(fs::read_to_string(&self.log)?
                .matches("the configuration is reloaded")
                .count())
        };
        let before = reloads()?;
        self.signal(Signal::HUP)?;
        patiently("a reload", || Ok((reloads()? > before).then_some(())))
    }

    /// Ends it as a service manager does.
    fn stop(&mut self) -> Result<()> {
        self.signal(Signal::TERM)?;
        let status = patiently("a stop", || Ok(self.child.try_wait()?))?;
        if !status.success() {
            bail!(
                "a replica ended with {status}: {}",
                fs::read_to_string(&self.log)?
            );
        }
        Ok(())
    }
}

impl Drop for Replica {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn patiently<T>(what: &str, mut look: impl FnMut() -> Result<Option<T>>) -> Result<T> {
    let begun = Instant::now();
    loop {
        if let Some(found) = look()? {
            return Ok(found);
        }
        if begun.elapsed() > PATIENCE {
            bail!("{what} took more than {} s", PATIENCE.as_secs());
        }
        thread::sleep(Duration::from_millis(5));
    }
}

/// What clients know of a replica.
#[derive(Clone, Copy)]
struct Known {
    address: SocketAddr,
    /// It is being restarted.
    is_leaving: bool,
}

struct Load<'a> {
    replicas: Vec<Mutex<Known>>,
    tokens: Vec<String>,
    is_over: &'a AtomicBool,
    report: Mutex<Report>,
    begin: Instant,
    every: Duration,
    end: Duration,
}

impl Load<'_> {
    fn report(&self) -> MutexGuard<'_, Report> {
        self.report.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn known(&self, number: usize) -> MutexGuard<'_, Known> {
        #[expect(clippy::indexing_slicing, reason = "a remainder of the length")]
        let known = &self.replicas[number % self.replicas.len()];
        known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reloads and restarts replicas by turns until the end, and looks at their memory.
    fn disturb(&self, args: &Serve, home: &Home, replicas: &mut [Replica]) -> Result<()> {
        let progress = Progress::new();
        let wait = |until: Duration| {
            while self.begin.elapsed() < until && !self.is_over.load(Ordering::Relaxed) {
                let report = self.report();
                let (done, errors) = (report.latencies.len(), report.errors.len());
                drop(report);
                let minute = self.begin.elapsed().as_secs() / 60 + 1;
                progress.say(&format!(
                    "minute {minute} of {}: {done} answers, {errors} errors",
                    args.minutes
                ));
                thread::sleep(Duration::from_millis(100));
            }
            self.is_over.load(Ordering::Relaxed)
        };
        for minute in 0..args.minutes {
            let (begin, count) = (MINUTE * minute, replicas.len());
            let turn = usize::try_from(minute)?;
            if wait(begin + RELOAD) {
                break;
            }
            if let Some(replica) = replicas.get(turn % count) {
                replica.reload()?;
            }
            if wait(begin + RESTART) {
                break;
            }
            let number = (turn + 1) % count;
            if let Some(replica) = replicas.get_mut(number) {
                self.known(number).is_leaving = true;
                thread::sleep(NOTICE);
                let begun = Instant::now();
                let used = replica.used()?;
                replica.stop()?;
                *replica = Replica::start(home, number)?;
                let mut report = self.report();
                report.restart_s = report.restart_s.max(begun.elapsed().as_secs_f64());
                report.cpu += used;
                drop(report);
                let (address, is_leaving) = (replica.address, false);
                *self.known(number) = Known {
                    address,
                    is_leaving,
                };
            }
            if wait(begin + MINUTE) {
                break;
            }
            let rss = replicas.iter().map(Replica::resident_mib);
            self.report().rss_mib.push(rss.collect::<Result<_>>()?);
        }
        progress.clear();
        Ok(())
    }

    /// One client: request `i` of all is due at `i / rate`; it does not wait for the answers of others.
    fn client(&self, number: u32) {
        let (mut turn, mut talk) = (number, Talk::new(number));
        while self.every * turn < self.end && !self.is_over.load(Ordering::Relaxed) {
            if self.begin.elapsed() > self.end + PATIENCE {
                let error = "the replicas are too slow for this rate".to_owned();
                self.report().errors.push(error);
                break;
            }
            let due = self.begin + self.every * turn;
            thread::sleep(due.saturating_duration_since(Instant::now()));
            let goes_on = match self.ask(&talk, turn).and_then(|answer| talk.go_on(answer)) {
                Ok(goes_on) => {
                    self.report().latencies.push(due.elapsed());
                    goes_on
                }
                Err(error) => {
                    let at = self.begin.elapsed().as_secs_f64();
                    let error = format!("{at:.2} s, {}: {error}", talk.name);
                    say(&format!("{error}\n"));
                    self.report().errors.push(error);
                    false
                }
            };
            turn += CLIENTS;
            if !goes_on {
                talk = Talk::new(turn);
            }
        }
    }

    /// The next answer of a conversation, by the replicas in turn: as behind a load balancer that repeats what was refused.
    fn ask(&self, talk: &Talk, turn: u32) -> Result<Value, String> {
        let count =
            |status: &str| *self.report().answers.entry(status.to_owned()).or_default() += 1;
        let begun = Instant::now();
        let first = usize::try_from(turn / CLIENTS).unwrap_or_default();
        for number in first.. {
            if begun.elapsed() > PATIENCE || self.is_over.load(Ordering::Relaxed) {
                break;
            }
            let known = *self.known(number);
            match (
                exchange(known.address, &talk.request(&self.tokens)),
                known.is_leaving,
            ) {
                (Ok((200, body)), _) => {
                    count("200");
                    return serde_json::from_str(&body).map_err(|error| format!("{error}: {body}"));
                }
                (Ok((status @ (429 | 503), _)), true) => {
                    count(&format!("{status} while a replica drained"))
                }
                (Err(_), true) => count("no connection while a replica was restarted"),
                (Ok((status, body)), _) => {
                    count(&status.to_string());
                    return Err(format!("{status}: {body}"));
                }
                (Err(error), false) => return Err(format!("no answer: {error}")),
            }
            thread::sleep(Duration::from_millis(10));
        }
        Err("no replica answers".to_owned())
    }
}

/// One request over a connection of its own: status and body.
fn exchange(address: SocketAddr, request: &str) -> Result<(u16, String)> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.write_all(request.as_bytes())?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    let (head, body) = answer.split_once("\r\n\r\n").context("the answer is cut")?;
    let status = head.split(' ').nth(1).context("there is no status")?;
    Ok((status.parse()?, body.to_owned()))
}

/// A conversation of two calls and four requests.
struct Talk {
    name: String,
    number: u32,
    messages: Vec<Value>,
}

impl Talk {
    fn new(number: u32) -> Self {
        Self {
            name: format!("talk-{number}"),
            number,
            // Before anything untrusted is read.
            messages: vec![json!({"role": "user", "content": format!("pay bill {number}")})],
        }
    }

    fn request(&self, tokens: &[String]) -> String {
        let tool = |name: &str, properties: Value| {
            let parameters = json!({"type": "object", "properties": properties});
            json!({"type": "function", "function": {"name": name, "parameters": parameters}})
        };
        let tools = [
            tool("read", json!({})),
            tool("pay", json!({"to": {"type": "string"}})),
        ];
        let body = json!({"model": "m", "messages": self.messages, "tools": tools}).to_string();
        let token = tokens
            .iter()
            .cycle()
            .nth(self.number as usize % TOKENS)
            .map_or("", String::as_str);
        // Half of the conversations have no name, and are known by how they began.
        let named = match self.number % 2 {
            0 => format!("x-sluice-conversation: {}\r\n", self.name),
            _ => String::new(),
        };
        format!(
            "POST /v1/chat/completions HTTP/1.1\r\nhost: 127.0.0.1\r\nauthorization: Bearer {token}\r\n{named}\
             connection: close\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        )
    }

    /// Takes an answer: a call after what the user says, and words after a result. Whether another request follows.
    fn go_on(&mut self, mut answer: Value) -> Result<bool, String> {
        let call = answer
            .pointer("/choices/0/message/tool_calls/0/id")
            .cloned();
        let last = self.messages.last().and_then(|message| message.get("role"));
        let is_asked = last.is_some_and(|role| role == "user");
        let (Some(message), true) = (
            answer.pointer_mut("/choices/0/message"),
            call.is_some() == is_asked,
        ) else {
            return Err(format!("not the call or words that were due: {answer}"));
        };
        self.messages.push(message.take());
        if let Some(call) = call {
            let text = format!(
                "Dear reader {}, the minutes of the board are attached. Please tell me what you think of the \
                offer until Friday; I would like to answer it before the end of the month.",
                self.number
            );
            self.messages
                .push(json!({"role": "tool", "tool_call_id": call, "content": text}));
            return Ok(true);
        }
        let is_first = self.messages.len() == 4;
        if is_first {
            self.messages
                .push(json!({"role": "user", "content": "read my mail"}));
        }
        Ok(is_first)
    }
}
