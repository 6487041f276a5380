//! The guard proxy beside the direct path and a proxy that only copies, in one run and by turns, so that a noisy machine
//! is noisy to all. Other gateways in front of the same upstream can be measured in the same run.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use agentdojo::baseline::Unprotected;
use anyhow::{Context, Result, anyhow};
use clap::Args;
use config::Config;
use hub::Screening;
use ifc::{Label, Policy};
use llm::{Broker, HttpConfig, HttpProvider};
use screen::NaiveTainting;
use serde_json::{Value, json};
use server::Parts;
use server::proxy::{Proxy as Guard, ProxySetup};

use crate::exit::Exit;
use crate::load::{Measured, Server, Target, constant, request};
use crate::progress::Progress;
use crate::terminal::print;

/// Rounds in which each path has its turn. An odd number, so that one of them is the median.
const ROUNDS: u32 = 9;
/// The rules of the mock's tools.
const RULES: &str = r#"
[app.bench]
client = true
descriptions = []
[app.bench.tools.read_mail]
effect = "read"
limit = "any"
format = "text"
rest = ["untrusted"]
[app.bench.tools.send_mail]
effect = "irreversible"
limit = []
format = "text"
rest = []
"#;

#[derive(Debug, Args)]
pub(crate) struct Proxy {
    /// Requests a second.
    #[arg(long, default_value_t = 1000)]
    rate: u32,
    /// Seconds at this rate, for each path.
    #[arg(long, default_value_t = 20)]
    seconds: u32,
    /// Connections that keep the rate.
    #[arg(long, default_value_t = 32)]
    connections: u32,
    /// The port of the scripted upstream on loopback, for gateways that have to know it. 0 for any.
    #[arg(long, default_value_t = 0)]
    upstream_port: u16,
    /// A gateway in front of the same upstream that runs already; may be repeated. `lab/sluice-lab/gateways.py` starts some.
    #[arg(long, value_name = "NAME=ADDRESS", value_parser = named_address)]
    beside: Vec<(String, SocketAddr)>,
    /// A header of every request, such as one that tells a gateway its upstream; may be repeated.
    #[arg(long, value_name = "NAME: VALUE")]
    header: Vec<String>,
}

fn named_address(text: &str) -> Result<(String, SocketAddr)> {
    let (name, address) = text.split_once('=').context("write NAME=ADDRESS")?;
    Ok((name.to_owned(), address.parse()?))
}

struct Way {
    name: String,
    target: Target,
    constant: Measured,
    /// The quantiles of each round.
    rounds: Vec<[i64; 3]>,
}

impl Way {
    /// What each quantile is over that of another way, in µs: the median of the rounds, each of which compares what was
    /// measured within seconds. A round in which the machine had something else to do is one of many then, where it
    /// would decide about the 99th hundredth of all requests.
    fn over(&self, other: &Self) -> [i64; 3] {
        let mut medians = [0; 3];
        for (number, median) in medians.iter_mut().enumerate() {
            let rounds = self.rounds.iter().zip(&other.rounds);
            let mut over: Vec<i64> = rounds
                .filter_map(|(own, other)| Some(own.get(number)? - other.get(number)?))
                .collect();
            over.sort_unstable();
            *median = over.get(over.len() / 2).copied().unwrap_or_default();
        }
        medians
    }
}

pub(crate) async fn proxy(args: Proxy) -> Result<Exit> {
    let mock =
        Server::mock(&answer().to_string(), args.upstream_port).context("no mock upstream")?;
    let hop = Server::hop(mock.address).context("no second hop")?;
    let plain = guard(mock.address, false).await?;
    let labelled = guard(mock.address, true).await?;
    let body = conversation().to_string();
    let own = [
        ("direct", mock.address),
        ("a hop that only copies", hop.address),
        ("proxy, unprotected", plain),
        ("proxy, labels (naive)", labelled),
    ];
    let own = own.map(|(name, address)| (name.to_owned(), address));
    let all = own.into_iter().chain(args.beside.iter().cloned());
    let ways = all.map(|(name, address)| Way {
        name,
        target: request(address, &args.header, &body),
        constant: Measured::default(),
        rounds: Vec::new(),
    });
    let ways = ways.collect();
    let measured = tokio::task::spawn_blocking(move || measure(&args, ways)).await?;
    drop((mock, hop));
    measured
}

fn measure(args: &Proxy, mut ways: Vec<Way>) -> Result<Exit> {
    for way in &ways {
        // Connections, caches and the allocator are warm afterwards.
        constant(
            &way.target,
            args.rate,
            args.connections,
            Duration::from_secs(1),
        )?;
    }
    let round = Duration::from_secs(args.seconds.into()) / ROUNDS;
    let progress = Progress::new();
    for number in 1..=ROUNDS {
        for way in &mut ways {
            progress.say(&format!("round {number} of {ROUNDS}: {}", way.name));
            let measured = constant(&way.target, args.rate, args.connections, round)?;
            way.rounds.push(quantiles(&measured));
            // Rounds are pooled, so that the quantiles of a way are those of all its requests.
            way.constant.join(measured);
        }
    }
    progress.clear();
    report(args, &ways)?;
    let errors = ways.iter().map(|way| way.constant.errors);
    Ok(match errors.sum::<usize>() {
        0 => Exit::Done,
        _ => Exit::Failed,
    })
}

