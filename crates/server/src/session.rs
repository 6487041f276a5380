//! A session: one user, the hub, and the spokes that the user's queries need.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;
use hub::planner::{self, Candidate, Plan};
use hub::trace::Event;
use hub::{Agent, AppTool, CompletionRequest, Execution, Outcome, Settings, Setup, conversation};
use ifc::{Answer, Label, Labeled, Monitor};
use llm::NoDeltas;
use tokio::sync::{Notify, mpsc};

use crate::driver::{Driver, Ended, Front};
use crate::egress::Gate;
use crate::parts::Parts;
use crate::screenings::ClientId;
use crate::spoke::{Spoke, SpokeError, SpokeSetup};
use crate::tool_check::ToolCheck;
use crate::trace_file::{TraceError, TraceFile};
use crate::user::{QuestionView, User};

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
}

/// One app that the session may use.
#[derive(Debug, Clone)]
pub struct AppSetup {
    /// How its spoke is run.
    pub spoke: SpokeSetup,
    /// What it does, for the planner.
    pub description: Labeled,
    /// The label of what the app says of its own tools: of the names that the configuration does not
    /// list, too.
    pub descriptions: Label,
    /// The tools that the configuration has a rule for by name.
    pub listed: BTreeSet<String>,
    /// Whether other tools are offered: the configuration has a rule for whatever tool there is.
    pub offers_others: bool,
    /// Whether the rules fit the tools that it has; if not, it is ended again.
    pub check: ToolCheck,
}

/// Which app a query goes to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Choice {
    /// The planner decides.
    Planner,
    /// This app.
    App(String),
    /// None: a vanilla spoke.
    Vanilla,
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
    /// Several apps could do it, and the user chose none.
    #[error("several apps could do this ({}); name one with --app", .0.join(", "))]
    NoChoice(Vec<String>),
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
    conversations: BTreeMap<Option<String>, Conversation>,
    /// The app of the last query; a follow-up goes there unless the planner finds another.
    last: Option<String>,
    outside: mpsc::Receiver<Event>,
    to_outside: mpsc::Sender<Event>,
}

