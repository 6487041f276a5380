//! A step in parts ([`Filling`]): first what its calls are, then what they carry.
//!
//! A draft that something stands in the way of is made once more, each part of it from as little as will do. The
//! control parts come from a prompt below the limits of their tools, and must be the draft's. Each data argument whose
//! limit does not admit all that the draft was made from is then filled by a request of its own, from a prompt at that
//! limit; what comes back is the argument. What cannot be made there stays as it was drafted and is asked about, under
//! the lowest label under which it comes out the same.
//!
//! A part has the label of the prompt that made it, whatever was tried before. Which prompts are tried is a choice of
//! labels, like that of a check: it may depend on all of the draft.

use std::collections::{BTreeMap, VecDeque};

use ifc::{ArgumentPath, Label, Labeled, Sink};
use serde_json::Value;

use super::hint::quoted;
use super::machine::TurnMachine;
use super::state::{Filled, Hole, Kept, OpenCall, State, StepCall, with_values};
use super::value;
use crate::trace::Event;
use crate::{Completion, CompletionRequest, Filling, ProposedCall, Purpose};

/// Requests for the parts of one step, beside its draft: as many as a user would wait for. What is not made by then
/// is as it was drafted.
const MAX_REQUESTS: usize = 16;

impl TurnMachine {
    /// Makes a draft that something stands in the way of once more in parts, if arguments are filled so; the draft,
    /// if not.
    pub(super) fn fill(&mut self, draft: Completion) -> Result<(), Completion> {
        let is_eager = self.settings.arguments != Filling::Lazy && self.is_lazy();
        let coarse = self.coarse();
        if !is_eager || draft.calls.is_empty() || coarse.is_bottom() {
            return Err(draft);
        }
        let Some(filled) = self.in_parts(&draft, coarse) else {
            return Err(draft);
        };
        self.next_part(Box::new(filled));
        Ok(())
    }