/// The median, the 90th and the 99th hundredth, in µs.
fn quantiles(measured: &Measured) -> [i64; 3] {
    let us = |time: Duration| i64::try_from(time.as_micros()).unwrap_or(i64::MAX);
    [50, 90, 99].map(|percent| us(measured.quantile(percent)))
}

fn report(args: &Proxy, ways: &[Way]) -> Result<()> {
    let rate = args.rate;
    print(&format!(
        "{rate} requests/s, latency from the due time in µs; over direct: the median of {ROUNDS} rounds"
    ))?;
    print(
        "                           p50     p90     p99   over direct: p50     p90     p99   requests  errors",
    )?;
    let direct = ways.first();
    for way in ways {
        let over = direct.map(|direct| way.over(direct)).unwrap_or_default();
        print(&line(way, over))?;
    }
    Ok(())
}

/// The figures of one way, and the difference to the direct one.
fn line(way: &Way, [o50, o90, o99]: [i64; 3]) -> String {
    let [p50, p90, p99] = quantiles(&way.constant);
    let (requests, errors) = (way.constant.count(), way.constant.errors);
    format!(
        "{:<22} {p50:>7} {p90:>7} {p99:>7} {o50:>18} {o90:>7} {o99:>7} {requests:>10} {errors:>7}",
        way.name
    )
}

/// A running proxy before the mock; without protection its policy labels and limits nothing.
async fn guard(upstream: SocketAddr, protected: bool) -> Result<SocketAddr> {
    let config = Config::load_with(Path::new("bench.toml"), &|_| Ok(RULES.to_owned()))
        .map_err(|errors| anyhow!("the bench's rules have mistakes\n\n{errors}"))?;
    let mut to = HttpConfig::new("mock", &format!("http://{upstream}/v1"), "mock");
    to.pass_through = true;
    let broker = Broker::new(Arc::new(HttpProvider::new(to)?), Label::top());
    let policy: Arc<dyn Policy> = match protected {
        true => Arc::new(config.policy()),
        false => Arc::new(Unprotected),
    };
    let mut parts = Parts::new(
        Arc::new(broker),
        policy,
        Arc::new(config.lattice.clone()),
        Arc::new(NaiveTainting),
    );
    // Nothing is screened before the coarse label of a call would break a rule.
    parts.settings.screening = Screening::LAZY;
    let setup = ProxySetup::new(parts, "bench");
    let guard = Guard::bind(setup).await?;
    let address = guard.address();
    tokio::spawn(guard.serve(std::future::pending()));
    Ok(address)
}

/// An agent in the middle of its work: ten tools, two of them used, some pages of text.
fn conversation() -> Value {
    let tool = |number: usize| {
        let name = match number {
            0 => "read_mail".to_owned(),
            1 => "send_mail".to_owned(),
            other => format!("tool_{other}"),
        };
        json!({"type": "function", "function": {
            "name": name,
            "description": "Does one thing to one mailbox, and says in a sentence what came of it.",
            "parameters": {"type": "object", "required": ["folder"], "properties": {
                "folder": {"type": "string", "description": "The folder's name."},
                "limit": {"type": "integer", "minimum": 1, "maximum": 100},
            }},
        }})
    };
    let paragraph = "Dear all, the meeting moves to Thursday at ten; please bring the figures. ";
    let mut messages = vec![
        json!({"role": "system", "content": "You are an assistant that works on mail. ".repeat(10)}),
        json!({"role": "user", "content": "Summarise what is new, and say what needs an answer."}),
    ];
    for number in 0..3 {
        let id = format!("call_{number}");
        messages.push(json!({"role": "assistant", "content": null, "tool_calls": [{
            "id": id, "type": "function",
            "function": {"name": "read_mail", "arguments": format!("{{\"folder\":\"{number}\"}}")},
        }]}));
        let text = paragraph.repeat(10);
        messages.push(json!({"role": "tool", "tool_call_id": id, "content": text}));
    }
    let tools: Vec<Value> = (0..10).map(tool).collect();
    json!({"model": "mock", "messages": messages, "tools": tools, "temperature": 0.0})
}

fn answer() -> Value {
    let text = "Three mails are new. The meeting moves to Thursday; nothing needs an answer. ";
    json!({
        "id": "chatcmpl-mock", "object": "chat.completion", "created": 1_700_000_000,
        "model": "mock",
        "choices": [{"index": 0, "finish_reason": "stop",
            "message": {"role": "assistant", "content": text.repeat(4)}}],
        "usage": {"prompt_tokens": 900, "completion_tokens": 80, "total_tokens": 980},
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn way(rounds: &[[i64; 3]]) -> Way {
        Way {
            name: "direct".to_owned(),
            target: request(SocketAddr::from(([127, 0, 0, 1], 1)), &[], ""),
            constant: Measured::default(),
            rounds: rounds.to_vec(),
        }
    }

    #[test]
    fn a_round_that_was_disturbed_does_not_decide() {
        let direct = way(&[[1, 1, 100], [2, 1, 100], [3, 1, 9_000]]);
        let proxy = way(&[[11, 1, 300], [12, 1, 50_000], [13, 1, 9_250]]);
        assert_eq!(proxy.over(&direct), [10, 0, 250]);
        assert_eq!(way(&[]).over(&direct), [0; 3]);
    }
}
