//! The conditions of the table in `strategy.rs`: what blocks a draft, and what a re-run shows.
//!
//! **Lazy screening.** A draft is made from everything that the step may be shown, so its label is the history's. If
//! that exceeds a limit, the screener is asked; if the draft is blocked even so, the model is asked what it does
//! without the texts that block it. What comes out the same does not depend on them.
//!
//! **Refusals.** A user who refuses a call for what it depends on has mostly seen a hijacked step, and wants the rest
//! of the task done. So the taints that blocked a refused call are withheld for the rest of the turn. A step that is
//! incomplete without them is made from everything as well: data arguments of the same control part are filled from
//! there, and calls are made that nothing blocks. A call that still depends on withheld taints beyond its limit may be
//! the user's own task, so it is a question of its own. It is denied unasked where it repeats a refused call, or where
//! [`REFUSALS_PER_CAUSE`] calls were refused before it: an injection must not wear the user down. A denial by the policy
//! withholds nothing, nor does a refusal that has no such cause.

use std::collections::BTreeSet;

use ifc::{
    ArgumentPath, Author, Call, Dimension, Label, Labeled, Message, PastCall, Question, REDACTED,
    Sink,
};

use super::machine::{Refinement, TurnMachine};
use super::state::{DataCheck, Strategy, Withheld};
use super::step::{Retained, Step, StepCall, same_calls, same_control, step_calls};
use super::strategy::{Compared, Next};
use crate::trace::Event;
use crate::{Completion, Filling, ProposedCall, Screening};

/// Re-runs of one step that propose what was made before, so that a question waits for few completions.
const COUNTED_PER_STEP: usize = 8;

/// Calls that a user refuses in one turn for the same taints before further ones are denied unasked. Most attacks make
/// one to three calls, and the user's own come after them.
const REFUSALS_PER_CAUSE: usize = 4;

/// Why a call is denied that asks the same again.
const SAME_CALL: &str = "the same call was refused before in this turn, with other text in it";

/// Why a call is denied where too many were refused.
const SAME_CAUSE: &str = "too many calls that depend on the same texts were refused in this turn";

/// What the calls of a draft would have to stay below, all together.
pub(super) struct BlockingLimits {
    /// The meet of the limits that count.
    pub(super) limit: Label,
    /// The tools, as they are shown.
    tools: Vec<String>,
    /// For each call, the arguments that need not be below.
    pub(super) retained: Vec<Retained>,
}

/// A step of the turn, as the history has it.
struct PastStep<'a> {
    /// Its number in the turn.
    number: usize,
    at: usize,
    label: &'a Label,
    calls: &'a [PastCall],
}

impl TurnMachine {
    pub(super) fn is_lazy(&self) -> bool {
        matches!(self.settings.screening, Screening::Lazy { .. })
    }

    pub(super) fn is_exact(&self) -> bool {
        self.settings.arguments == Filling::Exact
    }

    /// Where the screener comes before the step, as in the paper: what is tried first.
    pub(super) fn screens_first(&self) -> Option<Strategy> {
        let first = match self.settings.screening {
            Screening::Lazy { .. } => return None,
            Screening::Eager => Strategy::Screen(None),
            Screening::Drafted(by) => Strategy::DraftForScreener(self.draft_label(), by),
        };
        self.may_exceed(&self.draft_label()).then_some(first)
    }

    /// Whether anything that the model can do under this label could exceed a limit. If not, a screener could save
    /// nothing, and the whole history can be shown.
    fn may_exceed(&self, label: &Label) -> bool {
        let mut tools = self.guard.history.tools().iter();
        let floor = |shown: &str| match (self.asks.named(shown), self.apps.resolve(shown)) {
            (Some(functionality), _) => self.floor_of(functionality),
            (None, Some((app, tool))) => self.guard.policy.floor(&app, &tool),
            // A tool of no app cannot be called.
            (None, None) => Label::top(),
        };
        let words = Labeled::label_tcb("", label.clone());
        // The rule of an answer does not depend on its text (`Policy::rule`).
        let is_answer_held = || {
            let answer = self.guard.rule(&Sink::Answer(&self.release(words.clone())));
            answer.map_or(true, |rule| !label.flows_to(&rule.limit))
        };
        let is_held = self
            .may_respond(words.clone())
            .map_or_else(is_answer_held, |may| !may);
        !label.is_bottom() && (is_held || tools.any(|tool| !label.flows_to(&floor(&tool.name))))
    }

