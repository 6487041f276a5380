//! `sluice app add`.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use clap::Args;
use config::App;
use names::WebUrl;
use provision::{Host, Package, Record, launcher};
use tokio::task::spawn_blocking;
use wire::ToolDescription;

use super::block::{self, Wish};
use super::offers::Offers;
use super::section::{self, Split};
use super::{secrets, try_out};
use crate::configuration::Found;
use crate::exit::Exit;
use crate::interrupts::on_interrupt;
use crate::known::{self, Known};
use crate::place::Place;
use crate::proposal::Tool;
use crate::terminal::{Terminal, ask, columns, is_agreed, say, say_nothing};
use crate::trial::{self, Of, Tried};
use crate::{installed, provider, review, words};

#[derive(Debug, Args)]
pub(super) struct Add {
    /// The name of the app in the configuration.
    name: String,
    /// A folder or file that the app may write (repeatable) [default: none].
    #[arg(long, value_name = "PATH")]
    write: Vec<PathBuf>,
    /// An environment variable of the app (repeatable).
    #[arg(long, value_name = "NAME=VALUE")]
    env: Vec<String>,
    /// A variable of your environment that the app gets at each start; its value is in no file
    /// (repeatable).
    #[arg(long, value_name = "NAME")]
    env_from: Vec<String>,
    /// A service on this machine that the app may connect to, as 127.0.0.1:5432 (repeatable) [default: none].
    #[arg(long, value_name = "HOST:PORT")]
    connect: Vec<String>,
    #[command(flatten)]
    how: How,
    /// The address of a remote server, in place of a command.
    #[arg(long, value_name = "URL", conflicts_with_all = ["write", "env", "env_from", "connect", "command"])]
    url: Option<String>,
    /// A header of every request to that server (repeatable). Name secrets, as in `Authorization: Bearer
    /// secret:NAME`.
    #[arg(long, value_name = "NAME: VALUE", requires = "url")]
    header: Vec<String>,
    /// The command that starts the app.
    #[arg(last = true, required_unless_present = "url", value_name = "COMMAND")]
    command: Vec<String>,
}

/// The options of `app add`, `app import` and `init`.
#[derive(Debug, Args)]
pub(crate) struct How {
    /// Run the install scripts of its packages, in a sandbox without secrets and, where possible, without
    /// network.
    #[arg(long)]
    scripts: bool,
    /// Write the configuration without asking. Only Sluice's own rules for known servers are written; calls
    /// of other tools have the most restrictive rule.
    #[arg(long)]
    pub(crate) yes: bool,
    /// Replace an app of the same name, with its rules [default: ask at a terminal].
    #[arg(long)]
    pub(crate) replace: bool,
    /// Ask whether to believe what an app says of its tools: of one, not of each that is imported.
    #[arg(skip)]
    asks: bool,
    /// Whether the user has typed the command.
    #[arg(skip)]
    is_typed: bool,
    #[command(flatten)]
    pub(crate) place: Place,
}

/// Where nobody was asked about the rules.
const NO_RULES: &str = "no tool has a rule, so each call is asked about; for rules, see `sluice policy propose --help`\n";

/// Adds an app: installs it, starts it once, shows the lines of configuration, and writes them.
pub(super) async fn add(mut args: Add) -> Result<Exit> {
    args.how.asks = !args.how.yes;
    args.how.is_typed = true;
    if args.how.asks && !Terminal::attended() {
        say(
            "nothing was fetched; without a terminal, add --yes, and --replace if there is an app of that name\n",
        );
        return Ok(Exit::Refused);
    }
    let wish = wish(&args)?;
    // A note and no refusal: it is a guess, and the user has typed this command.
    if let Some(at) = secrets::first(&wish.command) {
        say(&format!(
            "note: word {} of the command looks like a secret; every program of this machine can read it while the app runs; if \
             the server reads a variable, use --env-from NAME instead\n",
            at + 1
        ));
    }
    let file = args.how.place.writable()?;
    let is_added = one(&wish, &args.write, &args.how, &file).await?;
    if is_added {
        provider::after_add(&args.how.place.file, args.how.yes).await;
    }
    Ok(if is_added { Exit::Done } else { Exit::Refused })
}

/// Whether an app of this name is there, with the same line for its command or address.
pub(crate) fn is_there(wish: &Wish, file: &Found) -> Result<bool> {
    let own = section::split(&file.text()?, &wish.name)?.own;
    let is_there = own.lines().any(|line| line == block::start(wish));
    let fetches = launcher(&wish.command, [])?.is_some();
    Ok(is_there && (!fetches || installed::store()?.get(&wish.name)?.is_some()))
}

