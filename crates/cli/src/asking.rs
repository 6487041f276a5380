//! The desk of this process, and words about what was answered there.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Result, anyhow};
use config::Config;
use hub::trace::escape;
use ifc::Answer;
use server::desk::{Answered, Desk, DeskSetup};
use store::Answerer;

use crate::keep_for::KeepFor;
use crate::paths;
use crate::terminal::message;

/// How long a question stays at the desk that waits at a terminal too, where nothing ends it.
pub(crate) const AT_TERMINAL: Duration = Duration::from_secs(24 * 3600);

/// What the desk of a front is made of.
pub(crate) struct Asking {
    store: Arc<store::Desk>,
    front: &'static str,
    asker: Option<String>,
    timeout: Duration,
    keep_for: KeepFor,
}

/// The questions and tokens of this user. Without a folder for them they are this process's own.
pub(crate) fn open() -> Result<store::Desk> {
    Ok(match paths::state() {
        Ok(folder) => store::Desk::open(&folder.join("desk.db"))?,
        Err(_) => store::Desk::in_memory()?,
    })
}

impl Asking {
    /// For questions of this front, which wait so long.
    pub(crate) fn new(front: &'static str, config: &Config, timeout: Duration) -> Result<Self> {
        Ok(Self {
            store: Arc::new(open()?),
            front,
            asker: config.user_name.as_deref().map(str::to_owned),
            timeout,
            keep_for: KeepFor::default(),
        })
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
            keep_for: self.keep_for.to_string(),
            notice: None,
            report: message,
        };
        Desk::new(Arc::clone(&self.store), setup).map_err(|reason| anyhow!(reason))
    }
}

/// The name of this user: of the system, else of the environment.
pub(crate) fn user_name() -> Option<String> {
    let id = rustix::process::getuid().as_raw().to_string();
    let users = std::fs::read_to_string("/etc/passwd").unwrap_or_default();
    let named = users.lines().find_map(|line| {
        let mut fields = line.split(':');
        let name = fields.next().filter(|name| !name.is_empty())?;
        (fields.nth(1) == Some(&id)).then(|| name.to_owned())
    });
    named.or_else(|| std::env::var("USER").ok().filter(|name| !name.is_empty()))
}

/// An answer that this user has typed.
pub(crate) fn typed(answer: Answer) -> Answered {
    let (name, from) = (user_name(), "terminal".to_owned());
    let by = Some(Answerer { name, from });
    Answered { answer, by }
}

/// A line about a question that was answered elsewhere.
pub(crate) fn elsewhere(answered: &Answered) -> String {
    match &answered.by {
        Some(by) => {
            let (by, answer) = (escape(&by.to_string()), answered.answer.name());
            format!("\n(answered {by}: {answer})\n")
        }
        None => "\n(there was no answer in time, so it is denied)\n".to_owned(),
    }
}
