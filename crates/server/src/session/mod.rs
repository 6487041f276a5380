//! A session: one user, the hub, and the spokes that the user's queries need.

mod assess;
mod each;
mod facts;
mod memory;
mod plan;
mod selections;
mod serving;
mod spokes;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;
use hub::isc::{Asks, Functionality};
use hub::memory::Thread;
use hub::planner::Group;
use hub::trace::Event;
use hub::{
    Agent, AppTool, AppTools, Apps, Execution, Misuse, Opening, Outcome, Settings, Setup, Stop,
    conversation,
};
use ifc::{Answer, Label, Labeled, Monitor, Permissions};
use tokio::sync::{Notify, mpsc};

use self::assess::Assessor;
use self::plan::Route;
pub use self::selections::{ChosenFor, Selections};
use self::serving::Serving;
use self::spokes::Spokes;

use crate::driver::{Driver, Ended, Front, Host};
use crate::egress::Gate;
use crate::parts::Parts;
use crate::screenings::ClientId;
use crate::spoke::{Spoke, SpokeError, SpokeSetup};
use crate::tool_check::ToolCheck;
use crate::trace_file::{TraceError, TraceFile};
use crate::user::{FormAnswer, FormView, QuestionView, User};

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
    /// What no app of the session does, and apps that would: where a query needs no app, the planner's model
    /// says whether it needs one of these.
    pub missing: Vec<Missing>,
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
    fn selections(&self) -> Option<&dyn Selections> {
        let selections = self.selections.as_deref();
        selections.filter(|_| !self.private)
    }
}

/// A functionality that no app of the session has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Missing {
    /// Which one.
    pub functionality: hub::missing::Functionality,
    /// Known apps that would bring it.
    pub apps: Vec<String>,
}

/// One app that the session may use.
#[derive(Debug, Clone)]
pub struct AppSetup {
    /// How its spoke is run.
    pub spoke: SpokeSetup,
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
        match self.check.check(spoke.tools()) {
            Ok(()) => Ok(spoke),
            Err(reason) => Err(SpokeError::Rules {
                app: self.spoke.app.clone(),
                reason,
            }),
        }
    }

    /// The tools that a model is told of; none where the app does not run.
    fn tools(&self, spoke: Option<&Arc<Spoke>>) -> AppTools {
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
    fn asks_of(&self, functionalities: &[Arc<Functionality>]) -> Asks {
        let may = |functionality: &&Arc<Functionality>| {
            let asks = self.asks.as_ref();
            asks.is_none_or(|asks| asks.contains(&functionality.name))
        };
        Asks::of(&self.spoke.app, functionalities.iter().filter(may).cloned())
    }
}

/// Which apps a query goes to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Choice {
    /// The planner decides.
    Planner,
    /// To these: isolated if it is one, in a joint conversation if there are several, and to a
    /// vanilla spoke if there is none.
    Apps(BTreeSet<String>),
    /// To each of these by itself. No word of one reaches another: their answers are put together in a
    /// conversation that has no tools.
    Each(BTreeSet<String>),
}

/// A turn of one conversation.
struct Turn {
    outcome: Outcome,
    /// The label of the conversation afterwards.
    label: Label,
}

/// Apps whose spokes could not be started, and why.
type Failed = BTreeMap<String, SpokeError>;

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
    /// The user interrupted before the turn began.
    #[error("interrupted")]
    Interrupted,
    /// The driver and the turn machine disagree: a bug.
    #[error("internal error: {0}; please report it")]
    Internal(#[from] hub::Misuse),
}

