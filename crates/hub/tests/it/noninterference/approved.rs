//! What a user's yes endorses while a world is played.

use hub::{AnswerShape, Completion, CompletionRequest, ProposedCall, Screening};
use ifc::{Call, Effect, Label, Lattice, Order, PromptMessage, REDACTED};
use serde_json::json;

use super::compare::Counts;
use super::data::DATA;
use super::holds::{holds, worlds};
use super::labels::{Taints, flows, flows_taints, parts, taints, union};
use super::model::{self, shown};
use super::nested::Nests;
use super::random::{Random, hash};
use super::world::{Carries, Choice, Piece, TAINTS, World};

/// The lattice in which the first so many taints are about integrity.
pub(crate) fn lattice(integrity: usize) -> Lattice {
    let order = |taints: std::ops::Range<usize>| match taints.is_empty() {
        true => Order::TwoPoint,
        false => Order::Categories(taints.map(|at| format!("taint{at}")).collect()),
    };
    Lattice::new(&order(0..integrity), &order(integrity..TAINTS)).unwrap()
}

/// The control part of a call with the labels that it has once the user has said yes, by the tests' own reading: app and
/// tool, and then each argument, cut where its label changes, but for what it carries.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Endorsed(pub(crate) Vec<(String, Taints)>);

impl Endorsed {
    /// What a yes to this call endorses; nothing where no taint of its control part is about integrity, or where they
    /// are unknown.
    pub(crate) fn of(world: &World, call: &Call) -> Option<Self> {
        let mut control = vec![(format!("{}.{}", call.app, call.tool), taints(&call.label))];
        for (name, value) in call.arguments.iter() {
            control.push((name.to_owned(), taints(&call.label)));
            let places = data_places(world, call, name);
            let starts = places.iter().map(|place| place.start);
            let ends = places.iter().map(|place| place.end);
            let around = std::iter::once(0).chain(ends);
            for (from, to) in around.zip(starts.chain([value.len()])) {
                let around = value.slice(from..to).unwrap();
                let around = parts(&around).into_iter();
                control.extend(around.map(|(text, label)| {
                    let label = union(&taints(&call.label), &taints(&label));
                    (text.to_owned(), label)
                }));
            }
        }
        let proposed = control.clone();
        for (_, label) in &mut control {
            label.as_mut()?.retain(|at| *at >= world.integrity);
        }
        (control != proposed).then_some(Self(control))
    }

    /// The label of app and tool.
    pub(crate) fn label(&self) -> &Taints {
        &self.0[0].1
    }

    /// What an observer at this label sees of it.
    pub(crate) fn at(&self, limit: &Label) -> Self {
        let seen = self
            .0
            .iter()
            .map(|(text, label)| match flows_taints(label, &taints(limit)) {
                true => (text.clone(), label.clone()),
                false => ("above".to_owned(), label.clone()),
            });
        Self(seen.collect())
    }

    /// The label of all of the call, with what it carries.
    pub(crate) fn whole(&self, world: &World, call: &Call) -> Taints {
        let labels = self.0.iter().map(|(_, label)| label);
        labels.fold(data_label(world, call), |all, one| union(&all, one))
    }
}

/// Where the data stands in the argument of this name. An argument of another form than the one that leads to data
/// is data as a whole, as far as a yes goes.
fn data_places(world: &World, call: &Call, name: &str) -> Vec<std::ops::Range<usize>> {
    let has_data = world.tool(call).is_some_and(|it| it.data_limit.is_some());
    match call.arguments.get(name) {
        Some(value) if has_data && name == DATA => {
            let whole = || std::iter::once(0..value.len()).collect();
            world.nests.data(value).unwrap_or_else(whole)
        }
        _ => Vec::new(),
    }
}

/// The label of what a call carries: the data arguments that it has.
fn data_label(world: &World, call: &Call) -> Taints {
    let places = data_places(world, call, DATA).into_iter();
    let value = call.arguments.get(DATA);
    let labels = places.filter_map(|place| Some(taints(&value?.slice(place)?.label())));
    labels.fold(taints(&Label::bottom()), |all, one| union(&all, &one))
}

