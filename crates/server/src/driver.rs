//! The driver: brings the turn machine what it needs, for every front.
//!
//! A front brings its conversation, shows questions and text, and keeps the record ([`Front`]); it
//! decides nothing. Screening, completions, time-outs, interruptions and the order of "record, then
//! act" are the same for all of them, because they happen here.

use std::future::{Future, pending, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use async_trait::async_trait;
use hub::address::Inert;
use hub::isc::{Asks, ExchangeId};
use hub::trace::Event;
use hub::{
    Admits, Agent, AppTools, CallOutcome, CompletionRequest, HandOver, Misuse, Need, Opening,
    Outcome, Purpose, Serving, Stop,
};
use ifc::{Answer, Labeled, Permit};
use llm::{DeltaSink, ProviderError, RequestOptions};
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};

use crate::consult::{random, screen};
use crate::mediate::Mediation;
use crate::parts::Parts;
use crate::screenings::ClientId;
use crate::spoke::Spoke;
use crate::user::{FormAnswer, FormView, QuestionView};

/// Whoever holds a conversation, as the driver sees it.
#[async_trait]
pub(crate) trait Front: Send {
    /// Why a turn has no end at all.
    type Error: From<Misuse> + Send;

    /// Whether anybody wants to know of events.
    fn records(&self) -> bool {
        true
    }

    /// Writes an event down. `serving` names the conversation where it is one that serves an app's
    /// request.
    ///
    /// # Errors
    /// It cannot be recorded. The turn ends, because what cannot be recorded must not be done.
    fn record(&mut self, serving: Option<&str>, event: Event) -> Result<(), Self::Error>;

    /// Shows a question and brings the answer. Anything but a clear yes must be [`Answer::No`].
    async fn confirm(&mut self, view: QuestionView) -> Answer;

    /// Shows an app's question and brings the answer. Without anybody there the answer is no.
    async fn fill_in(&mut self, view: &FormView) -> FormAnswer {
        let _ = view;
        FormAnswer::Declined
    }

    /// The user's choice among several apps that serve a functionality; `None` is none of them.
    ///
    /// # Errors
    /// The choice cannot be recorded.
    async fn choose(&mut self, opening: &Opening) -> Result<Option<String>, Self::Error> {
        let _ = opening;
        Ok(None)
    }

    /// The spoke of an app that another one asks, started if it does not run; or why there is none.
    ///
    /// # Errors
    /// What happened cannot be recorded.
    async fn spoke(&mut self, app: &str) -> Result<Result<Arc<Spoke>, String>, Self::Error> {
        Ok(Err(format!("the app {app} does not run here")))
    }

    /// What the conversation of an app needs that is to answer a request; or why there is none.
    ///
    /// # Errors
    /// What happened cannot be recorded.
    async fn host(&mut self, app: &str) -> Result<Result<Host, String>, Self::Error> {
        Ok(Err(format!("the app {app} does not run here")))
    }

    /// What the screener's own request to a model carries beside its prompt.
    fn aside(&self) -> RequestOptions {
        RequestOptions::default()
    }

    /// A completion begins: what it carries beside its prompt. `shown` says whether its text goes
    /// to [`Front::delta`] while it is written.
    fn begin(&mut self, purpose: Purpose, shown: bool) -> RequestOptions {
        let _ = (purpose, shown);
        RequestOptions::default()
    }

    /// Takes a piece of text while the model writes it. It may be shown whatever becomes of its
    /// step, and may not become the step.
    fn delta(&mut self, piece: &str);

    /// What the model's server calls the completion's call at this position.
    fn call_id(&mut self, position: usize, id: &str) {
        let _ = (position, id);
    }

    /// Sees how the completion ended before the machine does.
    fn completed(&mut self, answer: &mut Result<llm::Answer, ProviderError>) {
        let _ = answer;
    }
}

/// An app whose conversation is to answer a request.
pub(crate) struct Host {
    /// Where its calls run.
    pub(crate) spoke: Arc<Spoke>,
    /// The tools that its model is told of.
    pub(crate) tools: AppTools,
    /// What it may ask of further apps.
    pub(crate) asks: Asks,
    /// The provider of its own model, if it has one.
    pub(crate) model: Option<String>,
}

