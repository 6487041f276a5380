//! `sluice app add`.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow, bail};
use clap::Args;
use config::{App, Config};
use names::WebUrl;
use provision::{Host, Package, Purpose, Record, Wanted, launcher};
use tokio::task::spawn_blocking;

use super::block::{self, Wish};
use super::{secrets, try_out};
use crate::exit::Exit;
use crate::place::Place;
use crate::proposal::Tool;
use crate::terminal::{columns, is_agreed, say};
use crate::trial::Of;
use crate::{installed, review};

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
    #[command(flatten)]
    how: How,
    /// The address of a remote server, in place of a command.
    #[arg(long, value_name = "URL", conflicts_with_all = ["write", "env", "env_from", "command"])]
    url: Option<String>,
    /// A header of every request to that server (repeatable). Name secrets, as in `Authorization: Bearer
    /// secret:NAME`.
    #[arg(long, value_name = "NAME: VALUE", requires = "url")]
    header: Vec<String>,
    /// The command that starts the app.
    #[arg(last = true, required_unless_present = "url", value_name = "COMMAND")]
    command: Vec<String>,
}

/// The options of `app add` and `app import`.
#[derive(Debug, Args)]
pub(super) struct How {
    /// Run the install scripts of its packages, in a sandbox without secrets and, where possible, without
    /// network.
    #[arg(long)]
    scripts: bool,
    /// Write the configuration without asking. No rule for a tool is written, so all calls have the most
    /// restrictive one.
    #[arg(long)]
    yes: bool,
    #[command(flatten)]
    pub(super) place: Place,
}

/// Adds an app: installs it, starts it once, shows the lines of configuration, and writes them.
pub(super) async fn add(args: Add) -> Result<Exit> {
    let wish = wish(&args)?;
    // A note and no refusal: it is a guess, and the user has typed this command.
    if let Some(at) = secrets::first(&wish.command) {
        say(&format!(
            "note: word {} of the command looks like a secret; every program of this machine can read it while the app runs; if \
             the server reads a variable, use --env-from NAME instead\n",
            at + 1
        ));
    }
    let file = args.how.place.writable_file()?;
    let is_added = one(&wish, &args.write, &args.how, &file).await?;
    Ok(if is_added { Exit::Done } else { Exit::Refused })
}

/// Adds one app to this configuration. Whether it is in there now.
pub(super) async fn one(wish: &Wish, write: &[PathBuf], how: &How, file: &Path) -> Result<bool> {
    let store = installed::store()?;
    // A second installation under this name would replace the record of the reviewed tools.
    if store.get(&wish.name)?.is_some() {
        bail!(
            "an app '{0}' is installed already; update it with `sluice app update {0}`, or remove it first with `sluice app remove {0}`",
            wish.name
        );
    }
    let before = match fs::read_to_string(file) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => String::new(),
        Err(error) => return Err(error).context(format!("{} cannot be read", file.display())),
    };
    // A name that is taken, or a mistake, is found before anything is fetched.
    with(file, &before, &block::of(wish, &[], &[]))?;
    let variables = wish.env.keys().chain(&wish.env_from);
    let fetched = match launcher(&wish.command, variables)? {
        Some(package) => Some(install(&wish.name, package, how.scripts).await?),
        None => None,
    };
    // The record is written after the user has agreed: an interruption before leaves only files that nothing names.
    let added = finish(wish, write, how, (file, &before), fetched.as_ref()).await;
    if fetched.is_some() && !matches!(added, Ok(true)) {
        store.remove(&wish.name)?;
    }
    added
}

