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

use hub::address::{Inert, Message};
use hub::isc::ExchangeId;
use hub::{
    Admits, CallOutcome, CompletionRequest, HandOver, Misuse, Need, Opening, Outcome, Purpose,
    Serving, Stop, TurnMachine,
};
use ifc::{Label, Labeled, Permit};
use llm::DeltaSink;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};

use crate::consult::{random, screen};
use crate::front::{Driven, Front};
use crate::mediate::Mediation;
use crate::parts::Parts;
use crate::sink::Work;
use crate::spoke::Spoke;
use hub::question::QuestionView;

/// One turn of one conversation. Dropped before its end, the turn counts as interrupted: the
/// machine is left between two turns, and the record says so.
pub(crate) struct Driver<'a, F: Front> {
    driven: Driven<'a, F>,
    /// Where calls run, unless they are handed over: the spokes of the conversation's apps.
    spokes: Vec<Arc<Spoke>>,
    /// The provider of the conversation's own model, if it has one.
    model: Option<String>,
    cancel: Option<&'a Notify>,
    deadline: Instant,
    /// How long the turn may take in all.
    allowed: Duration,
}

pub(crate) enum Ended {
    Done(Outcome),
    /// With calls that the holder of the conversation executes.
    HandedOver(HandOver),
}

impl<'a, F: Front> Driver<'a, F> {
    /// A driver of the turn that the machine is in. Its time begins now.
    pub(crate) fn new(parts: &'a Parts, front: &'a mut F, agent: &'a mut TurnMachine) -> Self {
        Self {
            driven: Driven {
                parts,
                front,
                agent,
                serving: None,
            },
            spokes: Vec::new(),
            model: None,
            cancel: None,
            deadline: Instant::now() + parts.turn_timeout,
            allowed: parts.turn_timeout,
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
            let begun = std::time::Instant::now();
            let need = self.driven.agent.poll();
            self.driven.parts.sinks.took(Work::Check, begun);
            // First the record of what was decided, then the act.
            self.driven.flush().await?;
            match need {
                Need::User(Some(outcome)) => return Ok(Ended::Done(outcome)),
                Need::User(None) => {
                    let brought = "a turn that nobody began";
                    return Err(Misuse { brought }.into());
                }
                Need::HandOver(over) => return Ok(Ended::HandedOver(over)),
                // These two watch for an interruption themselves: what was sent has an outcome, even where nobody waits
                // for it any more.
                Need::Execute(permit) => self.execute(permit).await?,
                Need::Serve(serving) => self.serve(*serving).await?,
                need => self.unless_halted(need).await?,
            }
        }
    }

    /// Answers a need that can be left at any time.
    async fn unless_halted(&mut self, need: Need) -> Result<(), F::Error> {
        // Both own what they watch, since `answer` borrows all of `self`.
        let (halted, gone) = (self.halted(), gone(self.spokes.clone()));
        let stop = tokio::select! {
            // A turn that was interrupted does nothing more, even if it could.
            biased;
            stop = halted => stop,
            // Its last words are the app's and have no label.
            reason = gone => Stop::Spoke(Labeled::unknown(reason)),
            answered = self.answer(need) => return answered,
        };
        self.driven.agent.abort(stop);
        Ok(())
    }

