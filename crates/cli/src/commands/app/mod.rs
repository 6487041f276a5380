//! `sluice app`: apps that are added, and those that are installed.

mod add;
mod block;
mod foreign;
mod import;
mod login;
mod secrets;
mod try_out;
mod update;

use anyhow::{Result, bail};
use clap::{Args, Subcommand};
use hub::trace::escape;
use provision::Record;
use serde_json::{Value, json};

use crate::exit::Exit;
use crate::installed::{self, package};
use crate::json_lines;
use crate::seen::RemoteTools;
use crate::terminal::{is_agreed, say};

#[derive(Debug, Args)]
pub(crate) struct App {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Add an app by its usual command; what npx, uvx or pipx would fetch is installed in a sandbox.
    #[command(
        after_help = "Example:\n  sluice app add files -- npx -y @modelcontextprotocol/server-filesystem ~/papers\n  sluice app add time -- uvx mcp-server-time\n  sluice app add far --url https://api.example.org/mcp --header 'Authorization: Bearer secret:far'\n\n\
                      Install scripts of packages run with --scripts only."
    )]
    Add(add::Add),
    /// Add every server that the configuration file of another program lists.
    #[command(
        after_help = "Example:\n  sluice app import ~/.cursor/mcp.json\n  sluice app import ~/.codex/config.toml --yes\n\n\
                      Variables that look like secrets are not copied; the app reads them from your environment."
    )]
    Import(import::Import),
    /// List the installed apps.
    #[command(after_help = "Example:\n  sluice app list --json")]
    List {
        /// Print JSON, one app per line.
        #[arg(long)]
        json: bool,
    },
    /// Show what is installed for an app: version, files, hash and reviewed tools.
    #[command(after_help = "Example:\n  sluice app show files")]
    Show {
        /// The app.
        name: String,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Start an app once and list its tools with their descriptions.
    #[command(after_help = "Example:\n  sluice app tools files --json")]
    Tools(try_out::Try),
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
    /// Remove what is installed for an app; the configuration is not changed.
    #[command(after_help = "Example:\n  sluice app remove files")]
    Remove {
        /// The app.
        name: String,
        /// Remove without asking.
        #[arg(long)]
        yes: bool,
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
        Action::Test(args) => try_out::test(&args).await,
        Action::List { json } => list(json),
        Action::Show { name, json } => show(&name, json),
        Action::Remove { name, yes } => remove(&name, yes),
    }
}

fn list(json: bool) -> Result<Exit> {
    let records = installed::store()?.all()?;
    if records.is_empty() && !json {
        say("no app is installed; add one with `sluice app add NAME -- COMMAND`\n");
    }
    for record in &records {
        let text = format!("{:<20} {} {}", record.app, package(record), record.version);
        json_lines::show(json, &value(record)?, &text)?;
    }
    Ok(Exit::Done)
}

fn show(name: &str, json: bool) -> Result<Exit> {
    let record = installed::record(name)?;
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
        package(&record),
        record.version,
        installed::store()?.tree(&record)?.display(),
        record.sha256,
        tools(&record).join(", ")
    );
    for place in &record.tried {
        text += &format!("\n  tried to reach {}", escape(place));
    }
    json_lines::show(json, &value(&record)?, &text)?;
    Ok(Exit::Done)
}

fn remove(name: &str, yes: bool) -> Result<Exit> {
    let prompt = format!(
        "Type remove to remove what is installed for {} [no]: ",
        escape(name)
    );
    if !yes && !is_agreed(&prompt, "remove") {
        say("nothing was removed; without a terminal, add --yes\n");
        return Ok(Exit::Refused);
    }
    // The same name may have been an installed app first and a remote server later.
    let removed = installed::store()?.remove(name)?;
    let forgotten = RemoteTools::of_user()?.forget(name)?;
    match removed || forgotten {
        true => say(&format!(
            "removed; delete [app.{}] from your configuration as well\n",
            escape(name)
        )),
        false => bail!(
            "no app '{}' is installed; list the installed apps with `sluice app list`",
            escape(name)
        ),
    }
    Ok(Exit::Done)
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