/// Everything after the installation. Whether the app is in the configuration now.
async fn finish(
    wish: &Wish,
    write: &[PathBuf],
    how: &How,
    (file, before): (&Path, &str),
    fetched: Option<&Record>,
) -> Result<bool> {
    let data = data(wish, write)?;
    let mut config = with(file, before, &block::of(wish, &data, &[]))?;
    let of = fetched.map_or(Of::Installed, Of::New);
    let trial = try_out::start(&mut config, &wish.name, &how.place.layers(), of).await?;
    // A rule makes the name of a tool trusted, so rules are written only where the user reads the names.
    let listed: Vec<Tool> = match how.yes {
        true => Vec::new(),
        false => trial.tools.iter().map(Tool::from).collect(),
    };
    let text = block::of(wish, &data, &listed);
    // The proposed rules are loaded before they are written.
    with(file, before, &text)?;
    say(&format!(
        "{} starts, with {}. These lines would be added to {}:\n{text}\n",
        wish.name,
        trial.names().join(", "),
        file.display()
    ));
    for tool in &trial.tools {
        say(&review::words(tool, 1, columns()));
    }
    try_out::say_tried(&wish.name, &trial);
    if !how.yes && !is_agreed("Type add to add it [no]: ", "add") {
        say("nothing was added; without a terminal, add --yes\n");
        return Ok(false);
    }
    // The records come first: an interruption leaves a record that nothing uses, not an app without a record.
    if let Some(record) = fetched {
        let record = Record {
            tools: Some(review::seen(&trial.tools)),
            reviewed: !how.yes,
            tried: trial.tried.keys().cloned().collect(),
            ..record.clone()
        };
        let store = installed::store()?;
        store.put(&record)?;
        store.tidy(&record)?;
    }
    if let Some(app) = config.apps.get(&wish.name) {
        try_out::keep_elsewhere(app, review::seen(&trial.tools))?;
    }
    append(file, before, &text)?;
    say(&format!(
        "added; use it with `sluice run --app {} \"…\"`\n",
        wish.name
    ));
    Ok(true)
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
    Ok(Wish {
        name: args.name.clone(),
        url: args.url.clone(),
        headers: headers.collect(),
        command: command.map(|word| block::anchored(word, &here)).collect(),
        env: pairs(&args.env, '=', "--env: write NAME=VALUE")?,
        env_from: args.env_from.clone(),
    })
}

/// The files that its arguments name, and those that it may write (true).
fn data(wish: &Wish, write: &[PathBuf]) -> Result<Vec<(String, bool)>> {
    // Only the arguments count: the program need not be one of this machine.
    let mut command = vec!["/bin/true".to_owned()];
    command.extend(wish.command.iter().skip(1).cloned());
    let wanted = Wanted {
        command: &command,
        env: &wish.env,
        given: &[],
        writable: &[],
        folders: &[],
        interpreter: None,
        programs: &[],
        folder: Path::new("/"),
        data: true,
    };
    let needs = provision::find(&Host::of_user(), &wanted)?;
    let found = needs
        .found
        .iter()
        .filter(|found| found.purpose == Purpose::Data);
    let mut data: BTreeMap<String, bool> = found
        .map(|found| (found.source.to_string_lossy().into_owned(), false))
        .collect();
    for path in write {
        // Resolved, since no path of a mount may lead through a link.
        let path = path
            .canonicalize()
            .with_context(|| format!("{} is not there", path.display()))?;
        data.insert(path.to_string_lossy().into_owned(), true);
    }
    Ok(data.into_iter().collect())
}

/// The configuration with these lines at its end.
fn with(file: &Path, before: &str, lines: &str) -> Result<Config> {
    let text = format!("{before}{lines}");
    let read = |path: &Path| match path == file {
        true => Ok(text.clone()),
        false => fs::read_to_string(path),
    };
    Config::load_with(file, &read)
        .map_err(|mistakes| anyhow!("with this app the configuration has mistakes\n\n{mistakes}"))
}

/// An app that is this remote server, in no configuration.
pub(super) fn bare(name: &str, url: &WebUrl) -> Result<App> {
    let wish = Wish {
        name: name.to_owned(),
        url: Some(url.to_string()),
        ..Wish::default()
    };
    let file = Path::new("/sluice.toml");
    let mut config = with(file, "", &block::of(&wish, &[], &[]))?;
    config.apps.remove(name).context("an app without a name")
}

/// Appends the lines, unless the file has changed since it was read.
fn append(file: &Path, before: &str, lines: &str) -> Result<()> {
    let folder = file.parent().context("the configuration has no folder")?;
    fs::create_dir_all(folder)?;
    // Minutes may have passed, and the new content was not loaded together with these lines.
    if fs::read_to_string(file).unwrap_or_default() != before {
        bail!(
            "{} changed meanwhile, and nothing was added; try again",
            file.display()
        );
    }
    let mut opened = fs::OpenOptions::new()
        .append(true)
        .create(true)
        .open(file)?;
    opened.write_all(lines.as_bytes())?;
    opened.sync_all()?;
    Ok(())
}