/// A running session. Dropping it kills its spokes.
pub struct Session {
    setup: SessionSetup,
    /// What was granted and done in this session, whatever the app.
    monitor: Monitor,
    trace: TraceFile,
    spokes: Spokes,
    /// The labelled conversations, by their apps; without one it is a vanilla spoke's, which is no
    /// process: its conversation is all there is of it.
    conversations: BTreeMap<Apps, Agent>,
    /// What the conversations have recalled and left behind.
    threads: BTreeMap<Apps, Thread>,
    /// The conversation of the last query; a follow-up goes there unless the planner finds others.
    last: Apps,
    assessor: Assessor,
    /// The apps that the user chose to serve functionalities which several serve.
    chosen: BTreeMap<String, String>,
    outside: mpsc::Receiver<Event>,
}

/// Trace entries of relays that the session has not yet written.
const OUTSIDE_EVENTS: usize = 256;

impl Session {
    /// Starts a session with an empty trace.
    ///
    /// # Errors
    /// The trace cannot be written.
    pub fn start(setup: SessionSetup, user: &mut dyn User) -> Result<Self, SessionError> {
        let trace = TraceFile::create(&setup.traces, &setup.name)?;
        let (to_outside, outside) = mpsc::channel(OUTSIDE_EVENTS);
        let started = Event::SessionStarted {
            session: setup.name.clone(),
            mode: setup.parts.settings.screening.name().to_owned(),
            screener: setup.parts.screener.name().to_owned(),
            private: setup.private,
        };
        let monitor = Monitor::new().with_trust(&setup.parts.lattice);
        let monitor = match &setup.permissions {
            // A private session keeps nothing, and what was kept elsewhere is earlier context.
            Some(permissions) if !setup.private => {
                monitor.with_permissions(Arc::clone(permissions))
            }
            _ => monitor,
        };
        let gate = Gate {
            monitor: monitor.clone(),
            policy: Arc::clone(&setup.parts.policy),
            resolver: Arc::clone(&setup.parts.resolver),
        };
        let mut session = Self {
            setup,
            monitor,
            trace,
            spokes: Spokes::new(gate, to_outside),
            conversations: BTreeMap::new(),
            threads: BTreeMap::new(),
            last: Apps::None,
            assessor: Assessor::default(),
            chosen: BTreeMap::new(),
            outside,
        };
        session.record(started, user)?;
        Ok(session)
    }

    /// Where the trace is.
    pub fn trace(&self) -> &Path {
        self.trace.path()
    }

    /// The process ids of the running spokes, by app.
    pub fn spokes(&self) -> impl Iterator<Item = (&str, u32)> {
        self.spokes.iter().map(|spoke| (spoke.app(), spoke.pid()))
    }

    /// One query, from the plan to the answer (SecGPT §4.1.4). `cancel` interrupts it.
    ///
    /// # Errors
    /// No turn took place; a turn that failed is an [`Outcome`].
    pub async fn ask(
        &mut self,
        query: Labeled,
        choice: Choice,
        user: &mut dyn User,
        cancel: &Notify,
    ) -> Result<Outcome, SessionError> {
        let outcome = self.answer(query, choice, user, cancel).await;
        if self.setup.private {
            self.forget(user)?;
        } else {
            self.refresh(user)?;
        }
        outcome
    }

    async fn answer(
        &mut self,
        query: Labeled,
        choice: Choice,
        user: &mut dyn User,
        cancel: &Notify,
    ) -> Result<Outcome, SessionError> {
        let prepared = async {
            let route = self.plan(&query, choice, user).await?;
            let failed = match &route {
                Route::To(apps) => {
                    self.open(apps, user).await?;
                    Failed::new()
                }
                Route::Each(apps) => self.start_spokes(apps, user).await?,
            };
            Ok::<_, SessionError>((route, failed))
        };
        let (route, failed) = tokio::select! {
            prepared = prepared => prepared?,
            () = cancel.notified() => return Err(SessionError::Interrupted),
        };
        match route {
            Route::To(apps) => {
                let begin = |agent: &mut Agent| agent.user(query.clone());
                let turn = self.converse(&apps, &query, None, begin, user, cancel);
                let turn = turn.await?;
                Ok(turn.outcome)
            }
            Route::Each(apps) => self.each(apps, failed, query, user, cancel).await,
        }
    }

