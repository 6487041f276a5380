//! How a step is made (Algorithm 4, lines 4 to 6 and 14 to 17), as one table.
//!
//! A [`Strategy`] is the next attempt, and [`TurnMachine::next`] is the table: strategy × its outcome → next.
//! The conditions in it are in `evaluate.rs`. Drawn, without what is tried when a provider fails:
//!
//! ```text
//! Begin ─┬─ screens first ──► (DraftForScreener ►) Screen │ ScreenOwn ──► Screened │ Reconsider
//!        ├─ a call was refused ──► Without ──┬─ complete ──► Evaluate
//!        │                                   └─ not ──► Full ──► filled │ Evaluate │ Answer
//!        └─ otherwise ──► Draft (without descriptions that are not believed; it lacks them ──► Draft with them)
//!                           └► Evaluate ─┬─ nothing blocks it ──► accepted
//!                                        └─ exceeds a limit ──► ScreenOwn ──► Reconsider
//! Reconsider ─┬─ passes, or nothing would be masked ──► accepted
//!             ├─ screening helps ──► Screened
//!             └─ blocked even so ──► Unblock ─┬─ it can be made in parts ──► Fill ──► filled │ accepted
//!                                             ├─ it can be re-run below the limits ──► Check ──► checked │ accepted
//!                                             │    (all but data comes out ──► CheckData ──► checked │ accepted)
//!                                             └─ otherwise ──► accepted, and its calls are asked about
//! ```
//!
//! A re-run (Without, Fill, Check) that proposes calls which were made before is made again, and these calls count
//! (`TurnMachine::counts`).

use std::collections::BTreeMap;

use ifc::{Arguments, Label, Labeled, Prompt, RegionId, RegionRef, Relevance};

use super::machine::TurnMachine;
use super::state::{Calls, DataCheck, State, Strategy, Summarising, Trial, Wording};
use super::step::{Step, StepCall};
use super::summary::{Summary, Trimmed};
use crate::isc::{Offer, ServedBy};
use crate::trace::{self, Score, Text};
use crate::{
    AnswerShape, Apps, Completion, CompletionRequest, Drafter, Execution, Filling, Need, Purpose,
    Screened, Stop, StopReason,
};

/// The last message of a re-run's prompt, where an app has tools with data arguments.
pub const CHECK_NOTE: &str = "(The runtime, not the user, says this: some of what you have read is hidden from \
this step and stands as [redacted]. Take the step that you would take with it. Where an argument would \
only carry hidden text, write \"[redacted]\" as its value and leave no argument out; the runtime puts the \
text in. Where anything else of the step would depend on hidden text, say so instead.)";

/// The outcome of a strategy.
pub(super) enum Input {
    /// It asks for nothing, or could not ask.
    None,
    /// The screening is in `Turn::relevance`.
    Screened,
    Completed(Completion),
    /// The provider's reason.
    Failed(String),
}

/// What follows.
pub(super) enum Next {
    Try(Strategy),
    /// The step is made.
    Made(Step),
    /// The words of this completion are the answer.
    Words(Completion, Label, Wording),
    Stop(Stop),
}

/// How a step that is re-run compares with its draft.
pub(super) enum Compared {
    /// It makes the same calls, or reads anew what it must not remember.
    Same,
    /// Its control parts are the same.
    SameControl,
    /// Its control parts are the same, and data arguments that exceed their limits may come out below these.
    Open(Box<DataCheck>),
    /// It makes calls that were made before.
    Counted,
    /// The same, if they come out below this label too.
    Below(Label),
    Different,
}