/// One turn of one conversation. Dropped before its end, the turn counts as interrupted: the
/// machine is left between two turns, and the record says so.
pub(crate) struct Driver<'a, F: Front> {
    pub(crate) parts: &'a Parts,
    pub(crate) front: &'a mut F,
    pub(crate) agent: &'a mut Agent,
    /// Who gets turns of the screener.
    client: ClientId,
    /// Where calls run, unless they are handed over: the spokes of the conversation's apps.
    spokes: Vec<Arc<Spoke>>,
    /// The provider of the conversation's own model, if it has one.
    model: Option<String>,
    /// Interrupts the turn when it is notified.
    cancel: Option<&'a Notify>,
    deadline: Instant,
    /// How long the turn may take in all.
    allowed: Duration,
    /// The conversation's name in the record, where it serves an app's request.
    serving: Option<String>,
}

/// How a driven turn ended.
pub(crate) enum Ended {
    /// With an answer, or without one.
    Done(Outcome),
    /// With calls that whoever holds the conversation is to execute.
    HandedOver(HandOver),
}

impl<'a, F: Front> Driver<'a, F> {
    /// A driver of the turn that the machine is in. Its time begins now.
    pub(crate) fn new(
        parts: &'a Parts,
        client: ClientId,
        front: &'a mut F,
        agent: &'a mut Agent,
    ) -> Self {
        Self {
            parts,
            front,
            agent,
            client,
            spokes: Vec::new(),
            model: None,
            cancel: None,
            deadline: Instant::now() + parts.turn_timeout,
            allowed: parts.turn_timeout,
            serving: None,
        }
    }

    /// Calls run in these spokes, each in its app's, and the turn ends with any of them.
    pub(crate) fn over(mut self, spokes: Vec<Arc<Spoke>>) -> Self {
        self.spokes = spokes;
        self
    }

    /// Steps are taken by this provider's model, and by no other.
    pub(crate) fn by(mut self, model: Option<String>) -> Self {
        self.model = model;
        self
    }

    /// The turn ends when this is notified.
    pub(crate) fn until(mut self, cancel: &'a Notify) -> Self {
        self.cancel = Some(cancel);
        self
    }

    /// Polls the machine until the turn is over.
    ///
    /// # Errors
    /// An event could not be recorded, or driver and machine disagree.
    pub(crate) async fn turn(mut self) -> Result<Ended, F::Error> {
        loop {
            let need = self.agent.poll();
            // First the record of what was decided, then the act.
            self.flush()?;
            match need {
                Need::User(Some(outcome)) => return Ok(Ended::Done(outcome)),
                Need::User(None) => {
                    let brought = "a turn that nobody began";
                    return Err(Misuse { brought }.into());
                }
                Need::HandOver(over) => return Ok(Ended::HandedOver(over)),
                Need::Execute(permit) => self.execute(permit).await?,
                Need::Serve(serving) => self.serve(*serving).await?,
                need => self.unless_halted(need).await?,
            }
        }
    }

    /// Answers a need that can be left at any time.
    async fn unless_halted(&mut self, need: Need) -> Result<(), F::Error> {
        let (halted, gone) = (self.halted(), gone(self.spokes.clone()));
        let stop = tokio::select! {
            // A turn that was interrupted does nothing more, even if it could.
            biased;
            stop = halted => stop,
            // Its last words are the app's, and nobody has labelled them.
            reason = gone => Stop::Spoke(Labeled::unknown(reason)),
            answered = self.answer(need) => return answered,
        };
        self.agent.abort(stop);
        Ok(())
    }

    async fn answer(&mut self, need: Need) -> Result<(), F::Error> {
        match need {
            Need::Screen => {
                let options = self.front.aside();
                let (screened, cost) = screen(self.parts, self.client, &options, self.agent).await;
                if let Some(cost) = cost {
                    self.record(cost)?;
                }
                self.agent.handle_screened(screened)?;
            }
            Need::Complete(request) => self.complete(&request).await?,
            Need::Exchange(opening) => self.exchange(&opening).await?,
            Need::Confirm(question) => {
                let view = QuestionView::new(&question, &self.parts.lattice);
                let answer = match self.front.confirm(view).await {
                    answer if question.choices().contains(&answer) => answer,
                    // What was not offered is not an answer.
                    _ => Answer::No,
                };
                self.agent.handle_answer(question, answer)?;
            }
            // `turn` has taken these.
            Need::Execute(_)
            | Need::Serve(_)
            | Need::HandOver(_)
            | Need::Answer
            | Need::User(_) => {}
        }
        Ok(())
    }

