//! What `sluice run` and `sluice chat` share: options, the start of a session, and the output.

use std::collections::BTreeSet;

use anyhow::{Result, bail};
use clap::Args;
use config::{Config, DeskSettings};
use hub::trace::escape;
use hub::{Outcome, Stop};
use policy::{Front, SessionFacts, UserLabels};
use server::{Choice, Session, User};

use crate::asking::{self, Asking};
use crate::exit::Exit;
use crate::fetch::{self, Fetch};
use crate::json_lines::JsonLines;
use crate::keep_for::KeepFor;
use crate::place::Place;
use crate::provider::{self, Clearing};
use crate::terminal::{Terminal, message, print, say};
use crate::trial::configured;
use crate::words::counted;
use crate::{compose, sources};

/// The options of `sluice run` and `sluice chat`.
#[derive(Debug, Args)]
pub(crate) struct SessionArgs {
    #[command(flatten)]
    pub(crate) place: Place,
    /// Use this app [default: the planner chooses]. Several, each with an --app of its own, share one
    /// conversation: data flows between them as far as the rules of their tools allow.
    #[arg(long, value_name = "NAME")]
    pub(crate) app: Vec<String>,
    /// Use the apps of this [group.NAME] in one conversation.
    #[arg(long, value_name = "NAME", conflicts_with = "app")]
    pub(crate) group: Option<String>,
    /// Ask each app separately and combine the answers: no app sees or influences another.
    #[arg(long, conflicts_with = "no_app")]
    pub(crate) each: bool,
    /// Use no app.
    #[arg(long, conflicts_with_all = ["app", "group"])]
    pub(crate) no_app: bool,
    /// Neither read nor write memory and permissions; each line of a chat starts a new conversation.
    /// The trace is still written and has the texts of calls and answers (see `sluice trace`).
    #[arg(long)]
    pub(crate) private: bool,
    /// How long the answer "always" lasts, in hours, days or weeks: 12h, 7d, 4w [default: until you
    /// revoke it].
    #[arg(long, value_name = "TIME")]
    pub(crate) keep_for: Option<KeepFor>,
    /// The answer "always" counts without a terminal too. Permissions that were given without this option do not count
    /// meanwhile, so that you can give them again.
    #[arg(long)]
    pub(crate) scripts: bool,
    /// Screen before every step, as in the RTBAS paper [default: only before a call that would
    /// violate the policy].
    #[arg(long)]
    pub(crate) eager: bool,
    /// Install without asking what the commands of an `mcpServers` file (npx, uvx, pipx) would fetch.
    #[arg(long)]
    pub(crate) yes: bool,
    /// Print one event per line, as JSON. Every question is answered with no.
    #[arg(long)]
    pub(crate) json: bool,
    /// Print the trace while it is written.
    #[arg(short, long, conflicts_with = "json")]
    pub(crate) verbose: bool,
}

/// The configuration of the command line, with a provider and with what its apps need of this machine. It is opened before
/// anything else is on the screen, since the user may be asked whether to trust it.
pub(crate) async fn config(args: &SessionArgs) -> Result<(Config, Clearing)> {
    let mut config = args.place.file.open(args.json)?;
    say_notes(&config);
    let named = match choice(args, &config)? {
        Choice::Apps(apps) | Choice::Each(apps) => apps,
        Choice::Planner => BTreeSet::new(),
    };
    let clearing = provider::provide(&args.place.file, &mut config, args.json).await?;
    let fetch = match (args.yes, args.is_attended()) {
        (true, _) => Fetch::Yes,
        (false, true) => Fetch::Ask,
        (false, false) => Fetch::No,
    };
    let are_there = |config: &Config| config.apps.values().any(|app| !app.client);
    let were_there = are_there(&config);
    let layers = args.place.layers();
    fetch::provide_for(&mut config, &named, fetch, &layers, args.verbose).await?;
    if were_there && !args.no_app && !are_there(&config) {
        bail!("no app can be started; the notes say why; ask the model alone with --no-app");
    }
    Ok((config, clearing))
}

