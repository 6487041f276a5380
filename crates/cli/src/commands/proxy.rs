//! `sluice proxy`: guard any agent by its model's API.

mod tally;
pub(crate) mod terminal;
pub(crate) mod upstream;

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use clap::{Args, ValueEnum};
use config::{Config, DeskSettings, OnViolation};
use ifc::{Dimension, Label};
use llm::HttpProvider;
use policy::{Front, SessionFacts};
use serde_json::Value;
use server::desk::{Approver, Desk, DropCalls, fresh_token};
use server::proxy::{ClientLabels, Proxy as Guard, ProxySetup};
use server::{Rotation, TraceFile};

use self::tally::Tally;
pub(crate) use self::terminal::Announced;
use self::terminal::Asked;
use self::upstream::{Upstream, UpstreamArgs};
use crate::asking::Asking;
use crate::compose;
use crate::configuration;
use crate::exit::Exit;
use crate::interrupts::interrupts;
use crate::json_lines::print_json;
use crate::observed::{self, Draft, Observe, WARNING};
use crate::paths;
use crate::session::say_notes;
use crate::terminal::{Terminal, say, say_whole};

const AFTER_HELP: &str = "\
Example:
  sluice proxy --upstream https://api.openai.com/v1 --clearance any --policy sluice.toml
  sluice proxy --upstream https://api.openai.com/v1 --observe     # no policy yet: a report and a draft at the end
  OPENAI_BASE_URL=http://127.0.0.1:8080/v1 your-agent

For other machines, with the proxy's own key and a token for each of two agents:
  export AGENT_A=$(openssl rand -hex 16) AGENT_B=$(openssl rand -hex 16)
  sluice proxy --upstream openai --upstream-key-env OPENAI_API_KEY \\
    --listen 0.0.0.0:8080 --allow-remote --host guard.example --token-env AGENT_A --token-env AGENT_B
  OPENAI_BASE_URL=http://guard.example:8080/v1 OPENAI_API_KEY=$AGENT_A your-agent";

#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Proxy {
    #[command(flatten)]
    upstream: UpstreamArgs,
    /// The configuration with the rules [default: $SLUICE_CONFIG, ./sluice.toml, then the one in your
    /// configuration folder].
    #[arg(long, value_name = "FILE", visible_alias = "config")]
    policy: Option<PathBuf>,
    /// The app with the rules for the agent's tools [default: the one with `client = true`].
    #[arg(long, value_name = "NAME")]
    app: Option<String>,
    /// The address to listen at; port 0 lets the system choose.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:8080")]
    listen: SocketAddr,
    /// Let other machines connect; their requests need a token.
    #[arg(long)]
    allow_remote: bool,
    /// A host name by which other machines reach the proxy (repeatable) [default: its addresses only].
    #[arg(long, value_name = "NAME", requires = "allow_remote")]
    host: Vec<String>,
    /// A variable with a token that agents must send, as API key or in `x-sluice-token` (repeatable).
    /// Agents with the same token are one tenant. [default: no token on this machine; a new one is
    /// printed if the upstream's key is yours or other machines may connect].
    #[arg(long, value_name = "VARIABLE")]
    token_env: Vec<String>,
    /// Screen before every step, as in the RTBAS paper [default: only before a call that would
    /// violate the policy].
    #[arg(long)]
    eager: bool,
    /// What to do with a call that would violate the policy [default: on_violation of the
    /// configuration].
    #[arg(long, value_enum, value_name = "WHAT", conflicts_with = "observe")]
    on_violation: Option<Violation>,
    /// Seconds until an unanswered question is a no [default: approval_timeout_s of the
    /// configuration].
    #[arg(long, value_name = "SECONDS")]
    approval_timeout: Option<u64>,
    #[command(flatten)]
    observed: Observe,
    /// Write no trace.
    #[arg(long, conflicts_with = "observe")]
    no_trace: bool,
    /// Print JSON, one event per line.
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Violation {
    /// Ask at the terminal and at the desk.
    Ask,
    /// Drop the call and tell the model why.
    Drop,
}

