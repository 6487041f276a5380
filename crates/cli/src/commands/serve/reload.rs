//! Reloads the configuration while the service runs: by SIGHUP, and when one of its files changes.
//!
//! A reload asks nothing. A file that is named by `--config`, or is the user's own, needs no trust. A `sluice.toml` of the
//! working folder has to be trusted anew (`sluice trust`) before its change counts.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use config::Config;
use notify::event::{AccessKind, AccessMode, EventKind, ModifyKind};
use notify::{RecommendedWatcher, RecursiveMode, Watcher as _};
use sd_notify::NotifyState;
use server::audit::Note;
use server::service::ServiceHandle;
use tokio::sync::Notify;
use tokio::task::{JoinHandle, spawn_blocking};
use tokio::time::{sleep, timeout};
use tracing::{error, info, warn};

use super::args::Serve;
use super::fronts::Own;
use super::manager::tell;
use crate::{configuration, deployment, exit};

/// How long the files must be quiet before they are read: editors and orchestrators write several times.
const QUIET: Duration = Duration::from_millis(300);
/// How long changes in the folders may put off a reload. Other programs may write there all the time.
const LONGEST_UNREST: Duration = Duration::from_secs(5);
/// How long reading may take. A file system whose server is gone does not answer.
const LONGEST_READ: Duration = Duration::from_secs(10);
/// When files that were refused are looked at again. A folder that is removed and made again reports no change.
const AGAIN: Duration = Duration::from_secs(5);

/// The task that reloads. It ends when this is dropped.
pub(super) struct Reloads {
    by_hand: Arc<Notify>,
    task: JoinHandle<()>,
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
        deployment::warn_of_writers(&config);
        let (by_hand, changed) = (Arc::<Notify>::default(), Arc::<Notify>::default());
        let change = Arc::clone(&changed);
        let watcher = notify::recommended_watcher(move |event: notify::Result<notify::Event>| {
            if event.is_ok_and(|event| is_complete(event.kind)) {
                change.notify_one();
            }
        });
        let mut files = Files {
            found: found(&again)?.map(|found| found.shown),
            again,
            digest: configuration::digest(&config.files),
            all: config.files.clone(),
            watcher: watcher.context("the files of the configuration cannot be watched")?,
            watched: BTreeSet::new(),
        };
        files.watch();
        let reload = Reload {
            own,
            service,
            config,
            files: Arc::new(Mutex::new(files)),
            reading: None,
            is_refused: false,
        };
        let task = tokio::spawn(reload.run(Arc::clone(&by_hand), changed));
        Ok(Self { by_hand, task })
    }

    /// Reloads, whether a file has changed or not.
    pub(super) fn now(&self) {
        self.by_hand.notify_one();
    }
}

/// Whether an event ends a change. A file into which a program still writes is not read.
fn is_complete(kind: EventKind) -> bool {
    match kind {
        EventKind::Access(AccessKind::Close(AccessMode::Write)) => true,
        EventKind::Access(_) | EventKind::Modify(ModifyKind::Data(_)) => false,
        _ => true,
    }
}

struct Reload {
    own: Arc<Own>,
    service: ServiceHandle,
    /// The configuration in force.
    config: Config,
    files: Arc<Mutex<Files>>,
    /// A reading that has not ended in time.
    reading: Option<JoinHandle<Option<Result<Config>>>>,
    /// Whether the files are not the configuration in force.
    is_refused: bool,
}

impl Reload {
    async fn run(mut self, hangups: Arc<Notify>, changed: Arc<Notify>) {
        loop {
            let mut by_hand = false;
            tokio::select! {
                () = hangups.notified() => by_hand = true,
                () = changed.notified() => {}
                () = sleep(AGAIN), if self.is_refused => {}
            }
            let quiet = async {
                loop {
                    tokio::select! {
                        () = hangups.notified() => by_hand = true,
                        () = changed.notified() => {}
                        () = sleep(QUIET) => break,
                    }
                }
            };
            // After this time they are read as they are.
            let _ = timeout(LONGEST_UNREST, quiet).await;
            if let Some(config) = self.read(by_hand).await {
                self.is_refused = config.is_err();
                self.reload(config, by_hand).await;
            }
        }
    }

    /// The configuration of the files; `None` if they have not changed and no signal asks for them.
    async fn read(&mut self, by_hand: bool) -> Option<Result<Config>> {
        let was_late = self.reading.is_some();
        let mut reading = self.reading.take().unwrap_or_else(|| {
            let files = Arc::clone(&self.files);
            spawn_blocking(move || {
                let mut files = files.lock().unwrap_or_else(PoisonError::into_inner);
                files.read(by_hand)
            })
        });
        match timeout(LONGEST_READ, &mut reading).await {
            Ok(read) => read.unwrap_or_else(|reason| Some(Err(reason.into()))),
            Err(_) => {
                self.reading = Some(reading);
                let seconds = LONGEST_READ.as_secs();
                let late = anyhow!(
                    "the files of the configuration cannot be read in {seconds} s; is their file system there?"
                );
                // Reported once.
                (by_hand || !was_late).then_some(Err(late))
            }
        }
    }