    /// One turn of one conversation, which is open: it recalls what answers the query, begins, and is
    /// remembered. `part` names it in the trace where it is one of several for a query.
    async fn converse(
        &mut self,
        apps: &Apps,
        query: &Labeled,
        part: Option<&str>,
        begin: impl FnOnce(&mut Agent) -> Result<(), Misuse>,
        user: &mut dyn User,
        cancel: &Notify,
    ) -> Result<Turn, SessionError> {
        let Some(mut agent) = self.conversations.remove(apps) else {
            let brought = "apps without a conversation";
            return Err(Misuse { brought }.into());
        };
        self.recall(apps, &mut agent, query, user, cancel).await?;
        begin(&mut agent)?;
        let outcome = self.drive(apps, part, &mut agent, user, cancel).await;
        if let Ok(outcome) = &outcome {
            let answer = outcome.result.as_ref().ok();
            let said = (query, answer);
            self.remember(apps, &mut agent, said, user, cancel).await?;
            // Those of a part stand in the turn that puts the parts together. Not only after an answer: that
            // there is none may depend on what is above the query's label.
            if part.is_none() && outcome.result != Err(Stop::Interrupted) {
                self.learn(apps, &mut agent, user, cancel).await?;
            }
        }
        let label = agent.history().label();
        self.conversations.insert(apps.clone(), agent);
        self.bury(user).await?;
        let outcome = outcome?;
        Ok(Turn { outcome, label })
    }

    /// Ends the spokes that are there for one query, with the conversations that they were a part of: those would give the
    /// next one what this one was given.
    fn refresh(&mut self, user: &mut dyn User) -> Result<(), TraceError> {
        let apps = self.setup.apps.iter();
        let fresh = apps.filter(|app| app.fresh);
        let fresh: BTreeSet<String> = fresh.map(|app| app.spoke.app.clone()).collect();
        for spoke in self.spokes.take(&fresh) {
            let app = spoke.app().to_owned();
            let stays = |apps: &Apps| !apps.with_tools().contains(&app);
            self.conversations.retain(|apps, _| stays(apps));
            self.threads.retain(|apps, _| stays(apps));
            spoke.kill();
            drop(spoke);
            let reason = "its query is over, and the next one gets a fresh one".to_owned();
            let reason = reason.into();
            self.record(Event::SpokeEnded { app, reason }, user)?;
        }
        Ok(())
    }

    /// Leaves nothing of a private query for the next one: neither its words nor an app that saw them.
    fn forget(&mut self, user: &mut dyn User) -> Result<(), TraceError> {
        self.conversations.clear();
        self.threads.clear();
        self.chosen.clear();
        self.last = Apps::None;
        self.assessor = Assessor::default();
        for spoke in self.spokes.take_all() {
            let app = spoke.app().to_owned();
            spoke.kill();
            drop(spoke);
            let reason = "the private query is over".to_owned().into();
            self.record(Event::SpokeEnded { app, reason }, user)?;
        }
        Ok(())
    }

    async fn drive(
        &mut self,
        apps: &Apps,
        part: Option<&str>,
        agent: &mut Agent,
        user: &mut dyn User,
        cancel: &Notify,
    ) -> Result<Outcome, SessionError> {
        let client = ClientId::from_name(&self.setup.name);
        let model = self.model(apps)?;
        let apps = apps.with_tools();
        let spokes = apps.iter().filter_map(|app| self.spokes.get(app));
        let spokes: Vec<Arc<Spoke>> = spokes.map(Arc::clone).collect();
        let mut front = SessionFront {
            part,
            assessor: &mut self.assessor,
            trace: &mut self.trace,
            outside: &mut self.outside,
            user,
            apps: &self.setup.apps,
            functionalities: &self.setup.functionalities,
            spokes: &mut self.spokes,
            serving: Serving {
                chosen: &mut self.chosen,
                selections: self.setup.selections(),
            },
        };
        let driver = Driver::new(&self.setup.parts, client, &mut front, agent);
        match driver.over(spokes).by(model).until(cancel).turn().await? {
            Ended::Done(outcome) => Ok(outcome),
            // Calls run here, see `open`.
            Ended::HandedOver(_) => {
                let brought = "somebody who takes calls";
                Err(Misuse { brought }.into())
            }
        }
    }

