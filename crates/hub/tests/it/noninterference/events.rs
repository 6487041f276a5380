//! What the trace says of a run.

use std::sync::{Arc, LazyLock};

use hub::trace::{Event, Flow, MessageKind, Names};
use hub::{ProposedCall, TurnMachine};
use ifc::{History, Label, Lattice, Message, Order};

use super::cleared::cleared;
use super::labels::{flows, parts, taints, union};
use super::player::Player;
use super::record::{Act, Refined, Step};
use super::world;

/// Names each taint that a world can have, whatever lattice it drew its labels from: events have
/// labels by name, and a name per taint is the label again.
pub(crate) static TAINTS: LazyLock<Arc<Lattice>> = LazyLock::new(|| {
    let names = (0..world::TAINTS).map(|at| format!("taint{at}"));
    Arc::new(Lattice::new(&Order::Categories(names.collect()), &Order::TwoPoint).unwrap())
});

/// The label that an event names.
fn named(names: &Names) -> Label {
    TAINTS.labels(names.iter().map(String::as_str)).unwrap()
}

/// What the call at this position of this step of the turn has as its arguments.
fn made(history: &History, step: usize, call: usize) -> String {
    let mut steps = Vec::new();
    for (_, message) in history.messages() {
        match message {
            Message::User(_) => steps.clear(),
            Message::Assistant { calls, .. } => steps.push(calls),
            _ => {}
        }
    }
    let past = &steps[step - 1][call];
    format!("{} {}", past.tool, past.arguments.reveal_tcb())
}

impl Player<'_> {
    /// What the trace says of steps, denials and what was remembered.
    pub(crate) fn take_events(&mut self, agent: &mut TurnMachine) {
        for event in agent.take_events() {
            match event {
                Event::Redacted { step, .. }
                    if self.last().is_none_or(|last| last.number != step) =>
                {
                    self.turn_mut().steps.push(Step {
                        number: step,
                        ..Step::default()
                    });
                }
                Event::Screened { .. } => self.last_mut().screened = true,
                // Before a screening, it was drafted without descriptions that it needs: the next prompt is the draft's.
                Event::DraftDropped { .. } if !self.last_mut().screened => {
                    self.last_mut().drafted = None;
                }
                Event::Checked { label, taken, .. } => {
                    let step = self.last_mut();
                    step.checked = Some((named(&label), taken));
                    if taken {
                        step.control = Some(named(&label));
                    }
                    step.parts.push((String::new(), named(&label), taken));
                    step.as_its_control();
                }
                Event::Filled {
                    argument,
                    label,
                    taken,
                    ..
                } => {
                    let part = (argument.to_string(), named(&label), taken);
                    let step = self.last_mut();
                    step.parts.push(part);
                    step.as_its_control();
                }
                Event::Refined {
                    of,
                    call,
                    label,
                    whole,
                    ..
                } => {
                    self.relearn(agent.history());
                    let made = made(agent.history(), of, call);
                    let step = self.last_mut();
                    step.refined.push(Refined {
                        of,
                        arguments: made,
                        label: named(&label),
                        whole,
                    });
                    step.label.clone_from(&step.drafted);
                    step.chosen.clone_from(&step.drafted);
                }
                Event::Withheld { step, label, taken } => {
                    // The prompt may have been that of a check before.
                    if self.last().is_none_or(|last| last.number != step) {
                        self.turn_mut().steps.push(Step {
                            number: step,
                            ..Step::default()
                        });
                    }
                    let step = self.last_mut();
                    step.without = Some((named(&label), taken));
                    if taken {
                        // Its calls are made from this prompt, whatever was shown in between.
                        step.drafted = Some(named(&label));
                        step.label.clone_from(&step.drafted);
                        step.chosen.clone_from(&step.drafted);
                    } else {
                        // From here on the draft is what came of the newest prompt, from everything.
                        step.drafted.clone_from(&step.label);
                        self.draft.clone_from(&self.newest);
                    }
                }
                Event::Denied { flow, reason, .. } => {
                    let label = match &flow {
                        Flow::Call(call) => call
                            .data
                            .values()
                            .fold(named(&call.label), |all, data| all.join(&named(data))),
                        Flow::Message(message) => named(&message.label).join(&self.step_label()),
                        Flow::Answer { label, .. } => named(label),
                    };
                    self.act(Act::Denied(label, flow, reason.to_string()));
                }
                Event::Message {
                    message,
                    functionality,
                    asks,
                    serves,
                    label,
                    note,
                    ..
                } => {
                    let apps = (asks, serves);
                    self.check_message(message, &functionality, apps, &named(&label));
                    if message != MessageKind::Denied {
                        self.count(&note);
                    }
                    // Whether a step asks at all is as secret as the step.
                    let label = named(&label).join(&self.step_label());
                    self.act(Act::Message(
                        label,
                        message,
                        functionality,
                        note.to_string(),
                    ));
                }
                Event::Rejected {
                    tool,
                    arguments,
                    label,
                    reason,
                    ..
                } => {
                    let (tool, arguments) = (tool.to_string(), arguments.to_string());
                    let proposed = ProposedCall { tool, arguments };
                    self.act(Act::Rejected(named(&label), proposed, reason.to_string()));
                }
                _ => {}
            }
        }
    }

    /// Labels have fallen since an earlier call was counted: what is below now may be seen there. How far
    /// they may fall is held by `ifc`'s own tests, and by the comparison of both sides.
    pub(crate) fn relearn(&mut self, history: &History) {
        for (label, message) in history.messages() {
            let texts = match message {
                Message::System(text) | Message::User(text) | Message::Memory(text) => vec![text],
                Message::Result { content, .. } => vec![content],
                Message::Assistant { text, calls } => {
                    let arguments = calls.iter().map(|call| &call.arguments);
                    std::iter::once(text).chain(arguments).collect()
                }
            };
            for (part, own) in texts.into_iter().flat_map(parts) {
                let label = union(&taints(&own), &taints(label));
                self.words.learn(part, &label);
            }
        }
        self.shown.relearn(&mut self.words, self.world, history);
        // The draft was made from everything that the provider is cleared for, whose label this is now.
        let control = self.nested.last().map(|nested| nested.control.clone());
        let control = control.unwrap_or(Label::bottom());
        let drafted = self.last().and_then(|step| step.drafted.clone());
        // What a no withholds it was made without.
        let without = self.last().and_then(|step| step.without.clone());
        let clearance = match (without, self.world.clearances.as_slice()) {
            (Some((label, true)), _) => label,
            (_, [own]) if drafted.as_ref().is_some_and(|label| flows(label, own)) => own.clone(),
            _ => Label::top(),
        };
        let coarse = cleared(history, &clearance, drafted.as_ref()).join(&control);
        self.words.learn(&self.draft.clone(), &taints(&coarse));
        self.last_mut().drafted = Some(coarse);
    }
}