    /// Whether a draft that was made without descriptions needs them: it says so, or makes a call that makes no sense or
    /// whose parameters it could not know.
    pub(super) fn lacks_descriptions(&self, draft: &Completion, label: &Label) -> bool {
        let history = &self.guard.history;
        let makes_sense = |proposed: &ProposedCall| {
            let tool = history.tool_at(label, &proposed.tool);
            let is_known = tool.is_some_and(|tool| {
                tool.parameters.label().flows_to(label) || history.declared(&tool.name).is_some()
            });
            let is_request = self.asks.named(&proposed.tool).is_some();
            let takes = |call| is_request || self.guard.check_arguments(&call).is_ok();
            is_known
                && !proposed.arguments.contains(REDACTED)
                && self.read(proposed, label).is_ok_and(takes)
        };
        // As `ifc::UNDESCRIBED` says.
        let says_so = || draft.text.contains("[descriptions]");
        self.turn.undescribed.is_some()
            && (draft.calls.is_empty() && says_so() || !draft.calls.iter().all(makes_sense))
    }

    // ---- Whether a draft is blocked ----

    /// Whether some call of a draft, or the final answer that it is, would not be allowed under `label`.
    pub(super) fn exceeds(&self, draft: &Completion, label: &Label) -> bool {
        if draft.calls.is_empty() {
            let text = Labeled::label_tcb(draft.text.as_str(), label.clone());
            return match self.may_respond(text.clone()) {
                Some(may) => !may,
                None => !self.guard.would_allow(&self.release(text)),
            };
        }
        let mut calls =
            (draft.calls.iter()).filter_map(|it| Some((it, self.read(it, label).ok()?)));
        calls.any(|(it, call)| match self.is_conversed(it) {
            // A conversation of another app decides on its own calls.
            true => self.is_request_held(it, &call),
            false => !self.guard.monitor.is_refused(&call) && !self.may_make(it, &call),
        })
    }

    /// Whether a lazy draft is blocked no more, since calls before it were counted.
    pub(super) fn passes(&self, draft: &Completion) -> bool {
        self.is_lazy() && !self.exceeds(draft, &self.draft_label())
    }

    /// Whether the user would be asked about a lazy draft even if it were made from what the screener left in. Where
    /// every step is screened, a draft must not decide by what it says.
    pub(super) fn is_blocked(&self, draft: &Completion) -> bool {
        self.is_lazy() && self.exceeds(draft, &self.screened_label())
    }

    /// Whether the screening masks nothing: then the draft was made from this very prompt.
    pub(super) fn masks_nothing(&self) -> bool {
        let shown = self.guard.history.label_below(&self.draft_label());
        shown.flows_to(&self.screened_label())
    }

    /// Drops a draft for a step at the label that this gives. What does not block the draft's calls stays visible,
    /// relevant or not: the step lacks less, and no more is asked.
    pub(super) fn drop_draft(&mut self, draft: &Completion) -> Label {
        self.events.push(Event::DraftDropped {
            step: self.turn.step,
        });
        let label = self.screened_label();
        match self.is_lazy() {
            true => label.join(&self.admitted(draft)),
            false => label,
        }
    }

    /// The label of everything that flows to the limits of all parts of a draft's calls.
    fn admitted(&self, draft: &Completion) -> Label {
        let all = self.draft_label();
        let limits = draft.calls.iter().map(|proposed| {
            if self.asks.named(&proposed.tool).is_some() {
                return Label::bottom();
            }
            let Ok(call) = self.read(proposed, &all) else {
                return Label::top();
            };
            let rule = self.guard.rule(&Sink::Call(&call));
            rule.map_or(Label::bottom(), |rule| {
                let arguments = rule.arguments.values();
                arguments.fold(rule.limit, |all, limit| all.meet(limit))
            })
        });
        let limit = limits.reduce(|all, limit| all.meet(&limit));
        // A draft without calls is an answer, made anew from what the screener left in.
        limit.map_or(Label::bottom(), |limit| {
            self.guard.history.label_below(&limit.meet(&all))
        })
    }

