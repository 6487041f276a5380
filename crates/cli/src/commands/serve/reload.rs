//! Reloads the configuration while the service runs: by SIGHUP, and when one of its files changes.
//!
//! A reload asks nothing. A file that is named by `--config`, or is the user's own, needs no trust. A `sluice.toml` of the
//! working folder has to be trusted anew (`sluice trust`) before its change counts.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use config::Config;
use notify::{RecommendedWatcher, RecursiveMode, Watcher as _};
use sd_notify::NotifyState;
use server::audit::Note;
use server::service::ServiceHandle;
use sha2::{Digest, Sha256};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};
use tracing::{error, info, warn};

use super::fronts::Own;
use super::{Serve, tell};
use crate::exit;

/// How long the files must be quiet before they are read: editors and orchestrators write several times.
const QUIET: Duration = Duration::from_millis(300);

/// The task that reloads. It ends when this is dropped.
pub(super) struct Reloads {
    wishes: mpsc::Sender<Wish>,
    task: JoinHandle<()>,
}

enum Wish {
    /// Whatever the files have.
    Now,
    /// If the files have changed.
    Changed,
}

impl Drop for Reloads {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Reloads {
    pub(super) fn start(
        again: Serve,
        own: Arc<Own>,
        service: ServiceHandle,
        config: Config,
    ) -> Result<Self> {
        let (wishes, wished) = mpsc::channel(1);
        let changes = wishes.clone();
        let watcher = notify::recommended_watcher(move |event: notify::Result<notify::Event>| {
            let is_read = event.is_ok_and(|event| event.kind.is_access());
            if !is_read {
                // One that waits already is enough.
                let _ = changes.try_send(Wish::Changed);
            }
        });
        let watcher = watcher.context("the files of the configuration cannot be watched")?;
        let mut reload = Reload {
            again,
            own,
            service,
            digest: digest(&config),
            config,
            watcher,
            watched: BTreeSet::new(),
        };
        reload.watch();
        let task = tokio::spawn(reload.run(wished));
        Ok(Self { wishes, task })
    }

    /// Reloads, whether a file has changed or not.
    pub(super) fn now(&self) {
        let _ = self.wishes.try_send(Wish::Now);
    }
}

struct Reload {
    again: Serve,
    own: Arc<Own>,
    service: ServiceHandle,
    /// The configuration in force.
    config: Config,
    /// What its files had when they were read last.
    digest: [u8; 32],
    watcher: RecommendedWatcher,
    watched: BTreeSet<PathBuf>,
}

impl Reload {
    async fn run(mut self, mut wished: mpsc::Receiver<Wish>) {
        while let Some(wish) = wished.recv().await {
            let mut is_now = matches!(wish, Wish::Now);
            while let Ok(Some(more)) = timeout(QUIET, wished.recv()).await {
                is_now |= matches!(more, Wish::Now);
            }
            if is_now || digest(&self.config) != self.digest {
                self.reload().await;
            }
            // What is written while this was read is seen in the next round.
            sleep(QUIET).await;
        }
    }

    async fn reload(&mut self) {
        self.digest = digest(&self.config);
        let mut states = vec![NotifyState::Reloading];
        states.extend(NotifyState::monotonic_usec_now());
        tell(&states);
        let outcome = self.replace().await;
        tell(&[NotifyState::Ready]);
        self.own.metrics.reload(outcome.is_ok());
        let note = match outcome {
            Ok(()) => Note::new("reload", "done"),
            Err(why) => {
                let why = exit::shown(&why);
                error!(
                    reason = why.trim_end(),
                    "the configuration is not reloaded; the one before stays in force"
                );
                Note::new("reload", "failed")
            }
        };
        self.own
            .audit
            .note(note.with("configuration", crate::hex::hex(&self.digest)));
    }

    async fn replace(&mut self) -> Result<()> {
        let config = self.again.config(false)?;
        let built = self.own.build(&config).await?;
        self.service.replace(built.fronts);
        for key in needs_restart(&self.config, &config) {
            warn!(key, "this change needs a restart");
        }
        // New files may be named.
        self.digest = digest(&config);
        self.config = config;
        self.watch();
        info!("the configuration is reloaded");
        Ok(())
    }

    /// Watches the folders of all files: most programs replace a file instead of writing into it.
    fn watch(&mut self) {
        let folders = self.config.files.iter().filter_map(|file| file.parent());
        let folders: BTreeSet<PathBuf> = folders.map(std::path::Path::to_owned).collect();
        for folder in folders.difference(&self.watched) {
            if let Err(reason) = self.watcher.watch(folder, RecursiveMode::NonRecursive) {
                let folder = folder.display();
                warn!(%folder, %reason, "changes here are not seen; send SIGHUP to reload");
            }
        }
        self.watched = folders;
    }
}

/// What was changed that is read at the start alone.
fn needs_restart(before: &Config, after: &Config) -> Vec<&'static str> {
    let (one, other) = (&before.service, &after.service);
    let changes = [
        ("[service] listen", one.listen != other.listen),
        (
            "[service] desk_listen",
            one.desk_listen != other.desk_listen,
        ),
        (
            "[service] metrics_listen",
            one.metrics_listen != other.metrics_listen,
        ),
        ("[service] desk_hosts", one.desk_hosts != other.desk_hosts),
        ("[service] drain_s", one.drain != other.drain),
        (
            "[service] secret_file",
            one.secret_file != other.secret_file,
        ),
        ("[audit]", before.audit != after.audit),
        ("[state]", before.state != after.state),
        ("[telemetry]", before.telemetry != after.telemetry),
    ];
    let changed = changes.into_iter().filter(|(_, is_changed)| *is_changed);
    changed.map(|(key, _)| key).collect()
}

/// The digest of all files of a configuration. One that cannot be read counts as such.
fn digest(config: &Config) -> [u8; 32] {
    let mut digest = Sha256::new();
    for file in &config.files {
        let text = fs::read(file).map(Sha256::digest).ok();
        digest.update(text.unwrap_or_default());
    }
    digest.finalize().into()
}
