//! The command line.

use std::path::PathBuf;

use clap::{Args as ClapArgs, Parser, Subcommand};

const EXIT_CODES: &str = "Exit codes: 0 done, 1 error (a configuration that is not trusted is one), 2 usage, 3 refused by policy or user, 130 interrupted.";

/// A secure runtime for LLM agents: isolated apps, labelled text, mediated calls.
#[derive(Debug, Parser)]
#[command(name = "sluice", version, after_help = EXIT_CODES)]
pub(crate) struct Args {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Answer one query.
    #[command(after_help = format!("Example:\n  sluice run \"Summarise my newest email\"\n\n{EXIT_CODES}"))]
    Run(Run),
    /// Talk, line by line.
    #[command(
        after_help = "Example:\n  sluice chat --app mail\n\nCtrl-C interrupts an answer; Ctrl-D ends the chat."
    )]
    Chat(Chat),
    /// Guard an agent that speaks OpenAI's chat completions.
    #[command(
        after_help = "Example:\n  sluice proxy --upstream remote --policy sluice.toml\n  OPENAI_BASE_URL=http://127.0.0.1:8080/v1 your-agent"
    )]
    Proxy(crate::commands::proxy::Proxy),
    /// Look at what happened in a session.
    #[command(
        after_help = "Example:\n  sluice trace list\n  sluice trace show latest\n  sluice trace export latest > session.jsonl"
    )]
    Trace(Trace),
    /// Check the rules of a configuration, run their examples, explain what they decided.
    #[command(
        after_help = "Example:\n  sluice policy check\n  sluice policy test --config sluice.toml\n  sluice policy explain latest --call 2"
    )]
    Policy(crate::commands::policy::Policy),
    /// Trust the configuration of a folder, or no longer.
    #[command(
        after_help = "Example:\n  sluice trust\n  sluice trust --list\n  sluice trust --revoke path/to/folder\n\n\
                      A sluice.toml in the working folder counts only while it is trusted, as it is now and\n\
                      where it is. One that you name with --config or $SLUICE_CONFIG, or keep in your own\n\
                      configuration folder, needs no trust."
    )]
    Trust(crate::commands::trust::Trust),
    /// Say what this machine offers and what is missing.
    #[command(after_help = "Example:\n  sluice doctor --json")]
    Doctor(Doctor),
    /// Fetch, list and serve embedded models.
    #[command(after_help = "Example:\n  sluice model pull qwen2.5-coder-1.5b\n  sluice model list")]
    Model(Model),
}

/// What every command that runs a session takes.
#[derive(Debug, ClapArgs)]
pub(crate) struct SessionArgs {
    /// The configuration [default: $SLUICE_CONFIG, ./sluice.toml, then the user's configuration
    /// folder].
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Use this app instead of asking the planner.
    #[arg(long, value_name = "NAME", conflicts_with = "no_app")]
    pub(crate) app: Option<String>,
    /// Use no app.
    #[arg(long)]
    pub(crate) no_app: bool,
    /// Screen before every step, as the paper does, instead of only when a call would violate.
    #[arg(long)]
    pub(crate) eager: bool,
    /// Start without these sandbox layers if the kernel lacks them (see `sluice doctor`).
    #[arg(long, value_name = "LAYER", value_delimiter = ',')]
    pub(crate) allow_degraded: Vec<String>,
    /// Print one event per line, as JSON.
    #[arg(long)]
    pub(crate) json: bool,
    /// Print the trace while it is written.
    #[arg(short, long, conflicts_with = "json")]
    pub(crate) verbose: bool,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Run {
    /// What you want.
    pub(crate) query: String,
    #[command(flatten)]
    pub(crate) session: SessionArgs,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Chat {
    #[command(flatten)]
    pub(crate) session: SessionArgs,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Trace {
    #[command(subcommand)]
    pub(crate) action: TraceAction,
}

#[derive(Debug, Subcommand)]
pub(crate) enum TraceAction {
    /// List the sessions, newest last.
    List,
    /// Show a session for people.
    Show {
        /// A session's name, `latest`, or a file.
        #[arg(default_value = "latest")]
        session: String,
        /// Print the records as JSON lines instead.
        #[arg(long)]
        json: bool,
        /// Below each screening, colour the regions by how strongly the step depends on them. Only
        /// the attention screener tells.
        #[arg(long, conflicts_with = "json")]
        saliency: bool,
    },
    /// Write a session's records to standard output, one JSON object per line.
    Export {
        /// A session's name, `latest`, or a file.
        #[arg(default_value = "latest")]
        session: String,
    },
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Doctor {
    /// Check this configuration too.
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Print one finding per line, as JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Model {
    #[command(subcommand)]
    pub(crate) action: ModelAction,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ModelAction {
    /// Fetch a model and check it.
    Pull {
        /// Its name, as `sluice model list` shows it.
        name: Option<String>,
        /// Print progress as JSON lines.
        #[arg(long)]
        json: bool,
    },
    /// List the known models.
    List {
        /// Print one model per line, as JSON.
        #[arg(long)]
        json: bool,
    },
    /// Serve a model over an OpenAI-compatible API on loopback. It enforces nothing.
    Serve {
        /// Its name, as `sluice model list` shows it.
        name: Option<String>,
        /// The port; 0 lets the system choose.
        #[arg(long, default_value_t = 8090)]
        port: u16,
    },
}
