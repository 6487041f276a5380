//! A step in parts ([`Filling`]): first the control parts of its calls, then their data.
//!
//! A blocked draft is made again in parts. The control parts come from a prompt below the limits of their tools and must
//! equal the draft's. Each data argument whose limit does not admit the draft's label is then filled by a request of its
//! own, from a prompt at that limit. A value that cannot be made there stays as drafted and is asked about, under the
//! lowest label under which it comes out the same.
//!
//! A part has the label of the prompt that made it. The choice of labels may depend on all of the draft, as in a check.

use std::collections::{BTreeMap, VecDeque};

use ifc::{ArgumentPath, Label, Sink};
use serde_json::Value;

use super::machine::TurnMachine;
use super::state::Strategy;
use super::step::{Retained, Step, StepCall};
use super::strategy::Next;
use super::value::{self, Fill, Gap, OpenCall, with_values};
use crate::trace::Event;
use crate::{AnswerShape, Completion, CompletionRequest, Filling, ProposedCall, Purpose};

/// Requests for the parts of one step, beside its draft: as many as a user would wait for. What is not made by then is
/// as it was drafted.
const MAX_REQUESTS: usize = 16;

impl TurnMachine {
    /// What of a blocked draft's calls may be filled by itself, and what their control parts may depend on. `None` where
    /// arguments are not filled so, a call is no call of a tool, or another app decides on it.
    pub(super) fn fill(&self, draft: &Completion) -> Option<Box<Fill>> {
        let draft_label = self.draft_label();
        let in_parts = self.settings.arguments != Filling::Lazy && self.is_lazy();
        if !in_parts || draft.calls.is_empty() || draft_label.is_bottom() {
            return None;
        }
        let (mut limit, mut blocking) = (Label::top(), Label::top());
        let mut open = Vec::new();
        for proposed in &draft.calls {
            let call = self.read(proposed, &draft_label).ok()?;
            if self.is_conversed(proposed) || self.is_request_held(proposed, &call) {
                return None;
            }
            let sink = Sink::Call(&call);
            let rule = self.guard.rule(&sink).ok()?;
            let mut data = BTreeMap::new();
            for part in rule.parts(&sink) {
                if part.exceeds() {
                    blocking = blocking.meet(part.limit);
                }
                match part.argument {
                    Some(path) if part.exceeds() => {
                        data.insert(path.clone(), self.shown_below(part.limit));
                    }
                    // Its limit admits all of the draft, so the drafted value can be retained.
                    Some(path) => drop(data.insert(path.clone(), draft_label.clone())),
                    None => limit = limit.meet(part.limit),
                }
            }
            let names = call.arguments.iter().map(|(name, _)| name);
            let has_data = |name: &str| data.keys().any(|path| path.argument() == name);
            let control = names.filter(|name| !has_data(name));
            open.push(OpenCall {
                tool: proposed.tool.clone(),
                control: control.map(ArgumentPath::of).collect(),
                data,
            });
        }
        Some(Box::new(Fill {
            step: draft.clone(),
            draft: draft.clone(),
            label: draft_label.clone(),
            admitted: self.shown_below(&limit),
            blocking: self.shown_below(&blocking.meet(&limit)),
            limit,
            draft_label,
            open,
            gap: None,
            queue: VecDeque::new(),
            done: Vec::new(),
            attempts: Vec::new(),
            next: Label::top(),
            schema: Value::Null,
            requests: 0,
        }))
    }

    /// The same for a draft that nothing blocks, where every label is to be exact.
    pub(super) fn fill_exactly(&self, draft: &Completion) -> Option<Box<Fill>> {
        self.is_exact().then(|| self.fill(draft)).flatten()
    }