/// The answer of a model that does what the text asks for which it sees whole: which call it makes depends on how often
/// it has spoken, and on whether anything is masked. What a call carries, and now and then what it is, depends on
/// every byte.
pub(crate) fn delegating(world: &World, request: &CompletionRequest) -> Completion {
    let shown = shown(request);
    let tools = request.prompt.tools();
    let messages = request.prompt.messages().iter();
    let spoken = messages.filter(|it| matches!(it, PromptMessage::Assistant { .. }));
    let rounds = spoken.count().to_string();
    let masked = shown.contains(REDACTED).to_string();
    let mut will = Random::new(hash(&["asks", &world.seed.to_string(), &rounds, &masked]));
    if request.shape != AnswerShape::TextOrCalls || tools.is_empty() || will.chance(10) {
        return model::answer(world.seed, request);
    }
    let seen = hash(&["asking", &shown]) >> 16;
    let word = format!("m{seen:012x}");
    let call = |will: &mut Random| {
        let argument = match will.chance(8) {
            true => (seen % 3).to_string(),
            false => rounds.clone(),
        };
        let mut arguments = json!({"a": argument});
        if world.carries != Carries::Nothing {
            arguments[DATA] = world.nests.argument(&word, seen);
        }
        ProposedCall {
            tool: will.pick(tools).name.clone(),
            arguments: arguments.to_string(),
        }
    };
    let count = 1 + will.below(5) / 4;
    Completion {
        calls: (0..count).map(|_| call(&mut will)).collect(),
        text: match will.chance(40) {
            true => word,
            false => String::new(),
        },
        ..Completion::default()
    }
}

/// A world in which a user who is asked about most calls mostly says yes.
fn of_approvals(seed: u64) -> World {
    let mut world = World::random(seed);
    let mut random = Random::new(hash(&["of approvals", &seed.to_string()]));
    world.screening = match random.below(4) {
        0 => Screening::LAZY,
        1 => Screening::Eager,
        _ => Screening::CHECKED,
    };
    // Around the ends of words, and among the taints of small lattices.
    world.integrity = *random.pick(&[1, 2, 4, 63, 64, 100, TAINTS, TAINTS]);
    world.delegates = random.chance(85);
    world.carries = *random.pick(&[Carries::Nothing, Carries::Digest, Carries::Digest]);
    world.nests = match world.carries {
        Carries::Nothing => Nests::Not,
        _ => *random.pick(&[Nests::Not, Nests::Member, Nests::Elements]),
    };
    world.yes = *random.pick(&[50, 100, 100, 100]);
    world.services.clear();
    world.kept.clear();
    world.memories = None;
    world.limits.steps = 5 + random.below(3);
    world.limits.prompt_bytes = 1 << 20;
    for choice in world.choices.iter_mut().flatten() {
        if random.chance(80) {
            *choice = Choice::Everything;
        }
    }
    let limit = world.limit.clone();
    // What nobody knows (⊤) is endorsed by nobody.
    let is_known = |piece: &Piece| {
        let mut regions = piece.a.iter().chain(&piece.b);
        regions.all(|(_, label)| !label.is_top())
    };
    world.tools.retain(|tool| tool.only.is_none());
    let tools = world.tools.iter_mut();
    let said = tools.flat_map(|tool| [&mut tool.description, &mut tool.parameters]);
    let said = said.chain(&mut world.turns).chain([&mut world.system]);
    said.for_each(|text| text.0.retain(is_known));
    for tool in &mut world.tools {
        if random.chance(70) {
            tool.limit = Some(limit.clone());
            tool.odd_limit = limit.clone();
        }
        if world.carries != Carries::Nothing && random.chance(80) {
            tool.data_limit = Some(Label::top());
        }
        // What comes of the calls is often at L, if the calls are.
        for field in &mut tool.fields {
            for label in [&mut field.label, &mut field.more] {
                if !flows(label, &limit) && random.chance(60) {
                    *label = label.meet(&limit);
                }
            }
        }
        tool.effect = *random.pick(&[Effect::Read, Effect::Write, Effect::Irreversible]);
    }
    world
}

/// The user's yes to a call made above a label is all that is seen of it there: the call, and what comes of it. Where
/// both users say yes to the same calls, nothing else tells the worlds apart.
#[test]
fn a_yes_tells_of_the_call_that_it_was_given_to_and_of_nothing_else() {
    let mut totals = Counts::default();
    for seed in worlds(400) {
        let (compared, _) = holds(&of_approvals(seed));
        totals.join(&compared);
    }
    println!("{totals:?}");
    if totals["pairs"] >= 400 {
        assert!(totals["approved"] > 1000 && totals["endorsed"] > 120 && totals["after"] > 120);
        assert!(totals["approved apart"] > 40 && totals["prompts"] > 500);
    }
}
