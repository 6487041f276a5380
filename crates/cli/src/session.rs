//! What the commands that run a session share: their arguments, the start, and what is shown.

use std::collections::BTreeSet;
use std::path::PathBuf;

use anyhow::{Result, bail};
use clap::Args;
use config::Config;
use hub::trace::escape;
use hub::{Outcome, Stop};
use policy::{Front, SessionFacts, UserLabels};
use server::{Choice, Session, User};

use crate::fetch::{self, Fetch};
use crate::keep_for::KeepFor;
use crate::terminal::{Terminal, print, say};
use crate::words::counted;
use crate::{compose, configuration, sources};

/// What every command that runs a session takes.
#[derive(Debug, Args)]
pub(crate) struct SessionArgs {
    /// The configuration [default: $SLUICE_CONFIG, ./sluice.toml, then the user's configuration
    /// folder].
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Use this app instead of asking the planner. Several share one conversation, in which data may
    /// flow between them as far as the rules of their tools allow.
    #[arg(long, value_name = "NAME")]
    pub(crate) app: Vec<String>,
    /// Use the apps of this group of the configuration, in one conversation.
    #[arg(long, value_name = "NAME", conflicts_with = "app")]
    pub(crate) group: Option<String>,
    /// Ask these apps (or those of the group) each by itself: no word of one reaches another, none can
    /// make another act, and what they said is put together.
    #[arg(long, conflicts_with = "no_app")]
    pub(crate) each: bool,
    /// Use no app.
    #[arg(long, conflicts_with_all = ["app", "group"])]
    pub(crate) no_app: bool,
    /// Know of no earlier query and remember none: each line of a chat begins anew, with fresh apps.
    /// What you have allowed for good does not count, and nothing can be. The trace is kept: it is the
    /// record of what was done, the texts of answers and calls included (see `sluice trace`).
    #[arg(long)]
    pub(crate) private: bool,
    /// How long what you answer with "always" lasts: 12h, 7d or 4w [default: until you revoke it].
    #[arg(long, value_name = "TIME")]
    pub(crate) keep_for: Option<KeepFor>,
    /// Screen before every step, as the paper does, instead of only when a call would violate.
    #[arg(long)]
    pub(crate) eager: bool,
    /// Start without these sandbox layers if the kernel lacks them (see `sluice doctor`).
    #[arg(long, value_name = "LAYER", value_delimiter = ',')]
    pub(crate) allow_degraded: Vec<String>,
    /// Install what the commands of an `mcpServers` file would fetch at each start, without asking.
    #[arg(long)]
    pub(crate) yes: bool,
    /// Print one event per line, as JSON.
    #[arg(long)]
    pub(crate) json: bool,
    /// Print the trace while it is written.
    #[arg(short, long, conflicts_with = "json")]
    pub(crate) verbose: bool,
}

/// The configuration of the command line. The user may be asked whether to trust it, so it is opened
/// while Ctrl-C still ends the program and nothing else is on the screen. What the apps need of this machine is found
/// then, too.
pub(crate) async fn config(args: &SessionArgs) -> Result<Config> {
    let attended = !args.json && Terminal::attended();
    let mut config = configuration::open(args.config.as_deref(), attended)?;
    for note in &config.notes {
        say(&format!("note: {note}\n"));
    }
    for warning in &config.warnings {
        say(&format!("{warning}\n"));
    }
    let named = match choice(args, &config)? {
        Choice::Apps(apps) | Choice::Each(apps) => apps,
        Choice::Planner => BTreeSet::new(),
    };
    let fetch = match (args.yes, attended) {
        (true, _) => Fetch::Yes,
        (false, true) => Fetch::Ask,
        (false, false) => Fetch::No,
    };
    let layers = compose::layers(&args.allow_degraded)?;
    fetch::provide_for(&mut config, |app| named.contains(app), fetch, &layers).await?;
    Ok(config)
}