    /// Whether a completion only repeats: it reads once more what the step before has just read again with the same result,
    /// or proposes what the user has refused. Small models do that instead of answering. Repeated writes may be meant.
    pub(super) fn repeats(&self, completion: &Completion, label: &Label) -> bool {
        let calls = &completion.calls;
        let is_same_read = same_calls(calls, self.turn.last_calls(label))
            && calls.iter().all(|call| self.reads(call, label))
            && !self.may_have_changed(calls.len(), label, 0)
            && !calls.iter().any(|call| self.is_polled(call, label));
        let is_refused = |call: &ProposedCall| {
            let call = self.read(call, label);
            call.is_ok_and(|call| self.guard.monitor.is_refused(&call))
        };
        !calls.is_empty() && (is_same_read || calls.iter().all(is_refused))
    }

    /// Whether a read may bring something else when it is made again, as the state of a job does: its step has `count`
    /// results, and they are others than those of the step before, or it is the first step. As far as a step under `label`
    /// may know, and without the newest `skipped` steps.
    pub(super) fn may_have_changed(&self, count: usize, label: &Label, skipped: usize) -> bool {
        let mut steps: Vec<Vec<&str>> = Vec::new();
        for (own, message) in self.guard.history.messages() {
            match message {
                Message::User(_) => steps.clear(),
                Message::Assistant { .. } if own.flows_to(label) => steps.push(Vec::new()),
                Message::Result {
                    content,
                    author: Author::App,
                    ..
                } if own.join(&content.label()).flows_to(label) => {
                    if let Some(step) = steps.last_mut() {
                        step.push(content.reveal_tcb());
                    }
                }
                _ => {}
            }
        }
        let mut steps = steps.into_iter().rev().skip(skipped);
        let newest = steps.next().unwrap_or_default();
        newest.len() == count && steps.next() != Some(newest)
    }

    /// A draft that stays blocked is the step, and its calls are asked about.
    pub(super) fn accept_draft(&self, draft: Completion) -> Next {
        let label = self.draft_label();
        Next::Made(Step::new(draft, label))
    }

    // ---- A step without what blocks it ----

    /// What the calls of a draft under `label` would have to stay below; `None` where a conversation decides on one.
    ///
    /// A rule may accept a value beside a control part at `label` and refuse it beside one below the limits, where fewer
    /// results are known. So the calls are evaluated again below the limits, until nothing more is refused.
    pub(super) fn blocking_limits(
        &self,
        draft: &Completion,
        label: &Label,
    ) -> Option<BlockingLimits> {
        let mut control = label.clone();
        let mut limits = self.limits_beside(draft, label, &control, None)?;
        loop {
            let below = self.shown_below(&limits.limit.meet(&control));
            // Each round is below the one before it, so there are at most as many as there are taints.
            if below == control || !below.flows_to(&control) {
                return Some(limits);
            }
            control = below;
            limits = self.limits_beside(draft, label, &control, Some(&limits))?;
        }
    }

    /// The same for calls with control parts under `control`, whose data arguments are those that were retained `before`.
    fn limits_beside(
        &self,
        draft: &Completion,
        label: &Label,
        control: &Label,
        before: Option<&BlockingLimits>,
    ) -> Option<BlockingLimits> {
        let mut limits = BlockingLimits {
            limit: before.map_or(Label::top(), |before| before.limit.clone()),
            tools: Vec::new(),
            retained: Vec::new(),
        };
        for (at, proposed) in draft.calls.iter().enumerate() {
            let known = before.map(|before| before.retained.get(at).cloned().unwrap_or_default());
            let drafted = StepCall {
                proposed: proposed.clone(),
                retained: known.clone().unwrap_or_default(),
            };
            let Ok(call) = self.read_step(&drafted, control) else {
                // No decision is made about a call that makes no sense. Below the label of its name there is no tool.
                let is_named = self.read(proposed, label).is_ok();
                limits.tools.extend(is_named.then(|| proposed.tool.clone()));
                limits.retained.push(Retained::default());
                continue;
            };
            if self.is_conversed(proposed) {
                return None;
            }
            // A message that may not be sent is blocked as a whole.
            let is_held = self.is_request_held(proposed, &call);
            let may_retain = |path| known.as_ref().is_none_or(|known| known.has(path));
            let sink = Sink::Call(&call);
            let rule = self.guard.rule(&sink).ok()?;
            let mut retained = Retained::default();
            for part in rule.parts(&sink) {
                match part.argument {
                    Some(path) if !is_held && !part.exceeds() && may_retain(path) => {
                        match self.guard.policy.has_form(&call, path) {
                            true => retained.add(path, &self.formed(label)),
                            false => retained.add(path, label),
                        }
                    }
                    // Below all limits at once: a step has one prompt.
                    _ => limits.limit = limits.limit.meet(part.limit),
                }
            }
            limits.retained.push(retained);
            limits.tools.push(proposed.tool.clone());
        }
        Some(limits)
    }