    /// What of a draft's calls may be filled by itself, and what the control parts may depend on. `None` where one is
    /// no call of a tool, or another app's to decide.
    fn in_parts(&self, draft: &Completion, coarse: Label) -> Option<Filled> {
        let (mut limit, mut way) = (Label::top(), Label::top());
        let mut open = Vec::new();
        for proposed in &draft.calls {
            if self.asks.named(&proposed.tool).is_some() || self.is_conversed(proposed) {
                return None;
            }
            let call = self.read(proposed, &coarse).ok()?;
            let sink = Sink::Call(&call);
            let rule = self.rule(&sink).ok()?;
            let mut data = BTreeMap::new();
            for part in rule.parts(&sink) {
                if part.exceeds() {
                    way = way.meet(part.limit);
                }
                match part.argument {
                    Some(path) if part.exceeds() => {
                        data.insert(path.clone(), self.shown_below(part.limit));
                    }
                    // Its limit admits all of the draft, so the drafted value can be kept.
                    Some(path) => drop(data.insert(path.clone(), coarse.clone())),
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
        Some(Filled {
            step: draft.clone(),
            draft: draft.clone(),
            label: coarse.clone(),
            admitted: self.shown_below(&limit),
            way: self.shown_below(&way.meet(&limit)),
            limit,
            coarse,
            open,
            hole: None,
            queue: VecDeque::new(),
            done: Vec::new(),
            tried: Vec::new(),
            asked: Label::top(),
            schema: Value::Null,
            requests: 0,
        })
    }

    /// Labels between `floor` and `from`: first these, then `from` without a taint of it.
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

    /// The label of the next prompt for the part under way; `None` if it is what it is.
    fn next_label(&self, filled: &Filled) -> Option<Label> {
        if filled.requests >= MAX_REQUESTS {
            return None;
        }
        let is_exact = self.settings.arguments == Filling::Exact;
        let is_enough = |label: &Label, limit: &Label| !is_exact && label.flows_to(limit);
        let lower = match &filled.hole {
            None if is_enough(&filled.label, &filled.way) => return None,
            None => {
                let mut first = vec![filled.way.clone(), filled.admitted.clone()];
                if is_exact {
                    first.insert(0, self.above_request(Label::bottom()));
                }
                let mut lower = self.lower(&filled.label, &Label::bottom(), first);
                // A tool whose name is above a label cannot be called below that.
                let knows = |label: &Label| {
                    let mut open = filled.open.iter();
                    open.all(|call| self.history.tool_at(label, &call.tool).is_some())
                };
                lower.retain(knows);
                lower
            }
            Some(hole) => match (&hole.made, &hole.limit) {
                (Some((_, label)), Some(limit)) if is_enough(label, limit) => return None,
                (None, limit) => {
                    let limit = limit.clone().unwrap_or(Label::bottom());
                    return Some(limit.join(&filled.label));
                }
                (Some((made, label)), _) => {
                    let hint = quoted(&self.history, made, &filled.label);
                    self.lower(label, &filled.label, vec![hint])
                }
            },
        };
        let mut lower = lower.into_iter();
        lower.find(|label| !filled.tried.contains(label))
    }

    /// Asks for the next part of a step; where all are made, the step is.
    fn next_part(&mut self, mut filled: Box<Filled>) {
        loop {
            if let Some(label) = self.next_label(&filled) {
                filled.asked = label;
                filled.requests += 1;
                self.state = State::AskPart(filled);
                return;
            }
            match filled.hole.take() {
                Some(mut hole) => {
                    // No request was left for it.
                    let drafted = || (hole.drafted.clone(), filled.coarse.clone());
                    hole.made = hole.made.or_else(|| Some(drafted()));
                    filled.done.push(hole);
                }
                // Nothing can be below the control parts.
                None if filled.coarse.flows_to(&filled.label) => return self.stands(filled.draft),
                None => match filled.holes() {
                    Some(holes) => {
                        // That the control part has not made them there is an attempt like any other.
                        for hole in &holes {
                            self.trace_value(&filled, hole, &filled.label, false);
                        }
                        filled.queue = holes.into();
                    }
                    None => return self.stands(filled.draft),
                },
            }
            let Some(hole) = filled.queue.pop_front() else {
                return self.make_filled(*filled);
            };
            filled.tried.clear();
            if hole.made.is_some() {
                filled.tried.push(filled.label.clone());
            }
            filled.hole = Some(hole);
        }
    }

    /// The request for the next part.
    pub(super) fn part_request(&mut self, filled: &mut Filled) -> CompletionRequest {
        let Some(hole) = &filled.hole else {
            return self.check_request(&filled.asked);
        };
        let prompt = self.prompt(&filled.asked);
        // As far as this prompt shows what the tool says of it.
        let tool = filled.open_call(hole).map(|call| call.tool.as_str());
        let mut tools = prompt.tools().iter();
        let tool = tools.find(|shown| Some(shown.name.as_str()) == tool);
        let schema = value::schema_at(&hole.path, tool.map_or("", |tool| &tool.parameters));
        let shape = value::shape(&schema);
        // What the control part says flows to the label of each value.
        let prompt = prompt.with_request(&note(filled, hole));
        filled.schema = schema;
        self.request_with(prompt, Purpose::Step, shape)
    }

    /// Takes what a prompt has made of a part; nothing where it failed.
    pub(super) fn part_made(
        &mut self,
        filled: Box<Filled>,
        provider: &str,
        completion: Option<Completion>,
    ) {
        if let Some(completion) = &completion {
            self.told(provider, completion);
        }
        match filled.hole.is_some() {
            true => self.value_made(filled, completion),
            false => self.control_made(filled, completion),
        }
    }

    fn control_made(&mut self, mut filled: Box<Filled>, completion: Option<Completion>) {
        let label = filled.asked.clone();
        filled.tried.push(label.clone());
        // The next step may be asked for by this very prompt, as after any check.
        if let Some(completion) = &completion {
            self.has_come(completion);
        }
        let same = |step: &Completion| filled.has_controls(step);
        // Below the limits, what a step above them has read may be read anew, as after any check.
        let anew =
            |step: &Completion| label.flows_to(&filled.limit) && self.reads_anew(step, &label);
        let is_same = completion.as_ref().is_some_and(same);
        let is_anew = !is_same && completion.as_ref().is_some_and(anew);
        self.events.push(Event::Checked {
            step: self.turn.step,
            label: self.names(&label),
            taken: is_same || is_anew,
        });
        match completion {
            Some(step) if is_anew => return self.take(step, label),
            Some(step) if is_same => (filled.step, filled.label) = (step, label),
            _ => {}
        }
        self.next_part(filled);
    }

    fn value_made(&mut self, mut filled: Box<Filled>, completion: Option<Completion>) {
        let label = filled.asked.clone();
        let Some(mut hole) = filled.hole.take() else {
            return self.next_part(filled);
        };
        let value = completion.and_then(|answer| value::read(&answer, &filled.schema));
        let before = hole.made.as_ref().map(|(made, _)| made);
        let taken = value.is_some() && (before.is_none() || before == value.as_ref());
        hole.made = match (value, hole.made) {
            // The first prompt shows all that the argument may depend on: what it makes is the argument.
            (Some(value), None) => Some((value, label.clone())),
            // Refused: as it was drafted, and asked about.
            (None, None) => Some((hole.drafted.clone(), filled.coarse.clone())),
            (Some(value), Some((made, _))) if made == value => Some((made, label.clone())),
            (_, made) => made,
        };
        self.trace_value(&filled, &hole, &label, taken);
        filled.tried.push(label);
        filled.hole = Some(hole);
        self.next_part(filled);
    }

    /// The trace's entry for an attempt at a value.
    fn trace_value(&mut self, filled: &Filled, hole: &Hole, label: &Label, taken: bool) {
        let tool = filled.open_call(hole).map(|call| call.tool.clone());
        self.events.push(Event::Filled {
            step: self.turn.step,
            tool: tool.unwrap_or_default().into(),
            argument: hole.path.to_string().into(),
            label: self.names(label),
            taken,
        });
    }

    /// The step that the parts are.
    fn make_filled(&mut self, filled: Filled) {
        let mut calls = Vec::new();
        for (at, proposed) in filled.step.calls.iter().enumerate() {
            let mut kept = Kept::default();
            let mut values = Vec::new();
            for hole in filled.done.iter().filter(|hole| hole.call == at) {
                if let Some((value, label)) = &hole.made {
                    kept.add(&hole.path, label);
                    values.push((hole, value.as_str()));
                }
            }
            match with_values(proposed, values) {
                Some(arguments) => calls.push(StepCall {
                    proposed: ProposedCall {
                        arguments: arguments.to_json(),
                        ..proposed.clone()
                    },
                    kept,
                }),
                None => return self.stands(filled.draft),
            }
        }
        let text = self.said(filled.step.text, filled.step.stop, &filled.label);
        self.make(text, calls, &filled.label);
    }
}

/// The call that a value is asked for: as its control part has it, without what it carries.
fn note(filled: &Filled, hole: &Hole) -> Labeled {
    let call = filled.step.calls.get(hole.call);
    let hidden = filled.open_call(hole).map(|call| call.data.keys());
    let call = call
        .and_then(|call| value::opened(call, hidden.into_iter().flatten(), (&hole.path, hole.nth)));
    let note = value::note(&call.unwrap_or_default());
    Labeled::label_tcb(note, filled.label.clone())
}
