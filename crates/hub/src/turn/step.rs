//! Prompts and completions: lines 4 to 6 and 14 to 18 of Algorithm 4.

use std::collections::BTreeMap;

use ifc::{Arguments, CallId, Label, Labeled, Prompt, RegionId, Relevance, Sink};

use super::machine::TurnMachine;
use super::state::{Calls, Offered, Phase, Sketch, State, StepCall, same_calls};
use crate::trace::{Event, Score, Text};
use crate::{
    AnswerShape, Completion, CompletionRequest, Drafter, Execution, Filling, ProposedCall, Purpose,
    Screened, Screening, Stop, StopReason,
};

impl TurnMachine {
    /// Line 4, with the savings of the design: nothing is screened while no label could stand in the
    /// way of anything, and lazily nothing before the coarse label does stand in the way of a call.
    pub(super) fn begin_step(&mut self) {
        // Before anything is computed over the history: its size is what apps send, and screeners and redactor read all
        // of it.
        let bytes = self.history.bytes();
        if bytes > self.settings.limits.history_bytes {
            return self.stop(Stop::HistoryFull(bytes));
        }
        self.turn.step += 1;
        self.turn.relevance = Relevance::Everything;
        self.turn.refined = 0;
        self.turn.gave_up = false;
        self.withhold_causes();
        if self.turn.step > self.settings.limits.steps {
            return self.stop(Stop::Steps(self.settings.limits.steps));
        }
        self.choose_clearance();
        let coarse = self.coarse();
        self.state = match self.settings.screening {
            // As in the paper: first the label, then the step.
            Screening::Eager if self.could_violate(&coarse) => State::AskScreen(Sketch::None),
            Screening::Drafted(drafter) if self.could_violate(&coarse) => {
                // The agent's own draft may become the step; another model's is for the screener alone.
                let phase = match drafter {
                    Drafter::Own => Phase::Screened,
                    Drafter::Other => Phase::Sketch,
                };
                State::AskCompletion(phase, coarse)
            }
            // A no in this turn withholds what the refused call depended on.
            _ if coarse != self.shown_at_most() => State::AskCompletion(Phase::Without, coarse),
            // From everything, which is always safe. Whether its label stands in the way of anything is known by what
            // comes out.
            _ if self.is_lazy() && !coarse.is_bottom() => {
                State::AskCompletion(Phase::Draft, coarse)
            }
            _ => State::AskCompletion(Phase::Final, coarse),
        };
    }

    /// Whether anything that the model can do under this label might be asked about or denied for
    /// its label. If not, a screener could save nothing, and the whole history can be shown.
    fn could_violate(&self, label: &Label) -> bool {
        let mut tools = self.history.tools().iter();
        let floor = |shown: &str| match (self.asks.named(shown), self.apps.resolve(shown)) {
            (Some(functionality), _) => self.floor_of(functionality),
            (None, Some((app, tool))) => self.policy.floor(&app, &tool),
            // What is no app's cannot be called.
            (None, None) => Label::top(),
        };
        let words = Labeled::label_tcb("", label.clone());
        // The rule of an answer does not depend on its text (`Policy::rule`), so it can be asked for before there is
        // one.
        let is_held = || {
            let answer = self.rule(&Sink::Answer(&self.release(words.clone())));
            answer.map_or(true, |rule| !label.flows_to(&rule.limit))
        };
        let is_held = self
            .may_respond(words.clone())
            .map_or_else(is_held, |may| !may);
        !label.is_bottom() && (is_held || tools.any(|tool| !label.flows_to(&floor(&tool.name))))
    }

    /// Line 5: the redactor makes the prompt.
    pub(super) fn request(
        &mut self,
        label: &Label,
        purpose: Purpose,
        shape: AnswerShape,
    ) -> CompletionRequest {
        let prompt = self.prompt(label);
        self.request_with(prompt, purpose, shape)
    }