impl SessionArgs {
    /// What an "always" of this session gives.
    fn lasting(&self) -> KeepFor {
        KeepFor {
            scripts: self.scripts,
            ..self.keep_for.unwrap_or_default()
        }
    }

    fn is_attended(&self) -> bool {
        !self.json && Terminal::attended()
    }
}

/// Shows the notes and warnings about a configuration.
pub(crate) fn say_notes(config: &Config) {
    for note in &config.notes {
        message(&format!("note: {note}"));
    }
    for warning in &config.warnings {
        say(&format!("{warning}\n"));
    }
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
    let options = compose::Options {
        eager: args.eager,
        allow_degraded: args.place.layers(),
        facts: SessionFacts {
            attended: args.is_attended(),
            front,
            user: config.user_name.clone(),
        },
        private: args.private,
        keep_for: args.lasting(),
    };
    let broker = compose::broker(&config)?;
    // Before other output, which would be behind the progress line.
    user.idle();
    let setup = compose::session(&config, broker, &options)?;
    Ok((Session::start(setup, user)?, choice, config.user))
}

/// Acts with the user at the terminal, or with a program that reads JSON.
pub(crate) async fn with_user(
    args: &SessionArgs,
    front: &'static str,
    notices: &DeskSettings,
    clearing: Clearing,
    act: impl AsyncFnOnce(&mut dyn User) -> Result<Exit>,
) -> Result<Exit> {
    if args.json {
        return act(&mut JsonLines).await;
    }
    let mut terminal = Terminal::new(args.verbose, args.lasting());
    terminal.file = clearing.file_of_apps();
    let asking = match args.is_attended() && !args.private {
        true => {
            let mut asking = Asking::new(front, asking::AT_TERMINAL, notices)?;
            asking.setup.keep_for = args.lasting().to_string();
            Some(asking)
        }
        false => None,
    };
    let mut terminal = terminal.settling(clearing).asking(asking);
    terminal.working("loading the model");
    let exit = act(&mut terminal).await;
    terminal.rest();
    exit
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
                "the tools of the app {name} run in the agent behind the proxy (client = true); start `sluice proxy`, or give the app a command"
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

/// Prints the answer, or the reason why there is none. With --json it is a record that was printed already.
pub(crate) fn show(args: &SessionArgs, outcome: &Outcome, clearing: &Clearing) -> Result<()> {
    match &outcome.result {
        Err(stop @ Stop::Uncleared(above)) => {
            say(&format!("sluice: {stop}\n{}\n", clearing.remedy(above)));
        }
        _ if args.json => {}
        Ok(answer) if answer.reveal_tcb().trim().is_empty() => say("(the model gave no answer)\n"),
        Ok(answer) => print(answer.reveal_tcb())?,
        Err(stop) => {
            message(&format!("sluice: {stop}{}", words(stop)));
            if matches!(stop, Stop::Model(_)) {
                say(&clearing.servers(&words(stop)));
            }
        }
    }
    if args.json {
        return Ok(());
    }
    say(&sources::text(&outcome.sources));
    let counts = [
        (
            outcome.inert,
            ("address is", "addresses are"),
            "no link, because it depends on what was read; see answer.addresses in `sluice.toml`",
        ),
        (
            outcome.unknown,
            ("call was", "calls were"),
            "sent without a reply, so its effect is unknown; see `sluice trace show`",
        ),
        (
            outcome.dropped,
            ("request of an app to another", "requests of apps to others"),
            "got no usable response; see `sluice trace show`",
        ),
        (
            outcome.refused,
            ("call was", "calls were"),
            "refused; see `sluice policy explain latest`",
        ),
    ];
    for (count, (one, several), what) in counts {
        if count > 0 {
            say(&format!("({} {what})\n", counted(count, one, several)));
        }
    }
    Ok(())
}

/// The words of a provider or an app about the end of a turn, which have passed the answer's sink.
pub(crate) fn words(stop: &Stop) -> String {
    match stop.words().filter(|words| !words.is_empty()) {
        Some(words) => format!(": {}", escape(words.reveal_tcb())),
        None => String::new(),
    }
}