/// Guards until Ctrl-C. The exit code is 1 if the trace could not be written.
pub(crate) async fn proxy(args: Proxy) -> Result<Exit> {
    let (config, draft) = opened(&args)?;
    say_notes(&config);
    let (mut setup, asks) = setup(&args, &config).await?;
    let rules = config.apps.get(&setup.app);
    let rules = rules.context("the app is not in the configuration")?;
    let tally = Arc::new(Tally::new(args.json, rules.clone()));
    setup.observer = tally.clone();
    setup.observe = args.observed.observe;
    let desk = match asks {
        Some(timeout) => Some(approvals(&mut setup, timeout, &config.desk, args.json)?),
        None => None,
    };
    let traced = setup.trace.as_ref().map(|trace| trace.path().to_owned());
    let app = setup.app.clone();
    // A token from a variable is not printed.
    let fresh = setup.tokens.first().cloned();
    let fresh = fresh.filter(|_| args.token_env.is_empty());
    let guard = Guard::bind(setup).await?;
    // Before the first line: a signal after it ends the proxy as any other.
    let cancel = interrupts();
    let url = guard.base_url();
    let approvals = format!("http://{}/sluice/v1/approvals", guard.address());
    if args.json {
        let desk = desk.as_ref();
        let desk = desk.map(|desk| serde_json::json!({"url": approvals, "token": desk.token()}));
        let line = serde_json::json!({"listening": url, "app": app, "approvals": desk,
            "token": fresh});
        print_json(&line)?;
    } else {
        say_whole(&format!(
            "{} {} by the rules of {app}; use it with ANTHROPIC_BASE_URL={} or OPENAI_BASE_URL={url}\n",
            if args.observed.observe {
                "watching"
            } else {
                "guarding"
            },
            args.upstream.name(),
            url.trim_end_matches("/v1")
        ));
        if let Some(token) = &fresh {
            say_whole(&format!(
                "agents need a token: OPENAI_API_KEY={token}, or the header x-sluice-token\n"
            ));
        }
        if let Some(desk) = &desk {
            let token = desk.token();
            say_whole(&format!(
                "questions: {approvals}, with Authorization: Bearer {token}\n"
            ));
        }
        // The report names it.
        if let Some(trace) = traced.as_ref().filter(|_| draft.is_none()) {
            say(&format!("trace: {}\n", trace.display()));
        }
    }
    let ending = async move {
        cancel.notified().await;
        say("waiting for open requests; press Ctrl-C twice to stop at once\n");
        // An open question becomes a no.
        if let Some(desk) = desk {
            desk.close().await;
        }
    };
    guard.serve(ending).await;
    match (draft, traced) {
        (Some(draft), Some(trace)) => {
            let json = args.json.then_some(print_json as fn(&Value) -> _);
            observed::finish(&draft, &[trace], BTreeSet::new(), json)?;
        }
        _ => tally.report()?,
    }
    Ok(match tally.has_failed() {
        true => Exit::Failed,
        false => Exit::Done,
    })
}

/// The configuration, and what a draft is made of with `--observe`, which needs no file.
fn opened(args: &Proxy) -> Result<(Config, Option<Draft>)> {
    let file = args.policy.as_deref();
    let attended = Terminal::attended() && !args.json;
    if !args.observed.observe {
        return Ok((configuration::open(file, attended)?, None));
    }
    say(&format!("{WARNING}\n"));
    let draft = Draft::new(args.observed.draft.as_deref(), file, None)?;
    let config = configuration::open(file, attended)?;
    draft.check(file)?;
    match config.apps.values().any(|app| app.client) {
        true => Ok((config, Some(draft))),
        false => {
            let lines = "\n[app.agent]\nclient = true\n";
            Ok((
                configuration::open_with(file, attended, lines)?,
                Some(draft),
            ))
        }
    }
}