    pub(super) fn request_with(
        &mut self,
        prompt: Prompt,
        purpose: Purpose,
        shape: AnswerShape,
    ) -> CompletionRequest {
        self.redacted(&prompt);
        let offered = prompt.tools().iter().map(|tool| tool.name.clone());
        self.turn.offered = Offered {
            tools: offered.collect(),
            label: prompt.label().clone(),
        };
        CompletionRequest {
            prompt,
            purpose,
            shape,
            max_tokens: self.settings.limits.completion_tokens,
        }
    }

    /// Line 4: the label of the relevant regions, and what becomes of a draft.
    pub(super) fn screened(&mut self, sketch: Sketch, screened: Screened) {
        let (relevance, failure) = match screened.relevance {
            Ok(relevance) => (relevance, screened.failure),
            Err(reason) => (Relevance::Everything, Some(reason)),
        };
        // A screener chooses regions and no label. Whatever it leaves out is masked, so a wrong choice costs context or
        // a question.
        let label = self.shown_of(&relevance);
        // An app decides how many regions there are.
        let (relevant, more_relevant) = match &relevance {
            Relevance::Everything => (None, 0),
            Relevance::Only(regions) => {
                let first = regions.iter().take(Score::MOST).map(|id| id.0);
                let more = regions.len().saturating_sub(Score::MOST);
                (Some(first.collect()), more)
            }
        };
        self.events.push(Event::Screened {
            step: self.turn.step,
            screener: screened.screener,
            relevant,
            more_relevant,
            regions: self.history.regions().count(),
            before: self.names(&self.coarse()),
            after: self.names(&label),
            failure: failure.map(Text::from),
            scores: self.scored(&screened.scores),
        });
        self.turn.relevance = relevance;
        match sketch {
            Sketch::Own(draft) => self.judge(draft),
            // Another model's draft has done its work: the step is the agent's own model's.
            Sketch::Other(_) | Sketch::None => {
                self.state = State::AskCompletion(Phase::Final, label);
            }
        }
    }

    /// What becomes of a draft, by the labels that the screened regions have now.
    pub(super) fn judge(&mut self, draft: Completion) {
        let coarse = self.coarse();
        // Since a read was refined.
        if self.is_lazy() && !self.violates(&draft, &coarse) {
            return self.take(draft, coarse);
        }
        let label = self.shown_of(&self.turn.relevance);
        // A screener reads what is withheld, too.
        let label = label.meet(&coarse);
        // The user would be asked about it even so; the draft stands, unless it can do without what
        // stands in its way. Not where every step is screened: there a draft must not decide by what it
        // says.
        if self.is_lazy() && self.violates(&draft, &label) {
            return self.held(draft);
        }
        // Nothing more would be masked: the draft was made from this very prompt.
        if self.history.label_below(&coarse).flows_to(&label) {
            return self.take(draft, label);
        }
        self.events.push(Event::DraftDropped {
            step: self.turn.step,
        });
        self.turn.gave_up = !draft.calls.is_empty();
        let label = match self.is_lazy() {
            // What does not stand in the way of the draft's calls stays visible: the step lacks less, and is asked
            // about no more.
            true => label.join(&self.admitted(&draft)),
            false => label,
        };
        self.state = State::AskCompletion(Phase::Final, label);
    }

    /// The label of everything that flows to the limits of all parts of a draft's calls. It does not stand
    /// in their way, so it stays visible, relevant or not.
    fn admitted(&self, draft: &Completion) -> Label {
        let coarse = self.coarse();
        let limits = draft.calls.iter().map(|proposed| {
            if self.asks.named(&proposed.tool).is_some() {
                return Label::bottom();
            }
            let Ok(call) = self.read(proposed, &coarse) else {
                return Label::top();
            };
            let rule = self.rule(&Sink::Call(&call));
            rule.map_or(Label::bottom(), |rule| {
                let arguments = rule.arguments.values();
                arguments.fold(rule.limit, |all, limit| all.meet(limit))
            })
        });
        let limit = limits.reduce(|all, limit| all.meet(&limit));
        // A draft without calls is an answer, made anew from what the screener left in.
        limit.map_or(Label::bottom(), |limit| {
            self.history.label_below(&limit.meet(&coarse))
        })
    }