/// Adds one app to this configuration. Whether it is in there now.
pub(super) async fn one(wish: &Wish, write: &[PathBuf], how: &How, file: &Found) -> Result<bool> {
    let store = installed::store()?;
    let old = store.get(&wish.name)?;
    let before = file.text()?;
    let Split { own, others } = section::split(&before, &wish.name)?;
    // A mistake, or what is missing, is found before anything is fetched.
    block::with(file.path(), &others, &block::of(wish, &[], &[]))?;
    if let Some(reason) = block::unset(wish) {
        bail!(reason);
    }
    let package = launcher(&wish.command, wish.env.keys().chain(&wish.env_from))?;
    let in_path = |name: &str| (Host::of_user().path.iter()).any(|it| it.join(name).is_file());
    let program = wish.command.first().filter(|_| package.is_none());
    if let Some(name) = program.filter(|name| !name.contains('/') && !in_path(name)) {
        bail!("there is no program '{name}' in PATH; install it, or write its whole path");
    }
    // A session may have installed it for another file.
    let kept = old.clone().filter(|old| {
        let package = package.as_ref().filter(|_| old.tools.is_some());
        package.is_some_and(|package| installed::is_for(old, package))
    });
    let is_taken = !own.is_empty() || (old.is_some() && kept.is_none());
    if is_taken && !may_replace(&wish.name, &own, how, file)? {
        say_nothing("changed");
        return Ok(false);
    }
    let fetched = match (kept, package) {
        (None, Some(package)) => Some(install(&wish.name, package, how.scripts).await?),
        (kept, _) => kept,
    };
    // The record is written after the user has agreed: an interruption before leaves only files that nothing names.
    let (texts, records) = ((&*before, &*others), (old.as_ref(), fetched.as_ref()));
    let (store_of_undo, name, kept) = (installed::store()?, wish.name.clone(), old.clone());
    on_interrupt(Some(Box::new(move || {
        let undone = match &kept {
            Some(old) => store_of_undo.tidy(old).is_ok(),
            None => store_of_undo.remove(&name).is_ok(),
        };
        let left = if undone { "nothing" } else { "a part" };
        say(&format!(
            "\n{name} was not added, and {left} of what was fetched for it is left; to go on, run the command again\n"
        ));
    })));
    let added = finish(wish, write, how, (file, texts), records).await;
    on_interrupt(None);
    match (&added, &old, &fetched) {
        (Ok(true), Some(_), None) | (Ok(false) | Err(_), None, Some(_)) => {
            store.remove(&wish.name)?;
        }
        (Ok(false) | Err(_), Some(old), _) => store.tidy(old)?,
        _ => {}
    }
    added
}

/// Whether the app of that name is to be replaced. Its lines are shown.
fn may_replace(name: &str, own: &str, how: &How, file: &Found) -> Result<bool> {
    if how.replace {
        return Ok(true);
    }
    if how.yes {
        bail!(
            "an app '{name}' is installed already; replace it with --replace, or update it with `sluice app update {name}`"
        );
    }
    let path = file.path().display();
    say(&format!(
        "an app '{name}' is installed already; its lines in {path}:\n{own}\n"
    ));
    Ok(is_agreed(
        "Type replace to replace it, with its rules [no]: ",
        "replace",
    ))
}

