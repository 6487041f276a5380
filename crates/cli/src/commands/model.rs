//! `sluice model`: fetch, list and serve embedded models.

use std::net::SocketAddr;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::Result;
use clap::{Args, Subcommand};
use ifc::Label;
use indicatif::{ProgressBar, ProgressStyle};
use llm::Broker;
use llm::models::{Cache, KNOWN, Model as Known, Presence, Progress, PullError, Puller};
use server::openai_server::{ModelServer, ModelServerConfig};

use crate::embedded;
use crate::exit::Exit;
use crate::interrupts::interrupts;
use crate::json_lines::print_json;
use crate::terminal::{print, say};

/// How often a program that reads JSON hears of the progress.
const JSON_INTERVAL: Duration = Duration::from_secs(1);

#[derive(Debug, Args)]
pub(crate) struct Model {
    #[command(subcommand)]
    action: ModelAction,
}

#[derive(Debug, Subcommand)]
enum ModelAction {
    /// Fetch a model and check it.
    #[command(after_help = "Example:\n  sluice model pull smollm2-135m")]
    Pull {
        /// Its name, as `sluice model list` shows it.
        name: Option<String>,
        /// Print progress as JSON lines.
        #[arg(long)]
        json: bool,
    },
    /// List the known models.
    #[command(after_help = "Example:\n  sluice model list --json")]
    List {
        /// Print one model per line, as JSON.
        #[arg(long)]
        json: bool,
    },
    /// Serve a model over an OpenAI-compatible API on loopback. It enforces nothing.
    #[command(after_help = "Example:\n  sluice model serve qwen2.5-coder-1.5b --port 8090")]
    Serve {
        /// Its name, as `sluice model list` shows it.
        name: Option<String>,
        /// The port; 0 lets the system choose.
        #[arg(long, default_value_t = 8090)]
        port: u16,
    },
}

/// Pulls, lists or serves.
pub(crate) async fn model(args: Model) -> Result<Exit> {
    match args.action {
        ModelAction::List { json } => list(json),
        ModelAction::Pull { name, json } => pull(embedded::model(name.as_deref())?, json).await,
        ModelAction::Serve { name, port } => serve(name.as_deref(), port).await,
    }
}

fn list(json: bool) -> Result<Exit> {
    let cache = Cache::of_user()?;
    for model in KNOWN {
        let state = match cache.presence(model) {
            Presence::Ready => "here",
            Presence::Unverified => "unverified",
            Presence::Missing => "missing",
        };
        if json {
            print_json(&serde_json::json!({
                "name": model.name, "title": model.title, "bytes": model.size,
                "sha256": model.sha256, "licence": model.licence, "state": state,
            }))?;
        } else {
            let megabytes = model.size / 1_000_000;
            print(&format!(
                "{:<22} {:<36} {megabytes:>5} MB  {:<11} {state}",
                model.name, model.title, model.licence
            ))?;
        }
    }
    Ok(Exit::Done)
}

async fn pull(model: &'static Known, json: bool) -> Result<Exit> {
    let puller = Puller::new(Cache::of_user()?);
    let cancel = interrupts();
    let stopped = Arc::new(AtomicBool::new(false));
    // A thread that blocks cannot be cancelled, so the pull looks at this flag after each piece.
    let stop = Arc::clone(&stopped);
    tokio::spawn(async move {
        cancel.notified().await;
        stop.store(true, Ordering::Relaxed);
    });
    let pulled = tokio::task::spawn_blocking(move || {
        let mut shown = Shown::new(model, json);
        puller.pull(model, &mut |progress| {
            shown.update(progress);
            if stopped.load(Ordering::Relaxed) {
                ControlFlow::Break(())
            } else {
                ControlFlow::Continue(())
            }
        })
    });
    match pulled.await? {
        Ok(path) => {
            match json {
                true => print_json(&serde_json::json!({ "name": model.name, "path": path }))?,
                false => print(&format!("{} is in {}", model.name, path.display()))?,
            }
            Ok(Exit::Done)
        }
        Err(PullError::Stopped) => {
            say("stopped; the same command goes on where it was\n");
            Ok(Exit::Interrupted)
        }
        Err(error) => Err(error.into()),
    }
}

/// The progress of a pull: a bar for people, a line a second for programs.
struct Shown {
    bar: ProgressBar,
    name: &'static str,
    json: bool,
    last: Option<Instant>,
}

impl Shown {
    fn new(model: &'static Known, json: bool) -> Self {
        let bar = if json {
            ProgressBar::hidden()
        } else {
            ProgressBar::new(model.size)
        };
        let template = "{msg} {bar:40} {bytes}/{total_bytes} {bytes_per_sec} {eta}";
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style);
        }
        bar.set_message(model.name);
        Self {
            bar,
            name: model.name,
            json,
            last: None,
        }
    }

    fn update(&mut self, Progress { done, total }: Progress) {
        self.bar.set_length(total);
        self.bar.set_position(done);
        let due = self.last.is_none_or(|last| last.elapsed() >= JSON_INTERVAL);
        if self.json && due {
            self.last = Some(Instant::now());
            let line = serde_json::json!({ "name": self.name, "done": done, "total": total });
            // A reader that went away does not stop the pull.
            let _ = print_json(&line);
        }
    }
}

async fn serve(name: Option<&str>, port: u16) -> Result<Exit> {
    let model = embedded::model(name)?;
    let provider = embedded::provider(model.name, model.name)?;
    // It runs on this machine and listens on loopback: nothing is above its clearance.
    let broker = Arc::new(Broker::new(provider, Label::top()));
    let address = SocketAddr::from(([127, 0, 0, 1], port));
    let config = ModelServerConfig {
        address,
        allow_remote: false,
    };
    let server = ModelServer::bind(broker, config).await?;
    say(&format!(
        "serving {}; use it with OPENAI_BASE_URL={}\n",
        model.name,
        server.base_url()
    ));
    let cancel = interrupts();
    server.serve(async move { cancel.notified().await }).await;
    Ok(Exit::Done)
}
