//! What the way out through the hub costs an app, beside a direct connection over loopback: by the same program, in one
//! run and by turns, so that a noisy machine is noisy to both.

use std::io::{self, BufRead, BufReader, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::thread;

use anyhow::{Context, Result, bail};
use async_trait::async_trait;
use clap::Args;
use clap::builder::RangedU64ValueParser;
use names::Pattern;
use rustix::net::sockopt::set_tcp_congestion;
use serde::Deserialize;
use serde_json::json;
use server::{Gate, Resolve, Spoke};
use tokio::process::Command;
use tokio::sync::mpsc;

use crate::exit::Exit;
use crate::progress::Progress;
use crate::quantile::at;
use crate::sluice::binary;
use crate::terminal::print;
use crate::unlimited::{call, gate, setup};

/// The app.
const PROGRAM: &str = "sluice-fetching-app";
/// What the app knows the host as.
const NAME: &str = "host.example.org";
/// The host's port inside the spoke. Nothing is looked at on it before the connection is opened, as on those of the web.
const PORT: u16 = 7777;
/// Connections of a round that bring one byte.
const SHORT: usize = 20;
/// Bytes that the host sends at a time.
const PIECE: usize = 1 << 20;

#[derive(Debug, Args)]
pub(crate) struct EgressArgs {
    /// Bytes of a download.
    // One byte is what the connections beside the downloads bring.
    #[arg(long, default_value_t = 100_000_000, value_parser = RangedU64ValueParser::<usize>::new().range(2..))]
    bytes: usize,
    /// Downloads of each way, by turns; with each come 20 connections for one byte. One more round comes first and is
    /// not counted.
    #[arg(long, default_value_t = 15, value_parser = RangedU64ValueParser::<usize>::new().range(1..))]
    rounds: usize,
    /// Congestion control of the host, for what it sends both ways. Without it, what this machine has.
    #[arg(long)]
    congestion: Option<String>,
    /// Print one line of JSON.
    #[arg(long)]
    json: bool,
}

/// One connection, as the app says it.
#[derive(Debug, Deserialize)]
struct Fetched {
    first_byte_us: f64,
    all_us: f64,
}

/// What one way came to. Sorted.
#[derive(Debug, Default)]
struct Way {
    first_byte_us: Vec<f64>,
    /// Of whole downloads, in bytes per microsecond: megabytes per second.
    rates: Vec<f64>,
}

/// Measures both ways.
pub(crate) async fn egress(args: EgressArgs) -> Result<Exit> {
    let host = host(args.congestion.as_deref()).context("no host on loopback")?;
    // One spoke for all rounds: what is measured is the way out, not the start.
    let app = App::start(host).await?;
    let program = binary(PROGRAM)?;
    let (mut direct, mut through) = (Way::default(), Way::default());
    let progress = Progress::new();
    for round in 0..=args.rounds {
        progress.moved("rounds", round, args.rounds);
        for (bytes, times) in [(1, SHORT), (args.bytes, 1)] {
            // One after the other, and never at once: both would share the processor.
            let directly = directly(&program, host, bytes, times).await?;
            let by_the_hub = app.fetch(bytes, times).await?;
            // The first round warms the caches of both ways and is not counted.
            if round > 0 {
                direct.add(bytes, directly);
                through.add(bytes, by_the_hub);
            }
        }
    }
    progress.clear();
    report(&args, &direct.sorted(), &through.sorted())?;
    Ok(Exit::Done)
}

/// The app in its spoke, and the hub's side of it.
struct App {
    gate: Gate,
    spoke: Spoke,
}

impl App {
    async fn start(host: SocketAddr) -> Result<Self> {
        let gate = Gate {
            resolver: Arc::new(OneHost(host)),
            ..gate()
        };
        let mut setup = setup("fetch", PROGRAM)?;
        setup.sandbox.names = vec![PORT];
        let pattern = Pattern::new(NAME)?;
        setup.domains.addresses = vec![(pattern, vec![host.ip()])];
        // Nobody reads what became of the connections.
        let (events, _) = mpsc::channel(1);
        let spoke = Spoke::open(setup, &gate, events).await?;
        Ok(Self { gate, spoke })
    }

    async fn fetch(&self, bytes: usize, times: usize) -> Result<Vec<Fetched>> {
        let wish = json!({"host": NAME, "port": PORT, "bytes": bytes, "times": times});
        let said = call(&self.spoke, &self.gate, "fetch", &wish).await?;
        Ok(serde_json::from_str(&said)?)
    }
}

/// The same program without spoke and hub.
async fn directly(
    program: &Path,
    host: SocketAddr,
    bytes: usize,
    times: usize,
) -> Result<Vec<Fetched>> {
    let (ip, port) = (host.ip().to_string(), host.port().to_string());
    let arguments = [ip, port, bytes.to_string(), times.to_string()];
    let output = Command::new(program).args(arguments).output().await?;
    if !output.status.success() {
        bail!("{}", String::from_utf8_lossy(&output.stderr));
    }
    Ok(serde_json::from_slice(&output.stdout)?)
}

/// Every name leads to this host.
struct OneHost(SocketAddr);

#[async_trait]
impl Resolve for OneHost {
    async fn resolve(&self, _: &str, _: u16) -> io::Result<Vec<SocketAddr>> {
        Ok(vec![self.0])
    }
}

/// A host on loopback that sends as many bytes as it is asked for, in a thread for each connection.
fn host(congestion: Option<&str>) -> io::Result<SocketAddr> {
    let listener = TcpListener::bind((IpAddr::from(Ipv4Addr::LOCALHOST), 0))?;
    if let Some(congestion) = congestion {
        // What it accepts has it, too.
        set_tcp_congestion(&listener, congestion)?;
    }
    let address = listener.local_addr()?;
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            // A client that breaks off says so itself.
            thread::spawn(move || drop(send(stream)));
        }
    });
    Ok(address)
}

