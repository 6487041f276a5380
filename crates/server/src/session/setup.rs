//! What a session is made of.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;

use hub::isc::{Asks, Functionality};
use hub::planner::Group;
use hub::trace::Event;
use hub::{AppTool, AppTools};
use ifc::{Label, Labeled, Permissions};
use tokio::sync::mpsc;
use wire::ToolDescription;

use super::choosing::Selections;
use crate::egress::Gate;
use crate::parts::Parts;
use crate::spoke::{Spoke, SpokeError, SpokeSetup};
use crate::trace_file::TraceError;

/// Everything that a session is made of.
pub struct SessionSetup {
    /// The session's name: the name of its trace.
    pub name: String,
    /// Where traces are kept.
    pub traces: PathBuf,
    /// What every turn is driven with.
    pub parts: Parts,
    /// The apps.
    pub apps: Vec<AppSetup>,
    /// The provider of conversations without an app, if they have a model of their own (SecGPT §4.2.5).
    pub vanilla: Option<String>,
    /// Which of them the planner may bring together.
    pub groups: Vec<Group>,
    /// What apps can ask of each other.
    pub functionalities: Vec<Arc<Functionality>>,
    /// What the user has allowed for good; without it nothing can be.
    pub permissions: Option<Arc<dyn Permissions>>,
    /// What earlier sessions left; without it nothing is recalled and nothing kept.
    pub memory: Option<Arc<dyn store::Memory>>,
    /// Whether facts are looked for in each turn that is remembered: up to two further completions.
    pub facts: bool,
    /// What the user has chosen for good among several apps; without it no choice can be kept.
    pub selections: Option<Arc<dyn Selections>>,
    /// Whether every query stands alone (SecGPT §4.2.5): it knows of no earlier one, and nothing of it
    /// is remembered, in conversations, spokes, permissions or memory. Its trace is written all the
    /// same: that is the record of what was done.
    pub private: bool,
}

impl SessionSetup {
    /// The kept choices among apps. What was kept elsewhere is earlier context, and a private session
    /// keeps nothing.
    pub(super) fn selections(&self) -> Option<&dyn Selections> {
        let selections = self.selections.as_deref();
        selections.filter(|_| !self.private)
    }
}

/// One app that the session may use.
#[derive(Clone)]
pub struct AppSetup {
    /// How its spoke is run.
    pub spoke: SpokeSetup,
    /// Where it comes from. What was said with an app of the same name from elsewhere, it is not told.
    pub origin: store::Identity,
    /// The provider of its conversations, if it has a model of its own.
    pub provider: Option<String>,
    /// What it does, for the planner.
    pub description: Labeled,
    /// Whether these are the user's own words. Then the planner asks about it together with others.
    pub described_by_user: bool,
    /// The label of what the app says of its own tools: of the names that the configuration does not
    /// list, too.
    pub descriptions: Label,
    /// The tools that the configuration has a rule for by name.
    pub listed: BTreeSet<String>,
    /// The functionalities that its conversation may ask for; `None` is all of them.
    pub asks: Option<BTreeSet<String>>,
    /// Whether other tools are offered: the configuration has a rule for whatever tool there is.
    pub offers_others: bool,
    /// Whether each query gets a spoke and a conversation of its own, which were given nothing before.
    pub fresh: bool,
    /// Whether the rules fit the tools that it has; if not, it is ended again.
    pub check: ToolCheck,
}

impl AppSetup {
    /// Starts the app, and ends it again if the rules do not fit its tools. `gate` decides on its connections; what
    /// became of them goes to `events`.
    ///
    /// # Errors
    /// [`SpokeError`]; nothing is left running.
    pub async fn open(
        &self,
        gate: &Gate,
        events: mpsc::Sender<Event>,
    ) -> Result<Spoke, SpokeError> {
        let spoke = Spoke::open(self.spoke.clone(), gate, events).await?;
        match (self.check.0)(spoke.tools()) {
            Ok(()) => Ok(spoke),
            // The spoke is dropped with this, and the app ends.
            Err(reason) => Err(SpokeError::Rules {
                app: self.spoke.app.clone(),
                reason,
            }),
        }
    }

