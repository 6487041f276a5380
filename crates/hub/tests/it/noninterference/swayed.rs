//! A screener that reads everything can be swayed in what it chooses. What that gains an attacker
//! has a bound: no text above a prompt's label, no unconfirmed call above its limit, and nothing at
//! L but what some choice of labels brings about without the attacker's text.

use hub::Screening;
use ifc::{History, Label, RegionId, Relevance};

use super::chooser::{Chooser, Fixed};
use super::compare::{Parting, compare};
use super::holds::worlds;
use super::labels::flows;
use super::play::play;
use super::random::{Random, hash};
use super::record::Act;
use super::world::{Side, World};

/// Chooses by every byte of the history: as swayed as can be.
struct Swayed {
    seed: u64,
    /// The labels that it brought about, by turn and step.
    chosen: Vec<(usize, usize, Label)>,
}

impl Chooser for Swayed {
    fn choose(&mut self, history: &History, turn: usize, step: usize) -> Result<Relevance, String> {
        let mut bits = self.seed;
        let mut regions: Vec<RegionId> = Vec::new();
        for region in history.regions() {
            bits = hash(&[&bits.to_string(), region.reveal_tcb()]);
            regions.push(region.id);
        }
        let mut random = Random::new(bits);
        let relevance = match random.below(10) {
            0 => Ok(Relevance::Everything),
            1 => Err("swayed to fail".to_owned()),
            2 => Ok(Relevance::Only([RegionId(u32::MAX)].into())),
            3 => Ok(Relevance::Only([].into())),
            _ => {
                let some = regions.into_iter().filter(|_| random.chance(30));
                Ok(Relevance::Only(some.collect()))
            }
        };
        let meant = relevance.as_ref().unwrap_or(&Relevance::Everything);
        self.chosen.push((turn, step, history.label_of(meant)));
        relevance
    }
}

/// Brings about the labels of another run, as far as they are below L, without a look at text.
struct Replayed<'a> {
    world: &'a World,
    chosen: &'a [(usize, usize, Label)],
}

impl Chooser for Replayed<'_> {
    fn choose(&mut self, history: &History, turn: usize, step: usize) -> Result<Relevance, String> {
        let label = self
            .chosen
            .iter()
            .find(|(t, s, _)| (*t, *s) == (turn, step));
        let (.., label) = label.ok_or_else(|| "the other run had no such step".to_owned())?;
        if self.world.above(label) {
            return Ok(Relevance::Everything);
        }
        let below = history
            .regions()
            .filter(|region| flows(region.label, label));
        Ok(Relevance::Only(below.map(|region| region.id).collect()))
    }
}

/// The bounds themselves are checked in every run (`play`); here the screener is the attacker's.
#[test]
fn a_swayed_screener_shows_nothing_above_a_label_and_runs_nothing_above_a_limit() {
    let (mut masked, mut ran, mut asked) = (0, 0, 0);
    for seed in worlds(250) {
        let world = World::random(seed);
        let mut swayed = Swayed {
            seed,
            chosen: Vec::new(),
        };
        let run = play(&world, Side::A, false, &mut swayed);
        assert_eq!(run.offences, [""; 0], "world {seed}");
        for act in run.acts() {
            match act {
                Act::Prompt(_, _, hidden) => masked += usize::from(hidden.0 > 0),
                Act::Ran { confirmed, .. } => ran += usize::from(!confirmed),
                Act::Asked(..) => asked += 1,
                Act::Denied(..)
                | Act::Rejected(..)
                | Act::Approved(..)
                | Act::Answered(..)
                | Act::Message(..)
                | Act::Served(..) => {}
            }
        }
    }
    println!("{masked} prompts masked, {ran} calls unconfirmed, {asked} questions");
    if worlds(250).count() >= 250 {
        assert!(masked > 250 && ran > 250 && asked > 250);
    }
}

/// Whatever it is swayed to, the run at L is one that the same labels bring about in a world that
/// has nothing of the attacker's text.
#[test]
fn a_swayed_screener_chooses_among_labels_and_nothing_else() {
    let (mut steered, mut parted, mut pairs) = (0, 0, 0);
    for seed in worlds(250) {
        let world = World {
            screening: Screening::Eager,
            ..World::random(seed)
        };
        let mut swayed = Swayed {
            seed,
            chosen: Vec::new(),
        };
        let a = play(&world, Side::A, false, &mut swayed);
        let chosen = &swayed.chosen;
        let mut replayed = Replayed {
            world: &world,
            chosen,
        };
        let b = play(&world, Side::B, false, &mut replayed);
        let compared = compare(&world, &a, &b).unwrap_or_else(|why| panic!("world {seed}: {why}"));
        assert_ne!(compared.parting, Some(Parting::Choice), "world {seed}");
        assert_ne!(compared.parting, Some(Parting::Refused), "world {seed}");
        pairs += 1;
        parted += usize::from(compared.parting.is_some());
        let left_alone = play(&world, Side::A, false, &mut Fixed(&world));
        steered += usize::from(left_alone.acts().ne(a.acts()));
    }
    println!("{pairs} pairs, {parted} parted, {steered} steered");
    if pairs >= 250 {
        assert!(parted * 2 < pairs && steered * 2 > pairs);
    }
}
