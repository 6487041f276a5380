//! Drives the turn machine: brings each need its answer.

use std::sync::Arc;
use std::time::Duration;

use hub::trace::{Event, from_agent};
use hub::{Agent, Need, Outcome, Stop};
use ifc::{Answer, Lattice, Question, Screener};
use llm::{Broker, DeltaSink, NoDeltas, RequestOptions};
use tokio::sync::{Notify, mpsc};
use tokio::time::{Instant, sleep_until};

use crate::consult::screen;
use crate::session::SessionError;
use crate::spoke::Spoke;
use crate::trace_file::{TraceError, TraceFile};
use crate::user::{QuestionView, User};

/// What one turn is driven with.
pub(crate) struct Drive<'a> {
    pub(crate) broker: &'a Broker,
    pub(crate) screener: &'a Arc<dyn Screener>,
    pub(crate) lattice: &'a Lattice,
    pub(crate) spoke: Option<&'a Spoke>,
    pub(crate) trace: &'a mut TraceFile,
    pub(crate) outside: &'a mut mpsc::Receiver<Event>,
    pub(crate) user: &'a mut dyn User,
    pub(crate) cancel: &'a Notify,
    /// How long the turn may take; a question that nobody answers counts as well.
    pub(crate) timeout: Duration,
}

/// What a need was answered with, or why the turn cannot go on.
enum Step {
    Done,
    Stop(Stop),
}

impl Drive<'_> {
    /// Polls the machine until the turn is over. Whatever happens, the machine is left between
    /// turns and every event is in the trace.
    pub(crate) async fn turn(mut self, agent: &mut Agent) -> Result<Outcome, SessionError> {
        let deadline = Instant::now() + self.timeout;
        loop {
            let need = agent.poll();
            if let Err(error) = self.flush(agent) {
                // What cannot be recorded must not be done.
                agent.abort(Stop::Interrupted);
                return Err(error.into());
            }
            if let Need::User(outcome) = need {
                let none = hub::Misuse {
                    brought: "a turn that nobody began",
                };
                return outcome.ok_or(none.into());
            }
            let (spoke, cancel, timeout) = (self.spoke, self.cancel, self.timeout);
            let step = tokio::select! {
                biased;
                () = cancel.notified() => Ok(Step::Stop(Stop::Interrupted)),
                reason = gone(spoke), if !matches!(need, Need::Execute(_)) => {
                    Ok(Step::Stop(Stop::Spoke(reason)))
                }
                () = sleep_until(deadline) => Ok(Step::Stop(Stop::Timeout(timeout.as_secs()))),
                step = self.answer(agent, need) => step,
            };
            match step {
                Ok(Step::Done) => {}
                Ok(Step::Stop(stop)) => agent.abort(stop),
                Err(error) => {
                    agent.abort(Stop::Interrupted);
                    self.flush(agent)?;
                    return Err(error);
                }
            }
        }
    }

    async fn answer(&mut self, agent: &mut Agent, need: Need) -> Result<Step, SessionError> {
        match need {
            Need::Screen => {
                let options = RequestOptions::default();
                let (screened, cost) = screen(self.broker, self.screener, &options, agent).await;
                if let Some(cost) = cost {
                    self.record(cost)?;
                }
                agent.handle_screened(screened)?;
            }
            Need::Complete(request) => {
                let mut live = Deltas(self.user);
                let deltas: &mut dyn DeltaSink = match agent.may_stream(&request) {
                    true => &mut live,
                    false => &mut NoDeltas,
                };
                match self.broker.complete(&request, deltas).await {
                    Ok(answer) => {
                        agent.handle_completion(&answer.provider, Ok(answer.completion))?
                    }
                    Err(error) => agent.handle_completion("", Err(error.to_string()))?,
                }
            }
            Need::Confirm(question) => {
                let answer = self.confirm(&question).await;
                agent.handle_answer(question, answer)?;
            }
            Need::Execute(permit) => {
                let Some(spoke) = self.spoke else {
                    return Ok(Step::Stop(Stop::Spoke(
                        "a vanilla spoke has no tools".to_owned(),
                    )));
                };
                let outcome = spoke.execute(permit).await;
                agent.handle_result(outcome)?;
            }
            // Calls run here, see the settings; whoever said otherwise gets nothing executed.
            Need::HandOver(_) => {
                let reason = "calls were handed over to nobody".to_owned();
                return Ok(Step::Stop(Stop::Withheld(reason)));
            }
            Need::Answer | Need::User(_) => {}
        }
        Ok(Step::Done)
    }

    async fn confirm(&mut self, question: &Question) -> Answer {
        self.user
            .confirm(&QuestionView::new(question, self.lattice))
            .await
    }

    fn flush(&mut self, agent: &mut Agent) -> Result<(), TraceError> {
        while let Ok(event) = self.outside.try_recv() {
            self.record(event)?;
        }
        for event in agent.take_events() {
            self.record(from_agent(self.lattice, event))?;
        }
        Ok(())
    }

    fn record(&mut self, event: Event) -> Result<(), TraceError> {
        let record = self.trace.append(event)?;
        self.user.observe(&record);
        Ok(())
    }
}

/// Shows the user what the model writes.
struct Deltas<'a>(&'a mut dyn User);

impl DeltaSink for Deltas<'_> {
    fn text(&mut self, piece: &str) {
        self.0.delta(piece);
    }
}

/// Resolves when the spoke is gone; never for a vanilla spoke.
async fn gone(spoke: Option<&Spoke>) -> String {
    match spoke {
        Some(spoke) => spoke.ended().await,
        None => std::future::pending().await,
    }
}
