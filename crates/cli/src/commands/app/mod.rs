//! `sluice app`: apps that are added, and those that are installed.

pub(crate) mod add;
pub(crate) mod block;
mod call;
pub(crate) mod foreign;
pub(crate) mod import;
mod login;
mod offers;
mod secrets;
pub(crate) mod section;
mod services;
mod try_out;
mod update;

use self::section::Split;
use anyhow::{Result, bail};
use clap::{Args, Subcommand};
use hub::trace::escape;
use provision::Record;
use serde_json::{Value, json};

use crate::configuration::Found;
use crate::exit::Exit;
use crate::installed::{self, package};
use crate::place::Place;
use crate::seen::RemoteTools;
use crate::terminal::{is_agreed, say, say_nothing};
use crate::{configuration, json_lines, provider};

#[derive(Debug, Args)]
pub(crate) struct App {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Add an app by its usual command; what npx, uvx or pipx would fetch is installed in a sandbox.
    #[command(
        override_usage = "sluice app add [OPTIONS] NAME -- COMMAND...\n       sluice app add [OPTIONS] NAME --url URL",
        after_help = "Example:\n  sluice app add files -- npx -y @modelcontextprotocol/server-filesystem ~/papers\n  sluice app add time -- uvx mcp-server-time\n  sluice app add db --connect 127.0.0.1:5432 -- npx -y @modelcontextprotocol/server-postgres postgresql://127.0.0.1/db\n  sluice app add far --url https://api.example.org/mcp --header 'Authorization: Bearer secret:far'\n\n\
                      Install scripts of packages run with --scripts only."
    )]
    Add(add::Add),
    /// Add every server that the configuration file of another program lists.
    #[command(
        after_help = "Example:\n  sluice app import ~/.cursor/mcp.json\n  sluice app import ~/.codex/config.toml --yes\n\n\
                      Variables that look like secrets are not copied; the app reads them from your environment."
    )]
    Import(import::Import),
    /// List the apps that are installed or configured.
    #[command(after_help = "Example:\n  sluice app list --json")]
    List {
        /// Print JSON, one app per line.
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        place: Place,
    },
    /// Show an app: version, files, hash and reviewed tools of what is installed, and its lines in the configuration.
    #[command(after_help = "Example:\n  sluice app show files")]
    Show {
        /// The app.
        name: String,
        /// Print JSON.
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        place: Place,
    },
    /// Start an app once and list its tools with their descriptions.
    #[command(after_help = "Example:\n  sluice app tools files --json")]
    Tools(try_out::Try),
    /// Call one tool of an app and print its result, for writing policies.
    #[command(
        after_help = "Example:\n  sluice app call mail read_email '{\"id\": \"1\"}'\n  sluice app call mail read_email '{\"id\": \"1\"}' | sluice policy label --tool mail.read_email\n\n\
                      The call is your own word. It is decided on, run and recorded as in a session, and no model is asked."
    )]
    Call(call::Call),
    /// Start an app once and compare its tools with those that you have reviewed.
    #[command(after_help = "Example:\n  sluice app test files\n  sluice app test files --accept")]
    Test(try_out::Test),
    /// Log in at the server of a remote app, in your browser.
    #[command(
        after_help = "Example:\n  sluice app login far\n  sluice app login far --url https://api.example.org/mcp\n\n\
                      The tokens are saved in a file that only you can read, and sent to that server only."
    )]
    Login(login::Login),
    /// Delete the tokens of an app.
    #[command(after_help = "Example:\n  sluice app logout far")]
    Logout(login::Logout),
    /// Install the newest version of an app, after you have seen how its tools differ.
    #[command(after_help = "Example:\n  sluice app update files")]
    Update(update::Update),
    /// Remove an app: what is installed for it, and its lines in the configuration.
    #[command(after_help = "Example:\n  sluice app remove files")]
    Remove {
        /// The app.
        name: String,
        /// Remove without asking.
        #[arg(long)]
        yes: bool,
        #[command(flatten)]
        place: Place,
    },
}

/// Runs a subcommand of `sluice app`.
pub(crate) async fn app(args: App) -> Result<Exit> {
    match args.action {
        Action::Add(args) => add::add(args).await,
        Action::Import(args) => import::import(args).await,
        Action::Update(args) => update::update(args).await,
        Action::Login(args) => login::login(&args).await,
        Action::Logout(args) => login::logout(&args),
        Action::Tools(args) => try_out::tools(&args).await,
        Action::Call(args) => call::call(args).await,
        Action::Test(args) => try_out::test(&args).await,
        Action::List { json, place } => list(json, &place),
        Action::Show { name, json, place } => show(&name, json, &place),
        Action::Remove { name, yes, place } => remove(&name, yes, &place),
    }
}

