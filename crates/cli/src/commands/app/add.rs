//! `sluice app add`.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow, bail};
use clap::Args;
use config::{App, Config};
use hub::trace::escape;
use names::WebUrl;
use provision::{Host, Package, Purpose, Record, Wanted, launcher};
use tokio::task::spawn_blocking;

use super::block::{self, Wish};
use super::place::Place;
use super::{secrets, try_out};
use crate::exit::Exit;
use crate::proposal::Tool;
use crate::terminal::{columns, is_agreed, say};
use crate::trial::Of;
use crate::{installed, review};

#[derive(Debug, Args)]
pub(super) struct Add {
    /// What it is called from now on.
    name: String,
    /// A folder or file that it may write.
    #[arg(long, value_name = "PATH")]
    write: Vec<PathBuf>,
    /// A variable that it gets.
    #[arg(long, value_name = "NAME=VALUE")]
    env: Vec<String>,
    /// A variable of yours that it gets with its value, which stands in no file.
    #[arg(long, value_name = "NAME")]
    env_from: Vec<String>,
    #[command(flatten)]
    how: How,
    /// The server that it is, if it is not started here.
    #[arg(long, value_name = "URL", conflicts_with_all = ["write", "env", "env_from", "command"])]
    url: Option<String>,
    /// What that server is told with every request. Secrets are named: `Authorization: Bearer secret:NAME`.
    #[arg(long, value_name = "NAME: VALUE", requires = "url")]
    header: Vec<String>,
    /// The command that starts it.
    #[arg(last = true, required_unless_present = "url", value_name = "COMMAND")]
    command: Vec<String>,
}

/// How apps are added.
#[derive(Debug, Args)]
pub(super) struct How {
    /// Let programs of its packages run while it is installed: without network where that can be, and never beside a secret.
    #[arg(long)]
    scripts: bool,
    /// Write the configuration unasked. Every rule in it is the most restrictive one.
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
            "note: word {} of the command looks like a secret; it would stand in your configuration, and every program of this machine \
             can read it while the app runs; if the server reads a variable, give it that with --env-from\n",
            at + 1
        ));
    }
    let file = args.how.place.file()?;
    match one(&wish, &args.write, &args.how, &file).await? {
        true => Ok(Exit::Done),
        false => Ok(Exit::Refused),
    }
}

/// Adds one app to this configuration. Whether it is in there now.
pub(super) async fn one(wish: &Wish, write: &[PathBuf], how: &How, file: &Path) -> Result<bool> {
    let store = installed::store()?;
    // A second installation under this name would replace the record of what the user has seen of the first.
    if store.get(&wish.name)?.is_some() {
        bail!(
            "an app '{0}' is installed already; `sluice app update {0}`, or `sluice app remove {0}` first",
            wish.name
        );
    }
    let before = match fs::read_to_string(file) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => String::new(),
        Err(error) => return Err(error).context(format!("{} cannot be read", file.display())),
    };
    // Before anything is fetched: a name that is taken, or a mistake.
    with(file, &before, &block::of(wish, &[], &[]))?;
    let variables = wish.env.keys().chain(&wish.env_from);
    let fetched = match launcher(&wish.command, variables)? {
        Some(package) => Some(install(&wish.name, package, how.scripts).await?),
        None => None,
    };
    // Its record is kept when the user has said so: what ends the program before that leaves files that nothing names.
    let added = finish(wish, write, how, (file, &before), fetched.as_ref()).await;
    if fetched.is_some() && !matches!(added, Ok(true)) {
        // What no configuration names is not left behind.
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
    // Without rules for its tools: these are proposed from what the trial shows.
    let mut config = with(file, before, &block::of(wish, &data, &[]))?;
    let of = fetched.map_or(Of::Installed, Of::New);
    let trial = try_out::start(&mut config, &wish.name, &how.place.allow_degraded, of).await?;
    let names: Vec<&str> = trial.tools.iter().map(|tool| tool.name.as_str()).collect();
    // A tool that the configuration lists has its name by the user's word, and unasked nobody has looked at the names.
    let listed: Vec<Tool> = match how.yes {
        true => Vec::new(),
        false => trial.tools.iter().map(Tool::from).collect(),
    };
    let text = block::of(wish, &data, &listed);
    // A proposed rule that the loader refuses would leave a configuration which starts nothing.
    with(file, before, &text)?;
    say(&format!(
        "{} starts, with {}. This is to be written into {}:\n{text}\n",
        wish.name,
        names.join(", "),
        file.display()
    ));
    for tool in &trial.tools {
        say(&review::words(tool, 1, columns()));
    }
    try_out::say_tried(&wish.name, &trial);
    if !how.yes && !is_agreed("Type add and Enter [no]: ", "add") {
        say("nothing was added; say --yes where nobody can be asked\n");
        return Ok(false);
    }
    // The records come before the configuration: an interruption in between leaves a record that nothing uses, and not
    // an app whose tools are compared with nothing.
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
        "added; `sluice run --app {} \"…\"` uses it\n",
        wish.name
    ));
    Ok(true)
}

/// Fetches a package into the store, and says what came.
pub(super) async fn install(app: &str, wanted: Package, scripts: bool) -> Result<Record> {
    let app = app.to_owned();
    spawn_blocking(move || installed::fetch(&app, &wanted, scripts)).await?
}

fn wish(args: &Add) -> Result<Wish> {
    let here = std::env::current_dir().context("the working folder is gone")?;
    let env = args.env.iter().map(|pair| {
        let pair = pair
            .split_once('=')
            .ok_or_else(|| anyhow!("'{}' is not NAME=VALUE", escape(pair)))?;
        Ok((pair.0.to_owned(), pair.1.to_owned()))
    });
    let headers = args.header.iter().map(|header| {
        // What is wrong may be a secret.
        let header = header
            .split_once(':')
            .context("--header: write 'NAME: VALUE'")?;
        Ok((header.0.trim().to_owned(), header.1.trim().to_owned()))
    });
    Ok(Wish {
        name: args.name.clone(),
        url: args.url.clone(),
        headers: headers.collect::<Result<_>>()?,
        command: args
            .command
            .iter()
            .map(|word| block::anchored(word, &here))
            .collect(),
        env: env.collect::<Result<_>>()?,
        env_from: args.env_from.clone(),
    })
}

/// What the app is to see beside its program: what its arguments name, and what it may write.
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

/// An app that is this server and nothing else, in no configuration.
pub(super) fn bare(name: &str, url: &WebUrl) -> Result<App> {
    let wish = Wish {
        name: name.to_owned(),
        url: Some(url.to_string()),
        headers: BTreeMap::new(),
        command: Vec::new(),
        env: BTreeMap::new(),
        env_from: Vec::new(),
    };
    let file = Path::new("/sluice.toml");
    let mut config = with(file, "", &block::of(&wish, &[], &[]))?;
    config.apps.remove(name).context("an app without a name")
}

/// Adds the lines, unless somebody has changed the file meanwhile.
fn append(file: &Path, before: &str, lines: &str) -> Result<()> {
    let folder = file.parent().context("the configuration has no folder")?;
    fs::create_dir_all(folder)?;
    // Minutes may have passed since it was read. What was written meanwhile was never loaded together with these lines.
    if fs::read_to_string(file).unwrap_or_default() != before {
        bail!("{} has changed meanwhile; try again", file.display());
    }
    let mut opened = fs::OpenOptions::new()
        .append(true)
        .create(true)
        .open(file)?;
    opened.write_all(lines.as_bytes())?;
    opened.sync_all()?;
    Ok(())
}
