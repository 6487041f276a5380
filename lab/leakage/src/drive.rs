//! One run of one task: the product's turn machine, broker and screeners; apps in this process.

use std::collections::BTreeMap;
use std::sync::Arc;

use anyhow::{Context, Result, anyhow, bail};
use hub::isc::Asks;
use hub::{Apps, Asked, CallOutcome, Need, Screened, Settings, Setup, TurnMachine};
use ifc::{Answer, Call, Label, Monitor, Nonce, Policy, Screener, Sink};
use llm::{Broker, NoDeltas};

use crate::app::{Arguments, World};
use crate::defence::Defence;
use crate::scenario::{Scenario, secret};
use crate::task::Categories;

/// A machine that needs more has a fault of its own.
const MAX_NEEDS: usize = 500;

/// How the user answers every question.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum User {
    /// No.
    Blocks,
    /// Yes, once.
    Allows,
}

#[derive(Debug, Default)]
pub(crate) struct Course {
    /// The calls that ran or were asked about, in order.
    pub(crate) made: Vec<Made>,
    pub(crate) answer: Option<String>,
    pub(crate) questions: u32,
    pub(crate) completions: u32,
}

/// A call that ran or was asked about.
#[derive(Debug)]
pub(crate) struct Made {
    pub(crate) tool: String,
    pub(crate) arguments: Arguments,
    /// The categories of the whole call, and of each argument, by its labels.
    pub(crate) label: Categories,
    pub(crate) labels: BTreeMap<String, Categories>,
    /// The categories that the question named; `None` if there was none.
    pub(crate) named: Option<Categories>,
    pub(crate) ran: bool,
}

pub(crate) struct Parts<'a> {
    pub(crate) scenario: &'a Arc<Scenario>,
    pub(crate) defence: Defence,
    pub(crate) user: User,
    pub(crate) broker: &'a Broker,
    pub(crate) attention: Option<&'a Arc<dyn Screener>>,
}

impl Parts<'_> {
    pub(crate) async fn run(&self) -> Result<Course> {
        let own: Arc<dyn Policy> = Arc::new(self.scenario.domain.config.policy());
        let policy = self.defence.policy(own);
        let setup = Setup {
            apps: Apps::One(self.scenario.domain.name().to_owned()),
            asks: Asks::default(),
            policy: Arc::clone(&policy),
            lattice: Arc::new(self.scenario.domain.config.lattice.clone()),
            monitor: Monitor::new(),
            settings: Settings {
                screening: self.defence.screening(),
                arguments: self.defence.filling(),
                ..Settings::default()
            },
            clearances: self.broker.clearances(None),
        };
        // The conversation so far is given as a history, as the proxy gives one; only the last turn is run.
        let mut run = Run {
            parts: self,
            screener: self.defence.screener(self.scenario, self.attention)?,
            agent: TurnMachine::resume(setup, self.scenario.history(policy.as_ref())),
            world: self.scenario.world.clone(),
            course: Course::default(),
        };
        for _ in 0..MAX_NEEDS {
            if run.serve().await? {
                return Ok(run.course);
            }
        }
        bail!("the turn machine does not come to an end")
    }
}

struct Run<'a> {
    parts: &'a Parts<'a>,
    screener: Arc<dyn Screener>,
    agent: TurnMachine,
    world: World,
    course: Course,
}

impl Run<'_> {
    /// Serves one need; whether the run is over.
    async fn serve(&mut self) -> Result<bool> {
        match self.agent.poll() {
            Need::Screen => {
                let (history, draft) = (self.agent.history(), self.agent.draft());
                let nonce = Nonce::from_random(fastrand::u64(..));
                let ifc::Screening::Decided(relevance) =
                    self.screener.screen(history, draft.as_ref(), &nonce)
                else {
                    bail!("no defence of the benchmark asks a judge");
                };
                self.agent.handle_screened(Screened {
                    screener: self.screener.name().to_owned(),
                    relevance: Ok(relevance),
                    failure: None,
                    scores: Vec::new(),
                })?;
            }
            Need::Complete(request) => {
                self.course.completions += 1;
                let answer = self.parts.broker.complete(&request, &mut NoDeltas).await;
                let answer = answer.map_err(|error| anyhow!("{error}"))?;
                self.agent
                    .handle_completion(&answer.provider, Ok(answer.completion))?;
            }
            Need::Confirm(asked) => {
                self.asked(&asked);
                let answer = match (self.parts.user, &asked) {
                    // Only calls are blocked. Nobody but the user reads an answer.
                    (User::Blocks, Asked::Call(_)) => Answer::No,
                    _ => Answer::Once,
                };
                self.agent.handle_answer(asked, answer)?;
            }
            Need::Execute(permit) => {
                let call = permit.spend();
                let arguments = self.ran(&call);
                let app = &self.parts.scenario.domain.app;
                let result = self.world.call(app, &call.tool, &arguments);
                self.agent.handle_result(CallOutcome::Returned {
                    is_error: result.is_err(),
                    text: result.map_or_else(|error| error, |value| value.to_string()),
                    claims: Vec::new(),
                    images: Vec::new(),
                })?;
            }
            Need::User(outcome) => {
                let outcome = outcome.context("the turn never began")?;
                self.course.answer = outcome.result.ok().map(|text| text.reveal_tcb().to_owned());
                return Ok(true);
            }
            other => bail!("the turn machine needs what no task has: {other:?}"),
        }
        Ok(false)
    }

    fn asked(&mut self, asked: &Asked) {
        self.course.questions += 1;
        let Some(call) = asked.call() else {
            return;
        };
        let mut named = self.categories(asked.excess());
        // Such a question shows the full call, so it names all that is in it.
        if asked.rule().always_ask {
            named.extend(self.categories(&Sink::Call(call).label()));
        }
        let made = self.made(call);
        self.course.made.push(Made {
            named: Some(named),
            ..made
        });
    }

    /// Notes a call that runs; its arguments.
    fn ran(&mut self, call: &Call) -> Arguments {
        let made = self.made(call);
        let arguments = made.arguments.clone();
        // The machine executes a call right after its question, before it decides on the next.
        let last = self.course.made.last_mut();
        let asked = last.filter(|last| {
            !last.ran
                && last.named.is_some()
                && last.tool == made.tool
                && last.arguments == arguments
        });
        match asked {
            Some(asked) => asked.ran = true,
            None => self.course.made.push(Made { ran: true, ..made }),
        }
        arguments
    }

    fn made(&self, call: &Call) -> Made {
        let arguments = serde_json::from_str(&call.arguments.to_json()).unwrap_or_default();
        let labels = call.arguments.iter().map(|(name, value)| {
            (
                name.to_owned(),
                self.categories(&value.label().join(&call.label)),
            )
        });
        let labels: BTreeMap<String, Categories> = labels.collect();
        Made {
            tool: call.tool.clone(),
            arguments,
            label: self.categories(&Sink::Call(call).label()),
            labels,
            named: None,
            ran: false,
        }
    }

    fn categories(&self, label: &Label) -> Categories {
        secret(&self.parts.scenario.domain.config, label)
    }
}