fn list(json: bool, place: &Place) -> Result<Exit> {
    let records = installed::store()?.all()?;
    for record in &records {
        let text = format!("{:<20} {} {}", record.app, package(record), record.version);
        json_lines::show(json, &value(record)?, &text)?;
    }
    let text = text(place)?;
    let mut names = section::names(&text);
    names.retain(|name| !records.iter().any(|record| record.app == *name));
    if records.is_empty() && names.is_empty() && !json {
        say("there is no app; add one with `sluice app add NAME -- COMMAND`\n");
    }
    for name in &names {
        let own = section::split(&text, name).map(|split| split.own);
        let own = own.unwrap_or_default();
        let is_start = |line: &&str| line.starts_with("command =") || line.starts_with("url =");
        let start = own.lines().find(is_start).unwrap_or_default();
        let value = json!({ "app": name, "lines": own });
        json_lines::show(json, &value, &format!("{name:<20} {start}"))?;
    }
    Ok(Exit::Done)
}

fn show(name: &str, json: bool, place: &Place) -> Result<Exit> {
    let record = installed::store()?.get(name)?;
    let text = text(place)?;
    let own = section::split(&text, name)?.own;
    if record.is_none() && own.is_empty() {
        bail!(unknown(name, &text)?);
    }
    let mut shown = json!({ "app": name });
    let mut lines = format!("{}:", escape(name));
    if let Some(record) = &record {
        shown = value(record)?;
        lines = described(record)?;
    }
    if let (false, Some(members)) = (own.is_empty(), shown.as_object_mut()) {
        members.insert("lines".to_owned(), json!(own));
        lines += &format!("\n  lines in the configuration:\n{}", own.trim_end());
    }
    json_lines::show(json, &shown, &lines)?;
    Ok(Exit::Done)
}

/// The configuration, only to be shown: it need not be trusted.
fn text(place: &Place) -> Result<String> {
    let found = configuration::find(place.file.config.as_deref())?;
    found.map_or_else(|| Ok(String::new()), |found| found.text())
}

/// What is installed for an app.
fn described(record: &Record) -> Result<String> {
    let scripts = match record.scripts {
        true => "install scripts ran",
        false => "no install script ran",
    };
    let seen = match record.reviewed {
        true => "",
        false => " (not reviewed; review them with `sluice app test NAME --accept`)",
    };
    let mut text = format!(
        "{}: {} {}\n  {scripts}\n  files   {}\n  sha256  {}\n  tools   {}{seen}",
        record.app,
        package(record),
        record.version,
        installed::store()?.tree(record)?.display(),
        record.sha256,
        tools(record).join(", ")
    );
    for place in &record.tried {
        text += &format!("\n  tried to reach {}", escape(place));
    }
    Ok(text)
}

/// Says that there is no such app, and which there are.
fn unknown(name: &str, text: &str) -> Result<String> {
    let mut names = section::names(text);
    names.extend(installed::store()?.all()?.into_iter().map(|it| it.app));
    names.sort();
    names.dedup();
    Ok(format!(
        "no app '{}' is installed or configured; `sluice app list` has: {}",
        escape(name),
        escape(&names.join(", "))
    ))
}

fn remove(name: &str, yes: bool, place: &Place) -> Result<Exit> {
    let record = installed::store()?.get(name)?;
    let file = place.writable()?;
    let text = file.text()?;
    let Split { own, others } = section::split(&text, name)?;
    let left = provider::without_secret(&others, name);
    if own.is_empty() && record.is_none() && !RemoteTools::of_user()?.knows(name)? {
        bail!(unknown(name, &text)?);
    }
    let name = escape(name);
    if !own.is_empty() {
        // Other lines may still name it.
        block::with(file.path(), &left, "")?;
        let path = file.path().display();
        say(&format!(
            "These lines would be removed from {path}:\n{own}\n"
        ));
        if left != others {
            say("Its secret would be removed from each clearance.\n");
        }
    }
    if let Some(record) = &record {
        say(&format!("{} is installed for it\n", package(record)));
    }
    let prompt = format!("Type remove to remove {name} [no]: ");
    if !yes && !is_agreed(&prompt, "remove") {
        say_nothing("removed");
        return Ok(Exit::Refused);
    }
    take_out(&name, &file, &text)?;
    say("removed\n");
    Ok(Exit::Done)
}

/// Removes the lines of an app from a configuration with this text, and what is installed for it.
pub(crate) fn take_out(name: &str, file: &Found, text: &str) -> Result<()> {
    let Split { own, others } = section::split(text, name)?;
    if !own.is_empty() {
        let left = provider::without_secret(&others, name);
        // Other lines may still name it.
        block::with(file.path(), &left, "")?;
        file.rewrite(text, &left)?;
    }
    // The same name may have been an installed app first and a remote server later.
    installed::store()?.remove(name)?;
    RemoteTools::of_user()?.forget(name)
}

/// The names of the reviewed tools.
fn tools(record: &Record) -> Vec<&str> {
    let tools = record.tools.iter().flatten();
    tools.map(|(name, _)| name.as_str()).collect()
}

fn value(record: &Record) -> Result<Value> {
    let mut value = serde_json::to_value(record)?;
    if let Some(value) = value.as_object_mut() {
        value.insert("tools".to_owned(), json!(tools(record)));
        value.insert("files".to_owned(), json!(installed::store()?.tree(record)?));
    }
    Ok(value)
}
