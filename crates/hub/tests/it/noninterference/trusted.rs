//! What the users of a world vouch for while it is played.

use hub::{Asked, Screening};
use ifc::{Answer, Effect, Label, Until};

use super::compare::Counts;
use super::holds::{holds, worlds};
use super::labels::flows;
use super::random::{Random, hash};
use super::world::{Choice, Text, World};

/// An answer by which the user vouched for texts, as the tests read it.
#[derive(Debug)]
pub(crate) struct Trusted {
    app: String,
    effect: Effect,
    /// All that stood in the way of the call.
    pub(crate) taints: Label,
    until: Until,
    turn: usize,
}

impl Trusted {
    pub(crate) fn of(question: &Asked, until: Until, turn: usize) -> Self {
        let call = question.call().unwrap();
        Self {
            app: call.app.clone(),
            effect: question.rule().effect,
            taints: question.excess().unendorsed(),
            until,
            turn,
        }
    }

    /// Whether it speaks of calls of this app that do no worse.
    pub(crate) fn reaches(&self, app: &str, effect: Option<Effect>) -> bool {
        self.app == app && effect.is_some_and(|effect| effect <= self.effect)
    }

    pub(crate) fn holds_in(&self, turn: usize) -> bool {
        self.until == Until::Session || self.turn == turn
    }
}

/// Whether, and until when, a user vouches for what a question offers: only about taints of which none is
/// below the limit.
pub(crate) fn is_trusted(world: &World, question: &Asked) -> Option<Until> {
    let until = match world.seed % 2 {
        0 => Until::Task,
        _ => Until::Session,
    };
    let is_above = question
        .excess()
        .unendorsed()
        .meet(&world.limit)
        .is_bottom();
    let offered = question.choices().contains(&Answer::Trust(until));
    (offered && is_above).then_some(until)
}

/// A world in which most calls stand above their limits, for what results brought that may be trusted.
fn of_trust(seed: u64) -> World {
    let mut world = World::random(seed);
    let mut random = Random::new(hash(&["of trust", &seed.to_string()]));
    world.screening = match seed % 3 {
        0 => Screening::CHECKED,
        _ => Screening::LAZY,
    };
    world.services.clear();
    world.kept.clear();
    world.memories = None;
    for choice in world.choices.iter_mut().flatten() {
        if random.chance(80) {
            *choice = Choice::Everything;
        }
    }
    // What is above the limit is what was read: nobody is asked to trust a description.
    let limit = world.limit.clone();
    let below = |text: &mut Text| {
        let is_below = |(_, label): &(String, Label)| flows(label, &limit);
        text.0
            .retain(|piece| piece.a.iter().chain(&piece.b).all(is_below));
    };
    below(&mut world.system);
    world.tools.retain(|tool| tool.only.is_none());
    for tool in &mut world.tools {
        tool.always_ask = false;
        below(&mut tool.description);
        below(&mut tool.parameters);
        if tool.effect != Effect::Read {
            tool.limit = Some(world.limit.clone());
            tool.odd_limit = world.limit.clone();
        }
    }
    world
}

/// What the user vouches for above a label changes nothing at it, and lets run what it speaks of.
#[test]
fn trust_above_a_label_is_not_seen_at_it() {
    let mut totals = Counts::default();
    for seed in worlds(400) {
        let (compared, _) = holds(&of_trust(seed));
        totals.join(&compared);
    }
    println!("{totals:?}");
    if totals["pairs"] >= 400 {
        assert!(totals["trusted"] > 150 && totals["by trust"] > 150 && totals["prompts"] > 300);
    }
}
