//! What is going on, for who waits.

use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// What is going on, on stderr and only there.
#[derive(Debug, Clone)]
pub(crate) struct Progress(ProgressBar);

impl Progress {
    pub(crate) fn new() -> Self {
        let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
        if let Ok(style) = ProgressStyle::with_template("{spinner} {msg} {elapsed}") {
            bar.set_style(style);
        }
        bar.enable_steady_tick(Duration::from_millis(120));
        Self(bar)
    }

    pub(crate) fn say(&self, line: &str) {
        self.0.set_message(line.to_owned());
    }

    #[cfg(feature = "bench")]
    pub(crate) fn moved(&self, head: &str, done: usize, total: usize) {
        self.0.set_message(format!("{head}: {done} of {total}"));
    }

    pub(crate) fn clear(&self) {
        self.0.finish_and_clear();
    }
}
