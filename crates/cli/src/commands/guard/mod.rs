//! `sluice guard -- AGENT`: an unmodified agent between the proxy and the gateway, for one run.
//!
//! | file | |
//! |---|---|
//! | `agent.rs` | which agent it is |
//! | `settings.rs` | what its settings say, and what it gets in their place |
//! | `claude.rs`, `codex.rs`, `opencode.rs` | the same for each agent |
//! | `workspace.rs` | the folder that it works in, and whose it is |
//! | `home.rs` | a home of the agent's own |
//! | `piped.rs` | what is piped into it |
//! | `rules.rs` | the configuration of the run |
//! | `fronts.rs` | the proxy and the gateway |
//! | `run.rs`, `confined.rs` | the agent's process, outside of a sandbox and in one |
//! | `summary.rs` | what happened |

mod agent;
mod claude;
mod codex;
mod confined;
mod fronts;
mod home;
mod opencode;
mod piped;
mod rules;
mod run;
mod settings;
mod summary;
pub(super) mod workspace;

use std::io::{IsTerminal as _, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use clap::Args;
use config::{Config, ProviderKind};
use serde_json::Value;
use server::desk::{Approver, Desk};
use server::proxy::{LabelledTexts, Yes};
use tempfile::NamedTempFile;

use self::agent::{Kind, Own, Run};
use self::confined::{AtTerminal, Between, Sandbox, Teller};
use self::fronts::{Fronts, Parts};
use self::home::Home;
use self::rules::{LATTICE, Opened, Sources};
use self::run::Launch;
use self::summary::Summary;
use self::workspace::{Whose, Workspace, is_below};
use crate::asking::Asking;
use crate::commands::proxy::Announced;
use crate::commands::proxy::upstream::{Upstream, UpstreamArgs};
use crate::exit::Exit;
use crate::observed::{self, Draft, Observe, WARNING, say_json};
use crate::place::Place;
use crate::provider::dialect;
use crate::service::{self, Known};
use crate::terminal::{Terminal, say, say_whole};
use crate::{compose, configuration, paths};

#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  sluice guard -- claude
  sluice guard --observe -- claude     # no rules yet: a report and a draft policy at the end
  sluice guard --workspace mine -- codex exec \"Make the tests pass\"
  sluice guard --as other --env MODEL=gpt-5-mini -- ./my-agent

None of the agent's files are changed. Its settings, its login and its MCP servers are read; the servers run behind the
gateway, each in a sandbox. Your running `sluice serve`, or the one of SLUICE_SERVICE=http://127.0.0.1:8080 and SLUICE_TOKEN, is
used in the place of both: its rules and its servers count, and those of the agent are left out. The exit code is the agent's, or 3 if it ended well and something was refused.")]
pub(crate) struct Guard {
    #[command(flatten)]
    place: Place,
    /// Which agent it is [default: by the program's name].
    #[arg(long = "as", value_enum, value_name = "AGENT")]
    kind: Option<Kind>,
    /// Whose text the workspace holds [default: asked once for each folder; without a terminal a stranger's].
    #[arg(long, value_enum, value_name = "WHOSE")]
    workspace: Option<Whose>,
    /// The configured provider to use [default: one that speaks the agent's API, else the agent's own settings].
    #[arg(long, value_name = "NAME")]
    upstream: Option<String>,
    /// A further folder or file that the agent may write, and its servers if their commands name it (repeatable)
    /// [default: the workspace alone].
    #[arg(long, value_name = "PATH")]
    mount: Vec<PathBuf>,
    /// A further folder or file that the agent may read (repeatable) [default: the system's programs, and its own].
    #[arg(long, value_name = "PATH")]
    read: Vec<PathBuf>,
    /// A domain that the agent's programs may connect to, with all below it, and its address if that is not public
    /// (repeatable) [default: package registries, and the git remotes and others that you have allowed for the folder].
    #[arg(long, value_name = "NAME[=ADDRESS]")]
    domain: Vec<String>,
    /// A variable that the agent gets: NAME with your value, or NAME=VALUE (repeatable) [default: those of the terminal and
    /// the language].
    #[arg(long, value_name = "NAME[=VALUE]")]
    env: Vec<String>,
    /// Let calls that need a yes wait for an answer at /sluice/v1/approvals [default: ask at the terminal, and refuse them at
    /// once without one].
    #[arg(long)]
    approvals: bool,
    /// Do not use a running `sluice serve` [default: that of $SLUICE_SERVICE or of the configuration, or else your own on this machine].
    #[arg(long)]
    no_service: bool,
    /// Install the packages that the agent's MCP servers need [default: asked].
    #[arg(long)]
    yes: bool,
    #[command(flatten)]
    observed: Observe,
    /// Run the agent without a sandbox: a shell command can then reach all of your files and the network.
    #[arg(long)]
    no_sandbox: bool,
    /// Print the summary as JSON, in one line on standard error.
    #[arg(long)]
    json: bool,
    /// The agent and its arguments.
    #[arg(last = true, required = true, value_name = "AGENT")]
    command: Vec<String>,
}

/// Runs an agent to its end.
pub(crate) async fn guard(args: Guard) -> Result<Exit> {
    let (name, rest) = args.command.split_first().context("name the agent")?;
    let program = found(name)?;
    let kind = args.kind.unwrap_or_else(|| Kind::of(&program));
    let workspace = Workspace::here(args.workspace)?;
    let own = kind.own(rest.to_vec(), &workspace, !args.no_sandbox)?;
    for note in &own.notes {
        say(&format!("note: {note}\n"));
    }
    let there = |path: &PathBuf, option: &str| {
        let found = path.canonicalize();
        found.with_context(|| format!("{option} {}", path.display()))
    };
    for path in &own.writes {
        // Mounted, so it has to be there.
        std::fs::OpenOptions::new()
            .append(true)
            .create(true)
            .open(path)
            .with_context(|| format!("{} cannot be written", path.display()))?;
    }
    let mounts = args.mount.iter().chain(&own.writes);
    let mounts = mounts.map(|path| there(path, "--mount"));
    let mounts = mounts.collect::<Result<Vec<PathBuf>>>()?;
    let read = args.read.iter().map(|path| there(path, "--read"));
    let read = read.collect::<Result<Vec<PathBuf>>>()?;
    let found = configuration::find(args.place.file.config.as_deref())?;
    if let Some(found) = found.filter(|found| !found.needs_trust()) {
        let mut written = mounts.iter().chain([&workspace.folder]);
        if written.any(|folder| is_below(found.path(), folder)) {
            bail!(
                "the agent may write {}, and its next run would have those rules; move the file elsewhere, or leave out --config \
                 and trust it as the workspace's sluice.toml",
                found.shown.display()
            );
        }
    }
    let mut draft = draft(&args, &workspace, &mounts)?;
    let home = Home::of(kind, &workspace)?;
    let sources = Sources {
        place: &args.place,
        kind,
        own: &own,
        workspace: &workspace,
        mounts: &mounts,
        sandbox: (!args.no_sandbox).then_some(Opened {
            program: &program,
            home: &home,
            read: &read,
            domains: &args.domain,
        }),
        yes: args.yes,
    };
    // The servers start to say which tools they have, and may write.
    let before = workspace.run_by_git();
    let rules = sources.read().await?;
    if let Some(draft) = &mut draft {
        draft.check(args.place.file.config.as_deref())?;
        draft.servers.clone_from(&rules.servers);
        draft.profile = (kind != Kind::Other).then(|| kind.app());
        draft.lattice = LATTICE;
    }
    let running = service(&args, &rules.config, &own).await?;
    let upstream = upstream(&args, kind, &own, &rules.config);
    let upstream = match &running {
        // The service has a model's server of its own.
        Some(_) => upstream.ok(),
        None => Some(upstream?),
    };
    let model = upstream.as_ref().map(|it| it.provider.model().to_owned());
    let (summary, layers) = (Arc::new(Summary::default()), args.place.layers());
    let (between, teller) = (Between::default(), Teller::default());
    let session = format!("{}-guard", compose::session_name()?);
    let timeout = rules.config.proxy.approval_timeout;
    let desk = Asking::new("guard", timeout, &rules.config.desk)?.desk(&session)?;
    // Without a sandbox the terminal is the agent's.
    let approver: Option<Arc<dyn Approver>> = match Terminal::attended() && !args.no_sandbox {
        _ if args.observed.observe => Some(Arc::new(Yes)),
        true => Some(Arc::new(AtTerminal::new(desk.clone(), between.clone()))),
        false if args.approvals => Some(Arc::new(Announced(desk.clone()))),
        false => None,
    };
    let known = LabelledTexts::default();
    let own_fronts = |upstream| {
        Fronts::start(Parts {
            config: &rules.config,
            app: kind.app(),
            upstream,
            files: &rules.files,
            known: known.clone(),
            reads_more: args.no_sandbox || !args.read.is_empty() || !args.mount.is_empty(),
            workspace: &workspace,
            home: &home.folder,
            layers: &layers,
            desk: desk.clone(),
            session,
            approver: approver.clone(),
            observe: args.observed.observe,
            summary: summary.clone(),
            told: teller.told(),
        })
    };
    let fronts = match (&running, upstream) {
        (Some(running), _) => Fronts::of_service(running)?,
        (None, Some(upstream)) => own_fronts(upstream).await?,
        (None, None) => bail!("the agent has no model's server"),
    };
    let _token = match args.approvals {
        true => announce(&desk).await?,
        false => None,
    };
    let url = format!("http://{}", fronts.address);
    let overlay = kind.overlay(
        &Run {
            url: &url,
            token: &fronts.token,
            has_servers: fronts.has_servers,
            home: &home.folder,
            workspace: &workspace.folder,
            is_mine: workspace.is_mine(),
            is_sandboxed: !args.no_sandbox,
            program: &program,
            model: model.as_deref().unwrap_or("default"),
        },
        &own,
    )?;
    let mut env = run::environment(&args.env, &home.folder)?;
    env.extend(overlay.env);
    let is_beside = piped::has_prompt(kind, rest);
    let input = is_beside.then(|| piped::input(&known, &rules.files));
    let launch = Launch {
        input: input.flatten().transpose()?,
        program,
        args: overlay.args.into_iter().chain(own.args).collect(),
        env,
    };
    let ended = match rules.sandbox {
        None => run::unconfined(launch).await,
        Some(app) => {
            let sandbox = Sandbox {
                app,
                config: &rules.config,
                layers: &layers,
                port: fronts.address.port(),
                approver,
                between,
                teller,
                summary: summary.clone(),
                workspace: workspace.clone(),
            };
            sandbox.run(launch).await
        }
    };
    let mut traces = fronts.end().await;
    if traces.first().is_some_and(|it| !summary.add_gateway(it)) {
        // It stays if it cannot be removed.
        let _ = std::fs::remove_file(traces.remove(0));
    }
    if workspace.run_by_git() != before {
        say("note: .git/config or .git/hooks have changed; look at them before you use git here\n");
    }
    let was_refused = match &draft {
        Some(draft) => {
            let mut places = summary.connected();
            places.remove(url.trim_start_matches("http://"));
            let json = args.json.then_some(say_json as fn(&Value) -> _);
            observed::finish(draft, &traces, places, json)?;
            false
        }
        None => summary.report(args.json, &traces),
    };
    Ok(match ended? {
        0 if was_refused => Exit::Refused,
        code => Exit::Program(code),
    })
}

/// The running service that is used in the place of fronts for this run.
async fn service(args: &Guard, config: &Config, own: &Own) -> Result<Option<Known>> {
    if args.no_service || args.observed.observe || args.upstream.is_some() {
        return Ok(None);
    }
    let Some(known) = service::find(&config.service)? else {
        return Ok(None);
    };
    let (has_proxy, url) = (known.has_proxy().await?, &known.url);
    match (has_proxy, &known.file) {
        (true, _) => {
            let left_out = match own.servers.is_empty() {
                true => "",
                false => {
                    ", and the agent's own servers are left out; --no-service starts them here"
                }
            };
            say(&format!(
                "using the service at {url}: its rules and its servers count{left_out}\n"
            ));
            Ok(Some(known))
        }
        (false, Some(_)) => {
            say(&format!(
                "note: the service at {url} has no proxy, and is not used\n"
            ));
            Ok(None)
        }
        (false, None) => bail!(
            "the service at {url} has no proxy; write [app.agent] with client = true and a [[provider]] into its configuration"
        ),
    }
}

/// What a draft is made of with `--observe`. It is beside the workspace, in which the agent could change it.
fn draft(args: &Guard, workspace: &Workspace, mounts: &[PathBuf]) -> Result<Option<Draft>> {
    if !args.observed.observe {
        return Ok(None);
    }
    let sandbox = match args.no_sandbox {
        true => "",
        false => "; the sandbox stays, and connects to domains that are asked about otherwise",
    };
    say(&format!("{WARNING}{sandbox}\n"));
    let named = args.place.file.config.as_deref();
    let folder = workspace.folder.parent();
    let draft = Draft::new(args.observed.draft.as_deref(), named, folder)?;
    let place = paths::resolved(&draft.place());
    let mut written = mounts.iter().chain([&workspace.folder]);
    if written.any(|folder| is_below(&place, folder)) {
        bail!(
            "the agent may write {}; name another place with --draft",
            place.display()
        );
    }
    Ok(Some(draft))
}

/// Serves the questions at a port that no sandbox reaches. What is no terminal may be a log that the agent can read, so the
/// token is in a file then, as long as that is held.
async fn announce(desk: &Arc<Desk>) -> Result<Option<NamedTempFile>> {
    let (address, serving) = desk.listen().await?;
    tokio::spawn(serving);
    let (mut word, mut held) = (desk.token().to_owned(), None);
    if !std::io::stderr().is_terminal() {
        let mut file = tempfile::Builder::new();
        let mut file = file.prefix("approvals-").tempfile_in(paths::state()?)?;
        file.write_all(word.as_bytes())?;
        word = format!("and the token in {}", file.path().display());
        held = Some(file);
    }
    say_whole(&format!(
        "questions: http://{address}/sluice/v1/approvals, with Authorization: Bearer {word}\n"
    ));
    Ok(held)
}

/// The program that a shell would start.
fn found(name: &str) -> Result<PathBuf> {
    let is_program = |path: &Path| {
        rustix::fs::access(path, rustix::fs::Access::EXEC_OK).is_ok() && path.is_file()
    };
    if name.contains('/') {
        let path = std::path::absolute(name)?;
        return match is_program(&path) {
            true => Ok(path),
            false => bail!("there is no program {name}"),
        };
    }
    let folders = std::env::var_os("PATH").unwrap_or_default();
    let mut paths = std::env::split_paths(&folders).map(|folder| folder.join(name));
    let path = paths.find(|path| path.is_absolute() && is_program(path));
    path.with_context(|| {
        format!("there is no program {name} on your PATH; install it, or name its path")
    })
}

/// The model's server: the named provider, one that speaks the agent's API, the agent's own, or any that is configured.
fn upstream(args: &Guard, kind: Kind, own: &Own, config: &Config) -> Result<Upstream> {
    let configured = || {
        let providers = config.providers.iter().filter(|_| config.names_provider);
        providers.filter_map(|provider| match provider.kind {
            ProviderKind::Api { dialect: api, .. } => Some((&provider.name, dialect(api))),
            _ => None,
        })
    };
    let named = |name: &str| Upstream::of(&UpstreamArgs::named(name), config);
    if let Some(name) = &args.upstream {
        if !config.providers.iter().any(|it| it.name == *name) {
            bail!(
                "there is no provider {name} in the configuration; write [[provider]] with name = \"{name}\""
            );
        }
        return named(name);
    }
    if let Some((name, _)) = configured().find(|(_, dialect)| kind.dialect() == Some(*dialect)) {
        return named(name);
    }
    match (&own.upstream, configured().next()) {
        (Ok(own), _) => Upstream::at(own.dialect, &own.base_url, own.key.clone()),
        (Err(_), Some((name, _))) => named(name),
        (Err(reason), None) => bail!("{reason:#}"),
    }
}
