//! A session: one user, the hub, and the spokes that the user's queries need.

mod assess;
mod choosing;
mod each;
mod facts;
mod front;
mod memory;
mod plan;
mod setup;
mod spokes;
mod threads;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

use hub::address::Message;
use hub::isc::Asks;
use hub::trace::Event;
use hub::{Apps, Execution, Misuse, Outcome, Settings, Setup, Stop, TurnMachine, conversation};
use ifc::{Label, Labeled, Monitor};
use tokio::sync::{Notify, mpsc};

use self::assess::Assessor;
pub use self::choosing::{Choice, ChosenFor, Selections};
use self::choosing::{Route, Serving};
use self::front::SessionFront;
pub use self::setup::{AppSetup, SessionError, SessionSetup, ToolCheck};
use self::spokes::{Failed, Spokes};
use self::threads::Threads;

use crate::driver::{Driver, Ended};
use crate::egress::Gate;
use crate::sink::At;
use crate::spoke::Spoke;
use crate::trace_file::{TraceError, TraceFile};
use crate::user::User;

struct Turn {
    outcome: Outcome,
    label: Label,
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
    conversations: BTreeMap<Apps, TurnMachine>,
    /// What the conversations have recalled and left behind.
    threads: Threads,
    /// The conversation of the last query; a follow-up goes there unless the planner finds others.
    last: Apps,
    assessor: Assessor,
    /// The apps that the user chose to serve functionalities which several serve.
    chosen: BTreeMap<String, String>,
    outside: mpsc::Receiver<Event>,
    /// What the user sees while a query is answered: one text, whichever conversations write it.
    message: Message,
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
        // The monitor of the calls: what the user has said about a domain counts for every spoke of the session.
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
            threads: Threads::default(),
            last: Apps::None,
            assessor: Assessor::default(),
            chosen: BTreeMap::new(),
            outside,
            message: Message::default(),
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
        let last = self.last.clone();
        self.message = Message::default();
        let outcome = self.answer(query, choice, user, cancel).await;
        if outcome.is_err() {
            // No turn took place, and nothing follows up on it: an app that does not start would have all that needs no
            // app end with its error.
            self.last = last;
        }
        // Whatever the outcome: an app has seen a failed query as well.
        self.bury(user).await?;
        let private = self.setup.private;
        if private {
            self.conversations.clear();
            self.threads.retain(|_| false);
            self.chosen.clear();
            self.last = Apps::None;
            self.assessor = Assessor::default();
        }
        let fresh = self.setup.apps.iter().filter(|app| app.fresh);
        let fresh: BTreeSet<&str> = fresh.map(|app| app.spoke.app.as_str()).collect();
        let over = self.spokes.take(|app| private || fresh.contains(app));
        let reason = match private {
            true => "the private query is over",
            false => "its query is over, and the next one gets a fresh one",
        };
        self.end(over, Some(reason), user).await?;
        outcome
    }

    /// One call of a tool that the user makes: decided on, run and recorded as in a turn of the app, without a model. What it
    /// returns is the answer.
    ///
    /// # Errors
    /// No call took place; a call that was refused or failed is an [`Outcome`].
    pub async fn call(
        &mut self,
        app: &str,
        tool: &str,
        arguments: &Labeled,
        user: &mut dyn User,
        cancel: &Notify,
    ) -> Result<Outcome, SessionError> {
        let apps = Apps::One(app.to_owned());
        let apps = tokio::select! {
            apps = self.open(&apps, user) => apps?,
            () = cancel.notified() => return Err(SessionError::Interrupted),
        };
        let tools = self
            .spokes
            .get(app)
            .map_or(&[] as &[_], |spoke| spoke.tools());
        if !tools.iter().any(|known| known.name == tool) {
            return Err(SessionError::UnknownTool {
                app: app.to_owned(),
                tool: tool.to_owned(),
                known: tools.iter().map(|tool| tool.name.clone()).collect(),
            });
        }
        let Some(mut agent) = self.conversations.remove(&apps) else {
            let brought = "an app without a conversation";
            return Err(Misuse { brought }.into());
        };
        agent.call(tool, arguments)?;
        let outcome = self.drive(&apps, None, &mut agent, user, cancel).await;
        self.bury(user).await?;
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
            Ok::<_, SessionError>(match route {
                Route::To(apps) => {
                    let apps = self.open(&apps, user).await?;
                    self.last = apps.clone();
                    (Route::To(apps), Failed::new())
                }
                Route::Each(apps) => {
                    let failed = self.start_spokes(&apps, user).await?;
                    (Route::Each(apps), failed)
                }
            })
        };
        let (route, failed) = tokio::select! {
            // A plan and the start of a spoke have no driver that would hear an interruption; a turn has.
            prepared = prepared => prepared?,
            () = cancel.notified() => return Err(SessionError::Interrupted),
        };
        match route {
            Route::To(apps) => {
                let begin = |agent: &mut TurnMachine| agent.user(query.clone());
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
        begin: impl FnOnce(&mut TurnMachine) -> Result<(), Misuse>,
        user: &mut dyn User,
        cancel: &Notify,
    ) -> Result<Turn, SessionError> {
        // Taken out while its turn runs: a conversation whose turn broke off in an error is not gone on with.
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
            let said = self.remember(apps, &mut agent, said, user, cancel).await?;
            // Those of a part stand in the turn that puts the parts together. Not only after an answer: that
            // there is none may depend on what is above the query's label.
            if part.is_none() && outcome.result != Err(Stop::Interrupted) {
                self.learn(apps, &mut agent, said, user, cancel).await?;
            }
        }
        let label = agent.history().label();
        self.conversations.insert(apps.clone(), agent);
        self.bury(user).await?;
        let outcome = outcome?;
        Ok(Turn { outcome, label })
    }

    async fn drive(
        &mut self,
        apps: &Apps,
        part: Option<&str>,
        agent: &mut TurnMachine,
        user: &mut dyn User,
        cancel: &Notify,
    ) -> Result<Outcome, SessionError> {
        let model = self.model(apps)?;
        let apps = apps.with_tools();
        let spokes = apps.iter().filter_map(|app| self.spokes.get(app));
        let spokes: Vec<Arc<Spoke>> = spokes.map(Arc::clone).collect();
        let mut front = SessionFront {
            part,
            assessor: &mut self.assessor,
            trace: &mut self.trace,
            sinks: &self.setup.parts.sinks,
            name: &self.setup.name,
            outside: &mut self.outside,
            user,
            apps: &self.setup.apps,
            functionalities: &self.setup.functionalities,
            spokes: &mut self.spokes,
            serving: Serving {
                chosen: &mut self.chosen,
                selections: self.setup.selections(),
            },
            message: &mut self.message,
        };
        let driver = Driver::new(&self.setup.parts, &mut front, agent);
        match driver.over(spokes).by(model).until(cancel).turn().await? {
            Ended::Done(outcome) => Ok(outcome),
            // Calls run here, see `open`.
            Ended::HandedOver(_) => {
                let brought = "somebody who takes calls";
                Err(Misuse { brought }.into())
            }
        }
    }

    /// Makes sure that the conversation of these apps exists, with its spokes; of several, that of those which start.
    async fn open(&mut self, apps: &Apps, user: &mut dyn User) -> Result<Apps, SessionError> {
        if let Some((one, other)) = apps.clash() {
            return Err(SessionError::Names(one.to_owned(), other.to_owned()));
        }
        self.bury(user).await?;
        let model = self.model(apps)?;
        // The clash of names and of models came first: an app that cannot be used is not started.
        let failed = self.start_spokes(&apps.with_tools(), user).await?;
        let apps = &self.without(apps, failed, user)?;
        if self.conversations.contains_key(apps) {
            return Ok(apps.clone());
        }
        let mut tools = Vec::new();
        for app in &apps.with_tools() {
            tools.push(self.known(app)?.tools(self.spokes.get(app)));
        }
        let is_open = self
            .setup
            .parts
            .broker
            .open_provider(model.as_ref())
            .is_some();
        let setup = Setup {
            apps: apps.clone(),
            asks: self.asks(apps)?,
            policy: Arc::clone(&self.setup.parts.policy),
            lattice: Arc::clone(&self.setup.parts.lattice),
            monitor: self.monitor.clone(),
            settings: Settings {
                execution: Execution::Here,
                asks_clearance: is_open,
                ..self.setup.parts.settings
            },
            clearances: self.setup.parts.broker.clearances(model.as_ref()),
        };
        let agent = conversation(setup, tools);
        self.conversations.insert(apps.clone(), agent);
        Ok(apps.clone())
    }

    /// The apps that are left where these have failed. Those that were to meet go on without them, and the user is told.
    fn without(
        &mut self,
        apps: &Apps,
        mut failed: Failed,
        user: &mut dyn User,
    ) -> Result<Apps, SessionError> {
        let missing: Vec<String> = failed.keys().cloned().collect();
        let mut left = apps.with_tools();
        left.retain(|app| !failed.contains_key(app));
        match failed.pop_first() {
            None => Ok(apps.clone()),
            Some((_, error)) if left.is_empty() => Err(error.into()),
            Some(_) => {
                self.record(Event::LeftOut { apps: missing }, user)?;
                Ok(Apps::of(left))
            }
        }
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

    async fn bury(&mut self, user: &mut dyn User) -> Result<(), TraceError> {
        let gone = self.spokes.take_gone();
        self.end(gone, None, user).await
    }

    /// Ends these spokes, for this reason or for their own, with the conversations that they were a part of: a spoke that is
    /// started again may have other tools, and knows nothing of what was said.
    async fn end(
        &mut self,
        spokes: Vec<Arc<Spoke>>,
        reason: Option<&str>,
        user: &mut dyn User,
    ) -> Result<(), TraceError> {
        for spoke in spokes {
            let app = spoke.app().to_owned();
            let stays = |apps: &Apps| !apps.with_tools().contains(&app);
            self.conversations.retain(|apps, _| stays(apps));
            self.threads.retain(stays);
            let reason = match reason {
                Some(reason) => {
                    spoke.kill();
                    reason.to_owned()
                }
                None => spoke.ended().await,
            };
            // Its processes are gone before the record says so.
            drop(spoke);
            let reason = reason.into();
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
        let at = At::new("session", &self.setup.name);
        self.setup.parts.sinks.event(&at, &event);
        let record = self.trace.append(event)?;
        user.observe(&record);
        Ok(())
    }
}