impl TurnMachine {
    /// The transition table. The rows of a strategy are tried from the top.
    fn next(&mut self, strategy: Strategy, input: Input) -> Next {
        use Input::{Completed, Failed};
        use Next::{Made, Stop, Try, Words};
        use Strategy::{
            Accept, Answer, Begin, Check, CheckData, Count, Draft, DraftForScreener, Evaluate,
            Fill, Full, Reconsider, Screen, ScreenOwn, Screened, Unblock, Without,
        };
        match (strategy, input) {
            (Begin(_), _) if let Some(first) = self.screens_first() => Try(first),
            (Begin(label), _) if self.withholds(&label) => Try(Without(label)),
            (Begin(label), _) if self.is_lazy() => Try(Draft(label)),
            (Begin(label), _) => Try(Screened(label)),

            (DraftForScreener(_, Drafter::Own), Completed(draft)) => Try(ScreenOwn(draft)),
            (DraftForScreener(_, Drafter::Other), Completed(draft)) => Try(Screen(Some(draft))),
            (DraftForScreener(_, Drafter::Other), Failed(_)) => Try(Screen(None)),
            (Screen(_), _) => Try(Screened(self.relevant_label())),
            (ScreenOwn(draft), _) => Try(Reconsider(draft)),
            (Screened(label), Completed(step)) => Try(Accept(step, label)),

            (Draft(label), Completed(it)) if self.lacks_descriptions(&it, &label) => {
                self.turn.undescribed = None;
                let step = self.turn.step;
                self.events.push(trace::Event::DraftDropped { step });
                Try(Draft(self.draft_label()))
            }
            (Draft(label), Completed(draft)) => Try(Evaluate(draft, label)),
            // Every limit admits ⊥.
            (Evaluate(it, label), _) if label.is_bottom() => Try(Accept(it, label)),
            (Evaluate(it, label), _) if self.repeats(&it, &label) => Try(Accept(it, label)),
            (Evaluate(it, _), _) if let Some(fill) = self.fill_exactly(&it) => self.next_part(fill),
            (Evaluate(it, label), _) if self.exceeds(&it, &label) => Try(ScreenOwn(it)),
            (Evaluate(it, label), _) => Try(Accept(it, label)),

            (Reconsider(it), _) if self.passes(&it) => Try(Accept(it, self.draft_label())),
            (Reconsider(it), _) if self.is_blocked(&it) => Try(Unblock(it)),
            (Reconsider(it), _) if self.masks_nothing() => Try(Accept(it, self.screened_label())),
            (Reconsider(it), _) => Try(Screened(self.drop_draft(&it))),

            (Unblock(it), _) if let Some(fill) = self.fill(&it) => self.next_part(fill),
            (Unblock(it), _) if let Some((label, kept)) = self.checkable(&it) => {
                Try(Check(it, label, kept))
            }
            (Unblock(it), _) => self.accept_draft(it),

            (Fill(fill), Completed(made)) => self.part_made(fill, Some(made)),
            (Fill(fill), _) => self.part_made(fill, None),
            (Check(draft, label, kept), Completed(step)) => {
                match self.compare(&draft, &label, &kept, &step) {
                    Compared::Same => Try(Accept(step, label)),
                    Compared::SameControl => Made(Step::filled(step, draft.calls, kept, label)),
                    Compared::Open(check) => Try(CheckData(check)),
                    Compared::Counted => Try(Reconsider(draft)),
                    Compared::Below(below) => Try(Count(draft, below, Box::new((step, label)))),
                    Compared::Different => self.accept_draft(draft),
                }
            }
            (Check(draft, ..), _) => self.accept_draft(draft),
            (Count(draft, label, before), Completed(step)) => {
                self.count(draft, &label, &step, *before)
            }
            (Count(draft, ..), _) => self.accept_draft(draft),
            (CheckData(check), Completed(made)) => self.data_checked(*check, &made),
            (CheckData(check), _) => self.accept_draft(check.draft),

            (Without(label), Completed(step)) if self.counts(&label, &step) => {
                Try(Begin(self.draft_label()))
            }
            (Without(label), Completed(step)) if self.is_incomplete(&step, &label) => {
                Try(Full(step, label, self.shown_at_most()))
            }
            (Without(label), Completed(step)) => Try(self.complete_without(step, label)),
            (Full(step, label, all), Completed(full)) => self.complete(step, label, full, all),

            (Accept(step, label), _) if self.repeats(&step, &label) => {
                Try(self.drop_repetition(label))
            }
            (Accept(step, label), _) => Made(Step::new(step, label)),
            (Answer(label, wording), Completed(words)) => Words(words, label, wording),

            (strategy, Failed(reason)) => Stop(strategy.failed(reason)),
            // No driver brings this (`TurnMachine::handle_screened`).
            (strategy, Input::None | Input::Screened) => Try(strategy),
        }
    }

