//! Worlds that speak of addresses: an answer shows them active only where they stand in what its prompt showed.

use hub::Screening;
use ifc::Label;

use super::chooser::Fixed;
use super::compare::Counts;
use super::holds::{holds, worlds};
use super::labels::flows;
use super::play::play;
use super::random::{Random, hash};
use super::record::Act;
use super::world::{Piece, Side, Text, World};

/// What every address has in it.
pub(crate) const HOST: &str = ".example/";

/// An address, mostly. There are so few that a model guesses one that it has not seen.
pub(crate) fn spoken(random: &mut Random) -> String {
    match random.below(9) {
        6.. => String::new(),
        at => format!("https://a{at}{HOST} "),
    }
}

/// A world of this seed that has addresses in every text.
fn of_addresses(seed: u64) -> World {
    let mut world = World::random(seed);
    let mut random = Random::new(hash(&["of addresses", &seed.to_string()]));
    let labels: Vec<Label> = regions(&world.turns)
        .map(|(_, label)| label.clone())
        .collect();
    // Not ⊤, under which every address is active, and mostly more than the limit, so that text above it counts.
    let limit = labels
        .iter()
        .filter(|label| !label.is_top() && random.chance(20));
    world.address_limit = Some(limit.fold(Label::bottom(), |limit, label| limit.join(label)));
    world.answer_limit = Some(Label::top());
    world.services.clear();
    if seed.is_multiple_of(2) {
        world.screening = Screening::Eager;
    }
    // The model speaks of addresses wherever it is shown one.
    let known = (format!("https://known{HOST} "), Label::bottom());
    world.system.0.push(Piece {
        a: vec![known.clone()],
        b: vec![known],
    });
    for Piece { a, b } in world.turns.iter_mut().flat_map(|text| &mut text.0) {
        // Above the limit each side has its own.
        let same = a.iter().zip(b.iter()).all(|(a, b)| a == b) && a.len() == b.len();
        let mut add = |regions: &mut Vec<(String, Label)>| {
            for (text, _) in regions {
                *text += &spoken(&mut random);
            }
        };
        add(a);
        if same {
            b.clone_from(a);
        } else {
            add(b);
        }
    }
    world
}

fn regions(texts: &[Text]) -> impl Iterator<Item = &(String, Label)> {
    let pieces = texts.iter().flat_map(|text| &text.0);
    pieces.flat_map(|piece| &piece.a)
}

/// Whether an address that a model guesses is active tells nothing of what stands above the answer.
#[test]
fn an_address_is_active_for_what_its_answer_may_show_alone() {
    let mut totals = Counts::default();
    for seed in worlds(400) {
        let world = of_addresses(seed);
        let (compared, _) = holds(&world);
        totals.join(&compared);
        for act in play(&world, Side::A, false, &mut Fixed(&world)).acts() {
            if let Act::Answered(label, text) = act
                && flows(label, &world.limit)
            {
                totals.add("active", text.matches("https://").count());
                totals.add("inert", text.matches("https[:]//").count());
            }
        }
    }
    println!("{totals:?}");
    if totals["pairs"] >= 400 {
        assert!(totals["active"] > 40 && totals["inert"] > 20 && totals["prompts"] > 300);
    }
}