    /// Makes sure that the conversation of these apps exists, with its spokes.
    async fn open(&mut self, apps: &Apps, user: &mut dyn User) -> Result<(), SessionError> {
        if let Some((one, other)) = apps.clash() {
            return Err(SessionError::Names(one.to_owned(), other.to_owned()));
        }
        self.bury(user).await?;
        self.model(apps)?;
        let with_tools = apps.with_tools();
        let failed = self.start_spokes(&with_tools, user).await?;
        if let Some((_, error)) = failed.into_iter().next() {
            return Err(error.into());
        }
        if self.conversations.contains_key(apps) {
            return Ok(());
        }
        let mut tools = Vec::new();
        for app in &with_tools {
            tools.push(self.known(app)?.tools(self.spokes.get(app)));
        }
        let setup = Setup {
            apps: apps.clone(),
            asks: self.asks(apps)?,
            policy: Arc::clone(&self.setup.parts.policy),
            lattice: Arc::clone(&self.setup.parts.lattice),
            monitor: self.monitor.clone(),
            settings: Settings {
                execution: Execution::Here,
                ..self.setup.parts.settings
            },
        };
        let agent = conversation(setup, tools);
        self.conversations.insert(apps.clone(), agent);
        Ok(())
    }

    /// Starts the spokes of these apps that do not run, side by side. Some may fail, and others run.
    async fn start_spokes(
        &mut self,
        apps: &BTreeSet<String>,
        user: &mut dyn User,
    ) -> Result<Failed, SessionError> {
        let setups = apps.iter().map(|app| self.known(app).cloned());
        let setups: Vec<AppSetup> = setups.collect::<Result<_, _>>()?;
        let (happened, failed) = self.spokes.start(setups).await;
        for event in happened {
            self.record(event, user)?;
        }
        Ok(failed)
    }

    /// What the conversation of these apps may ask of others. Joint apps have what they need.
    fn asks(&self, apps: &Apps) -> Result<Asks, SessionError> {
        let Apps::One(app) = apps else {
            return Ok(Asks::default());
        };
        Ok(self.known(app)?.asks_of(&self.setup.functionalities))
    }

    /// Takes leave of spokes that have ended, and of the conversations that they were a part of: a
    /// spoke that is started again may have other tools.
    async fn bury(&mut self, user: &mut dyn User) -> Result<(), TraceError> {
        for spoke in self.spokes.take_gone() {
            let stays = |apps: &Apps| !apps.with_tools().contains(spoke.app());
            self.conversations.retain(|apps, _| stays(apps));
            self.threads.retain(|apps, _| stays(apps));
            let (app, reason) = (spoke.app().to_owned(), spoke.ended().await.into());
            self.record(Event::SpokeEnded { app, reason }, user)?;
        }
        Ok(())
    }

    /// The provider of the conversation's own model. Apps that meet have one at most: neither is to see
    /// what is meant for the other's.
    fn model(&self, apps: &Apps) -> Result<Option<String>, SessionError> {
        if apps.with_tools().is_empty() {
            return Ok(self.setup.vanilla.clone());
        }
        let mut models = BTreeSet::new();
        for app in apps.with_tools() {
            models.extend(self.known(&app)?.provider.clone());
        }
        match models.len() {
            0 | 1 => Ok(models.pop_first()),
            _ => Err(SessionError::Models(models.into_iter().collect())),
        }
    }