/// Everything after the installation. Whether the app is in the configuration now.
async fn finish(
    wish: &Wish,
    write: &[PathBuf],
    how: &How,
    (file, (before, others)): (&Found, (&str, &str)),
    (old, fetched): (Option<&Record>, Option<&Record>),
) -> Result<bool> {
    let mut data = block::data(wish, write)?;
    let mut offers = Offers {
        wish,
        file,
        others,
        is_asked: !how.yes,
        is_typed: how.is_typed,
        seen: BTreeSet::new(),
        domains: Vec::new(),
        services: wish.connect.clone(),
    };
    offers.folders(&mut data);
    offers.services();
    let of = match fetched {
        // Its tools must be those of its first start.
        Some(_) if old == fetched => Of::Seen,
        Some(record) => Of::New(record),
        None => Of::Installed,
    };
    let layers = how.place.layers();
    let (config, trial) = loop {
        let wish = &offers.granted();
        let lines = block::of(wish, &data, &[]) + &block::domains(&wish.name, &offers.domains);
        let mut config = block::with(file.path(), others, &lines)?;
        trial::hide_variables(&mut config, &wish.name, &wish.filled_in);
        trial::stand_in(&mut config, &wish.name, &wish.given);
        match trial::find_and_start(&mut config, &wish.name, of, &layers).await {
            Ok(trial) => break (config, trial),
            // It may start with a domain that it tried to reach.
            Err(error) => {
                let tried = error.downcast_ref::<Tried>();
                if !tried.is_some_and(|Tried(tried)| offers.places(tried)) {
                    return Err(error);
                }
            }
        }
    };
    offers.places(&trial.tried);
    let wish = &offers.granted();
    let mut listed: Vec<Tool> = trial.tools.iter().map(Tool::from).collect();
    if let Some(note) = known::note(wish, &listed) {
        say(&format!("{note}\n"));
    }
    if how.yes {
        // A rule makes the name of a tool trusted, so rules are proposed only where the user reads the names.
        let known = Known::of(wish).ok().flatten();
        let is_known = |tool: &Tool| known.as_ref()?.rule(&wish.name, tool);
        listed.retain(|tool| is_known(tool).is_some());
    }
    let domains = block::domains(&wish.name, &offers.domains);
    let text = block::of(wish, &data, &listed) + &domains;
    // The proposed rules are loaded before they are written.
    block::with(file.path(), others, &text)?;
    say(&format!(
        "{} starts, with {}. These lines would be added to {}:\n{}{domains}\n",
        wish.name,
        if trial.tools.is_empty() {
            "no tool".to_owned()
        } else {
            trial.names().join(", ")
        },
        file.path().display(),
        block::of(wish, &data, &[])
    ));
    try_out::say_tried(&wish.name, &trial);
    if !how.yes && !is_wanted(&text, &trial.tools) {
        say_nothing("added");
        return Ok(false);
    }
    let header = format!("[app.{}]\n", wish.name);
    // Only a package is compared with what was shown, at each start.
    let is_pinned = fetched.is_some();
    let text = match is_pinned && how.asks && review::are_believed(&trial.tools) {
        true => text.replacen(&header, &format!("{header}descriptions = \"trusted\"\n"), 1),
        false => text,
    };
    on_interrupt(None);
    // The records come first: an interruption leaves a record that nothing uses, not an app without a record.
    if let Some(record) = fetched {
        let record = trial.record(record, !how.yes || record.reviewed);
        let store = installed::store()?;
        store.put(&record)?;
        store.tidy(&record)?;
    }
    if let Some(app) = config.apps.get(&wish.name) {
        try_out::keep_elsewhere(app, review::seen(&trial.tools))?;
    }
    file.rewrite(before, &format!("{others}{text}"))?;
    say(&format!(
        "added; use it with `sluice run --app {} \"…\"`\n",
        wish.name
    ));
    if how.yes && listed.is_empty() {
        say(NO_RULES);
    }
    Ok(true)
}

/// Whether the user agrees, who can read everything first.
fn is_wanted(text: &str, tools: &[ToolDescription]) -> bool {
    let prompt = "Type add to add it, or show to read its rules and descriptions first [no]: ";
    let agreed = ask(prompt, "Type add or no.", |line| {
        if line.trim() == "show" {
            say(text);
            let tools = tools.iter();
            tools.for_each(|tool| say(&review::words(tool, 1, columns())));
            return None;
        }
        words::read(line, "add")
    });
    agreed.unwrap_or(false)
}

/// Fetches a package into the store.
pub(super) async fn install(app: &str, wanted: Package, scripts: bool) -> Result<Record> {
    let app = app.to_owned();
    spawn_blocking(move || installed::fetch(&app, &wanted, scripts)).await?
}

fn wish(args: &Add) -> Result<Wish> {
    let here = std::env::current_dir().context("the working folder is gone")?;
    // An error does not quote the text, which may be a secret.
    let pairs = |option: &[String], sign: char, error: &'static str| -> Result<BTreeMap<_, _>> {
        let pairs = option.iter().map(|pair| {
            let (name, value) = pair.split_once(sign).context(error)?;
            Ok((name.to_owned(), value.to_owned()))
        });
        pairs.collect()
    };
    let headers = pairs(&args.header, ':', "--header: write 'NAME: VALUE'")?;
    let headers = headers
        .iter()
        .map(|(name, value)| (name.trim().to_owned(), value.trim().to_owned()));
    let command = args.command.iter();
    let command = command.map(|word| block::typed(word, &here, &args.write));
    Ok(Wish {
        name: args.name.clone(),
        url: args.url.clone(),
        headers: headers.collect(),
        command: command.collect(),
        env: pairs(&args.env, '=', "--env: write NAME=VALUE")?,
        env_from: args.env_from.clone(),
        connect: args.connect.clone(),
        ..Wish::default()
    })
}

/// An app that is this remote server, in no configuration.
pub(super) fn bare(name: &str, url: &WebUrl) -> Result<App> {
    let wish = Wish {
        name: name.to_owned(),
        url: Some(url.to_string()),
        ..Wish::default()
    };
    let file = Path::new("/sluice.toml");
    let mut config = block::with(file, "", &block::of(&wish, &[], &[]))?;
    config.apps.remove(name).context("an app without a name")
}
