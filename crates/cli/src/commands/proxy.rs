//! `sluice proxy`: guard any agent that speaks OpenAI's chat completions.

mod fit;
mod tally;
mod terminal;
mod upstream;

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use clap::{Args, ValueEnum};
use config::{Config, OnViolation};
use ifc::Label;
use llm::OpenAi;
use policy::{Front, SessionFacts};
use server::proxy::{ApprovalDesk, Approver, ClientLabels, DropCalls, Proxy as Guard, ProxySetup};
use server::{Rotation, TraceFile};

use self::fit::Fit;
use self::tally::Tally;
use self::terminal::Asked;
use self::upstream::{Upstream, UpstreamArgs};
use crate::compose;
use crate::configuration;
use crate::exit::Exit;
use crate::interrupts::interrupts;
use crate::json_lines::print_json;
use crate::paths;
use crate::terminal::{Terminal, say};

const AFTER_HELP: &str = "\
Example:
  sluice proxy --upstream https://api.openai.com/v1 --clearance any --policy sluice.toml
  OPENAI_BASE_URL=http://127.0.0.1:8080/v1 your-agent

For other machines, with the key of whoever runs the proxy, and a token for each of two agents:
  export AGENT_A=$(openssl rand -hex 16) AGENT_B=$(openssl rand -hex 16)
  sluice proxy --upstream openai --upstream-key-env OPENAI_API_KEY \\
    --listen 0.0.0.0:8080 --allow-remote --host guard.example --token-env AGENT_A --token-env AGENT_B
  OPENAI_BASE_URL=http://guard.example:8080/v1 OPENAI_API_KEY=$AGENT_A your-agent";

#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Proxy {
    #[command(flatten)]
    upstream: UpstreamArgs,
    /// The configuration with the rules [default: as for `sluice run`].
    #[arg(long, value_name = "FILE", alias = "config")]
    policy: Option<PathBuf>,
    /// The app whose rules the agent's tools have [default: the one with `client = true`].
    #[arg(long, value_name = "NAME")]
    app: Option<String>,
    /// Where to listen; port 0 lets the system choose.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:8080")]
    listen: SocketAddr,
    /// Let other machines connect. Their requests need a token.
    #[arg(long)]
    allow_remote: bool,
    /// A name by which other machines reach the proxy, beside its addresses (repeatable).
    #[arg(long, value_name = "NAME", requires = "allow_remote")]
    host: Vec<String>,
    /// A variable with a token that agents must send, as API key or as `x-sluice-token` (repeatable).
    /// Agents with one token are one tenant. [default: none is needed on this machine, unless the
    /// upstream's key is yours; then a fresh one is printed].
    #[arg(long, value_name = "VARIABLE")]
    token_env: Vec<String>,
    /// Defend in this way [default: the configured screener].
    #[arg(long, value_name = "NAME")]
    defence: Option<String>,
    /// Screen before every step, as the paper does, instead of only when a call would violate.
    #[arg(long)]
    eager: bool,
    /// What becomes of a call that would violate the policy [default: the configuration's].
    #[arg(long, value_enum, value_name = "WHAT")]
    on_violation: Option<Violation>,
    /// Seconds that a question waits; no answer is no [default: the configuration's].
    #[arg(long, value_name = "S")]
    approval_timeout: Option<u64>,
    /// A first run: nothing is blocked, masked or held back, whatever the clearance says. The end
    /// says what would have been asked, at most: nothing is screened.
    #[arg(long, conflicts_with = "on_violation")]
    observe: bool,
    /// Keep no trace.
    #[arg(long)]
    no_trace: bool,
    /// Print one event per line, as JSON.
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Violation {
    /// Ask at the terminal and at the approval endpoint.
    Ask,
    /// Drop the call and tell the model why.
    Drop,
}

/// Guards until Ctrl-C: exit code 0, or 1 where the trace broke off.
pub(crate) async fn proxy(args: Proxy) -> Result<Exit> {
    let config = configuration::open(args.policy.as_deref(), Terminal::attended() && !args.json)?;
    for note in &config.notes {
        say(&format!("note: {note}\n"));
    }
    for warning in &config.warnings {
        say(&format!("{warning}\n"));
    }
    let (mut setup, asks) = setup(&args, &config).await?;
    let rules = config.apps.get(&setup.app);
    let rules = rules.context("the app is not in the configuration")?;
    let tally = Arc::new(Tally::new(args.json, Fit::new(rules.clone())));
    setup.observer = tally.clone();
    setup.observe = args.observe;
    let desk = match asks {
        Some(timeout) => Some(approvals(&mut setup, timeout, args.json)?),
        None => None,
    };
    let traced = setup.trace.as_ref().map(|trace| trace.path().to_owned());
    let app = setup.app.clone();
    // Only a token that was made here is printed. One from a variable is the user's to hand out.
    let fresh = match args.token_env.is_empty() {
        true => setup.tokens.first().cloned(),
        false => None,
    };
    let guard = Guard::bind(setup).await?;
    let url = guard.base_url();
    if args.json {
        let approvals = desk.as_ref().map(|desk| endpoint(&guard, desk));
        let line = serde_json::json!({"listening": url, "app": app, "approvals": approvals,
            "token": fresh});
        print_json(&line)?;
    } else {
        say(&format!(
            "guarding {} by the rules of {app}; use it with OPENAI_BASE_URL={url}\n",
            args.upstream.name()
        ));
        if let Some(token) = &fresh {
            say(&format!(
                "agents need a token: OPENAI_API_KEY={token}, or the header x-sluice-token\n"
            ));
        }
        if let Some(desk) = &desk {
            let (address, token) = (guard.address(), desk.token());
            say(&format!(
                "questions: http://{address}/sluice/v1/approvals, with Authorization: Bearer {token}\n"
            ));
        }
        if let Some(trace) = &traced {
            say(&format!("trace: {}\n", trace.display()));
        }
    }
    let cancel = interrupts();
    let ending = async move {
        cancel.notified().await;
        say("ending with the requests under way; press Ctrl-C twice to end at once\n");
        // A question must not hold that up.
        if let Some(desk) = desk {
            desk.close();
        }
    };
    guard.serve(ending).await;
    tally.report(args.observe)?;
    Ok(match tally.has_failed() {
        true => Exit::Failed,
        false => Exit::Done,
    })
}