    /// What a screener says of the regions, with what a reader needs to know them again.
    fn scored(&self, scores: &[(RegionId, f32)]) -> Vec<Score> {
        let scores: BTreeMap<RegionId, f32> = scores.iter().copied().collect();
        let regions = self.history.regions();
        let scored = regions.filter_map(|region| {
            let score = *scores.get(&region.id)?;
            Some(Score::new(region, score, &self.lattice))
        });
        scored.take(Score::MOST).collect()
    }

    pub(super) fn is_lazy(&self) -> bool {
        matches!(self.settings.screening, Screening::Lazy { .. })
    }

    pub(super) fn told(&mut self, provider: &str, completion: &Completion) {
        self.events.push(Event::Completed {
            step: self.turn.step,
            provider: provider.to_owned(),
            usage: completion.usage.into(),
            stop: completion.stop,
            calls: completion.calls.len(),
        });
    }

    /// Takes a completion, or asks for another one.
    pub(super) fn completed(
        &mut self,
        phase: Phase,
        label: Label,
        provider: &str,
        completion: Completion,
    ) {
        self.told(provider, &completion);
        match phase {
            Phase::Sketch => self.state = State::AskScreen(Sketch::Other(completion)),
            Phase::Screened => self.state = State::AskScreen(Sketch::Own(completion)),
            Phase::Draft => self.drafted(completion, label),
            Phase::Without => {
                self.has_come(&completion);
                self.taken_without(completion, label);
            }
            Phase::Final => self.take(completion, label),
            Phase::Words | Phase::Fallback | Phase::Form => self.accept(phase, completion, &label),
        }
    }

    /// Takes a lazy draft, or has it screened. Where every label is to be exact, it is made in parts first.
    pub(super) fn drafted(&mut self, completion: Completion, label: Label) {
        let repeats = self.repeats(&completion, &label);
        let is_exact = self.settings.arguments == Filling::Exact && !repeats;
        let completion = match is_exact.then(|| self.fill(completion.clone())) {
            Some(Ok(())) => return,
            Some(Err(draft)) => draft,
            None => completion,
        };
        match !repeats && self.violates(&completion, &label) {
            true => self.state = State::AskScreen(Sketch::Own(completion)),
            false => self.take(completion, label),
        }
    }

    /// Makes a completion the step, unless it only repeats what was done before.
    pub(super) fn take(&mut self, completion: Completion, label: Label) {
        if self.repeats(&completion, &label) {
            self.events.push(Event::RepetitionDropped {
                step: self.turn.step,
            });
            self.state = State::AskCompletion(Phase::Words, label);
        } else {
            self.accept(Phase::Final, completion, &label);
        }
    }

    /// Whether an answer does nothing but repeat itself: it reads once more what the step before
    /// has just read, or proposes what the user has refused. Small models do that instead of
    /// answering. Repeated writes may be meant.
    pub(super) fn repeats(&self, completion: &Completion, label: &Label) -> bool {
        let calls = &completion.calls;
        let same_read = same_calls(calls, self.turn.last_calls(label))
            && calls.iter().all(|call| self.reads(call, label));
        let is_refused = |call: &ProposedCall| {
            let call = self.read(call, label);
            call.is_ok_and(|call| self.monitor.is_refused(&call))
        };
        let refused = calls.iter().all(is_refused);
        !calls.is_empty() && (same_read || refused)
    }

    /// Whether some call of a draft, or the final answer that it is, would not be allowed under
    /// `label`.
    pub(super) fn violates(&self, draft: &Completion, label: &Label) -> bool {
        let policy = self.policy.as_ref();
        if draft.calls.is_empty() {
            let text = Labeled::label_tcb(draft.text.as_str(), label.clone());
            return match self.may_respond(text.clone()) {
                Some(may) => !may,
                None => !self
                    .monitor
                    .would_allow(policy, &self.history, &self.release(text)),
            };
        }
        if draft
            .calls
            .iter()
            .any(|proposed| self.is_held_back(proposed, label))
        {
            return true;
        }
        // What another app's conversation does is decided there.
        let calls = draft.calls.iter().filter(|it| !self.is_conversed(it));
        let mut calls = calls.filter_map(|it| Some((it, self.read(it, label).ok()?)));
        calls.any(|(it, call)| !self.monitor.is_refused(&call) && !self.may_make(it, &call))
    }

