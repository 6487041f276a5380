//! `sluice model`: fetch, list and serve embedded models.

use std::net::SocketAddr;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

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
use crate::json_lines::show;
use crate::terminal::{say, say_whole};

#[derive(Debug, Args)]
pub(crate) struct Model {
    #[command(subcommand)]
    action: ModelAction,
}

#[derive(Debug, Subcommand)]
enum ModelAction {
    /// Fetch a model file and check its SHA-256.
    #[command(after_help = "Example:\n  sluice model pull smollm2-135m")]
    Pull {
        /// The name that `sluice model list` shows [default: qwen2.5-coder-1.5b].
        name: Option<String>,
        /// Print JSON: the name and the path, once the file is there.
        #[arg(long)]
        json: bool,
    },
    /// List the known models.
    #[command(after_help = "Example:\n  sluice model list --json")]
    List {
        /// Print JSON, one model per line.
        #[arg(long)]
        json: bool,
    },
    /// Serve a model over an OpenAI-compatible API on 127.0.0.1, without any policy.
    #[command(after_help = "Example:\n  sluice model serve qwen2.5-coder-1.5b --port 8090")]
    Serve {
        /// The name that `sluice model list` shows [default: qwen2.5-coder-1.5b].
        name: Option<String>,
        /// The TCP port; 0 lets the system choose.
        #[arg(long, default_value_t = 8090)]
        port: u16,
    },
}

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
        let value = serde_json::json!({
            "name": model.name, "title": model.title, "bytes": model.size,
            "sha256": model.sha256, "licence": model.licence, "state": state,
        });
        let megabytes = model.size / 1_000_000;
        let text = format!(
            "{:<22} {:<36} {megabytes:>5} MB  {:<11} {state}",
            model.name, model.title, model.licence
        );
        show(json, &value, &text)?;
    }
    Ok(Exit::Done)
}

async fn pull(model: &'static Known, json: bool) -> Result<Exit> {
    let puller = Puller::new(Cache::of_user()?);
    let cancel = interrupts();
    let stopped = Arc::new(AtomicBool::new(false));
    // A blocking thread cannot be cancelled, so the pull checks this flag after each piece.
    let stop = Arc::clone(&stopped);
    tokio::spawn(async move {
        cancel.notified().await;
        stop.store(true, Ordering::Relaxed);
    });
    let pulled = tokio::task::spawn_blocking(move || {
        let bar = progress_bar(model, json);
        puller.pull(model, &mut |Progress { done, total }| {
            bar.set_length(total);
            bar.set_position(done);
            match stopped.load(Ordering::Relaxed) {
                true => ControlFlow::Break(()),
                false => ControlFlow::Continue(()),
            }
        })
    });
    match pulled.await? {
        Ok(path) => {
            let value = serde_json::json!({ "name": model.name, "path": path });
            show(
                json,
                &value,
                &format!("{} is in {}", model.name, path.display()),
            )?;
            Ok(Exit::Done)
        }
        Err(PullError::Stopped) => {
            say("stopped; run the same command to resume\n");
            Ok(Exit::Interrupted)
        }
        Err(error) => Err(error.into()),
    }
}

fn progress_bar(model: &Known, json: bool) -> ProgressBar {
    let bar = match json {
        true => ProgressBar::hidden(),
        false => ProgressBar::new(model.size),
    };
    let template = "{msg} {bar:40} {bytes}/{total_bytes} {bytes_per_sec} {eta}";
    if let Ok(style) = ProgressStyle::with_template(template) {
        bar.set_style(style);
    }
    bar.set_message(model.name);
    bar
}

async fn serve(name: Option<&str>, port: u16) -> Result<Exit> {
    let model = embedded::model(name)?;
    let provider = embedded::provider(model.name, model.name)?;
    // The model runs on this machine, so it may see everything.
    let broker = Arc::new(Broker::new(provider, Label::top()));
    let address = SocketAddr::from(([127, 0, 0, 1], port));
    let config = ModelServerConfig {
        address,
        allow_remote: false,
    };
    let server = ModelServer::bind(broker, config).await?;
    say_whole(&format!(
        "serving {}; use it with OPENAI_BASE_URL={}\n",
        model.name,
        server.base_url()
    ));
    let cancel = interrupts();
    server.serve(async move { cancel.notified().await }).await;
    Ok(Exit::Done)
}