    async fn answer(&mut self, need: Need) -> Result<(), F::Error> {
        match need {
            Need::Screen => {
                let options = self.driven.front.aside();
                let begun = std::time::Instant::now();
                let (screened, cost) = screen(self.driven.parts, &options, self.driven.agent).await;
                self.driven.parts.sinks.took(Work::Screening, begun);
                // A model was asked: that is on record before anything is made of what it said.
                if let Some(cost) = cost {
                    self.driven.record(cost).await?;
                }
                self.driven.agent.handle_screened(screened)?;
            }
            Need::Complete(request) => self.complete(&request).await?,
            Need::Exchange(opening) => self.exchange(&opening).await?,
            Need::Clear(above) => {
                let parts = self.driven.parts;
                let provider = parts.broker.open_provider(self.model.as_ref());
                let mut allowed = false;
                if let Some(provider) = provider {
                    let above = &parts.lattice.describe(&above);
                    allowed = self.driven.front.clear(provider, above).await;
                }
                if let Some(provider) = provider.filter(|_| allowed) {
                    parts.broker.grant(provider, &above);
                }
                self.driven.agent.handle_clearance(allowed)?;
            }
            Need::Confirm(question) => {
                let causes = self.driven.agent.causes(&question);
                let view = QuestionView::new(&question, causes, &self.driven.parts.lattice);
                let answered = self.driven.front.confirm(view).await;
                let has_approvers = question.rule().approvers.is_some();
                let answered = answered.counted(&question.choices(), has_approvers);
                self.driven.record(answered.event()).await?;
                self.driven.agent.handle_answer(question, answered.answer)?;
            }
            // A need was polled again before it was answered. Polled on, the machine would say the same for ever.
            Need::Answer => {
                let brought = "another poll before an answer";
                return Err(Misuse { brought }.into());
            }
            // `turn` has taken these.
            Need::Execute(_) | Need::Serve(_) | Need::HandOver(_) | Need::User(_) => {}
        }
        Ok(())
    }

    async fn complete(&mut self, request: &CompletionRequest) -> Result<(), F::Error> {
        let shown = self.driven.agent.may_stream(request);
        let mut options = self.driven.front.begin(request.purpose, shown);
        // A front that wants no stream gets the text with the outcome, where its addresses are looked at anyway.
        let shown = shown && options.stream != Some(false);
        // A model that was refused a call may say so in words; a step knows only of refusals below it.
        if self.driven.agent.has_refused_below(request.prompt.label()) {
            options.tool_choice = None;
        }
        let front = &mut *self.driven.front;
        let label = request.prompt.label();
        let mut pieces = match shown {
            true => Pieces::shown(front, self.driven.agent, label),
            false => Pieces { front, text: None },
        };
        let broker = &self.driven.parts.broker;
        let own = self.model.as_slice();
        let mut answer = match request.purpose {
            // An app's own model has no substitute: the default route would show another provider what was meant for
            // this one. Judges and planner keep their routes.
            Purpose::Step | Purpose::Summary if !own.is_empty() => {
                let asked = broker.complete_over(own, request, &options, &mut pieces);
                asked.await
            }
            _ => broker.complete_with(request, &options, &mut pieces).await,
        };
        pieces.end();
        self.driven.front.completed(&mut answer);
        match answer {
            Ok(answer) => self
                .driven
                .agent
                .handle_completion(&answer.provider, Ok(answer.completion))?,
            Err(error) => self
                .driven
                .agent
                .handle_completion("", Err(error.to_string()))?,
        }
        Ok(())
    }