    /// Appends the model's message (line 18) and goes on with its calls, or with the answer.
    pub(super) fn accept(&mut self, phase: Phase, completion: Completion, label: &Label) {
        let Completion {
            text, calls, stop, ..
        } = completion;
        let text = self.said(text, stop, label);
        if calls.is_empty() || matches!(phase, Phase::Words | Phase::Fallback | Phase::Form) {
            return self.answered(phase, text, label);
        }
        let calls = calls.into_iter().map(StepCall::from);
        self.make(text, calls.collect(), label);
    }

    /// The words of the completion that the step is, made from the prompt at `label`, which say how it ended where it
    /// is not whole.
    pub(super) fn said(&mut self, text: String, stop: StopReason, label: &Label) -> Labeled {
        self.turn.stop = stop;
        let text = match stop {
            StopReason::End => text,
            // Whoever holds the conversation is told by `stop`, and says it in its own way.
            _ if self.settings.execution == Execution::Elsewhere => text,
            // In the text itself: the user, and the next prompt, must not take it for the whole.
            StopReason::Length => text + " [cut off: token limit]",
            StopReason::Repetition => text + " [cut off: the model repeated itself]",
            StopReason::Filter => text + " [cut off: the provider's content filter]",
            StopReason::Other => text + " [cut off: by the provider]",
        };
        Labeled::label_tcb(text, label.clone())
    }

    /// Appends what the model said to the prompt at `label`. The history restricts it, for as long as
    /// what the prompt showed is restricted.
    pub(super) fn push_step(
        &mut self,
        label: &Label,
        text: &Labeled,
        calls: impl IntoIterator<Item = (String, Labeled)>,
    ) -> Vec<CallId> {
        let floor = self.above_request(Label::bottom());
        // Without the label of the prompt, which the history adds itself: else the words would keep it when what they
        // were made from falls.
        let text = Labeled::trusted_tcb(text.reveal_tcb());
        self.history.push_step(label, &floor, text, calls)
    }

    /// Appends a step with calls that was taken under `label`, and goes on with them.
    pub(super) fn make(&mut self, text: Labeled, calls: Vec<StepCall>, label: &Label) {
        let past = calls
            .iter()
            .map(|call| (call.proposed.tool.clone(), past_arguments(call)));
        let ids = self.push_step(label, &text, past);
        // What a later step may know of these calls, it knows with their data: so they are remembered under the label
        // of both.
        let whole = calls.iter().map(|call| call.label(label));
        let whole = whole.fold(label.clone(), |all, one| all.join(&one));
        let proposed = calls.iter().map(|call| call.proposed.clone());
        self.turn.steps.push((whole, proposed.collect()));
        self.state = State::Calls(Calls {
            label: label.clone(),
            text,
            count: calls.len(),
            queue: ids.into_iter().zip(calls).collect(),
            allowed: Vec::new(),
            exchange: None,
        });
    }
}

/// The arguments of a call as the history keeps them: as they were written, or each data argument that
/// was kept from a draft under the draft's label. Whoever appends them restricts them by the step's.
fn past_arguments(call: &StepCall) -> Labeled {
    let StepCall { proposed, kept } = call;
    if kept.is_empty() {
        return Labeled::trusted_tcb(proposed.arguments.clone());
    }
    match Arguments::parse(&proposed.arguments, &Label::bottom()) {
        Ok(arguments) => kept.restrict(arguments).to_labeled(),
        // What cannot be read has no arguments that could be told apart.
        Err(_) => Labeled::label_tcb(proposed.arguments.clone(), kept.label()),
    }
}