/// A session over the configuration, the apps that the command line asks for, and the labels of what
/// the user types.
pub(crate) async fn start(
    args: &SessionArgs,
    config: Config,
    front: Front,
    user: &mut dyn User,
) -> Result<(Session, Choice, UserLabels)> {
    let choice = choice(args, &config)?;
    let allow_degraded = compose::layers(&args.allow_degraded)?;
    let options = compose::Options {
        eager: args.eager,
        allow_degraded,
        facts: SessionFacts {
            attended: !args.json && Terminal::attended(),
            front,
        },
        private: args.private,
        keep_for: args.keep_for.unwrap_or_default(),
        ..compose::Options::default()
    };
    let broker = compose::broker(&config)?;
    // The progress line goes first, so that what is said from here on does not stand behind it.
    user.idle();
    let setup = compose::session(&config, broker, &options)?;
    Ok((Session::start(setup, user)?, choice, config.user))
}

/// Which apps the command line asks for.
fn choice(args: &SessionArgs, config: &Config) -> Result<Choice> {
    let apps: BTreeSet<String> = match &args.group {
        Some(name) => {
            let Some(apps) = config.groups.get(name) else {
                let known: Vec<&str> = config.groups.keys().map(String::as_str).collect();
                let help = match known.is_empty() {
                    true => format!("write [group.{name}] with apps = [\"APP\", \"APP\"]"),
                    false => format!("configured are: {}", known.join(", ")),
                };
                bail!("there is no group '{name}'; {help}");
            };
            apps.clone()
        }
        None => args.app.iter().cloned().collect(),
    };
    // Before a model is loaded, which takes longer than to correct a name.
    for name in &apps {
        match config.apps.get(name) {
            None => bail!("there is no app '{}'; {}", escape(name), configured(config)),
            Some(app) if app.client => bail!(
                "the tools of the app {name} run at a client of the guard proxy; start `sluice proxy`, or leave out client = true and give it a command"
            ),
            Some(_) => {}
        }
    }
    if args.each && apps.len() < 2 {
        bail!("--each needs several apps; name them with --app, or a group with --group");
    }
    Ok(match (apps.is_empty() && !args.no_app, args.each) {
        (true, _) => Choice::Planner,
        (false, true) => Choice::Each(apps),
        (false, false) => Choice::Apps(apps),
    })
}

/// The apps that can be named, or how to have one.
pub(crate) fn configured(config: &Config) -> String {
    let started = config.apps.values().filter(|app| !app.client);
    let names: Vec<&str> = started.map(|app| app.name.as_str()).collect();
    match names.is_empty() {
        true => "the configuration has none yet, and `sluice app add NAME -- COMMAND` adds one"
            .to_owned(),
        false => format!("configured are: {}", names.join(", ")),
    }
}

/// Prints the answer, or says why there is none.
pub(crate) fn show(outcome: &Outcome) -> Result<()> {
    match &outcome.result {
        Ok(answer) => print(answer.reveal_tcb())?,
        Err(stop) => say(&format!("sluice: {stop}{}\n", words(stop))),
    }
    say(&sources::text(&outcome.sources));
    let counts = [
        (
            outcome.inert,
            ("address is", "addresses are"),
            "shown inert: they depend on what was read; see answer.addresses in `sluice.toml`",
        ),
        (
            outcome.unknown,
            ("call was", "calls were"),
            "sent without an answer: nobody knows whether it was done; see `sluice trace show`",
        ),
        (
            outcome.dropped,
            ("request of an app to another", "requests of apps to others"),
            "had no usable response; see `sluice trace show`",
        ),
        (
            outcome.refused,
            ("call was", "calls were"),
            "refused; see `sluice trace show`",
        ),
    ];
    for (count, (one, several), what) in counts {
        if count > 0 {
            say(&format!(
                "({} {what})
",
                counted(count, one, several)
            ));
        }
    }
    Ok(())
}

/// What a model's provider or an app says about the end of a turn. It has passed the answer's sink.
fn words(stop: &Stop) -> String {
    match stop.words() {
        Some(words) => format!(": {}", escape(words.reveal_tcb())),
        None => String::new(),
    }
}