/// One spoke and its labelled conversation. A vanilla spoke hosts no app, so it is no process:
/// its conversation is all there is of it.
struct Conversation {
    agent: Agent,
    spoke: Option<Spoke>,
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
        };
        let conversations = BTreeMap::new();
        let mut session = Self {
            setup,
            monitor: Monitor::new(),
            trace,
            conversations,
            last: None,
            outside,
            to_outside,
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
        let spokes = self
            .conversations
            .values()
            .filter_map(|talk| talk.spoke.as_ref());
        spokes.map(|spoke| (spoke.app(), spoke.pid()))
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
        let prepared = async {
            let app = self.plan(&query, choice, user).await?;
            self.open(app, user).await
        };
        let mut talk = tokio::select! {
            talk = prepared => talk?,
            () = cancel.notified() => return Err(SessionError::Interrupted),
        };
        talk.agent.user(query)?;
        let outcome = self.drive(&mut talk, user, cancel).await;
        let app = talk.spoke.as_ref().map(|spoke| spoke.app().to_owned());
        if talk.spoke.as_ref().is_none_or(|spoke| !spoke.is_gone()) {
            self.conversations.insert(app, talk);
        } else if let Some(spoke) = talk.spoke {
            let reason = spoke.ended().await;
            self.record(
                Event::SpokeEnded {
                    app: spoke.app().to_owned(),
                    reason: reason.into(),
                },
                user,
            )?;
        }
        outcome
    }

    async fn drive(
        &mut self,
        talk: &mut Conversation,
        user: &mut dyn User,
        cancel: &Notify,
    ) -> Result<Outcome, SessionError> {
        let client = ClientId::named(&self.setup.name);
        let mut front = SessionFront {
            trace: &mut self.trace,
            outside: &mut self.outside,
            user,
        };
        let driver = Driver::new(&self.setup.parts, client, &mut front, &mut talk.agent);
        match driver
            .over(talk.spoke.as_ref())
            .until(cancel)
            .turn()
            .await?
        {
            Ended::Done(outcome) => Ok(outcome),
            // Calls run here, see `converse`.
            Ended::HandedOver(_) => {
                let brought = "somebody who takes calls";
                Err(hub::Misuse { brought }.into())
            }
        }
    }

    /// Which app the query goes to; `None` is a vanilla spoke.
    async fn plan(
        &mut self,
        query: &Labeled,
        choice: Choice,
        user: &mut dyn User,
    ) -> Result<Option<String>, SessionError> {
        let (needed, app, by) = match choice {
            Choice::Vanilla => (Vec::new(), None, "command line"),
            Choice::App(app) => (vec![app.clone()], Some(app), "command line"),
            Choice::Planner => {
                let needed = self.needed(query, user).await?;
                match planner::plan(needed.clone()) {
                    Plan::App(app) => (needed, Some(app), "planner"),
                    // A follow-up ("and who sent it?") needs no app by itself.
                    Plan::Vanilla => (needed, self.last.clone(), "planner"),
                    Plan::Choose(apps) => match user.choose(&apps).await {
                        Some(app) if apps.contains(&app) => (needed, Some(app), "user"),
                        _ => return Err(SessionError::NoChoice(apps)),
                    },
                }
            }
        };
        self.last.clone_from(&app);
        self.record(
            Event::Planned {
                needed,
                app: app.clone(),
                by: by.to_owned(),
            },
            user,
        )?;
        Ok(app)
    }

    /// The apps that the planner finds to be needed, each asked about alone.
    async fn needed(
        &mut self,
        query: &Labeled,
        user: &mut dyn User,
    ) -> Result<Vec<String>, SessionError> {
        let candidates: Vec<Candidate> = self
            .setup
            .apps
            .iter()
            .map(|app| Candidate {
                app: app.spoke.app.clone(),
                description: app.description.clone(),
            })
            .collect();
        let mut needed = Vec::new();
        for candidate in candidates {
            let request: CompletionRequest = planner::question(query, &candidate);
            let answer = self
                .setup
                .parts
                .broker
                .complete(&request, &mut NoDeltas)
                .await;
            let verdict = match answer {
                Ok(answer) => {
                    let usage = answer.completion.usage.into();
                    let purpose = format!("plan {}", candidate.app);
                    let provider = answer.provider;
                    self.record(
                        Event::Consulted {
                            purpose,
                            provider,
                            usage,
                        },
                        user,
                    )?;
                    planner::read(&answer.completion)
                }
                Err(error) => Err(error.to_string()),
            };
            match verdict {
                Ok(true) => needed.push(candidate.app),
                Ok(false) => {}
                Err(reason) => {
                    self.record(
                        Event::PlanUnclear {
                            app: candidate.app,
                            reason: reason.into(),
                        },
                        user,
                    )?;
                }
            }
        }
        Ok(needed)
    }

    /// The conversation with an app: the one that runs, or a new one.
    async fn open(
        &mut self,
        app: Option<String>,
        user: &mut dyn User,
    ) -> Result<Conversation, SessionError> {
        match self.conversations.remove(&app) {
            Some(talk) if talk.spoke.as_ref().is_none_or(|spoke| !spoke.is_gone()) => {
                return Ok(talk);
            }
            _ => {}
        }
        let Some(app) = app else {
            let agent = self.converse(None, Vec::new(), &Label::bottom());
            return Ok(Conversation { agent, spoke: None });
        };
        let Some(setup) = self.setup.apps.iter().find(|known| known.spoke.app == app) else {
            let known = self
                .setup
                .apps
                .iter()
                .map(|known| known.spoke.app.clone())
                .collect();
            return Err(SessionError::UnknownApp { app, known });
        };
        let descriptions = setup.descriptions.clone();
        let (check, listed) = (setup.check.clone(), setup.listed.clone());
        let offers_others = setup.offers_others;
        let gate = Gate {
            monitor: self.monitor.clone(),
            policy: Arc::clone(&self.setup.parts.policy),
        };
        let spoke = Spoke::open(setup.spoke.clone(), &gate, self.to_outside.clone()).await;
        let spoke = spoke.and_then(|spoke| match check.check(spoke.tools()) {
            Ok(()) => Ok(spoke),
            Err(reason) => Err(SpokeError::Rules {
                app: app.clone(),
                reason,
            }),
        });
        let spoke = match spoke {
            Ok(spoke) => spoke,
            Err(error) => {
                self.record(
                    Event::SpokeEnded {
                        app,
                        reason: error.to_string().into(),
                    },
                    user,
                )?;
                return Err(error.into());
            }
        };
        self.record(spoke.started(), user)?;
        let tools = spoke.tools().iter().map(|tool| AppTool {
            listed: listed.contains(&tool.name),
            name: tool.name.clone(),
            description: tool.description.clone(),
            parameters: tool.input_schema.clone(),
        });
        let tools = tools.filter(|tool| tool.listed || offers_others);
        let agent = self.converse(Some(app), tools.collect(), &descriptions);
        Ok(Conversation {
            agent,
            spoke: Some(spoke),
        })
    }

    fn converse(&self, app: Option<String>, tools: Vec<AppTool>, descriptions: &Label) -> Agent {
        let settings = Settings {
            execution: Execution::Here,
            ..self.setup.parts.settings
        };
        let setup = Setup {
            app,
            policy: Arc::clone(&self.setup.parts.policy),
            lattice: Arc::clone(&self.setup.parts.lattice),
            monitor: self.monitor.clone(),
            settings,
        };
        conversation(setup, tools, descriptions)
    }

    fn record(&mut self, event: Event, user: &mut dyn User) -> Result<(), TraceError> {
        let record = self.trace.append(event)?;
        user.observe(&record);
        Ok(())
    }
}

/// A session as the driver sees it: its user, and its trace.
struct SessionFront<'a> {
    trace: &'a mut TraceFile,
    /// What the relays of spokes report meanwhile.
    outside: &'a mut mpsc::Receiver<Event>,
    user: &'a mut dyn User,
}

#[async_trait]
impl Front for SessionFront<'_> {
    type Error = SessionError;

    fn record(&mut self, event: Event) -> Result<(), SessionError> {
        while let Ok(outside) = self.outside.try_recv() {
            self.append(outside)?;
        }
        self.append(event)
    }

    async fn confirm(&mut self, view: QuestionView) -> Answer {
        self.user.confirm(&view).await
    }

    fn delta(&mut self, piece: &str) {
        self.user.delta(piece);
    }
}

impl SessionFront<'_> {
    fn append(&mut self, event: Event) -> Result<(), SessionError> {
        let record = self.trace.append(event)?;
        self.user.observe(&record);
        Ok(())
    }
}