    /// The label of a value from a step under `label` whose form the policy has checked: what comes of it depends on who
    /// chose it, and on no sentence of theirs.
    fn formed(&self, label: &Label) -> Label {
        let strangers = label.meet(&self.lattice.whole(Dimension::Integrity));
        label.beyond(&strangers).join(&strangers.formed())
    }

    /// The label under which a draft is re-run, and what is retained of it, if calls are checked
    /// ([`Screening::CHECKED`]) and would all be allowed then.
    ///
    /// The label is below the limits of the control parts. A data argument whose limit admits all that the draft was
    /// made from is retained. One with a lower limit is made anew, below that limit as well.
    pub(super) fn checkable(&self, draft: &Completion) -> Option<(Label, Vec<Retained>)> {
        if self.settings.screening != Screening::CHECKED || draft.calls.is_empty() {
            return None;
        }
        let all = self.draft_label();
        let BlockingLimits {
            limit,
            tools,
            retained,
        } = self.blocking_limits(draft, &all)?;
        let label = self.guard.history.label_below(&limit.meet(&all));
        let label = self.above_request(label);
        // A tool whose name is above its own limit cannot be called below that.
        let knows = |tool: &String| self.guard.history.tool_at(&label, tool).is_some();
        let calls = step_calls(&draft.calls, &retained);
        let is_checkable = tools.iter().all(knows) && self.may_take(&calls, &label);
        is_checkable.then_some((label, retained))
    }

    /// Whether no label blocks any of these calls, in a step under `label`.
    fn may_take(&self, calls: &[StepCall], label: &Label) -> bool {
        let may_take = |call: &StepCall| match self.read_step(call, label) {
            Ok(made) => {
                self.guard.monitor.is_refused(&made) || self.may_make(&call.proposed, &made)
            }
            Err(_) => true,
        };
        calls.iter().all(may_take)
    }

    /// Compares a draft with the step that was made without what blocks it. The step is safe under its own label in any
    /// case, but it must make the very same calls, because a model that lacks what it needs makes something up. Calls
    /// are compared by their canonical form; the text beside them decides nothing.
    pub(super) fn compare(
        &mut self,
        draft: &Completion,
        label: &Label,
        retained: &[Retained],
        step: &Completion,
    ) -> Compared {
        let compared = if same_calls(&step.calls, &draft.calls) {
            Compared::Same
        } else if same_control(&step.calls, &draft.calls, retained) {
            Compared::SameControl
        } else if let Some(check) = self.check_data(draft, label, retained, step) {
            Compared::Open(check)
        } else if self.counts(label, step) {
            Compared::Counted
        } else if let Some(below) = self.counts_below(label, step) {
            Compared::Below(below)
        } else if self.reads_anew(step, label) {
            Compared::Same
        } else {
            Compared::Different
        };
        self.events.push(Event::Checked {
            step: self.turn.step,
            label: self.names(label),
            taken: matches!(compared, Compared::Same | Compared::SameControl),
        });
        compared
    }

    /// The check of the data arguments of a draft that exceed their limits, if its control parts have come out again in
    /// `step` at `label`. Any other text in the history may be what exceeds, so the step is re-run from all that their
    /// limits admit: a value that comes out the same has the label of that prompt.
    fn check_data(
        &self,
        draft: &Completion,
        label: &Label,
        retained: &[Retained],
        step: &Completion,
    ) -> Option<Box<DataCheck>> {
        let all = self.draft_label();
        let mut limit = Label::top();
        let mut exceeding: Vec<Vec<(ArgumentPath, bool)>> = Vec::new();
        for proposed in &draft.calls {
            let mut own = Vec::new();
            if let Ok(call) = self.read(proposed, &all)
                && !self.is_request_held(proposed, &call)
            {
                let sink = Sink::Call(&call);
                let rule = self.guard.rule(&sink).ok()?;
                for part in rule.parts(&sink) {
                    if let Some(path) = part.argument.filter(|_| part.exceeds()) {
                        limit = limit.meet(part.limit);
                        own.push((path.clone(), self.guard.policy.has_form(&call, path)));
                    }
                }
            }
            exceeding.push(own);
        }
        let next = self.shown_below(&limit);
        let data = retained.iter().zip(&exceeding).map(|(retained, own)| {
            let mut data = retained.clone();
            for (path, has_form) in own {
                match has_form {
                    true => data.add(path, &self.formed(&next)),
                    false => data.add(path, &next),
                }
            }
            data
        });
        let data: Vec<Retained> = data.collect();
        let shows_more = label.flows_to(&next) && next != *label;
        let is_checkable = exceeding.iter().any(|own| !own.is_empty())
            && shows_more
            && same_control(&step.calls, &draft.calls, &data)
            && self.may_take(&step_calls(&draft.calls, &data), label);
        is_checkable.then(|| {
            Box::new(DataCheck {
                draft: draft.clone(),
                step: step.clone(),
                label: label.clone(),
                retained: retained.to_vec(),
                data,
                next,
            })
        })
    }

