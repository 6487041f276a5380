//! The bounds that hold for every screener: on prompts, answers, messages, calls and the record.

use hub::trace::MessageKind;
use hub::{AnswerShape, CompletionRequest, Purpose};
use ifc::{
    Answer, Basis, Call, Collaboration, Direction, Effect, History, Label, Labeled, Message, Stage,
};

use super::data::flows_apart;
use super::kept::About;
use super::labels::{Taints, flows, flows_taints, parts, taints};
use super::model;
use super::player::Player;
use super::record::{Act, Masked, Subject, ran};
use super::rules::limit;
use super::world::{APPS, ToolSpec};

impl Player<'_> {
    /// The bounds on a prompt: no word above its label, and its label is recorded.
    pub(crate) fn prompt(&mut self, request: &CompletionRequest, said: &str) {
        let (label, shown) = self.bound(request, said);
        self.check_clearance(&label);
        let masked = Masked(request.prompt.masked());
        let step = self.last_mut();
        step.fallback |= matches!(step.acts.last(), Some(Act::Asked(Subject::Answer(_), ..)));
        // Nobody is asked about an answer from everything, after a step without that lacked something.
        let from_everything = matches!(step.without, Some((_, false)));
        let is_in_words = request.purpose == Purpose::Step && request.shape == AnswerShape::Text;
        step.fallback |= from_everything && is_in_words;
        if request.purpose == Purpose::Summary {
            // The step follows, unless there is no summary.
            if !step.fallback {
                step.chosen = Some(label.clone());
            }
            step.acts.push(Act::Prompt(label, shown, masked));
            return;
        }
        step.label = Some(label.clone());
        step.prompts.push(label.clone());
        step.drafted.get_or_insert_with(|| label.clone());
        if !step.fallback {
            step.chosen = Some(label.clone());
        }
        step.acts.push(Act::Prompt(label, shown, masked));
    }

    /// The bound on a prompt by the clearances: it keeps to one, unless what the turn is about keeps to none.
    fn check_clearance(&mut self, label: &Label) {
        let (world, side) = (self.world, self.side);
        let Some(said) = world.turns.get(self.run.turns.len() - 1) else {
            return;
        };
        let words = world.system.on(side).label().join(&said.on(side).label());
        let is_cleared = |own: &Label| world.clearances.iter().any(|it| flows(own, it));
        // What another app asks for is above the words of that conversation.
        let is_bound = !self.vanilla && self.nested.is_empty() && !world.clearances.is_empty();
        if is_bound && is_cleared(&words) && !is_cleared(label) {
            self.offence(format!("no provider is cleared for a prompt at {label:?}"));
        }
    }

    /// Checks a prompt: its label, and what it shows.
    pub(crate) fn bound(&mut self, request: &CompletionRequest, said: &str) -> (Label, String) {
        let label = request.prompt.label().clone();
        let shown = model::shown(request);
        if let Some(word) = self
            .words
            .secret_in(&shown, &taints(&label))
            .filter(|_| !self.vanilla)
        {
            self.offence(format!("a prompt at {label:?} shows {word}"));
        }
        let nested = self.nested.last();
        if nested.is_some_and(|it| !flows(&it.control, &label)) && !self.vanilla {
            self.offence(format!("a prompt at {label:?} is below its request"));
        }
        // The model made up one word, and repeated words that it was shown.
        if let Some(made_up) = said.split(' ').next() {
            self.words.learn(made_up, &taints(&label));
        }
        (label, shown)
    }

    /// The bound on an answer: it flows to its limit, unless the user has said yes to it.
    pub(crate) fn check_answer(&mut self, text: &Labeled) {
        let label = text.label();
        let limit = self.world.answer_limit.as_ref();
        let asked = match self.last_mut().acts.last() {
            Some(Act::Asked(Subject::Answer(release), Answer::Once, _)) => release.text == *text,
            _ => false,
        };
        let allowed = limit.is_some_and(|limit| flows(&label, limit)) || asked;
        if !allowed && !self.vanilla {
            self.offence(format!("an answer at {label:?} is shown over {limit:?}"));
        }
    }

    /// The bound on a message: it flows to its limit, unless the user has said yes to it.
    pub(crate) fn check_message(
        &mut self,
        kind: MessageKind,
        functionality: &str,
        (asks, serves): (String, String),
        label: &Label,
    ) {
        let stage = match kind {
            MessageKind::Probe => Stage::Probe,
            MessageKind::Request => Stage::Request,
            MessageKind::Response => Stage::Response,
            _ => return,
        };
        let mut services = self.world.services.iter();
        let service = services.find(|service| service.name == functionality);
        let asked = match self.last_mut().acts.last() {
            Some(Act::Asked(Subject::Delivery(delivery, _), Answer::Once | Answer::Always, _)) => {
                delivery.stage == stage && delivery.functionality == functionality
            }
            _ => false,
        };
        let allowed = service.is_some_and(|service| {
            let rule = service.rule(stage);
            let about = About::Apps(Collaboration {
                asks,
                serves,
                functionality: functionality.to_owned(),
                direction: match stage {
                    Stage::Response => Direction::Answering,
                    _ => Direction::Asking,
                },
            });
            let limit = (!rule.always_ask).then_some(&rule.limit);
            limit.is_some_and(|limit| flows(label, limit))
                || self.cabinet.covers(&about, label, limit)
        });
        // A response of a conversation is made from its last prompt.
        let made_from = match self.last().and_then(|step| {
            let served = |act: &Act| match act {
                Act::Served(_, turn) => turn.steps.last()?.label.clone(),
                _ => None,
            };
            step.acts.iter().rev().find_map(served)
        }) {
            Some(label) if service.is_some_and(|it| it.conversed) => label,
            _ => Label::bottom(),
        };
        if stage == Stage::Response && !flows(&made_from, label) && !self.vanilla {
            self.offence(format!("a response at {label:?} was made at {made_from:?}"));
        }
        if !allowed && !asked && !self.vanilla {
            self.offence(format!("a {stage:?} at {label:?} passes unasked"));
        }
    }

    /// The bounds on a call: its label is that of the prompt that it came from, and it flows to
    /// the call's limit unless the user has just said yes to this very call.
    /// Returns whether the user has said yes to it.
    pub(crate) fn check_call(&mut self, call: &Call, basis: &Basis, history: &History) -> bool {
        let world = self.world;
        let spec = world.tool(call);
        let limit = spec.and_then(|spec| limit(spec, call));
        let irreversible = spec.is_none_or(|spec| spec.effect == Effect::Irreversible);
        let ran_before = irreversible && self.acts().any(|act| ran(act, call));
        let own = self.nested.last().map(|nested| nested.app.clone());
        let step = self.last_mut();
        let is_call = |act: &&Act| !matches!(act, Act::Asked(Subject::Call(_), ..));
        let requested = match step.acts.iter().rev().find(is_call) {
            Some(Act::Message(_, MessageKind::Request, functionality, _)) => {
                Some(functionality.clone())
            }
            _ => None,
        };
        // What a prompt was made of may have been endorsed since.
        let same_label =
            step.label.as_ref().map(Label::unendorsed) == Some(call.label.unendorsed());
        let asked = match step.acts.last() {
            Some(Act::Asked(
                Subject::Call(about),
                Answer::Once | Answer::Each | Answer::Always,
                _,
            )) => about == call,
            _ => false,
        };
        // The question listed it.
        let is_each = |act: &Act| matches!(act, Act::Asked(Subject::Call(_), Answer::Each, _));
        let asked = asked || *basis == Basis::UserOnce && step.acts.iter().any(is_each);
        if self.vanilla {
            return asked;
        }
        // What the user has vouched for, in calls like this one.
        let turn = self.run.turns.len() - 1;
        let effect = spec.map(|spec| spec.effect);
        let trusted = self.trusted.iter();
        let trusted = trusted.filter(|it| it.reaches(&call.app, effect) && it.holds_in(turn));
        let trusted = trusted.fold(Label::bottom(), |all, it| all.join(&it.taints));
        let allowed = match basis {
            Basis::Policy { .. } => {
                let asks = world.tool(call).is_none_or(|spec| spec.always_ask);
                !asks
                    && !ran_before
                    && limit.is_some_and(|limit| flows_apart(world, spec, call, history, limit))
            }
            Basis::UserOnce => asked,
            Basis::Permission { .. } => {
                let asks = world.tool(call).is_none_or(|spec| spec.always_ask);
                let about = match spec.and_then(|spec| world.service(spec)) {
                    Some(service) => Some(About::Apps(Collaboration {
                        asks: own.clone().unwrap_or(APPS[0].to_owned()),
                        serves: call.app.clone(),
                        functionality: service.name.clone(),
                        direction: Direction::Asking,
                    })),
                    // What an app does for another one is permitted by nothing.
                    None if own.is_some() => None,
                    None => Some(About::Tool(call.app.clone(), call.tool.clone())),
                };
                // What the user has vouched for besides needs no permission.
                let limit = limit.map(|limit| limit.join(&trusted));
                let covers = |about| self.cabinet.covers(&about, &call.label, limit.as_ref());
                !asks && !irreversible && limit.is_some() && about.is_some_and(covers)
            }
            Basis::UserTrust => {
                let asks = world.tool(call).is_none_or(|spec| spec.always_ask);
                // Every limit of the call is raised by it.
                let spec = spec.cloned().map(|spec| ToolSpec {
                    data_limit: spec.data_limit.map(|limit| limit.join(&trusted)),
                    ..spec
                });
                let limit = limit.map(|limit| limit.join(&trusted));
                let flows = |limit: Label| flows_apart(world, spec.as_ref(), call, history, &limit);
                !asks && !ran_before && own.is_none() && limit.is_some_and(flows)
            }
            // In this turn, and about the same control part.
            Basis::UserBefore => {
                let turn = self.run.turns.last();
                let mut acts = turn
                    .iter()
                    .flat_map(|turn| &turn.steps)
                    .flat_map(|it| &it.acts);
                let yes = |act: &Act| match act {
                    Act::Asked(Subject::Call(about), Answer::Once | Answer::Each, _) => {
                        (&about.app, &about.tool) == (&call.app, &call.tool)
                    }
                    _ => false,
                };
                !irreversible && own.is_none() && acts.any(yes)
            }
            Basis::UserSession => false,
        };
        let serves = spec.and_then(|spec| world.service(spec));
        let reached = match serves {
            // No app is asked before it was given the request.
            Some(service) => requested.as_ref() == Some(&service.name),
            None => match own {
                Some(own) => own == call.app,
                None => world.apps().with_tools().contains(&call.app),
            },
        };
        if !allowed || !reached {
            self.offence(format!("{call:?} ran by {basis:?} over {limit:?}"));
        }
        if !same_label {
            self.offence(format!(
                "{call:?} has not the label of its prompt {:?}",
                self.last()
            ));
        }
        asked
    }

    /// The bounds on the record: no word of the history has a label below its own, and nothing
    /// that a step brought is below the step.
    pub(crate) fn check_history(&mut self, history: &History) {
        let mut found: Vec<String> = Vec::new();
        let mut check = |least: &Taints, text: &Labeled| {
            for (part, label) in parts(text) {
                let label = taints(&label);
                if let Some(word) = self.words.secret_in(part, &label) {
                    found.push(format!("the history has {word} at {label:?}"));
                }
                if !part.is_empty() && !flows_taints(least, &label) {
                    found.push(format!("{part} at {label:?} is below its step"));
                }
            }
        };
        for (label, message) in history.messages() {
            let least = taints(label);
            // A name in a call and in its result is as sensitive as the message.
            let named = |tool: &String| Labeled::label_tcb(tool.as_str(), label.clone());
            match message {
                Message::System(text) | Message::User(text) | Message::Memory(text) => {
                    check(&least, text);
                }
                Message::Result { tool, content, .. } => {
                    check(&least, content);
                    check(&least, &named(tool));
                }
                Message::Assistant { text, calls } => {
                    check(&least, text);
                    for call in calls {
                        let own = call.label(label);
                        check(&taints(&own), &call.arguments);
                        let name = Labeled::label_tcb(call.tool.as_str(), own.clone());
                        check(&taints(&own), &name);
                    }
                }
            }
        }
        found.into_iter().for_each(|what| self.offence(what));
    }
}
