//! The desk of this process.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Result, anyhow};
use config::DeskSettings;
use server::desk::{Desk, DeskSetup, Notice};

use crate::keep_for::KeepFor;
use crate::notice::Notices;
use crate::terminal::{Asks, message};
use crate::{os_user, paths};

/// How long a question stays at the desk that waits at a terminal too, where nothing ends it.
pub(crate) const AT_TERMINAL: Duration = Duration::from_secs(24 * 3600);

/// What the desk of a front is made of.
pub(crate) struct Asking {
    store: Arc<store::Desk>,
    front: &'static str,
    asker: Option<String>,
    timeout: Duration,
    outlives: bool,
    keep_for: KeepFor,
    notice: Option<Arc<dyn Notice>>,
}

impl Asking {
    /// For questions of this front, which wait so long.
    pub(crate) fn new(front: &'static str, timeout: Duration) -> Result<Self> {
        let store = match paths::desk() {
            Ok(path) => store::Desk::open(&path)?,
            // Without a folder for the file, questions are this process's own.
            Err(_) => store::Desk::in_memory()?,
        };
        Ok(Self::of(Arc::new(store), front, timeout))
    }

    /// The same, at this desk.
    pub(crate) fn of(store: Arc<store::Desk>, front: &'static str, timeout: Duration) -> Self {
        Self {
            store,
            front,
            // Approvers are known by such names, and none allows an own question.
            asker: Some(os_user::name()),
            timeout,
            outlives: false,
            keep_for: KeepFor::default(),
            notice: None,
        }
    }

    /// The same, where those are told whom `[desk]` names.
    pub(crate) fn telling(self, notices: &DeskSettings) -> Self {
        let notice = Notices::of(notices);
        Self { notice, ..self }
    }

    /// The same, where a question waits on when this process ends.
    pub(crate) fn outliving(self) -> Self {
        Self {
            outlives: true,
            ..self
        }
    }

    /// The same, where an "always" lasts as long as this says.
    pub(crate) fn keeping(self, keep_for: KeepFor) -> Self {
        Self { keep_for, ..self }
    }

    /// The same, where each question names its user.
    pub(crate) fn of_no_user(self) -> Self {
        Self {
            asker: None,
            ..self
        }
    }

    /// The desk of the session with this trace.
    pub(crate) fn desk(&self, session: &str) -> Result<Arc<Desk>> {
        let setup = DeskSetup {
            front: self.front.to_owned(),
            session: session.to_owned(),
            asker: self.asker.clone(),
            timeout: self.timeout,
            outlives: self.outlives,
            keep_for: self.keep_for.to_string(),
            notice: self.notice.clone(),
            report: message,
        };
        Desk::new(Arc::clone(&self.store), setup).map_err(|reason| anyhow!(reason))
    }
}

impl Asks for Asking {
    fn desk_of(&self, session: &str) -> Option<Arc<Desk>> {
        self.desk(session).ok()
    }
}