fn endpoint(guard: &Guard, desk: &ApprovalDesk) -> serde_json::Value {
    let url = format!("http://{}/sluice/v1/approvals", guard.address());
    serde_json::json!({"url": url, "token": desk.token()})
}

/// The proxy's parts, and how long questions wait if there are any.
async fn setup(args: &Proxy, config: &Config) -> Result<(ProxySetup, Option<Duration>)> {
    let app = app(args, config)?;
    let on_violation = match args.on_violation {
        Some(Violation::Drop) => OnViolation::Drop,
        Some(Violation::Ask) => OnViolation::Ask,
        None => config.proxy.on_violation,
    };
    // Nobody is asked where everything passes, or where nothing does that would need a yes.
    let asks = !args.observe && on_violation != OnViolation::Drop;
    let timeout = match args.approval_timeout {
        Some(seconds) => Duration::from_secs(seconds),
        None => config.proxy.approval_timeout,
    };
    let facts = SessionFacts {
        attended: asks,
        front: Front::Proxy,
    };
    let Upstream {
        provider,
        clearance,
    } = Upstream::of(&args.upstream, config)?;
    // A first run sends what the agent would have sent without Sluice.
    let clearance = match args.observe {
        true => Label::top(),
        false => clearance,
    };
    let broker = compose::broker_behind(provider.clone(), clearance, config)?;
    let options = compose::Options {
        eager: args.eager,
        defence: args.defence.clone(),
        facts,
        ..compose::Options::default()
    };
    let parts = compose::parts(config, broker, &options)?;
    let mut setup = ProxySetup::new(parts, app.clone());
    let user = config.user.clone();
    let known = config.apps.get(&app);
    setup.labels = ClientLabels {
        // Written by the agent, which the user runs.
        system: Label::bottom(),
        descriptions: known.map_or(Label::top(), |app| app.descriptions.clone()),
        listed: known.map_or_else(BTreeSet::new, |app| {
            app.rules.tools.keys().cloned().collect()
        }),
        user: Arc::new(move |text| user.label(text)),
        images: config.proxy.images.clone(),
    };
    setup.models = Some(provider);
    setup.address = args.listen;
    setup.allow_remote = args.allow_remote;
    setup.hosts.clone_from(&args.host);
    setup.tokens = tokens(args, setup.models.as_deref())?;
    if !args.no_trace {
        let name = format!("{}-proxy", compose::session_name()?);
        let rotation = Rotation::default();
        setup.trace = Some(TraceFile::rotating(&paths::traces()?, &name, rotation)?);
    }
    // Without a desk (`approvals`) a question is a no.
    setup.approver = Arc::new(DropCalls);
    Ok((setup, asks.then_some(timeout)))
}

/// The tokens that agents must send. A fresh one, if they need one and none is given.
fn tokens(args: &Proxy, upstream: Option<&OpenAi>) -> Result<Vec<String>> {
    let given = args.token_env.iter().map(|name| {
        let token = std::env::var(name).ok().filter(|token| !token.is_empty());
        token.with_context(|| format!("the variable {name} is not set; export it and start again"))
    });
    let given = given.collect::<Result<Vec<String>>>()?;
    let has_key = upstream.is_some_and(OpenAi::has_own_key);
    // Without a token, whoever reaches the port could spend the user's key; other machines need one in any case.
    if given.is_empty() && (has_key || !args.listen.ip().is_loopback()) {
        let fresh = server::proxy::fresh_token().map_err(|reason| anyhow!(reason))?;
        return Ok(vec![fresh]);
    }
    Ok(given)
}

/// The app whose rules count.
fn app(args: &Proxy, config: &Config) -> Result<String> {
    let name = args.app.clone().or_else(|| config.proxy.app.clone());
    let name = name.context(
        "nothing says whose rules the agent's tools have; name the app with --app, or write one [app.NAME] with client = true",
    )?;
    match config.apps.contains_key(&name) {
        true => Ok(name),
        false => bail!(
            "there is no app {name} in the configuration; write [app.{name}] with client = true"
        ),
    }
}

/// Questions are put to the approval endpoint, and to the terminal where somebody sits.
fn approvals(setup: &mut ProxySetup, timeout: Duration, json: bool) -> Result<Arc<ApprovalDesk>> {
    let desk = ApprovalDesk::new(timeout).map_err(|reason| anyhow!(reason))?;
    let approver: Arc<dyn Approver> = match Terminal::attended() && !json {
        true => Arc::new(Asked::new(desk.clone())),
        false => desk.clone(),
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
