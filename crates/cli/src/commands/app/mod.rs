//! `sluice app`: apps that are added, and those that are installed.

mod add;
mod block;
mod foreign;
mod import;
mod login;
mod place;
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
use crate::json_lines::print_json;
use crate::seen::RemoteTools;
use crate::terminal::{is_agreed, print, say};

#[derive(Debug, Args)]
pub(crate) struct App {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Add an app by the command that other programs start it with. What npx, uvx or pipx would fetch is installed.
    #[command(
        after_help = "Example:\n  sluice app add files -- npx -y @modelcontextprotocol/server-filesystem ~/papers\n  sluice app add time -- uvx mcp-server-time\n  sluice app add far --url https://api.example.org/mcp --header 'Authorization: Bearer secret:far'\n\n\
                      Nothing of a package runs while it is installed, unless you say --scripts."
    )]
    Add(add::Add),
    /// Add the servers of a file of another program.
    #[command(
        after_help = "Example:\n  sluice app import ~/.cursor/mcp.json\n  sluice app import ~/.codex/config.toml --yes\n\n\
                      Values of variables that look like secrets are not copied: they come from your environment by name."
    )]
    Import(import::Import),
    /// The installed apps.
    #[command(after_help = "Example:\n  sluice app list --json")]
    List {
        /// One app per line, as JSON.
        #[arg(long)]
        json: bool,
    },
    /// What is installed for an app.
    #[command(after_help = "Example:\n  sluice app show files")]
    Show {
        /// The app.
        name: String,
        /// As JSON.
        #[arg(long)]
        json: bool,
    },
    /// Start an app once and show its tools, in its own words.
    #[command(after_help = "Example:\n  sluice app tools files --json")]
    Tools(try_out::Try),
    /// Start an app once: does it run, and are its tools those that you have seen?
    #[command(after_help = "Example:\n  sluice app test files\n  sluice app test files --accept")]
    Test(try_out::Test),
    /// Log in at the server of an app that is elsewhere. Its address is shown, and you open it in a browser.
    #[command(
        after_help = "Example:\n  sluice app login far\n  sluice app login far --url https://api.example.org/mcp\n\n\
                      The tokens are kept in a file of yours alone, and sent to that server and nowhere else."
    )]
    Login(login::Login),
    /// Forget the tokens of an app.
    #[command(after_help = "Example:\n  sluice app logout far")]
    Logout(login::Logout),
    /// Install the newest version, and show how its tools differ before it is taken.
    #[command(after_help = "Example:\n  sluice app update files")]
    Update(update::Update),
    /// Remove what is installed for an app. Your configuration stays as it is.
    #[command(after_help = "Example:\n  sluice app remove files")]
    Remove {
        /// The app.
        name: String,
        /// Do not ask.
        #[arg(long)]
        yes: bool,
    },
}

/// Does what the subcommand says.
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
        say("no app is installed; `sluice app add NAME -- COMMAND` adds one\n");
    }
    for record in &records {
        match json {
            true => print_json(&value(record)?)?,
            false => print(&format!(
                "{:<20} {} {}",
                record.app,
                package(record),
                record.version
            ))?,
        }
    }
    Ok(Exit::Done)
}

fn show(name: &str, json: bool) -> Result<Exit> {
    let record = installed::record(name)?;
    if json {
        print_json(&value(&record)?)?;
        return Ok(Exit::Done);
    }
    let scripts = match record.scripts {
        true => "programs of its packages ran while it was installed",
        false => "nothing of it ran while it was installed",
    };
    print(&format!(
        "{}: {} {}\n  {scripts}",
        record.app,
        package(&record),
        record.version
    ))?;
    print(&format!(
        "  files   {}",
        installed::store()?.tree(&record)?.display()
    ))?;
    print(&format!("  sha256  {}", record.sha256))?;
    let tools: Vec<String> = record
        .tools
        .iter()
        .flatten()
        .map(|(name, _)| escape(name))
        .collect();
    let seen = match record.reviewed {
        true => "",
        false => " (nobody has looked at them; `sluice app test NAME --accept` says that you have)",
    };
    print(&format!("  tools   {}{seen}", tools.join(", ")))?;
    for place in &record.tried {
        print(&format!("  tried to reach {}", escape(place)))?;
    }
    Ok(Exit::Done)
}

fn remove(name: &str, yes: bool) -> Result<Exit> {
    // Also what has a record that cannot be read.
    let prompt = format!(
        "Remove what is installed for {}? Type remove and Enter [no]: ",
        escape(name)
    );
    if !yes && !is_agreed(&prompt, "remove") {
        say("nothing was removed; say --yes where nobody can be asked\n");
        return Ok(Exit::Refused);
    }
    // Under one name an app may have been installed first and a server elsewhere later.
    let removed = installed::store()?.remove(name)?;
    let forgotten = RemoteTools::of_user()?.forget(name)?;
    match removed || forgotten {
        true => say(&format!(
            "removed; if [app.{}] is in your configuration, take it out\n",
            escape(name)
        )),
        false => bail!(
            "no app '{}' is installed; `sluice app list` shows those that are",
            escape(name)
        ),
    }
    Ok(Exit::Done)
}

fn value(record: &Record) -> Result<Value> {
    let mut value = serde_json::to_value(record)?;
    let tools: Vec<&String> = record
        .tools
        .iter()
        .flatten()
        .map(|(name, _)| name)
        .collect();
    if let Some(value) = value.as_object_mut() {
        value.insert("tools".to_owned(), json!(tools));
        value.insert("files".to_owned(), json!(installed::store()?.tree(record)?));
    }
    Ok(value)
}