/// The proxy's parts, and how long questions wait if there are any.
async fn setup(args: &Proxy, config: &Config) -> Result<(ProxySetup, Option<Duration>)> {
    let app = app(args, config)?;
    let on_violation = match args.on_violation {
        Some(Violation::Drop) => OnViolation::Drop,
        Some(Violation::Ask) => OnViolation::Ask,
        None => config.proxy.on_violation,
    };
    // With --observe everything passes, and with `drop` nothing that would need a question.
    let asks = !args.observed.observe && on_violation != OnViolation::Drop;
    let timeout = match args.approval_timeout {
        Some(seconds) => Duration::from_secs(seconds),
        None => config.proxy.approval_timeout,
    };
    let upstream = match args.observed.observe {
        // What the agent would have sent without Sluice.
        true => Upstream::uncleared(&args.upstream, config)?,
        false => Upstream::of(&args.upstream, config)?,
    };
    let mut setup = by_rules(config, &app, upstream, asks, args.eager)?;
    setup.address = args.listen;
    setup.allow_remote = args.allow_remote;
    setup.hosts.clone_from(&args.host);
    setup.tokens = tokens(args, &setup)?;
    if !args.no_trace {
        let name = format!("{}-proxy", compose::session_name()?);
        let rotation = Rotation::default();
        setup.trace = Some(TraceFile::rotating(&paths::traces()?, &name, rotation)?);
    }
    // Replaced where there is a desk (`approvals`).
    setup.approver = Arc::new(DropCalls);
    Ok((setup, asks.then_some(timeout)))
}

/// A proxy by the rules of this app in front of this upstream, with all that the configuration says of it. `asks`: someone
/// answers questions.
pub(crate) fn by_rules(
    config: &Config,
    app: &str,
    upstream: Upstream,
    asks: bool,
    eager: bool,
) -> Result<ProxySetup> {
    let facts = SessionFacts {
        attended: asks,
        front: Front::Proxy,
        // Where a header names the user of each request, nothing else does.
        user: match config.proxy.user_header {
            Some(_) => None,
            None => config.user_name.clone(),
        },
    };
    let Upstream {
        provider,
        clearance,
    } = upstream;
    let broker = compose::broker_behind(provider.clone(), clearance, config)?;
    let options = compose::Options {
        eager,
        facts,
        ..compose::Options::default()
    };
    let parts = compose::parts(config, broker, &options)?;
    let mut setup = ProxySetup::new(parts, app);
    setup.labels = labels(config, app);
    setup.models = Some(provider);
    setup.unknown_members = config.proxy.unknown_members;
    setup.omits_tools = config.proxy.omits_tools;
    setup.any_model = config.proxy.any_model;
    setup.user_header.clone_from(&config.proxy.user_header);
    Ok(setup)
}

/// What the configuration says of the text that an agent with the rules of this app brings.
fn labels(config: &Config, app: &str) -> ClientLabels {
    let user = config.user.clone();
    let known = config.apps.get(app);
    ClientLabels {
        // The user runs the agent, which writes these.
        system: Label::bottom(),
        descriptions: known.map_or(Label::top(), |app| app.descriptions.clone()),
        listed: known.map_or_else(BTreeSet::new, |app| {
            app.rules.tools.keys().cloned().collect()
        }),
        user: Arc::new(move |text| user.label(text)),
        images: config.proxy.images.clone(),
        // The files of a workspace and the instructions of servers stand in it.
        inserted: config.proxy.inserted.clone().unwrap_or_else(|| {
            let lattice = &config.lattice;
            lattice.whole(Dimension::Integrity)
        }),
    }
}

/// The tokens that agents must send: those of the variables, or a new one if they need one.
fn tokens(args: &Proxy, setup: &ProxySetup) -> Result<Vec<String>> {
    let given = args.token_env.iter().map(|name| {
        let token = std::env::var(name).ok().filter(|token| !token.is_empty());
        token.with_context(|| format!("the variable {name} is not set; export it and start again"))
    });
    let given = given.collect::<Result<Vec<String>>>()?;
    let has_key = setup
        .models
        .as_deref()
        .is_some_and(HttpProvider::has_own_key);
    let needs_one = has_key || setup.user_header.is_some() || !args.listen.ip().is_loopback();
    // Without a token, every program that reaches the port could use the user's key, or name a user.
    if given.is_empty() && needs_one {
        let fresh = fresh_token().map_err(|reason| anyhow!(reason))?;
        return Ok(vec![fresh]);
    }
    Ok(given)
}

