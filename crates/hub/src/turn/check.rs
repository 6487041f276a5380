//! The check before a question ([`Screening::CHECKED`]): can the step do without what stands in
//! its way?
//!
//! A screener that errs would have the user asked about flows that are none. The agent's own model
//! knows better: whatever it also does without a text does not depend on that text.

use ifc::{Label, Message, PastCall, Prompt, Sink};

use super::machine::TurnMachine;
use super::state::{
    Check, Kept, Phase, StepCall, Tried, filled_calls, same_calls, same_control, step_calls,
};
use crate::trace::Event;
use crate::{
    AnswerShape, Completion, CompletionRequest, Filling, ProposedCall, Purpose, Screening,
};

/// What a model is told that takes a step once more, below a part of what it has read: the last message
/// of its prompt, where an app has tools with data arguments.
pub const CHECK_NOTE: &str = "(The runtime, not the user, says this: some of what you have read is hidden from \
this step and stands as [redacted]. Take the step that you would take with it. Where an argument would \
only carry hidden text, write \"[redacted]\" as its value and leave no argument out; the runtime puts the \
text in. Where anything else of the step would depend on hidden text, say so instead.)";

impl TurnMachine {
    /// What may be seen when a draft's step is taken once more, if calls are checked and would all be
    /// allowed then. The draft, if not.
    ///
    /// The step is taken under the limits of the control parts. A data argument whose limit admits all
    /// that the draft was made from is kept: it needs no second making. One with a lower limit is made
    /// anew, under that limit as well.
    pub(super) fn check(&self, draft: Completion) -> Result<Check, Completion> {
        if self.settings.screening != Screening::CHECKED || draft.calls.is_empty() {
            return Err(draft);
        }
        match self.checkable(&draft) {
            Some((label, kept)) => Ok(Check { draft, label, kept }),
            None => Err(draft),
        }
    }

    fn checkable(&self, draft: &Completion) -> Option<(Label, Vec<Kept>)> {
        let coarse = self.coarse();
        let Way { limit, tools, kept } = self.way(draft, &coarse)?;
        let label = self.history.label_below(&limit.meet(&coarse));
        let label = self.above_request(label);
        // A tool whose name is above its own limit cannot be called below that.
        let knows = |tool: &String| self.history.tool_at(&label, tool).is_some();
        let calls = step_calls(&draft.calls, &kept);
        let is_checkable = tools.iter().all(knows) && self.may_take(&calls, &label);
        is_checkable.then_some((label, kept))
    }

    /// Whether no label stands in the way of any of these calls, in a step under `label`.
    pub(super) fn may_take(&self, calls: &[StepCall], label: &Label) -> bool {
        let may_take = |call: &StepCall| match self.read_step(call, label) {
            Ok(made) => self.monitor.is_refused(&made) || self.may_make(&call.proposed, &made),
            Err(_) => true,
        };
        calls.iter().all(may_take)
    }

    /// What the calls of a draft under `coarse` would have to stay below; `None` where a conversation decides
    /// on one.
    pub(super) fn way(&self, draft: &Completion, coarse: &Label) -> Option<Way> {
        let mut limit = Label::top();
        let mut tools = Vec::new();
        let mut kept = Vec::new();
        for proposed in &draft.calls {
            let Ok(call) = self.read(proposed, coarse) else {
                // What is no call is decided by nobody.
                kept.push(Kept::default());
                continue;
            };
            if self.is_conversed(proposed) {
                return None;
            }
            // A request is made whole: its arguments are a message.
            let is_request = self.asks.named(&proposed.tool).is_some();
            let sink = Sink::Call(&call);
            let rule = self.rule(&sink).ok()?;
            let mut of_call = Kept::default();
            for part in rule.parts(&sink) {
                match part.argument {
                    Some(path) if !is_request && !part.exceeds() => {
                        of_call.add(path, coarse);
                    }
                    // To be made below all limits at once: a step has one prompt.
                    _ => limit = limit.meet(part.limit),
                }
            }
            kept.push(of_call);
            tools.push(match is_request {
                true => proposed.tool.clone(),
                false => self.apps.shown(&call.app, &call.tool),
            });
        }
        Some(Way { limit, tools, kept })
    }