    async fn complete(&mut self, request: &CompletionRequest) -> Result<(), F::Error> {
        let shown = self.agent.may_stream(request);
        let mut options = self.front.begin(request.purpose, shown);
        // Whoever was refused a call may say so in words; a step knows only of refusals below it.
        if self.agent.has_refused_below(request.prompt.label()) {
            options.tool_choice = None;
        }
        let front = &mut *self.front;
        let label = request.prompt.label();
        let inert = shown
            .then(|| self.agent.inert_while_written(label))
            .flatten();
        let mut pieces = Pieces {
            front,
            shown,
            inert,
        };
        let broker = &self.parts.broker;
        let own = self.model.as_slice();
        let mut answer = match request.purpose {
            Purpose::Step | Purpose::Summary if !own.is_empty() => {
                let asked = broker.complete_over(own, request, &options, &mut pieces);
                asked.await
            }
            _ => broker.complete_with(request, &options, &mut pieces).await,
        };
        pieces.end();
        self.front.completed(&mut answer);
        match answer {
            Ok(answer) => self
                .agent
                .handle_completion(&answer.provider, Ok(answer.completion))?,
            Err(error) => self.agent.handle_completion("", Err(error.to_string()))?,
        }
        Ok(())
    }

    /// Draws the id of an exchange. Without randomness, or without the user's choice, there is none.
    async fn exchange(&mut self, opening: &Opening) -> Result<(), F::Error> {
        let chosen = match opening.apps.as_slice() {
            [_] => None,
            _ => self.front.choose(opening).await?,
        };
        match random::<16>() {
            Ok(bytes) => {
                let id = ExchangeId::from_random(u128::from_ne_bytes(bytes));
                self.agent.handle_exchange(id, chosen.as_deref())?;
            }
            Err(reason) => self.agent.abort(Stop::Withheld(reason)),
        }
        Ok(())
    }

    /// Has the conversation of another app answer a request: a turn within this one, by the same
    /// driver, with less time.
    async fn serve(&mut self, serving: Serving) -> Result<(), F::Error> {
        let halted = self.halted();
        let host = tokio::select! {
            biased;
            stop = halted => {
                self.agent.abort(stop);
                return Ok(());
            }
            host = self.front.host(serving.app()) => host?,
        };
        let host = match host {
            Ok(host) => host,
            Err(reason) => {
                self.agent.handle_served(Err(reason))?;
                return Ok(());
            }
        };
        let name = format!("{} for {}", serving.app(), serving.requested().from);
        let mut agent = serving.begin(host.asks, host.tools);
        let within = self.parts.serving_timeout;
        let ended = Driver {
            parts: self.parts,
            front: &mut *self.front,
            agent: &mut agent,
            client: self.client,
            spokes: vec![host.spoke],
            model: host.model,
            cancel: self.cancel,
            deadline: self.deadline.min(Instant::now() + within),
            allowed: within.min(self.allowed),
            serving: Some(name),
        }
        .nested()
        .await?;
        let interrupted = match ended {
            Ended::Done(outcome) => outcome.result == Err(Stop::Interrupted),
            Ended::HandedOver(_) => false,
        };
        self.agent.handle_served(Ok(agent))?;
        // Whoever waits for it ends with it, unless only its own time is over.
        if interrupted {
            self.agent.abort(Stop::Interrupted);
        } else if Instant::now() >= self.deadline {
            self.agent.abort(Stop::Timeout(self.allowed.as_secs()));
        }
        Ok(())
    }

