//! `sluice wrap`: one MCP server, confined and labelled, without a configuration.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use clap::Args;
use config::{App, Config};
use ifc::Label;
use sandbox::Layer;

use super::app::block::{self, Wish};
use super::gateway::{self, Http, Offered};
use crate::exit::Exit;
use crate::fetch::{self, Fetch};
use crate::proposal::Tool;
use crate::terminal::message;
use crate::{known, session};

#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  sluice wrap --yes -- npx -y @modelcontextprotocol/server-filesystem ~/papers
  sluice wrap --yes --domain api.example.org --env-from API_KEY -- npx -y some-server

The server runs in a sandbox. It sees the files that its command names, none of your environment, and no network but
--domain, --connect and the domains of a server that Sluice has a policy for. Other rules are proposed from the names of
its tools, as by `sluice app add`; for rules of your own, add it there and use `sluice gateway`.")]
pub(crate) struct Wrap {
    /// The server's name in labels and questions.
    #[arg(long, value_name = "NAME", default_value = "server")]
    name: String,
    /// A folder or file that the server may write (repeatable) [default: none].
    #[arg(long, value_name = "PATH")]
    write: Vec<PathBuf>,
    /// A variable of your environment that the server gets (repeatable) [default: none].
    #[arg(long, value_name = "NAME")]
    env_from: Vec<String>,
    /// A domain that the server may reach, with all below it (repeatable) [default: none].
    #[arg(long, value_name = "NAME")]
    domain: Vec<String>,
    /// A service on this machine that the server may connect to, as 127.0.0.1:5432 (repeatable) [default: none].
    #[arg(long, value_name = "HOST:PORT")]
    connect: Vec<String>,
    /// Install the package that npx, uvx or pipx would fetch [default: it has to be installed].
    #[arg(long)]
    yes: bool,
    #[command(flatten)]
    offered: Offered,
    #[command(flatten)]
    http: Http,
    /// Start the server although the kernel lacks these sandbox layers, separated by commas (see `sluice doctor`)
    /// [default: none may be missing].
    #[arg(long, value_name = "LAYER", value_delimiter = ',')]
    allow_degraded: Vec<Layer>,
    /// The command that starts the server.
    #[arg(last = true, required = true, value_name = "COMMAND")]
    command: Vec<String>,
}

/// Serves a client on standard input and output until it closes them.
pub(crate) async fn wrap(args: Wrap) -> Result<Exit> {
    let layers: BTreeSet<Layer> = args.allow_degraded.iter().copied().collect();
    // First without rules, to learn which tools there are.
    let config = prepared(&args, &[], &layers).await?;
    session::say_notes(&config);
    let tools = gateway::lists(&config, &layers).await;
    let tools = tools.get(&args.name).context("the server does not start")?;
    let tools: Vec<Tool> = tools.iter().map(Tool::from).collect();
    let mut config = prepared(&args, &tools, &layers).await?;
    let apps = config.apps.values_mut();
    apps.filter(|app| app.domains.is_empty() && app.egress.is_empty())
        .for_each(read_freely);
    gateway::serve(config, false, false, &args.offered, &args.http, &layers).await?;
    Ok(Exit::Done)
}

/// What reaches nothing outside of its sandbox keeps what it is given: no argument of a read can leak.
pub(crate) fn read_freely(app: &mut App) {
    let reads = app
        .rules
        .tools
        .values_mut()
        .filter(|rule| rule.effect.reads());
    reads.for_each(|rule| rule.limit = Label::top());
}

/// A configuration with this server alone, and with rules for these tools.
async fn prepared(args: &Wrap, tools: &[Tool], layers: &BTreeSet<Layer>) -> Result<Config> {
    let here = std::env::current_dir().context("the working folder is gone")?;
    let command = args.command.iter();
    let wish = Wish {
        name: args.name.clone(),
        command: command
            .map(|word| block::typed(word, &here, &args.write))
            .collect(),
        env_from: args.env_from.clone(),
        connect: args.connect.clone(),
        ..Wish::default()
    };
    let data = block::data(&wish, &args.write)?;
    if let Some(note) = known::note(&wish, tools).filter(|_| !tools.is_empty()) {
        message(&note);
    }
    let mut lines = block::of(&wish, &data, tools);
    // A domain of the server's policy is there already.
    let is_new = |domain: &&String| !lines.contains(&format!("name = \"{domain}\"\n"));
    let domains: Vec<String> = args.domain.iter().filter(is_new).cloned().collect();
    lines += &block::domains(&wish.name, &domains);
    // A file that is not there, in no folder that the server may write.
    let mut config = block::with(Path::new("/sluice.toml"), "", &lines)?;
    // A client asks for these if the server has them.
    for app in config.apps.values_mut() {
        (app.resources, app.prompts) = (true, true);
    }
    let fetch = match args.yes {
        true => Fetch::Yes,
        false => Fetch::No,
    };
    let named = [args.name.clone()].into();
    fetch::provide_for(&mut config, &named, fetch, layers, false).await?;
    Ok(config)
}