    /// Takes the step whose data arguments were checked, if they came out the same.
    pub(super) fn data_checked(&mut self, check: DataCheck, made: &Completion) -> Next {
        let DataCheck {
            draft,
            step,
            label,
            retained,
            data,
            next,
        } = check;
        let taken = same_control(&made.calls, &draft.calls, &retained);
        for ((call, data), retained) in draft.calls.iter().zip(&data).zip(&retained) {
            for path in data
                .paths()
                .filter(|path| !retained.paths().any(|own| own == *path))
            {
                self.events.push(Event::Filled {
                    step: self.turn.step,
                    tool: call.tool.clone().into(),
                    argument: path.to_string().into(),
                    label: self.names(&next),
                    taken,
                });
            }
        }
        match taken {
            true => Next::Made(Step::filled(step, draft.calls, data, label)),
            false if self.counts(&next, made) => Next::Try(Strategy::Reconsider(draft)),
            false => self.accept_draft(draft),
        }
    }

    /// Whether all calls of a completion under this label are reads that this turn has made above the label, and not
    /// yet below it.
    pub(super) fn reads_anew(&self, completion: &Completion, label: &Label) -> bool {
        let calls = &completion.calls;
        let is_new = |call| {
            let steps = self.steps_with(call);
            self.reads(call, label)
                && !steps.is_empty()
                && steps.iter().all(|at| !at.flows_to(label))
        };
        !calls.is_empty() && calls.iter().all(is_new)
    }

    /// The labels of the steps of this turn that made this very call. The history has those of a turn that was taken
    /// over too.
    fn steps_with(&self, proposed: &ProposedCall) -> Vec<Label> {
        let is_it = |call: &&PastCall| ProposedCall::from(*call).same(proposed);
        let steps = self.steps().flat_map(|step| {
            let calls = step.calls.iter().filter(is_it);
            calls.map(move |call| call.label(step.label).join(&call.arguments.label()))
        });
        steps.collect()
    }

    // ---- A step without what was refused ----

    /// The taints that blocked the calls which this conversation's user has refused in this turn. It makes no difference
    /// how the user refused them: less is shown, and what is done with less is decided by the same limits.
    pub(super) fn causes_of_refusals(&self) -> Vec<Withheld> {
        let refusals = match self.is_lazy() {
            true => self.guard.monitor.refusals(),
            false => Vec::new(),
        };
        // A conversation of another app goes on without its own refusals. A request is a call of another app.
        let apps = self.apps.names();
        let is_own = |call: &&Call| apps.contains(&call.app) || self.asks.has(call);
        let own = refusals.iter().filter(is_own);
        let withheld = own.filter_map(|call| {
            let sink = Sink::Call(call);
            // By the rule as it is now: a text that the user has vouched for since is no cause any more.
            let excess = self.guard.rule(&sink).ok()?.excess(&sink);
            let taints = excess.without_trust();
            let call = call.clone();
            (!taints.is_bottom()).then_some(Withheld { call, taints })
        });
        withheld.collect()
    }