    /// [`Driver::turn`] within a turn. As deep as apps may wait for each other.
    fn nested(self) -> Pin<Box<dyn Future<Output = Result<Ended, F::Error>> + Send + 'a>> {
        Box::pin(self.turn())
    }

    /// The spoke ending is the outcome of the call here, and not what ends the turn.
    async fn execute(&mut self, permit: Permit) -> Result<(), F::Error> {
        let app = permit.call().app.clone();
        let own = self.spokes.iter().find(|spoke| spoke.app() == app);
        let found = match own.cloned() {
            Some(spoke) => Ok(spoke),
            None => {
                let halted = self.halted();
                tokio::select! {
                    biased;
                    stop = halted => {
                        // Dropped: the call was not sent.
                        drop(permit);
                        self.agent.abort(stop);
                        return Ok(());
                    }
                    found = self.front.spoke(&app) => found?,
                }
            }
        };
        let spoke = match found {
            Ok(spoke) => spoke,
            Err(reason) => {
                drop(permit);
                self.agent.handle_result(CallOutcome::Failed(reason))?;
                return Ok(());
            }
        };
        let mut stop = None;
        let halted = self.halted();
        let given_up = async { stop = Some(halted.await) };
        let mut mediation = Mediation::new(self, spoke.sampling().cloned());
        let outcome = spoke.execute(permit, &mut mediation, given_up).await;
        let mediated = mediation.finish();
        self.agent.handle_result(outcome)?;
        if let Some(stop) = stop {
            self.agent.abort(stop);
        }
        // First what became of the call: it has run, whatever could not be recorded in its course.
        mediated
    }

    /// Resolves when the user has enough, or the time is over.
    fn halted(&self) -> impl Future<Output = Stop> + Send + use<'a, F> {
        let (cancel, deadline) = (self.cancel, self.deadline);
        let seconds = self.allowed.as_secs();
        async move {
            tokio::select! {
                biased;
                () = notified(cancel) => Stop::Interrupted,
                () = sleep_until(deadline) => Stop::Timeout(seconds),
            }
        }
    }

    /// Writes down what the machine has decided.
    pub(crate) fn flush(&mut self) -> Result<(), F::Error> {
        let events = self.agent.take_events();
        if self.front.records() {
            for event in events {
                self.record(event)?;
            }
        }
        Ok(())
    }

    /// Writes down what happened in this conversation.
    pub(crate) fn record(&mut self, event: Event) -> Result<(), F::Error> {
        self.front.record(self.serving.as_deref(), event)
    }
}

impl<F: Front> Drop for Driver<'_, F> {
    fn drop(&mut self) {
        // Nothing happens here to a turn that is over.
        self.agent.abort(Stop::Interrupted);
        // A record that fails has said so to its front, and nothing follows that it could stop.
        let _ = self.flush();
    }
}

/// Hands text on to the front, where it may be shown.
struct Pieces<'a, F> {
    front: &'a mut F,
    shown: bool,
    /// What becomes of addresses in it, where not all may be active.
    inert: Option<Inert<Admits>>,
}

impl<F: Front> Pieces<'_, F> {
    /// The text is over: its last word is known.
    fn end(&mut self) {
        let rest = self.inert.as_mut().map(Inert::finish);
        if let Some(rest) = rest.filter(|rest| !rest.is_empty()) {
            self.front.delta(&rest);
        }
    }
}

impl<F: Front> DeltaSink for Pieces<'_, F> {
    fn text(&mut self, piece: &str) {
        if !self.shown {
            return;
        }
        match &mut self.inert {
            Some(inert) => {
                let shown = inert.push(piece);
                if !shown.is_empty() {
                    self.front.delta(&shown);
                }
            }
            None => self.front.delta(piece),
        }
    }

    fn call_id(&mut self, position: usize, id: &str) {
        self.front.call_id(position, id);
    }
}

async fn notified(cancel: Option<&Notify>) {
    match cancel {
        Some(cancel) => cancel.notified().await,
        None => pending().await,
    }
}

/// Resolves when one of the spokes is gone; never where there is none.
async fn gone(spokes: Vec<Arc<Spoke>>) -> String {
    let mut ends: Vec<_> = spokes.iter().map(|spoke| Box::pin(spoke.ended())).collect();
    poll_fn(|context| {
        let mut ends = ends.iter_mut();
        let ended = ends.find_map(|end| match end.as_mut().poll(context) {
            Poll::Ready(reason) => Some(reason),
            Poll::Pending => None,
        });
        ended.map_or(Poll::Pending, Poll::Ready)
    })
    .await
}