    /// Goes on from a strategy by what came of it.
    pub(super) fn advance(&mut self, strategy: Strategy, input: Input) {
        match self.next(strategy, input) {
            Next::Try(strategy) => self.state = State::Make(strategy),
            Next::Made(step) => self.make(step),
            Next::Words(words, label, wording) => {
                self.turn.unread = words.unread;
                self.words(words.text, words.stop, &label, wording);
            }
            Next::Stop(stop) => self.stop(stop),
        }
    }

    /// Line 4. Nothing is screened while no label could exceed any limit, and lazily nothing before a call does.
    pub(super) fn begin_step(&mut self) {
        // Before anything is computed over the history: apps decide its size, and screeners and the redactor read all
        // of it.
        let bytes = self.guard.history.bytes();
        if bytes > self.settings.limits.history_bytes {
            return self.stop(Stop::HistoryFull(bytes));
        }
        let turn = &mut self.turn;
        turn.step += 1;
        turn.relevance = Relevance::Everything;
        turn.counted = 0;
        turn.is_full = false;
        self.turn.withheld = self.causes_of_refusals();
        if self.turn.step > self.settings.limits.steps {
            return self.stop(Stop::Steps(self.settings.limits.steps));
        }
        if let Some(above) = self.result_to_clear() {
            return self.wait(State::AwaitClearance(above.clone()), Need::Clear(above));
        }
        self.begin_cleared();
    }

    /// The step begins, under the clearance that its prompts keep to.
    pub(super) fn begin_cleared(&mut self) {
        self.choose_clearance();
        self.turn.undescribed = self.hides_descriptions();
        self.state = State::Make(Strategy::Begin(self.draft_label()));
    }

    fn complete_without(&mut self, step: Completion, label: Label) -> Strategy {
        self.trace_withheld(&label, true);
        Strategy::Evaluate(step, label)
    }

    /// Completes a step that was made without what is withheld by one that was made from everything. The control part is
    /// the first one's, so the refusal has had its effect.
    fn complete(&mut self, step: Completion, label: Label, full: Completion, all: Label) -> Next {
        let retained = self.completes(&step, &label, &full, &all);
        self.trace_withheld(&label, retained.is_some());
        if let Some(retained) = retained {
            return Next::Made(Step::filled(step, full.calls, retained, label));
        }
        self.turn.is_full = true;
        Next::Try(match full.calls.is_empty() && self.exceeds(&full, &all) {
            // An answer from everything may not be shown.
            true => Strategy::Answer(label, Wording::Words),
            false => Strategy::Evaluate(full, all),
        })
    }

    fn drop_repetition(&mut self, label: Label) -> Strategy {
        self.events.push(trace::Event::RepetitionDropped {
            step: self.turn.step,
        });
        Strategy::Answer(label, Wording::Words)
    }

