//! A screener, and when the turn machine runs it.

use std::sync::Arc;

use hub::{Drafter, Screening};
use ifc::Screener;

use crate::{LmJudge, NaiveTainting, RedactAll};

/// A screener with the times at which it runs.
#[derive(Clone)]
pub struct Defence {
    screener: Arc<dyn Screener>,
    timing: Timing,
}

#[derive(Clone, Copy)]
enum Timing {
    AsRequested,
    /// Before every step.
    Eager,
    /// On a draft of the step (RTBAS §8.3.3).
    ByDraft(Drafter),
}

/// The names that [`defence`] knows.
pub const NAMES: [&str; 3] = [RedactAll::NAME, NaiveTainting::NAME, LmJudge::NAME];

/// The defence of this name. It needs neither a local model nor given dependencies.
pub fn defence(name: &str) -> Option<Defence> {
    Some(match name {
        // Always eager: a draft under the label of everything would show what redact-all masks.
        RedactAll::NAME => Defence {
            screener: Arc::new(RedactAll),
            timing: Timing::Eager,
        },
        NaiveTainting::NAME => Defence::new(Arc::new(NaiveTainting)),
        LmJudge::NAME => Defence::new(Arc::new(LmJudge)),
        _ => return None,
    })
}

impl Defence {
    /// A screener that runs when the user's settings say.
    pub fn new(screener: Arc<dyn Screener>) -> Self {
        Self {
            screener,
            timing: Timing::AsRequested,
        }
    }

    /// A screener that reads a draft of the step that it screens. Where every step is screened, `drafter` makes
    /// the drafts.
    pub fn by_draft(screener: Arc<dyn Screener>, drafter: Drafter) -> Self {
        Self {
            screener,
            timing: Timing::ByDraft(drafter),
        }
    }

    /// The name of its screener.
    pub fn name(&self) -> &str {
        self.screener.name()
    }

    /// When the screener runs, given the user's setting.
    pub fn screening(&self, requested: Screening) -> Screening {
        match (self.timing, requested) {
            (Timing::AsRequested, _) => requested,
            (Timing::Eager, _) => Screening::Eager,
            // Lazily, the draft is the step itself. The screener calls too much relevant in a draft that follows an
            // injection, so the step is checked before the user is asked.
            (Timing::ByDraft(_), Screening::Lazy { .. }) => Screening::CHECKED,
            (Timing::ByDraft(drafter), Screening::Eager | Screening::Drafted(_)) => {
                Screening::Drafted(drafter)
            }
        }
    }

    /// Its screener.
    pub fn screener(&self) -> Arc<dyn Screener> {
        Arc::clone(&self.screener)
    }
}
