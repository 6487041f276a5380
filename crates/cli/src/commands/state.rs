//! `sluice state`: back up and move what a service keeps, look at it, and remove what is old.

use std::fs::File;
use std::io::{self, BufReader, BufWriter, IsTerminal, Read};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use clap::{Args, Subcommand};
use config::Config;
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::{Map, Value, json};
use store::{PoolSettings, Store};
use tempfile::NamedTempFile;

use crate::deployment;
use crate::exit::Exit;
use crate::json_lines::{print_json, show};
use crate::permissions::days_ago;
use crate::place::ConfigFile;
use crate::terminal::say;

/// How often the line of progress moves.
const TICK: Duration = Duration::from_millis(120);
/// Standard input or output.
const STANDARD: &str = "-";

#[derive(Debug, Args)]
pub(crate) struct State {
    #[command(subcommand)]
    action: Action,
    #[command(flatten)]
    file: ConfigFile,
    /// Use this store: postgres://USER@HOST/DATABASE, or sqlite:FOLDER. The password is read from $PGPASSWORD or ~/.pgpass
    /// [default: `[state]` of the configuration].
    #[arg(long, value_name = "URL", global = true)]
    url: Option<String>,
    /// Print JSON.
    #[arg(long, global = true)]
    json: bool,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Write all of it to a file, while the service runs: conversations, questions, tokens and the audit log.
    #[command(
        after_help = "Example:\n  sluice state export backup.jsonl\n  sluice state export - | sluice state import - --url postgres://sluice@db/sluice\n\n\
                      The file has texts of conversations and is readable by its owner only. The secret of the deployment, by which\n\
                      conversations are found again, is not in it."
    )]
    Export {
        /// The file; `-` is standard output.
        file: PathBuf,
    },
    /// Read such a file into a store that has nothing yet: all of it, or nothing.
    #[command(
        after_help = "Example:\n  sluice state import backup.jsonl\n  sluice state import backup.jsonl --url sqlite:/var/lib/sluice"
    )]
    Import {
        /// The file; `-` is standard input.
        file: PathBuf,
    },
    /// Show where it is, whether it can be used, and how many rows each table has.
    #[command(after_help = "Example:\n  sluice state status --json")]
    Status,
    /// Remove what was not used for some days. A service does so by itself.
    #[command(after_help = "Example:\n  sluice state prune --days 30")]
    Prune {
        /// Keep what was used in the last COUNT days [default: keep_days of `[state]`].
        #[arg(long, value_name = "COUNT")]
        days: Option<u32>,
    },
}

pub(crate) async fn state(args: State) -> Result<Exit> {
    let config = args.file.open(args.json)?;
    let store = open(args.url.as_deref(), &config).await?;
    let (what, rows) = match &args.action {
        Action::Export { file } => ("exported", export(&store, file).await?),
        Action::Import { file } => ("imported", import(&store, file).await?),
        Action::Status => return status(&store, args.json).await,
        Action::Prune { days } => {
            let before = days_ago(days.unwrap_or(config.state.keep_days));
            ("removed", store.state().prune(before).await?)
        }
    };
    match args.json {
        // Standard output may be the export.
        true if matches!(&args.action, Action::Export { file } if file == STANDARD) => {}
        true => print_json(&json!({ what: rows }))?,
        false => say(&format!("{what} {rows} rows\n")),
    }
    Ok(Exit::Done)
}

async fn open(url: Option<&str>, config: &Config) -> Result<Store> {
    match url {
        None => deployment::store(config).await,
        Some(url) => match url.strip_prefix("sqlite:") {
            Some(folder) => Ok(Store::sqlite(Path::new(folder))?),
            None => Ok(Store::postgres(url, &PoolSettings::default()).await?),
        },
    }
}

async fn export(store: &Store, file: &Path) -> Result<u64> {
    if file == STANDARD {
        if io::stdout().is_terminal() {
            bail!("an export is for a file or a pipe; name a file");
        }
        let output = BufWriter::new(progress().wrap_write(io::stdout()));
        return Ok(store.export(Box::new(output)).await?);
    }
    let folder = file.parent().filter(|it| !it.as_os_str().is_empty());
    // Its mode is 0600. It takes its name when it is complete, so a backup is never half of one.
    let made = NamedTempFile::new_in(folder.unwrap_or(Path::new(".")));
    let made = made.with_context(|| format!("{} cannot be written", file.display()))?;
    let output = BufWriter::new(progress().wrap_write(made.as_file().try_clone()?));
    let rows = store.export(Box::new(output)).await?;
    made.as_file().sync_all()?;
    let kept = made.persist(file).map_err(|error| error.error);
    kept.with_context(|| format!("{} cannot be written", file.display()))?;
    Ok(rows)
}

async fn import(store: &Store, file: &Path) -> Result<u64> {
    let input: Box<dyn Read + Send> = match file == STANDARD {
        true => Box::new(io::stdin()),
        false => {
            let opened = File::open(file);
            Box::new(opened.with_context(|| format!("{} cannot be read", file.display()))?)
        }
    };
    let input = BufReader::new(progress().wrap_read(input));
    Ok(store.import(Box::new(input)).await?)
}

async fn status(store: &Store, json: bool) -> Result<Exit> {
    let (usable, counts) = (store.state().ping().await, store.counts().await?);
    let why = usable.err().map(|error| error.to_string());
    let rows = counts
        .iter()
        .map(|(table, rows)| ((*table).to_owned(), Value::from(*rows)));
    let value = json!({
        "place": store.place(), "usable": why.is_none(), "error": why, "rows": rows.collect::<Map<_, _>>(),
    });
    let state = why.as_deref().unwrap_or("it can be used");
    let mut text = format!("{}: {state}", store.place());
    for (table, rows) in &counts {
        text += &format!("\n{table:<12} {rows:>10} rows");
    }
    show(json, &value, &text)?;
    Ok(match why {
        None => Exit::Done,
        Some(_) => Exit::Failed,
    })
}

/// A line of progress, where standard error is a terminal.
fn progress() -> ProgressBar {
    let bar = ProgressBar::no_length();
    bar.enable_steady_tick(TICK);
    match ProgressStyle::with_template("{spinner} {bytes} {bytes_per_sec}") {
        Ok(style) => bar.with_style(style),
        Err(_) => bar,
    }
}
