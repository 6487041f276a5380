//! The desk of this process.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Result, anyhow};
use config::DeskSettings;
use server::desk::{Desk, DeskSetup};
use server::limits::Limits;

use crate::keep_for::KeepFor;
use crate::notice::Notices;
use crate::terminal::{Asks, message};
use crate::{os_user, paths};

/// How long a question stays at the desk that waits at a terminal too, where nothing ends it.
pub(crate) const AT_TERMINAL: Duration = Duration::from_secs(24 * 3600);

/// What the desks of a front's sessions are made of.
pub(crate) struct Asking {
    store: Arc<store::Desk>,
    /// Without the name of a session.
    pub(crate) setup: DeskSetup,
}

impl Asking {
    /// For questions of this front, which wait so long and are told to those whom `[desk]` names.
    pub(crate) fn new(front: &str, timeout: Duration, notices: &DeskSettings) -> Result<Self> {
        let store = match paths::desk() {
            Ok(path) => store::Desk::open(&path)?,
            // Without a folder for the file, questions are this process's own.
            Err(_) => store::Desk::in_memory()?,
        };
        Ok(Self::of(Arc::new(store), front, timeout, notices))
    }

    /// The same, at this desk.
    pub(crate) fn of(
        store: Arc<store::Desk>,
        front: &str,
        timeout: Duration,
        notices: &DeskSettings,
    ) -> Self {
        let setup = DeskSetup {
            front: front.to_owned(),
            session: String::new(),
            // Approvers are known by such names, and none allows an own question.
            asker: Some(os_user::name()),
            timeout,
            outlives: false,
            keep_for: KeepFor::default().to_string(),
            notice: Notices::of(notices),
            limits: Limits::default(),
            report: message,
        };
        Self { store, setup }
    }

    /// The desk of the session with this trace.
    pub(crate) fn desk(&self, session: &str) -> Result<Arc<Desk>> {
        let mut setup = self.setup.clone();
        session.clone_into(&mut setup.session);
        Desk::new(Arc::clone(&self.store), setup).map_err(|reason| anyhow!(reason))
    }
}

impl Asks for Asking {
    fn desk_of(&self, session: &str) -> Option<Arc<Desk>> {
        self.desk(session).ok()
    }
}