    /// The prompt of the step that is taken once more. Where data may be hidden, the model is told so: it
    /// is to make the call all the same. The words depend on the tools alone, not on the draft.
    pub(super) fn check_request(&mut self, label: &Label) -> CompletionRequest {
        let prompt = self.prompt(label);
        self.turn.tried = Some(Tried::new(prompt.clone()));
        self.second_request(prompt)
    }

    /// The request for a step that is taken once more.
    pub(super) fn second_request(&mut self, prompt: Prompt) -> CompletionRequest {
        let request = self.request_with(prompt, Purpose::Step, AnswerShape::TextOrCalls);
        let mut tools = request.prompt.tools().iter();
        let has_data = tools.any(|tool| {
            let known = self.apps.resolve(&tool.name);
            known.is_some_and(|(app, tool)| !self.policy.data_arguments(&app, &tool).is_empty())
        });
        // In parts, any argument may be left open.
        match has_data || self.settings.arguments != Filling::Lazy {
            true => CompletionRequest {
                prompt: request.prompt.with_note(CHECK_NOTE),
                ..request
            },
            false => request,
        }
    }

    /// Compares a draft with the step that was taken without what stands in the draft's way. What
    /// was made from less is safe under its own label in any case. But it must be the very same
    /// calls, because a model that lacks what it needs makes something up; or what the model knows
    /// only from a step above this label, read anew.
    ///
    /// If the same control parts come out, these are what the step is, with the draft's data arguments
    /// under the draft's label.
    pub(super) fn checked(&mut self, check: Check, provider: &str, completion: Completion) {
        self.told(provider, &completion);
        self.has_come(&completion);
        let Check { draft, label, kept } = check;
        // By their canonical form. What the model says beside them is not compared: it decides nothing.
        let same = same_calls(&completion.calls, &draft.calls);
        let taken = same || self.reads_anew(&completion, &label);
        let control = !taken && same_control(&completion.calls, &draft.calls, &kept);
        self.events.push(Event::Checked {
            step: self.turn.step,
            label: self.names(&label),
            taken: taken || control,
        });
        if taken {
            self.take(completion, label);
        } else if control {
            let text = self.said(completion.text, completion.stop, &label);
            let calls = filled_calls(&completion.calls, &draft.calls, &kept);
            self.make(text, calls, &label);
        } else {
            self.stands(draft);
        }
    }

    /// Whether all calls of a completion under this label are reads that this turn has made above
    /// the label, and not yet below it.
    pub(super) fn reads_anew(&self, completion: &Completion, label: &Label) -> bool {
        let calls = &completion.calls;
        let is_new = |call| {
            let made = self.made(call);
            self.reads(call, label) && !made.is_empty() && made.iter().all(|at| !at.flows_to(label))
        };
        !calls.is_empty() && calls.iter().all(is_new)
    }

    /// The labels of the steps of this turn that made this very call. The history knows them also of
    /// a turn that was taken over.
    pub(super) fn made(&self, proposed: &ProposedCall) -> Vec<Label> {
        let mut steps = Vec::new();
        for (label, message) in self.history.messages() {
            match message {
                // Only this turn: what was done in an earlier one may be meant again.
                Message::User(_) => steps.clear(),
                Message::Assistant { calls, .. } => {
                    let is_it = |call: &PastCall| ProposedCall::from(call).same(proposed);
                    let calls = calls.iter().filter(|call| is_it(call));
                    let labels = calls.map(|call| call.label(label).join(&call.arguments.label()));
                    steps.extend(labels);
                }
                Message::System(_) | Message::Memory(_) | Message::Result { .. } => {}
            }
        }
        steps
    }

    /// The draft is the step, under the label that it was made under.
    pub(super) fn stands(&mut self, draft: Completion) {
        let coarse = self.coarse();
        self.accept(Phase::Final, draft, &coarse);
    }
}

/// What the calls of a draft would have to stay below, all together.
pub(super) struct Way {
    /// The meet of the limits that count.
    pub(super) limit: Label,
    /// The tools, as they are shown.
    tools: Vec<String>,
    /// For each call, what need not be below.
    pub(super) kept: Vec<Kept>,
}