    /// Labels between `floor` and `from`: first these, then `from` without each one of its taints.
    fn lower(&self, from: &Label, floor: &Label, first: Vec<Label>) -> Vec<Label> {
        let taints: Vec<Label> = (self.lattice.taints())
            .map(|(_, taint)| taint)
            .filter(|taint| taint.flows_to(from) && !taint.flows_to(floor))
            .collect();
        let without = taints.iter().map(|out| {
            let others = taints.iter().filter(|taint| *taint != out);
            others.fold(floor.clone(), |all, taint| all.join(taint))
        });
        let labels = first.into_iter().chain(without);
        let labels = labels.map(|label| self.shown_below(&label).join(floor));
        labels
            .filter(|label| label.flows_to(from) && !from.flows_to(label))
            .collect()
    }

    /// The label of the next prompt for the part under way; `None` if the part is made.
    fn next_label(&self, fill: &Fill) -> Option<Label> {
        if fill.requests >= MAX_REQUESTS {
            return None;
        }
        let is_exact = self.is_exact();
        let is_enough = |label: &Label, limit: &Label| !is_exact && label.flows_to(limit);
        let lower = match &fill.gap {
            None if is_enough(&fill.label, &fill.blocking) => return None,
            None => {
                let mut first = vec![fill.blocking.clone(), fill.admitted.clone()];
                if is_exact {
                    first.insert(0, self.above_request(Label::bottom()));
                }
                let mut lower = self.lower(&fill.label, &Label::bottom(), first);
                // A tool whose name is above a label cannot be called below that.
                let history = &self.guard.history;
                let knows = |label: &Label| {
                    let mut open = fill.open.iter();
                    open.all(|call| history.tool_at(label, &call.tool).is_some())
                };
                lower.retain(knows);
                lower
            }
            Some(gap) => match (&gap.made, &gap.limit) {
                (Some((_, label)), Some(limit)) if is_enough(label, limit) => return None,
                (None, limit) => {
                    let limit = limit.clone().unwrap_or(Label::bottom());
                    return Some(limit.join(&fill.label));
                }
                (Some((made, label)), _) => {
                    let hint = value::quoted(&self.guard.history, made, &fill.label);
                    self.lower(label, &fill.label, vec![hint])
                }
            },
        };
        let mut lower = lower.into_iter();
        lower.find(|label| !fill.attempts.contains(label))
    }

    /// Asks for the next part of a step; where all are made, the step is.
    pub(super) fn next_part(&mut self, mut fill: Box<Fill>) -> Next {
        loop {
            if let Some(label) = self.next_label(&fill) {
                fill.next = label;
                fill.requests += 1;
                return Next::Try(Strategy::Fill(fill));
            }
            match fill.gap.take() {
                Some(mut gap) => {
                    // No request was left for it.
                    let drafted = || (gap.drafted.clone(), fill.draft_label.clone());
                    gap.made = gap.made.or_else(|| Some(drafted()));
                    fill.done.push(gap);
                }
                // Nothing can be below the control parts.
                None if fill.draft_label.flows_to(&fill.label) => {
                    return self.accept_draft(fill.draft);
                }
                None => match fill.gaps() {
                    Some(gaps) => {
                        // The control part has not made them at its label: that is an attempt like any other.
                        for gap in &gaps {
                            self.trace_value(&fill, gap, &fill.label, false);
                        }
                        fill.queue = gaps.into();
                    }
                    None => return self.accept_draft(fill.draft),
                },
            }
            let Some(gap) = fill.queue.pop_front() else {
                return self.filled(*fill);
            };
            fill.attempts.clear();
            if gap.made.is_some() {
                fill.attempts.push(fill.label.clone());
            }
            fill.gap = Some(gap);
        }
    }

    /// The request for the next part.
    pub(super) fn part_request(&mut self, fill: &mut Fill) -> CompletionRequest {
        let Some(gap) = &fill.gap else {
            return self.trial_request(&fill.next);
        };
        let prompt = self.prompt(&fill.next);
        // The tool's parameters, as far as this prompt shows them.
        let tool = fill.open_call(gap).map(|call| call.tool.as_str());
        let mut tools = prompt.tools().iter();
        let tool = tools.find(|shown| Some(shown.name.as_str()) == tool);
        let schema = value::schema_at(&gap.path, tool.map_or("", |tool| &tool.parameters));
        let shape: AnswerShape = value::shape(&schema);
        // The control part flows to the label of each value.
        let prompt = prompt.with_request(&fill.note(gap));
        fill.schema = schema;
        self.request(prompt, Purpose::Step, shape)
    }