    fn known(&self, app: &str) -> Result<&AppSetup, SessionError> {
        let apps = &self.setup.apps;
        apps.iter()
            .find(|known| known.spoke.app == app)
            .ok_or_else(|| SessionError::UnknownApp {
                app: app.to_owned(),
                known: apps.iter().map(|known| known.spoke.app.clone()).collect(),
            })
    }

    fn record(&mut self, event: Event, user: &mut dyn User) -> Result<(), TraceError> {
        let record = self.trace.append(event)?;
        user.observe(&record);
        Ok(())
    }
}

/// A session as the driver sees it: its user, and its trace.
struct SessionFront<'a> {
    /// The conversation's name in the trace, where a query has several.
    part: Option<&'a str>,
    assessor: &'a mut Assessor,
    trace: &'a mut TraceFile,
    /// What the relays of spokes report meanwhile.
    outside: &'a mut mpsc::Receiver<Event>,
    user: &'a mut dyn User,
    /// The apps that another one may ask, for what, and their spokes.
    apps: &'a [AppSetup],
    functionalities: &'a [Arc<Functionality>],
    spokes: &'a mut Spokes,
    serving: Serving<'a>,
}

#[async_trait]
impl Front for SessionFront<'_> {
    type Error = SessionError;

    fn record(&mut self, serving: Option<&str>, event: Event) -> Result<(), SessionError> {
        while let Ok(outside) = self.outside.try_recv() {
            self.append(None, outside)?;
        }
        self.append(serving.or(self.part), event)
    }

    async fn confirm(&mut self, view: QuestionView) -> Answer {
        let view = QuestionView {
            assessment: self.assessor.assess(&view),
            ..view
        };
        let answer = self.user.confirm(&view).await;
        self.assessor.answered(&view, answer);
        answer
    }

    async fn fill_in(&mut self, view: &FormView) -> FormAnswer {
        self.user.fill_in(view).await
    }

    async fn choose(&mut self, opening: &Opening) -> Result<Option<String>, SessionError> {
        let (app, by) = self.serving.choose(opening, self.user).await;
        let chosen = Event::ServingChosen {
            asks: opening.asks.clone(),
            functionality: opening.functionality.clone(),
            among: opening.apps.clone(),
            serves: app.clone(),
            by,
        };
        self.record(None, chosen)?;
        Ok(app)
    }

    async fn spoke(&mut self, app: &str) -> Result<Result<Arc<Spoke>, String>, SessionError> {
        let setup = self.apps.iter().find(|known| known.spoke.app == app);
        let (happened, mut failed) = self.spokes.start(setup.cloned()).await;
        for event in happened {
            self.record(None, event)?;
        }
        let spoke = self.spokes.get(app).map(Arc::clone);
        Ok(match failed.remove(app) {
            None => spoke.ok_or_else(|| format!("the app {app} does not run here")),
            Some(error) => Err(error.to_string()),
        })
    }

    async fn host(&mut self, app: &str) -> Result<Result<Host, String>, SessionError> {
        let spoke = match self.spoke(app).await? {
            Ok(spoke) => spoke,
            Err(reason) => return Ok(Err(reason)),
        };
        let apps = self.apps;
        let known = apps.iter().find(|known| known.spoke.app == app);
        let host = known.map(|setup| Host {
            tools: setup.tools(Some(&spoke)),
            asks: setup.asks_of(self.functionalities),
            model: setup.provider.clone(),
            spoke,
        });
        Ok(host.ok_or_else(|| format!("there is no app {app}")))
    }

    fn delta(&mut self, piece: &str) {
        self.user.delta(piece);
    }
}

impl SessionFront<'_> {
    fn append(&mut self, part: Option<&str>, event: Event) -> Result<(), SessionError> {
        let record = self.trace.append_to(part, event)?;
        self.user.observe(&record);
        Ok(())
    }
}