/// The app with the rules.
fn app(args: &Proxy, config: &Config) -> Result<String> {
    let name = args.app.clone().or_else(|| config.proxy.app.clone());
    let name = name.context(
        "no app has rules for the agent's tools; name one with --app, or write [app.NAME] with client = true",
    )?;
    match config.apps.contains_key(&name) {
        true => Ok(name),
        false => bail!(
            "there is no app {name} in the configuration; write [app.{name}] with client = true"
        ),
    }
}

/// Questions go to the desk, and to the terminal if there is one.
fn approvals(
    setup: &mut ProxySetup,
    timeout: Duration,
    notices: &DeskSettings,
    json: bool,
) -> Result<Arc<Desk>> {
    let trace = setup
        .trace
        .as_ref()
        .and_then(|trace| trace.path().file_stem());
    let session = trace.unwrap_or_default().to_string_lossy();
    let mut asking = Asking::new("proxy", timeout, notices)?;
    if setup.user_header.is_some() {
        // The header names the user of each request.
        asking.setup.asker = None;
    }
    let desk = asking.desk(&session)?;
    let approver: Arc<dyn Approver> = match Terminal::attended() {
        // The program that reads the lines asks at the desk.
        _ if json => desk.clone(),
        true => Arc::new(Asked::new(desk.clone())),
        false => Arc::new(Announced(desk.clone())),
    };
    setup.approver = approver;
    setup.desk = Some(desk.clone());
    Ok(desk)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use clap::Parser;
    use hub::{Execution, Purpose, Settings};

    use super::*;

    /// This command alone, as its own program.
    #[derive(Parser)]
    struct Alone {
        #[command(flatten)]
        proxy: Proxy,
    }

    /// Every value differs from its default, so that a front that leaves one out is seen.
    const CONFIG: &str = r#"
        [limits]
        steps = 7
        history_bytes = 100_000
        turn_timeout_s = 61
        result_bytes = 5_000

        [[provider]]
        name = "remote"
        kind = "openai"
        model = "m"
        base_url = "http://127.0.0.1:1/v1"

        [[provider]]
        name = "small"
        kind = "openai"
        model = "s"
        base_url = "http://127.0.0.1:2/v1"
        clearance = "any"

        [screener]
        kind = "judge"
        provider = "small"

        [app.agent]
        client = true
    "#;

    #[tokio::test]
    async fn a_session_and_the_proxy_are_made_alike() {
        let config = Config::load_with(Path::new("sluice.toml"), &|_| Ok(CONFIG.to_owned()));
        let config = config.unwrap_or_else(|errors| panic!("{errors}"));
        for eager in [false, true] {
            let line = ["proxy", "--upstream", "remote", "--no-trace"];
            let line = line.into_iter().chain(eager.then_some("--eager"));
            let args = Alone::parse_from(line).proxy;
            let (proxy, _) = setup(&args, &config).await.unwrap();
            let broker = compose::broker(&config).unwrap();
            let options = compose::Options {
                eager,
                ..compose::Options::default()
            };
            let session = compose::session(&config, broker, &options).unwrap();
            let (ours, theirs) = (proxy.parts, session.parts);
            let settings = |settings| Settings {
                // Where calls run is the one thing that is the front's own.
                execution: Execution::Here,
                ..settings
            };
            assert_eq!(settings(ours.settings), settings(theirs.settings));
            assert_eq!(ours.settings.limits.steps, 7);
            assert_eq!(ours.settings.limits.history_bytes, 100_000);
            assert_eq!(ours.settings.limits.result_bytes, 5_000);
            assert_eq!(ours.turn_timeout, theirs.turn_timeout);
            assert_eq!(ours.turn_timeout, Duration::from_secs(61));
            assert_eq!(ours.screener.name(), theirs.screener.name());
            let judge = |broker: &llm::Broker| broker.route(Purpose::Judge).to_vec();
            assert_eq!(judge(&ours.broker), judge(&theirs.broker));
            assert_eq!(judge(&ours.broker), ["small"]);
        }
    }
}