    /// Asks for what a strategy needs, or goes on at once where it needs nothing. Line 5: the redactor makes the prompt.
    pub(super) fn ask_for(&mut self, mut strategy: Strategy) {
        let shape = match (&strategy, &self.apps) {
            (Strategy::Answer(_, Wording::Form), _) => self.response_shape(),
            (Strategy::Answer(..), _) | (_, Apps::Each(_)) => AnswerShape::Text,
            _ => AnswerShape::TextOrCalls,
        };
        let request = match &mut strategy {
            Strategy::Screen(_) | Strategy::ScreenOwn(_) => {
                return self.wait(State::AwaitStep(strategy), Need::Screen);
            }
            Strategy::Without(label)
            | Strategy::Check(_, label, _)
            | Strategy::Count(_, label, _) => match self.cached_trial(label) {
                Some(completion) => {
                    return self.advance(strategy, Input::Completed(completion));
                }
                None => self.trial_request(label),
            },
            Strategy::Fill(fill) => self.part_request(fill),
            Strategy::CheckData(check) => {
                let prompt = self.prompt(&check.next);
                self.request_again(prompt)
            }
            Strategy::DraftForScreener(label, Drafter::Other) => {
                let prompt = self.prompt(label);
                self.request(prompt, Purpose::Draft, shape)
            }
            Strategy::Full(_, _, label)
            | Strategy::DraftForScreener(label, _)
            | Strategy::Screened(label)
            | Strategy::Draft(label)
            | Strategy::Answer(label, _) => {
                let prompt = self.prompt(label);
                self.request(prompt, Purpose::Step, shape)
            }
            Strategy::Begin(_)
            | Strategy::Evaluate(..)
            | Strategy::Reconsider(_)
            | Strategy::Unblock(_)
            | Strategy::Accept(..) => return self.advance(strategy, Input::None),
        };
        self.wait(State::AwaitStep(strategy), Need::Complete(request));
    }

    /// What a model is shown at `label`.
    pub(super) fn prompt(&self, label: &Label) -> Prompt {
        self.summaries.prompt(&self.guard.history, label)
    }

    pub(super) fn request(
        &mut self,
        prompt: Prompt,
        purpose: Purpose,
        shape: AnswerShape,
    ) -> CompletionRequest {
        self.trace_prompt(&prompt);
        CompletionRequest {
            prompt,
            purpose,
            shape,
            max_tokens: self.settings.limits.completion_tokens,
        }
    }

    /// The request for a step from less than everything. Its completion is cached.
    pub(super) fn trial_request(&mut self, label: &Label) -> CompletionRequest {
        let prompt = self.prompt(label);
        self.turn.trial = Some(Trial {
            prompt: prompt.clone(),
            completion: None,
        });
        self.request_again(prompt)
    }

    /// The request for a step that is re-run. Where data may be hidden, a note tells the model to make the call all the
    /// same. The note depends on the tools alone, not on the draft.
    fn request_again(&mut self, prompt: Prompt) -> CompletionRequest {
        let request = self.request(prompt, Purpose::Step, AnswerShape::TextOrCalls);
        let mut tools = request.prompt.tools().iter();
        let has_data = tools.any(|tool| self.has_data(&tool.name));
        // In parts, any argument may be left open.
        match has_data || self.settings.arguments != Filling::Lazy {
            true => CompletionRequest {
                prompt: request.prompt.with_note(CHECK_NOTE),
                ..request
            },
            false => request,
        }
    }

    /// Whether a tool has data arguments: of a functionality, any tool that serves it.
    fn has_data(&self, shown: &str) -> bool {
        let policy = &self.guard.policy;
        let of_offer = |offer: &Offer| match &offer.by {
            ServedBy::Tool(tool) => !policy.data_arguments(&offer.app, tool).is_empty(),
            ServedBy::Conversation => false,
        };
        match self.asks.named(shown) {
            Some(functionality) => functionality.offers.iter().any(of_offer),
            None => (self.apps.resolve(shown))
                .is_some_and(|(app, tool)| !policy.data_arguments(&app, &tool).is_empty()),
        }
    }

    /// What came of this very prompt before, in the newest check or the step before: it would come again.
    fn cached_trial(&self, label: &Label) -> Option<Completion> {
        let Trial { prompt, completion } = self.turn.trial.as_ref()?;
        let is_same = || {
            let now = self.prompt(label);
            (now.messages(), now.tools()) == (prompt.messages(), prompt.tools())
        };
        let completion = completion.as_ref().filter(|_| prompt.label() == label);
        completion.filter(|_| is_same()).cloned()
    }