    /// Draws the id of an exchange. Without randomness, or without the user's choice, there is none.
    async fn exchange(&mut self, opening: &Opening) -> Result<(), F::Error> {
        let chosen = match opening.apps.as_slice() {
            [_] => None,
            _ => self.driven.front.choose(opening).await?,
        };
        match random::<16>() {
            Ok(bytes) => {
                let id = ExchangeId::from_random(u128::from_ne_bytes(bytes));
                self.driven.agent.handle_exchange(id, chosen.as_deref())?;
            }
            Err(reason) => self.driven.agent.abort(Stop::Withheld(reason)),
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
                self.driven.agent.abort(stop);
                return Ok(());
            }
            host = self.driven.front.host(serving.app()) => host?,
        };
        let host = match host {
            Ok(host) => host,
            Err(reason) => {
                self.driven.agent.handle_served(Err(reason))?;
                return Ok(());
            }
        };
        // For the record alone: who asks is whose conversation it is, and nothing that a request says.
        let name = format!("{} for {}", serving.app(), serving.requested().from);
        let clearances = self.driven.parts.broker.clearances(host.model.as_ref());
        let mut agent = serving.begin(host.asks, host.tools, clearances);
        let within = self.driven.parts.serving_timeout;
        let ended = Driver {
            driven: Driven {
                parts: self.driven.parts,
                front: &mut *self.driven.front,
                agent: &mut agent,
                serving: Some(name),
            },
            spokes: vec![host.spoke],
            model: host.model,
            cancel: self.cancel,
            // The waiting conversation has no more time than was left.
            deadline: self.deadline.min(Instant::now() + within),
            allowed: within.min(self.allowed),
        }
        .nested()
        .await?;
        let interrupted = match ended {
            Ended::Done(outcome) => outcome.result == Err(Stop::Interrupted),
            Ended::HandedOver(_) => false,
        };
        self.driven.agent.handle_served(Ok(agent))?;
        // The waiting conversation ends with it, unless only the time of the serving one is over.
        if interrupted {
            self.driven.agent.abort(Stop::Interrupted);
        } else if Instant::now() >= self.deadline {
            self.driven
                .agent
                .abort(Stop::Timeout(self.allowed.as_secs()));
        }
        Ok(())
    }

    /// [`Driver::turn`] within a turn. As deep as apps may wait for each other.
    fn nested(self) -> Pin<Box<dyn Future<Output = Result<Ended, F::Error>> + Send + 'a>> {
        // An `async fn` that awaits itself has a future of no known size, unless it is boxed.
        Box::pin(self.turn())
    }

    /// The spoke ending is the outcome of the call here, and not what ends the turn.
    async fn execute(&mut self, permit: Permit) -> Result<(), F::Error> {
        let app = permit.call().app.clone();
        // A call that serves another app's request runs in that app's spoke, which is none of this conversation's.
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
                        self.driven.agent.abort(stop);
                        return Ok(());
                    }
                    found = self.driven.front.spoke(&app) => found?,
                }
            }
        };
        let spoke = match found {
            Ok(spoke) => spoke,
            Err(reason) => {
                drop(permit);
                self.driven
                    .agent
                    .handle_result(CallOutcome::Failed(reason))?;
                return Ok(());
            }
        };
        let mut stop = None;
        let halted = self.halted();
        // The spoke is told to stop, and says what became of the call: one whose frame was sent is answered or unknown,
        // and never undone by dropping it here.
        let given_up = async { stop = Some(halted.await) };
        let mut mediation = Mediation::new(&mut self.driven);
        let executed = spoke.execute(permit, &mut mediation, given_up).await;
        let mediated = mediation.finish();
        self.driven.agent.handle_result(executed.outcome)?;
        if let Some(stop) = stop {
            self.driven.agent.abort(stop);
        }
        // First the outcome of the call: it has run, even if something could not be recorded meanwhile.
        mediated
    }

    /// Resolves when the user has enough, or the time is over.
    fn halted(&self) -> impl Future<Output = Stop> + Send + use<'a, F> {
        let (cancel, deadline) = (self.cancel, self.deadline);
        let seconds = self.allowed.as_secs();
        async move {
            tokio::select! {
                biased;
                // `biased`: where both are true, it was the user who ended the turn.
                () = notified(cancel) => Stop::Interrupted,
                () = sleep_until(deadline) => Stop::Timeout(seconds),
            }
        }
    }
}

impl<F: Front> Drop for Driver<'_, F> {
    fn drop(&mut self) {
        // Nothing happens here to a turn that is over.
        self.driven.agent.abort(Stop::Interrupted);
        // A record that fails has said so to its front, and nothing follows that it could stop.
        let _ = self.driven.record_events();
    }
}

/// Hands text on to the front, where it may be shown.
struct Pieces<'a, F> {
    front: &'a mut F,
    text: Option<Shown<'a>>,
}

/// A text that is shown before it is whole, so its addresses are made inert piece by piece.
struct Shown<'a> {
    /// As the next text of the message.
    inert: Inert<Admits<'a>>,
    /// As a text by itself, which the machine makes of it, where that may be another.
    alone: Option<Inert<Admits<'a>>>,
    /// What that has given.
    said: String,
    /// Whether the reader has got an earlier text, and nothing of this one.
    separate: bool,
}

