//! Pulling model files while something else is built.

use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use model_files::{Cache, Progress, Puller, find};

/// How often the progress is told.
const INTERVAL: Duration = Duration::from_secs(10);

/// Does `work` while these models are pulled. If it fails, so that nothing needs them, the pull
/// stops; what has arrived stays for the next time. Also says how long the pull took.
///
/// # Errors
/// The work's, or else the pull's.
pub(crate) fn pull_beside(
    models: &[&'static str],
    work: impl FnOnce() -> Result<()>,
) -> Result<Duration> {
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let pulls = scope.spawn(|| {
            let started = Instant::now();
            let pulled = models.iter().try_for_each(|model| pull(model, &stop));
            pulled.map(|()| started.elapsed())
        });
        let done = work();
        // The scope waits for the thread, so after a failure it must be told to end.
        stop.store(done.is_err(), Ordering::Relaxed);
        let pulled = pulls.join();
        done?;
        pulled.unwrap_or_else(|_| Err(anyhow::anyhow!("the thread that pulls models died")))
    })
}

fn pull(name: &'static str, stop: &AtomicBool) -> Result<()> {
    let model = find(name).with_context(|| format!("there is no model '{name}'"))?;
    let mut told = Instant::now();
    let path = Puller::new(Cache::of_user()?).pull(model, &mut |Progress { done, total }| {
        if told.elapsed() >= INTERVAL {
            told = Instant::now();
            let percent = done.saturating_mul(100) / total.max(1);
            eprintln!("xtask: model {name}: {percent} %");
        }
        match stop.load(Ordering::Relaxed) {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        }
    })?;
    eprintln!("xtask: model {name} is in {}", path.display());
    Ok(())
}