    /// The tools that a model is told of; none where the app does not run.
    pub(super) fn tools(&self, spoke: Option<&Arc<Spoke>>) -> AppTools {
        let tools = spoke.into_iter().flat_map(|spoke| spoke.tools());
        let tools = tools.map(|tool| AppTool {
            listed: self.listed.contains(&tool.name),
            name: tool.name.clone(),
            description: tool.description.clone(),
            parameters: tool.input_schema.clone(),
        });
        let tools = tools.filter(|tool| tool.listed || self.offers_others);
        AppTools {
            app: self.spoke.app.clone(),
            tools: tools.collect(),
            descriptions: self.descriptions.clone(),
        }
    }

    /// Which of these functionalities a conversation of its own may ask for.
    pub(super) fn asks_of(&self, functionalities: &[Arc<Functionality>]) -> Asks {
        let may = |functionality: &&Arc<Functionality>| {
            let asks = self.asks.as_ref();
            asks.is_none_or(|asks| asks.contains(&functionality.name))
        };
        Asks::of(&self.spoke.app, functionalities.iter().filter(may).cloned())
    }
}

type Check = dyn Fn(&[ToolDescription]) -> Result<(), String> + Send + Sync;

/// Compares an app's rules with its tools. An app that it refuses does not start: a rule that fits no tool does not hold what
/// it was written for.
#[derive(Clone)]
pub struct ToolCheck(Arc<Check>);

impl ToolCheck {
    /// A check that says in one line what does not fit.
    pub fn new(
        check: impl Fn(&[ToolDescription]) -> Result<(), String> + Send + Sync + 'static,
    ) -> Self {
        Self(Arc::new(check))
    }

    /// Accepts any tools, for apps without rules.
    pub fn any() -> Self {
        Self::new(|_| Ok(()))
    }

    /// Whether these tools fit.
    ///
    /// # Errors
    /// What does not fit, in one line.
    pub fn accepts(&self, tools: &[ToolDescription]) -> Result<(), String> {
        (self.0)(tools)
    }

    /// This check, and another one after it.
    #[must_use]
    pub fn and(
        self,
        then: impl Fn(&[ToolDescription]) -> Result<(), String> + Send + Sync + 'static,
    ) -> Self {
        Self::new(move |tools| (self.0)(tools).and_then(|()| then(tools)))
    }
}

/// Why a query has no outcome at all.
#[derive(Debug, thiserror::Error)]
pub enum SessionError {
    /// No such app.
    #[error("there is no app '{app}'; configured are: {}", known.join(", "))]
    UnknownApp {
        /// The name as given.
        app: String,
        /// The names that exist.
        known: Vec<String>,
    },
    /// The app has no such tool.
    #[error("the app {app} has no tool '{tool}'; it has {}", known.join(", "))]
    UnknownTool {
        /// The app.
        app: String,
        /// The tool as given.
        tool: String,
        /// The tools that it has.
        known: Vec<String>,
    },
    /// Several apps could do it, and the user chose none.
    #[error("several apps could do this ({}); name one with --app, all that it takes, or --each", .0.join(", "))]
    NoChoice(Vec<String>),
    /// The user chose for good, and the choice cannot be kept.
    #[error("this choice cannot be kept: {0}; choose an app for once")]
    NotKept(String),
    /// The apps have different models of their own.
    #[error(
        "these apps have models of their own, and not the same ({}); ask each by itself with --each", .0.join(", ")
    )]
    Models(Vec<String>),
    /// Two of the apps have names by which their tools could be confused.
    #[error(
        "the tools of {0} and {1} could be confused in one conversation; rename one of these apps"
    )]
    Names(String, String),
    /// The spoke does not run.
    #[error(transparent)]
    Spoke(#[from] SpokeError),
    /// The trace cannot be written, so nothing may be done.
    #[error(transparent)]
    Trace(#[from] TraceError),
    /// What happens cannot be kept where it must be, so nothing may be done.
    #[error("what happens cannot be recorded: {0}")]
    NotRecorded(String),
    /// The user interrupted before the turn began.
    #[error("interrupted")]
    Interrupted,
    /// The driver and the turn machine disagree: a bug.
    #[error("internal error: {0}; please report it")]
    Internal(#[from] hub::Misuse),
}