    async fn reload(&mut self, config: Result<Config>, by_hand: bool) {
        let mut states = vec![NotifyState::Reloading];
        states.extend(NotifyState::monotonic_usec_now());
        tell(&states);
        let outcome = match config {
            Ok(config) => self.replace(config, by_hand).await,
            Err(why) => Err(why),
        };
        tell(&[NotifyState::Ready]);
        self.is_refused = outcome.is_err();
        self.own.metrics.reload(outcome.is_ok());
        let note = match outcome {
            Ok(()) => Note::new("reload", "done"),
            Err(why) => {
                // What runs goes on.
                let why = exit::shown(&why).replace("; nothing was started", "");
                error!(
                    reason = why.trim_end(),
                    "the configuration is not reloaded; the one before stays in force"
                );
                Note::new("reload", "failed")
            }
        };
        // A reading that is late holds the files.
        let note = match self.files.try_lock() {
            Ok(files) => note.with("configuration", crate::hex::hex(&files.digest)),
            Err(_) => note,
        };
        self.own.audit.note(note);
    }

    async fn replace(&mut self, config: Config, by_hand: bool) -> Result<()> {
        let missing = missing(&self.config, &config);
        if !by_hand && !missing.is_empty() {
            bail!(
                "it lacks {}, which the one before has; if that is meant, run `systemctl reload sluice` or `kill -HUP {}`",
                missing.join(", "),
                process::id()
            );
        }
        let built = self.own.build(&config).await?;
        self.service.replace(built.fronts);
        for key in needs_restart(&self.config, &config) {
            warn!(key, "this change needs a restart");
        }
        self.config = config;
        info!("the configuration is reloaded");
        Ok(())
    }
}

/// The files of the configuration. All functions may wait for a file system.
struct Files {
    again: Serve,
    /// The main file, as it was found at the start.
    found: Option<PathBuf>,
    all: BTreeSet<PathBuf>,
    /// What they had when they were read last.
    digest: [u8; 32],
    watcher: RecommendedWatcher,
    watched: BTreeSet<PathBuf>,
}

impl Files {
    /// The configuration; `None` if its files have not changed and `by_hand` is not set.
    fn read(&mut self, by_hand: bool) -> Option<Result<Config>> {
        self.watch();
        let digest = configuration::digest(&self.all);
        if digest == self.digest && !by_hand {
            return None;
        }
        self.digest = digest;
        Some(self.config())
    }

    fn config(&mut self) -> Result<Config> {
        // Without a file the built-in configuration would count, which has no app and no tenant.
        let found = found(&self.again)?;
        let config = self.again.config(false)?;
        if let Some(before) = &self.found {
            let same = found.filter(|it| it.shown == *before && it.path() == config.root);
            let gone = || {
                let before = before.display();
                format!("{before} is gone; put it back, or restart the service without it")
            };
            if same.with_context(gone)?.text()?.lines().all(is_blank) {
                bail!("{} is empty", before.display());
            }
        }
        if configuration::digest(&self.all) != self.digest {
            bail!("it changed while it was read");
        }
        // New files may be named.
        self.all.clone_from(&config.files);
        self.digest = configuration::digest(&self.all);
        self.watch();
        Ok(config)
    }

    /// Watches the folders of all files, since most programs replace a file instead of writing into it. A folder stays
    /// watched, and one that was made again is watched anew.
    fn watch(&mut self) {
        let folders = self.all.iter().filter_map(|file| file.parent());
        let new: BTreeSet<PathBuf> = folders.map(Path::to_owned).collect();
        for folder in self.watched.union(&new) {
            if let Err(reason) = self.watcher.watch(folder, RecursiveMode::NonRecursive)
                && !self.watched.contains(folder)
            {
                let folder = folder.display();
                warn!(%folder, %reason, "changes here are not seen; send SIGHUP to reload");
            }
        }
        self.watched.extend(new);
    }
}

fn found(again: &Serve) -> Result<Option<configuration::Found>> {
    configuration::find(again.place.file.config.as_deref())
}

fn is_blank(line: &str) -> bool {
    let line = line.trim_start();
    line.is_empty() || line.starts_with('#')
}

/// The tenants, budgets, apps and rules of tools that a configuration lacks and the one before has. A file that was cut off
/// lacks some.
fn missing(before: &Config, after: &Config) -> Vec<String> {
    let mut missing = Vec::new();
    for (name, old) in &before.tenants {
        let place = format!("[tenant.{name}]");
        let Some(new) = after.tenants.get(name) else {
            missing.push(place);
            continue;
        };
        let budgets = [
            (old.calls, new.calls),
            (old.tokens, new.tokens),
            (old.questions, new.questions),
        ];
        let tools = old.tools.keys().all(|tool| new.tools.contains_key(tool));
        let lacks = |(old, new): &(Option<u64>, Option<u64>)| old.is_some() && new.is_none();
        if budgets.iter().any(lacks) || !tools {
            missing.push(format!("a budget of {place}"));
        }
    }
    for (name, old) in &before.apps {
        let Some(new) = after.apps.get(name) else {
            missing.push(format!("[app.{name}]"));
            continue;
        };
        for (tool, old) in &old.rules.tools {
            let place = format!("[app.{name}.tools.{tool}]");
            let Some(new) = new.rules.tools.get(tool) else {
                missing.push(place);
                continue;
            };
            let rules = [
                (old.parameters.is_some(), new.parameters.is_some()),
                (old.conditions.is_some(), new.conditions.is_some()),
                (old.after.is_some(), new.after.is_some()),
            ];
            if rules.contains(&(true, false)) {
                missing.push(format!("a rule of {place}"));
            }
        }
    }
    missing
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