fn send(mut stream: TcpStream) -> io::Result<()> {
    let mut line = String::new();
    BufReader::new(&stream).read_line(&mut line)?;
    let mut left: usize = line.trim().parse().map_err(io::Error::other)?;
    let piece = vec![7; PIECE];
    while left > 0 {
        let now = piece.get(..left).unwrap_or(&piece);
        stream.write_all(now)?;
        left -= now.len();
    }
    Ok(())
}

impl Way {
    fn add(&mut self, bytes: usize, fetched: Vec<Fetched>) {
        for Fetched {
            first_byte_us,
            all_us,
        } in fetched
        {
            match bytes {
                1 => self.first_byte_us.push(first_byte_us),
                #[expect(
                    clippy::cast_precision_loss,
                    reason = "bytes of a download, for a figure of three digits"
                )]
                _ => self.rates.push(bytes as f64 / all_us),
            }
        }
    }

    fn sorted(mut self) -> Self {
        self.first_byte_us.sort_by(f64::total_cmp);
        self.rates.sort_by(f64::total_cmp);
        self
    }
}

fn report(args: &EgressArgs, direct: &Way, through: &Way) -> Result<()> {
    let rates = [direct, through].map(|way| at(&way.rates, 50));
    let [directly, by_the_hub] = rates;
    let of_direct = by_the_hub / directly;
    // A machine that does other work slows the median down, of one way more than of the other: the fastest tenth tells
    // what the ways can do.
    let [fast_direct, fast_hub] = [direct, through].map(|way| at(&way.rates, 90));
    let of_fast = fast_hub / fast_direct;
    let firsts =
        [direct, through].map(|way| [50, 99].map(|percent| at(&way.first_byte_us, percent)));
    let [[direct_p50, direct_p99], [p50, p99]] = firsts;
    if args.json {
        let line = json!({
            "bytes": args.bytes, "rounds": args.rounds,
            "direct_mb_per_s": directly, "through_mb_per_s": by_the_hub, "of_direct": of_direct,
            "fastest_tenth": {"direct_mb_per_s": fast_direct, "through_mb_per_s": fast_hub, "of_direct": of_fast},
            "first_byte_direct_us": {"p50": direct_p50, "p99": direct_p99},
            "first_byte_through_us": {"p50": p50, "p99": p99},
        });
        return Ok(print(&line.to_string())?);
    }
    print(&format!(
        "{} bytes, medians of {}: direct {directly:.0} MB/s, through the hub {by_the_hub:.0} MB/s, {of_direct:.2} of it (aim: at least 0.8)",
        args.bytes, args.rounds,
    ))?;
    print(&format!(
        "the fastest tenth: direct {fast_direct:.0} MB/s, through the hub {fast_hub:.0} MB/s, {of_fast:.2} of it",
    ))?;
    print(&format!(
        "first byte, {} connections, p50 and p99: direct {direct_p50:.0} and {direct_p99:.0} us, through the hub {p50:.0} and {p99:.0} us, so {:+.0} and {:+.0} us (aim: under +1000)",
        direct.first_byte_us.len(),
        p50 - direct_p50,
        p99 - direct_p99,
    ))?;
    Ok(())
}