    /// Takes what a prompt has made of a part; `None` where it failed.
    pub(super) fn part_made(&mut self, fill: Box<Fill>, completion: Option<Completion>) -> Next {
        match fill.is_control() {
            true => self.control_made(fill, completion),
            false => self.value_made(fill, completion),
        }
    }

    fn control_made(&mut self, mut fill: Box<Fill>, completion: Option<Completion>) -> Next {
        let label = fill.next.clone();
        fill.attempts.push(label.clone());
        let is_same = completion.as_ref().is_some_and(|it| fill.has_controls(it));
        // Below the limits, what was made above them counts or may be read anew, as after any check.
        let other = completion.as_ref();
        let other = other.filter(|_| !is_same && label.flows_to(&fill.limit));
        let is_counted = other.is_some_and(|step| self.counts(&label, step));
        let is_anew = !is_counted && other.is_some_and(|step| self.reads_anew(step, &label));
        self.events.push(Event::Checked {
            step: self.turn.step,
            label: self.names(&label),
            taken: is_same || is_anew,
        });
        match completion {
            _ if is_counted => return Next::Try(Strategy::Reconsider(fill.draft)),
            Some(step) if is_anew => return Next::Try(Strategy::Accept(step, label)),
            Some(step) if is_same => (fill.step, fill.label) = (step, label),
            _ => {}
        }
        self.next_part(fill)
    }

    fn value_made(&mut self, mut fill: Box<Fill>, completion: Option<Completion>) -> Next {
        let label = fill.next.clone();
        let Some(mut gap) = fill.gap.take() else {
            return self.next_part(fill);
        };
        let value = completion.and_then(|answer| value::read(&answer, &fill.schema));
        let before = gap.made.as_ref().map(|(made, _)| made);
        let is_made = value.is_some() && (before.is_none() || before == value.as_ref());
        gap.made = match (value, gap.made) {
            // The first prompt shows all that the argument may depend on: what it makes is the argument.
            (Some(value), None) => Some((value, label.clone())),
            // Not made: as it was drafted, and asked about.
            (None, None) => Some((gap.drafted.clone(), fill.draft_label.clone())),
            (Some(value), Some((made, _))) if made == value => Some((made, label.clone())),
            (_, made) => made,
        };
        self.trace_value(&fill, &gap, &label, is_made);
        fill.attempts.push(label);
        fill.gap = Some(gap);
        self.next_part(fill)
    }

    /// The trace's entry for an attempt at a value.
    fn trace_value(&mut self, fill: &Fill, gap: &Gap, label: &Label, taken: bool) {
        let tool = fill.open_call(gap).map(|call| call.tool.clone());
        self.events.push(Event::Filled {
            step: self.turn.step,
            tool: tool.unwrap_or_default().into(),
            argument: gap.path.to_string().into(),
            label: self.names(label),
            taken,
        });
    }

    /// The step of which all parts are made.
    fn filled(&self, fill: Fill) -> Next {
        let mut calls = Vec::new();
        for (at, proposed) in fill.step.calls.iter().enumerate() {
            let mut retained = Retained::default();
            let mut values = Vec::new();
            for gap in fill.done.iter().filter(|gap| gap.call == at) {
                if let Some((value, label)) = &gap.made {
                    retained.add(&gap.path, label);
                    values.push((gap, value.as_str()));
                }
            }
            let Some(arguments) = with_values(proposed, values) else {
                return self.accept_draft(fill.draft);
            };
            calls.push(StepCall {
                proposed: ProposedCall {
                    arguments: arguments.to_json(),
                    ..proposed.clone()
                },
                retained,
            });
        }
        Next::Made(Step {
            text: fill.step.text,
            stop: fill.step.stop,
            calls,
            unread: fill.step.unread,
            label: fill.label,
        })
    }
}
