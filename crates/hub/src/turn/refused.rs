//! A no masks its cause.
//!
//! Whoever says no to a call because of what it depends on has mostly seen a hijacked step, and wants the rest
//! of the task done. So the taints that stood in the way of a refused call are *withheld* for the rest of the turn:
//! each step is taken without the texts that have them, and what such a step calls is decided on as ever. The label of
//! that prompt is chosen by the no, which is one more choice of a label.
//!
//! It makes no difference who says no: at a terminal, by an approval, or since nobody is there. Less is shown, and
//! what is done with less is decided by the same limits. Where the policy denies, nobody has said anything about the
//! cause, and of another call the user may still be asked. A no to a call that exceeds no limit (a rule that always asks,
//! a payment that was made before) has no such cause, and withholds nothing; neither does one to a request to another app or to
//! an answer, which have their own ways to go on.
//!
//! What the step only carries is lost without these texts, and so is an answer about them. So where it comes out
//! without calls, or leaves arguments open, it is taken from everything as well: data arguments of the same control part
//! are filled from there, an answer may say what it may always say, and calls run that no limit stands in the way of, or
//! that pass a check. What still depends on the withheld taints beyond its limit is turned down without a question.
//!
//! Only where screening is lazy. Eagerly each step has the label that its screener chose, whatever was refused.

use ifc::{Call, CallId, Label, Question, REDACTED, Sink};

use super::machine::TurnMachine;
use super::state::{
    Calls, Kept, Phase, State, Tried, Withheld, Without, filled_calls, same_control, step_calls,
};
use crate::trace::{Event, Flow};
use crate::{Completion, ProposedCall};

/// Why a call is turned down that would ask the same thing again.
const SAME_CAUSE: &str =
    "a call was refused before in this turn because of what this one depends on";

impl TurnMachine {
    /// What is withheld from the step that begins.
    pub(super) fn withhold_causes(&mut self) {
        let refusals = match self.is_lazy() {
            true => self.monitor.refusals(),
            false => Vec::new(),
        };
        // What was refused to others is for them to go on without.
        let apps = self.apps.names();
        let own = refusals.iter().filter(|call| apps.contains(&call.app));
        let withheld = own.filter_map(|call| {
            let sink = Sink::Call(call);
            // By the rule as it is now: what the user has vouched for since is no cause any more.
            let excess = self.rule(&sink).ok()?.excess(&sink);
            let taints = excess.plain().clone();
            let known = sink.label();
            (!taints.is_bottom()).then_some(Withheld { known, taints })
        });
        self.turn.withheld = withheld.collect();
        self.turn.is_whole = false;
    }

    /// The label that a step is drafted under: of everything that is not withheld, unless it lacked something there.
    pub(super) fn coarse(&self) -> Label {
        if self.turn.is_whole {
            return self.shown_at_most();
        }
        let withheld = self.turn.withheld.iter();
        let withheld = withheld.fold(Label::bottom(), |all, one| all.join(&one.taints));
        if withheld.is_bottom() {
            return self.shown_at_most();
        }
        let names = self.history.tools().iter().map(|tool| &tool.label);
        let shown = names.chain(self.history.regions().map(|region| region.label));
        // What the user has vouched for is shown.
        let shown = shown.filter(|own| own.plain().meet(&withheld).is_bottom());
        let shown = shown.filter(|own| own.flows_to(&self.turn.clearance));
        self.above_request(shown.collect())
    }

    /// What came of this very prompt before, in the newest check or the step before: it would come again.
    pub(super) fn tried(&self, label: &Label) -> Option<Completion> {
        let Tried { prompt, completion } = self.turn.tried.as_ref()?;
        let same = || {
            let now = self.prompt(label);
            (now.messages(), now.tools()) == (prompt.messages(), prompt.tools())
        };
        let completion = completion.as_ref().filter(|_| prompt.label() == label);
        completion.filter(|_| same()).cloned()
    }

    /// What has come of the newest prompt of a step that was taken with less.
    pub(super) fn has_come(&mut self, completion: &Completion) {
        if let Some(tried) = &mut self.turn.tried {
            tried.completion = Some(completion.clone());
        }
    }

    /// The step as it was taken without what is withheld. It is the step, unless it lacks something.
    pub(super) fn taken_without(&mut self, step: Completion, label: Label) {
        let is_open = |call: &ProposedCall| call.arguments.contains(REDACTED);
        // Without a call it would be the answer, about something that it was not shown.
        let lacks = step.calls.is_empty() || step.calls.iter().any(is_open);
        if lacks || self.makes_again(&step) || self.repeats(&step, &label) {
            let whole = self.shown_at_most();
            self.state = State::AskWhole(Without { step, label, whole });
            return;
        }
        self.trace_without(&label, true);
        match label.is_bottom() {
            true => self.take(step, label),
            false => self.drafted(step, label),
        }
    }

    /// Whether a step makes a call that was made in this turn before, or refused, whatever the step may see of it:
    /// nothing is written twice, what is withheld is not read again, and a no holds.
    fn makes_again(&self, step: &Completion) -> bool {
        step.calls.iter().any(|call| !self.made(call).is_empty())
    }

    /// The same step, taken from everything.
    pub(super) fn taken_whole(&mut self, without: Without, completion: Completion) {
        let Without { step, label, whole } = without;
        // The control part was made without what is withheld, so the no has had its effect; only what it carries is
        // from there.
        if let Some(kept) = self.filled(&step, &label, &completion, &whole) {
            self.trace_without(&label, true);
            let text = self.said(step.text, step.stop, &label);
            let calls = filled_calls(&step.calls, &completion.calls, &kept);
            return self.make(text, calls, &label);
        }
        self.trace_without(&label, false);
        self.turn.is_whole = true;
        match completion.calls.is_empty() && self.violates(&completion, &whole) {
            // An answer from everything may not be shown.
            true => self.state = State::AskCompletion(Phase::Words, label),
            false => self.drafted(completion, whole),
        }
    }

    /// What the step from everything carries in the data arguments that the one without left open, if their
    /// control parts are the same, and may be made under `label`.
    fn filled(
        &self,
        step: &Completion,
        label: &Label,
        completion: &Completion,
        whole: &Label,
    ) -> Option<Vec<Kept>> {
        let kept = self.way(completion, whole)?.kept;
        let calls = step_calls(&completion.calls, &kept);
        let is_same = !calls.is_empty() && same_control(&step.calls, &completion.calls, &kept);
        // The data may be what makes it a call that was made before.
        let is_same = is_same && !self.makes_again(completion);
        (is_same && self.may_take(&calls, label)).then_some(kept)
    }

    /// Whether a call would ask the user again about what a no has withheld, as far as it may know of the no.
    pub(super) fn is_withheld(&self, question: &Question<Call>) -> bool {
        let label = Sink::Call(question.call()).label();
        let excess = question.excess();
        let mut known = self.turn.withheld.iter();
        known.any(|one| one.known.flows_to(&label) && !excess.meet(&one.taints).is_bottom())
    }

    /// Turns a call down without a question. That counts: the user has not seen it.
    pub(super) fn turn_down(&mut self, mut calls: Calls, id: CallId, flow: Flow) {
        self.trace_denial(flow, SAME_CAUSE);
        match calls.exchange.take() {
            Some(exchange) => self.refuse_exchange(calls, id, exchange, SAME_CAUSE),
            None => self.refuse(calls, id, SAME_CAUSE),
        }
    }

    fn trace_without(&mut self, label: &Label, taken: bool) {
        self.events.push(Event::Withheld {
            step: self.turn.step,
            label: self.names(label),
            taken,
        });
    }
}