    /// Why a question about a call is not put to the user, as far as the call may know of refusals: it repeats a refused
    /// call with other data, or too many were refused for what it depends on.
    pub(super) fn denied_unasked(&self, question: &Question) -> Option<&'static str> {
        let (call, excess) = (question.call(), question.excess());
        let sink = Sink::Call(call);
        let label = sink.label();
        // At once, and not only from the next step on: one step can have many calls.
        let mut known = self.causes_of_refusals();
        known.retain(|one| {
            let is_known = Sink::Call(&one.call).label().flows_to(&label);
            is_known && !excess.meet(&one.taints).is_bottom()
        });
        // Data within its limit did not cause the question, so other data does not make it another one.
        let parts = question.rule().parts(&sink);
        let within = parts.iter().filter(|part| !part.exceeds());
        let data = within.filter_map(|part| part.argument);
        let repeats = |one: &Withheld| {
            let Withheld { call: past, .. } = one;
            (&past.app, &past.tool) == (&call.app, &call.tool)
                && past.arguments.same_but(&call.arguments, data.clone())
        };
        match known.iter().any(repeats) {
            true => Some(SAME_CALL),
            false => (known.len() >= REFUSALS_PER_CAUSE).then_some(SAME_CAUSE),
        }
    }

    /// Whether a step that was made without what is withheld lacks something: it would be an answer about texts that it
    /// was not shown, leaves an argument open, or repeats.
    pub(super) fn is_incomplete(&self, step: &Completion, label: &Label) -> bool {
        let is_open = |call: &ProposedCall| call.arguments.contains(REDACTED);
        step.calls.is_empty()
            || step.calls.iter().any(is_open)
            || self.makes_again(step)
            || self.repeats(step, label)
    }

    /// Whether a step makes a call that was made or refused in this turn before, whether the step may see it or not: no
    /// write is repeated, and what is withheld is not read again.
    fn makes_again(&self, step: &Completion) -> bool {
        let mut calls = step.calls.iter();
        calls.any(|call| !self.steps_with(call).is_empty())
    }

    /// What the step from everything carries in the data arguments that the one without left open, if their control
    /// parts are the same and may be made under its label.
    pub(super) fn completes(
        &self,
        step: &Completion,
        label: &Label,
        full: &Completion,
        all: &Label,
    ) -> Option<Vec<Retained>> {
        let retained = self.blocking_limits(full, all)?.retained;
        let calls = step_calls(&full.calls, &retained);
        let is_same = !calls.is_empty() && same_control(&step.calls, &full.calls, &retained);
        // The data may make it a call that was made before.
        let is_same = is_same && !self.makes_again(full);
        (is_same && self.may_take(&calls, label)).then_some(retained)
    }

    // ---- Calls that were made before ----
    //
    // A lazy step has the label of everything before it, and so have its calls and their results: a mail that was read
    // after a product review counts as influenced by the review. A re-run at a lower label does not see such a call and
    // proposes it again. Then its control part did not depend on the rest: the call gets the label of that prompt,
    // everything made from it is labelled anew (`ifc::History::remake_tcb`), and the step is re-run, with the call in
    // its place. Nothing is executed twice.

    /// Counts the calls that a re-run at `label` proposes and that this turn has made above it. The prompt must be the one
    /// that their step would have had at that label, so that their order is not a choice of what is above.
    ///
    /// Each call counts before the next one is looked for, so that they count in the order in which they were made. The first
    /// that does not count is the last: otherwise hidden text would choose which of them are shown.
    pub(super) fn counts(&mut self, label: &Label, step: &Completion) -> bool {
        if self.turn.counted >= COUNTED_PER_STEP {
            return false;
        }
        let mut is_counted = false;
        for proposed in &step.calls {
            // A function of what the prompt shows, as the next one is.
            let Some(data) = self.data_of(proposed, label) else {
                continue;
            };
            let mut steps = self.steps_with(proposed).into_iter();
            let is_shown = steps.any(|own| own.flows_to(label));
            match self.found(proposed, label, data) {
                Some((of, refinement)) => self.refine(of, refinement),
                None if is_shown => continue,
                None => break,
            }
            is_counted = true;
        }
        self.turn.counted += usize::from(is_counted);
        is_counted
    }

    /// A call that counts as the one that a re-run at `label` proposes, with the number of its step.
    fn found(
        &self,
        proposed: &ProposedCall,
        label: &Label,
        data: BTreeSet<ArgumentPath>,
    ) -> Option<(usize, Refinement)> {
        let mut past = self.hidden(label, proposed, &data);
        let (of, at, call, past, _) = past.find(|(.., own)| label.flows_to(own))?;
        let is_same = ProposedCall::from(past).same(proposed);
        let refinement = Refinement {
            at,
            call,
            after: self.guard.history.messages().len(),
            label: label.clone(),
            data: match is_same {
                true => BTreeSet::new(),
                false => data.clone(),
            },
        };
        Some((of, refinement))
    }

    fn refine(&mut self, of: usize, made: Refinement) {
        self.events.push(Event::Refined {
            step: self.turn.step,
            of,
            call: made.call,
            label: self.names(&made.label),
            whole: made.data.is_empty(),
        });
        // The regions get other numbers.
        let relevant = self.guard.history.pieces_of(&self.turn.relevance);
        let floor = self.above_request(Label::bottom());
        let history = &mut self.guard.history;
        history.remake_tcb(made.at, made.call, (&made.label, &floor), &made.data);
        self.turn.relevance = self.guard.history.regions_of(&relevant);
        self.refinements.push(made);
    }

    /// Goes on from a re-run at `label` for calls that were made before. Where they do not come out there, those of the
    /// re-run before it that read may be made anew.
    pub(super) fn count(
        &mut self,
        draft: Completion,
        label: &Label,
        step: &Completion,
        (before, above): (Completion, Label),
    ) -> Next {
        let is_counted = self.counts(label, step);
        let is_anew = !is_counted && self.reads_anew(&before, &above);
        for (label, taken) in [(label, false), (&above, is_anew)] {
            self.events.push(Event::Checked {
                step: self.turn.step,
                label: self.names(label),
                taken,
            });
        }
        match (is_counted, is_anew) {
            (true, _) => Next::Try(Strategy::Reconsider(draft)),
            (_, true) => Next::Try(Strategy::Accept(before, above)),
            _ => self.accept_draft(draft),
        }
    }

    /// A lower label, where a re-run at `label` proposes a call that was made under a label which is neither above nor
    /// below: the two may come from other texts that say the same.
    fn counts_below(&self, label: &Label, step: &Completion) -> Option<Label> {
        let below = |proposed: &ProposedCall| {
            let data = self.data_of(proposed, label)?;
            let (.., own) = self.hidden(label, proposed, &data).next()?;
            let lower = self.shown_below(&label.meet(&own));
            (!label.flows_to(&own) && lower.flows_to(label)).then_some(lower)
        };
        let mut calls = step.calls.iter();
        calls
            .find_map(below)
            .filter(|_| self.turn.counted < COUNTED_PER_STEP)
    }

    /// The calls of this turn with the control part of one that a re-run at `label` proposes, which does not show them:
    /// each with the number and the position of its step, its position there and its label.
    fn hidden<'a>(
        &'a self,
        label: &'a Label,
        proposed: &'a ProposedCall,
        data: &'a BTreeSet<ArgumentPath>,
    ) -> impl Iterator<Item = (usize, usize, usize, &'a PastCall, Label)> {
        let history = &self.guard.history;
        // A step that a client brought may be made up.
        let steps = self.steps().filter(|step| history.is_from_prompt(step.at));
        let past = steps.flat_map(|step| {
            let calls = step.calls.iter().enumerate();
            calls
                .map(move |(call, past)| (step.number, step.at, call, past, past.label(step.label)))
        });
        past.filter(move |(_, at, call, past, own)| {
            !own.flows_to(label)
                && ProposedCall::from(*past).same_but(proposed, data.iter())
                && !history.has_lower_behind(*at, *call)
        })
    }

    /// The data arguments of a call that a re-run at `label` proposes; `None` where there is no such tool, or where another
    /// conversation answers, whose labels the answer has too.
    fn data_of(&self, proposed: &ProposedCall, label: &Label) -> Option<BTreeSet<ArgumentPath>> {
        let call = self.read(proposed, label).ok()?;
        let data = self.guard.policy.data_arguments(&call.app, &call.tool);
        (!self.is_conversed(proposed)).then(|| data.into_iter().collect())
    }

    /// The steps of this turn.
    fn steps(&self) -> impl Iterator<Item = PastStep<'_>> {
        let messages = || self.guard.history.messages().enumerate();
        let begin = messages().filter(|(_, (_, message))| matches!(message, Message::User(_)));
        let begin = begin.last().map_or(0, |(at, _)| at);
        let steps = messages().skip(begin).filter_map(|(at, (label, message))| {
            let Message::Assistant { calls, .. } = message else {
                return None;
            };
            Some((at, label, calls.as_slice()))
        });
        let numbered = steps.zip(1..);
        numbered.map(|((at, label, calls), number)| PastStep {
            number,
            at,
            label,
            calls,
        })
    }
}