    /// Records what a provider brought for a strategy.
    pub(super) fn record_completion(
        &mut self,
        strategy: &Strategy,
        provider: &str,
        completion: &Completion,
    ) {
        self.events.push(trace::Event::Completed {
            step: self.turn.step,
            provider: provider.to_owned(),
            usage: completion.usage.into(),
            stop: completion.stop,
            calls: completion.calls.len(),
        });
        let is_trial = match strategy {
            Strategy::Without(_) | Strategy::Check(..) | Strategy::Count(..) => true,
            Strategy::Fill(fill) => fill.is_control(),
            _ => false,
        };
        if let (true, Some(trial)) = (is_trial, &mut self.turn.trial) {
            trial.completion = Some(completion.clone());
        }
    }

    /// Line 4: takes a screening. A screener chooses regions and no label. What it leaves out is masked, so a wrong
    /// choice costs context or a question.
    pub(super) fn record_screening(&mut self, screened: Screened) {
        let (relevance, failure) = match screened.relevance {
            Ok(relevance) => (relevance, screened.failure),
            Err(reason) => (Relevance::Everything, Some(reason)),
        };
        // An app decides how many regions there are.
        let (relevant, more_relevant) = match &relevance {
            Relevance::Everything => (None, 0),
            Relevance::Only(regions) => {
                let first = regions.iter().take(Score::MOST).map(|id| id.0);
                let more = regions.len().saturating_sub(Score::MOST);
                (Some(first.collect()), more)
            }
        };
        self.turn.relevance = relevance;
        let scores: BTreeMap<RegionId, f32> = screened.scores.into_iter().collect();
        let score = |region: RegionRef<'_>| {
            let score = *scores.get(&region.id)?;
            Some(Score::new(region, score, &self.lattice))
        };
        let scores = self.guard.history.regions().filter_map(score);
        self.events.push(trace::Event::Screened {
            step: self.turn.step,
            screener: screened.screener,
            relevant,
            more_relevant,
            regions: self.guard.history.regions().count(),
            before: self.names(&self.draft_label()),
            after: self.names(&self.relevant_label()),
            failure: failure.map(Text::from),
            scores: scores.take(Score::MOST).collect(),
        });
    }

    /// The words of the completion that the step is, made from the prompt at `label`. They say how it ended where it is
    /// cut off.
    fn labelled_text(&mut self, text: String, stop: StopReason, label: &Label) -> Labeled {
        self.turn.stop = stop;
        let text = match stop {
            StopReason::End => text,
            // The client gets `stop`, and says it in its own way.
            _ if self.settings.execution == Execution::Elsewhere => text,
            // In the text itself: neither the user nor the next prompt must take it for complete.
            StopReason::Length => text + " [cut off: token limit]",
            StopReason::Repetition => text + " [cut off: the model repeated itself]",
            StopReason::Filter => text + " [cut off: the provider's content filter]",
            StopReason::Other => text + " [cut off: by the provider]",
        };
        Labeled::label_tcb(text, label.clone())
    }

    /// Goes on with an answer in words. One without any says what was refused before it. Otherwise it is a failure of the
    /// model: its server may have shown its thoughts alone.
    fn words(&mut self, words: String, stop: StopReason, label: &Label, wording: Wording) {
        if words.trim().is_empty() && self.serving.is_none() {
            let refused = self.refusals_below(label);
            // The outcome has the number of refusals in any case.
            if self.turn.refused > 0 || !refused.is_empty() {
                return self.stop(Stop::Unanswered(Labeled::label_tcb(refused, label.clone())));
            }
        }
        if words.trim().is_empty() && self.settings.execution == Execution::Here {
            let why = match stop {
                StopReason::Length => "the token limit cut it off before the first word",
                _ => "it has no words, only thoughts or a call where no call was left",
            };
            let why = format!(
                "the model's answer is empty: {why}; ask again, or raise limits.completion_tokens"
            );
            return self.stop(Stop::Model(Labeled::label_tcb(why, label.clone())));
        }
        let text = self.labelled_text(words, stop, label);
        self.answered(wording, text, label);
    }

    /// Appends a step (line 18) and goes on with its calls, or with the answer that it is.
    fn make(&mut self, step: Step) {
        let Step {
            text,
            stop,
            mut calls,
            unread,
            label,
        } = step;
        self.turn.unread = unread;
        // Calls that were cut off can be none. Asked again, the model would be cut off again.
        let is_call =
            |call: &StepCall| Arguments::parse(&call.proposed.arguments, &Label::bottom()).is_ok();
        if stop == StopReason::Length && !calls.iter().any(is_call) {
            calls.clear();
        }
        if calls.is_empty() {
            return self.words(text, stop, &label, Wording::Step);
        }
        let text = self.labelled_text(text, stop, &label);
        let past = calls
            .iter()
            .map(|call| (call.proposed.tool.clone(), call.past_arguments()));
        let ids = self.push_step(&label, &text, past);
        // A later step knows of these calls with their data, so they are remembered under the label of both.
        let full = calls.iter().map(|call| call.label(&label));
        let full = full.fold(label.clone(), |all, one| all.join(&one));
        let proposed = calls.iter().map(|call| call.proposed.clone());
        self.turn.steps.push((full, proposed.collect()));
        self.state = State::Calls(Calls {
            label,
            text,
            count: calls.len(),
            queue: ids.into_iter().zip(calls).collect(),
            answered: Vec::new(),
            allowed: Vec::new(),
            exchange: None,
        });
    }

    /// The part of the prompt of a strategy that is to be summarised first, because the prompt is too long.
    pub(super) fn must_shorten(&self, strategy: &Strategy) -> Option<Trimmed> {
        let label = strategy.prompt_label()?;
        // The client that holds a conversation elsewhere keeps it short, or no summary would last.
        if self.settings.execution == Execution::Elsewhere {
            return None;
        }
        let limit = self.settings.limits.prompt_bytes;
        self.summaries.too_long(&self.guard.history, label, limit)
    }

    /// Asks for a summary of the beginning of a prompt.
    pub(super) fn summarise(&mut self, strategy: Strategy, old: Trimmed) {
        let Trimmed { prompt, from } = old;
        self.trace_prompt(&prompt);
        let label = prompt.label().clone();
        let request = Summary::request(&prompt, self.settings.limits.prompt_bytes);
        let summarising = Summarising {
            label,
            from,
            then: strategy,
        };
        self.wait(State::AwaitSummary(summarising), Need::Complete(request));
    }

    /// Takes a summary, and goes on with the strategy that waited for it. Without one the prompt is too long, and the
    /// turn ends.
    pub(super) fn summarised(
        &mut self,
        summarising: Summarising,
        provider: &str,
        completion: Result<Completion, String>,
    ) {
        let Summarising { label, from, then } = summarising;
        let summary = completion.and_then(|completion| {
            self.events.push(trace::Event::Consulted {
                purpose: "summary".to_owned(),
                provider: provider.to_owned(),
                usage: completion.usage.into(),
            });
            Summary::of(&completion, label.clone(), from, &self.settings.limits)
                .ok_or_else(|| "the model wrote none".to_owned())
        });
        match summary {
            Ok(summary) => {
                self.events.push(trace::Event::Summarised {
                    step: self.turn.step,
                    label: self.names(&label),
                    bytes: summary.text.len(),
                });
                let own = Labeled::label_tcb(summary.text.clone(), label);
                self.new_summaries.push(own);
                self.summaries.add(summary);
                // Its prompt is not measured again: a model that writes long summaries would keep the turn here.
                self.state = State::Shortened(then);
            }
            // A provider's words about a prompt may quote the prompt.
            Err(reason) => self.stop(Stop::Unsummarised(Labeled::label_tcb(reason, label))),
        }
    }

    /// The summaries that were made since the last call.
    pub fn take_summaries(&mut self) -> Vec<Labeled> {
        std::mem::take(&mut self.new_summaries)
    }

    fn trace_prompt(&mut self, prompt: &Prompt) {
        self.events.push(trace::Event::Redacted {
            step: self.turn.step,
            label: self.names(prompt.label()),
            kept: prompt.kept(),
            masked: prompt.masked(),
        });
    }

    fn trace_withheld(&mut self, label: &Label, taken: bool) {
        self.events.push(trace::Event::Withheld {
            step: self.turn.step,
            label: self.names(label),
            taken,
        });
    }
}
