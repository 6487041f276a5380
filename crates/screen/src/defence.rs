//! What a configuration can choose: a screener, and how the turn machine uses it.

use std::fmt;
use std::sync::Arc;

#[cfg(feature = "attention")]
use hub::Drafter;
use hub::Screening;
use ifc::Screener;

#[cfg(feature = "attention")]
use crate::attention::{AttentionScreener, Combined};
use crate::{LmJudge, NaiveTainting, Oracle, RedactAll};

/// A way to screen: with which screener, and when.
pub trait Defence: Send + Sync {
    /// Its name on command lines and in reports.
    fn name(&self) -> &str;

    /// When the screener is asked. `wished` is the user's wish; a defence that screens in one way
    /// only does not look at it.
    fn screening(&self, wished: Screening) -> Screening;

    /// Its dependency screener.
    fn screener(&self) -> Arc<dyn Screener>;
}

/// A defence that needs nothing but its name. See [`DEFENCES`].
#[derive(Clone, Copy)]
pub struct Known {
    name: &'static str,
    kind: Kind,
}

#[derive(Clone, Copy)]
enum Kind {
    /// Algorithm 4, screened as the user wishes.
    Screened(fn() -> Arc<dyn Screener>),
    /// Algorithm 4, screened before every step whatever the user wishes.
    Eager(fn() -> Arc<dyn Screener>),
}

/// [`RedactAll`]: no requests, no questions but where a rule always asks, and the agent sees
/// nothing that is labelled. Always eager: a draft under the label of everything would show it.
pub const REDACT_ALL: Known = Known {
    name: RedactAll::NAME,
    kind: Kind::Eager(|| Arc::new(RedactAll)),
};

/// [`NaiveTainting`]: no requests, and the most questions of all that enforce by label.
pub const NAIVE: Known = Known {
    name: NaiveTainting::NAME,
    kind: Kind::Screened(|| Arc::new(NaiveTainting)),
};

/// [`LmJudge`]: one request per screening, of about the size of the step's own prompt.
pub const JUDGE: Known = Known {
    name: LmJudge::NAME,
    kind: Kind::Screened(|| Arc::new(LmJudge)),
};

/// The defences that need nothing but their name. The [`Oracle`] is not among them: it needs its
/// dependencies; nor is what is `ByDraft`: it needs its model.
pub const DEFENCES: [Known; 3] = [REDACT_ALL, NAIVE, JUDGE];

/// The defence of this name.
#[must_use]
pub fn defence(name: &str) -> Option<Arc<dyn Defence>> {
    let known = DEFENCES.iter().find(|known| known.name == name)?;
    Some(Arc::new(*known))
}

/// The names that [`defence`] knows, for usage texts and error messages.
pub fn names() -> impl Iterator<Item = &'static str> {
    DEFENCES.iter().map(|known| known.name)
}

impl Defence for Known {
    fn name(&self) -> &str {
        self.name
    }

    fn screening(&self, wished: Screening) -> Screening {
        match self.kind {
            Kind::Screened(_) => wished,
            Kind::Eager(_) => Screening::Eager,
        }
    }

    fn screener(&self) -> Arc<dyn Screener> {
        match self.kind {
            Kind::Screened(make) | Kind::Eager(make) => make(),
        }
    }
}

impl Defence for Oracle {
    fn name(&self) -> &str {
        Self::NAME
    }

    fn screening(&self, wished: Screening) -> Screening {
        wished
    }

    fn screener(&self) -> Arc<dyn Screener> {
        Arc::new(self.clone())
    }
}

/// A defence whose screener reads the step that it screens (RTBAS §8.3.3). Lazily that is the step
/// that would be asked about, which is there anyway; otherwise each step is drafted first.
#[cfg(feature = "attention")]
#[derive(Clone)]
pub struct ByDraft {
    name: &'static str,
    screener: Arc<dyn Screener>,
    drafter: Drafter,
}

#[cfg(feature = "attention")]
impl ByDraft {
    /// [`AttentionScreener`]: no requests beside the drafts, and a run of its small model per
    /// screening. Drafts are the agent's own.
    #[must_use]
    pub fn attention(screener: Arc<AttentionScreener>) -> Self {
        Self {
            name: AttentionScreener::NAME,
            screener,
            drafter: Drafter::Own,
        }
    }

    /// [`Combined`]: as [`ByDraft::attention`], and the judge's request where that is unsure.
    #[must_use]
    pub fn combined(screener: Arc<Combined>) -> Self {
        Self {
            name: Combined::NAME,
            screener,
            drafter: Drafter::Own,
        }
    }

    /// With drafts by somebody else.
    #[must_use]
    pub fn with_drafter(self, drafter: Drafter) -> Self {
        Self { drafter, ..self }
    }
}

#[cfg(feature = "attention")]
impl Defence for ByDraft {
    fn name(&self) -> &str {
        self.name
    }

    /// Without a draft it has nothing to say, so whoever wants every step screened gets drafts. It
    /// errs, and says "relevant" of what a draft obeys; so nobody is asked before a check.
    fn screening(&self, wished: Screening) -> Screening {
        match wished {
            // Lazily the draft is the step itself; with the check it is taken once more, from what
            // the limits allow, before the user is asked.
            Screening::Lazy { .. } => Screening::CHECKED,
            Screening::Eager | Screening::Drafted(_) => Screening::Drafted(self.drafter),
        }
    }

    fn screener(&self) -> Arc<dyn Screener> {
        Arc::clone(&self.screener)
    }
}

#[cfg(feature = "attention")]
impl fmt::Debug for ByDraft {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ByDraft")
            .field("name", &self.name)
            .field("drafter", &self.drafter)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for Known {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}