impl<'a, F: Front> Pieces<'a, F> {
    fn shown(front: &'a mut F, agent: &'a TurnMachine, label: &Label) -> Self {
        let message = front.message();
        let follows = message.has_begun();
        let alone = || Message::default().begin(agent.admits_below(label));
        let text = Shown {
            inert: message.begin(agent.admits_below(label)),
            alone: follows.then(alone),
            said: String::new(),
            separate: follows,
        };
        let text = Some(text);
        Self { front, text }
    }

    fn end(self) {
        let Some(mut text) = self.text else { return };
        let rest = text.inert.finish();
        text.show(self.front, &rest);
        let alone = text.alone.as_mut().map(Inert::finish);
        text.said.push_str(alone.as_ref().unwrap_or(&rest));
        self.front.message().end(text.inert);
        self.front.streamed(text.said);
    }
}

impl Shown<'_> {
    fn show(&mut self, front: &mut impl Front, piece: &str) {
        if piece.is_empty() {
            return;
        }
        if std::mem::take(&mut self.separate) {
            front.separate();
        }
        front.delta(piece);
    }
}

impl<F: Front> DeltaSink for Pieces<'_, F> {
    fn text(&mut self, piece: &str) {
        let Some(text) = &mut self.text else { return };
        let shown = text.inert.push(piece);
        text.show(self.front, &shown);
        let alone = text.alone.as_mut().map(|alone| alone.push(piece));
        text.said.push_str(alone.as_ref().unwrap_or(&shown));
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
    // `select!` has a fixed number of branches, and a turn as many spokes as apps.
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

#[cfg(test)]
mod tests {
    use hub::isc::Asks;
    use hub::trace::Event;
    use hub::{Apps, Setup, TurnMachine};
    use ifc::{Call, History, Lattice, Monitor, Policy, PolicyError, Rule, Sink};
    use llm::{Broker, Scripted, text_answer};

    use super::*;
    use crate::desk::Answered;

    struct NoRules;

    impl Policy for NoRules {
        fn rule(&self, _: &Sink<'_>) -> Result<Rule, PolicyError> {
            Err(PolicyError("none".to_owned()))
        }

        fn label_result(&self, _: &Call, result: String, _: bool) -> Labeled {
            Labeled::unknown(result)
        }
    }

    struct Silent(Message);

    #[async_trait::async_trait]
    impl Front for Silent {
        type Error = Misuse;

        fn record(&mut self, _: Option<&str>, _: Event) -> Result<(), Misuse> {
            Ok(())
        }

        async fn confirm(&mut self, _: QuestionView) -> Answered {
            Answered::NOT
        }

        fn delta(&mut self, _: &str) {}

        fn message(&mut self) -> &mut Message {
            &mut self.0
        }
    }

    #[tokio::test]
    async fn a_need_that_was_not_answered_is_a_misuse() {
        let (policy, lattice) = (Arc::new(NoRules), Arc::new(Lattice::four_point()));
        let model = Scripted::new("model", |_| text_answer("hello"));
        let broker = Arc::new(Broker::new(Arc::new(model), Label::top()));
        let screener = Arc::new(screen::NaiveTainting);
        let parts = Parts::new(broker, policy.clone(), lattice.clone(), screener);
        let setup = Setup {
            apps: Apps::None,
            asks: Asks::default(),
            policy,
            lattice,
            monitor: Monitor::new(),
            settings: parts.settings,
            clearances: parts.broker.clearances(None),
        };
        let mut history = History::default();
        history.push_user(Labeled::trusted_tcb("hello"));
        let mut machine = TurnMachine::resume(setup, history);
        assert!(matches!(machine.poll(), Need::Complete(_)));
        let mut front = Silent(Message::default());
        let driver = Driver::new(&parts, &mut front, &mut machine);
        assert!(driver.turn().await.is_err());
    }
}
