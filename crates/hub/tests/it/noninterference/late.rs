//! Worlds in which a read at L stands behind one above it, and in the way of a call.

use hub::{AnswerShape, Completion, CompletionRequest, ProposedCall, Screening};
use ifc::{Effect, Label, PromptMessage};

use super::compare::Counts;
use super::holds::{holds, worlds};
use super::labels::flows;
use super::model::{self, shown};
use super::random::{Random, hash};
use super::world::{Choice, Piece, World};

/// The answer of a model that reads with its first tool, goes on with the others, and is done after a few
/// steps. Which call it makes depends on how often it has spoken, and in an eighth of all cases on every byte
/// that it is shown; so do its words, if it says any, and the order of two calls of one step.
pub(crate) fn reading(weights: u64, request: &CompletionRequest) -> Completion {
    let tools = request.prompt.tools();
    let messages = request.prompt.messages().iter();
    let spoken = messages.filter(|it| matches!(it, PromptMessage::Assistant { .. }));
    let rounds = spoken.count();
    let mut will = Random::new(hash(&["reads", &weights.to_string(), &rounds.to_string()]));
    if request.shape != AnswerShape::TextOrCalls || tools.len() < 3 || will.below(7) < rounds {
        return model::answer(weights, request);
    }
    let seen = hash(&["reading", &shown(request)]) >> 16;
    let tool = match rounds {
        0 => 0,
        _ => 1 + will.below(tools.len() - 1),
    };
    let argument = match will.chance(12) {
        true => format!("{}", seen % 3),
        false => format!("{rounds}"),
    };
    let text = match will.chance(12) {
        true => format!("m{seen:012x}"),
        false => String::new(),
    };
    let call = |argument: &str| ProposedCall {
        tool: tools[tool].name.clone(),
        arguments: format!(r#"{{"a":"{argument}"}}"#),
    };
    let mut calls = vec![call(&argument)];
    // Two that are independent, in an order or in steps that every byte may choose.
    if rounds > 0 && will.chance(25) {
        calls.push(call("more"));
        match seen % 4 {
            0 => calls.swap(0, 1),
            1 => calls.truncate(1),
            _ => {}
        }
    }
    Completion {
        text,
        calls,
        ..Completion::default()
    }
}

/// More than there are pairs.
const SEEDS: u64 = 1 << 32;

/// A world with a tool that brings text above L, tools that bring text below, and one that wants L.
fn of_reads(seed: u64) -> World {
    let mut worlds = (0..).map(|next| World::random(seed + next * SEEDS));
    let mut world = worlds.find(|world| world.tools.len() > 2).unwrap();
    let mut random = Random::new(hash(&["of reads", &seed.to_string()]));
    world.screening = Screening::CHECKED;
    world.reads = true;
    world.services.clear();
    world.limits.steps = 5 + random.below(3);
    for choice in world.choices.iter_mut().flatten() {
        if random.chance(80) {
            *choice = Choice::Everything;
        }
    }
    let limit = world.limit.clone();
    if random.chance(80) {
        // Only what is read is above L.
        let is_below = |piece: &Piece| piece.a.iter().all(|(_, label)| flows(label, &limit));
        world.tools.retain(|tool| tool.only.is_none());
        let tools = world.tools.iter_mut();
        let said = tools.flat_map(|tool| [&mut tool.description, &mut tool.parameters]);
        let said = said.chain(&mut world.turns).chain([&mut world.system]);
        said.for_each(|text| text.0.retain(is_below));
        world.memories = None;
    }
    let last = world.tools.len() - 1;
    for (at, tool) in world.tools.iter_mut().enumerate() {
        tool.always_ask = false;
        for field in &mut tool.fields {
            // How many parts a field has, above L each side decides: their labels are the same.
            field.more = Label::bottom();
            field.peculiar = None;
            field.label = match at {
                0 if flows(&field.label, &limit) => Label::top(),
                0 => field.label.clone(),
                _ => field.label.meet(&limit),
            };
        }
        let own = match at == last {
            true => limit.clone(),
            false => Label::top(),
        };
        tool.effect = match at == last {
            true => Effect::Write,
            false => Effect::Read,
        };
        tool.odd_limit = own.clone();
        tool.limit = Some(own);
    }
    world
}

/// That a re-run makes a call which was made above L tells nothing of what is above L but which labels the steps had;
/// and what is then below L was made from nothing else.
#[test]
fn a_call_that_counts_tells_nothing_of_what_it_was_made_after() {
    let mut totals = Counts::default();
    for seed in worlds(400) {
        let (compared, _) = holds(&of_reads(seed));
        totals.join(&compared);
    }
    println!("{totals:?}");
    let pairs = totals["pairs"];
    if pairs >= 400 {
        assert!(totals["counted"] > 50);
        let parted = totals["choice"] + totals["refused"];
        assert!(parted * 2 < pairs, "most pairs are compared to their end");
    }
}
