//! Worlds in which no provider may see everything.

use hub::Screening;
use ifc::{History, Label, RegionRef, Source};

use super::compare::Counts;
use super::holds::{holds, worlds};
use super::labels::flows;
use super::random::{Random, hash};
use super::record::Act;
use super::world::{Field, Piece, Side, World};
use super::{chooser::Fixed, play::play};

/// The label of what a provider with this clearance may see in a draft: of descriptions, those that it saw when it was
/// made at `drafted`.
pub(crate) fn cleared(history: &History, clearance: &Label, drafted: Option<&Label>) -> Label {
    let is_described = |region: &RegionRef<'_>| matches!(region.source, Source::Description(_));
    let is_hidden = |region: &RegionRef<'_>| {
        is_described(region) && drafted.is_some_and(|label| !flows(region.label, label))
    };
    let everything = history.label();
    if flows(&everything, clearance) && !history.regions().any(|region| is_hidden(&region)) {
        return everything;
    }
    let names = history.tools().iter().map(|tool| &tool.label);
    let regions = history.regions().filter(|region| !is_hidden(region));
    let labels = names.chain(regions.map(|region| region.label));
    labels.filter(|own| flows(own, clearance)).collect()
}

/// A world with one or two providers. In most of them what the user says is at L, or few prompts could be sent.
fn of_clearances(seed: u64) -> World {
    let mut world = World::random(seed);
    let mut random = Random::new(hash(&["clearances", &seed.to_string()]));
    let limit = world.limit.clone();
    if random.chance(80) {
        let is_below = |piece: &Piece| piece.a.iter().all(|(_, label)| flows(label, &limit));
        let said = world.turns.iter_mut().chain([&mut world.system]);
        said.for_each(|text| text.0.retain(is_below));
    }
    let fields = world.tools.iter().flat_map(|tool| &tool.fields);
    let labels = fields.flat_map(Field::labels).cloned();
    let labels: Vec<Label> = labels.chain([limit.clone()]).collect();
    if random.chance(40) {
        // Nothing excuses a step at L in one run only.
        world.screening = Screening::Eager;
    }
    // Where drafts get new labels, the tests have to know which clearance they keep to.
    let most = match world.screening {
        Screening::CHECKED => 1,
        _ => 2,
    };
    world.clearances = (0..1 + random.below(most))
        .map(|_| {
            let other = random.pick(&labels).clone();
            match random.below(4) {
                0 => other,
                1 => limit.join(&other),
                2 => limit.meet(&other),
                _ => limit.clone(),
            }
        })
        .collect();
    world
}

/// What is masked since no provider is cleared for it is chosen by labels: at L it tells at most which labels there
/// are, and nothing where each clearance is at L.
#[test]
fn what_no_provider_is_cleared_for_tells_nothing_but_labels() {
    let mut totals = Counts::default();
    for seed in worlds(500) {
        let world = of_clearances(seed);
        let (compared, _) = holds(&world);
        totals.join(&compared);
        let is_at_the_label = world.clearances.iter().all(|own| !world.above(own));
        totals.add("at the label", usize::from(is_at_the_label));
        // The same world with a provider that may see everything.
        let free = World {
            clearances: Vec::new(),
            ..world.clone()
        };
        let prompts = |world: &World| {
            let run = play(world, Side::A, false, &mut Fixed(world));
            let prompts = run.acts().filter(|act| matches!(act, Act::Prompt(..)));
            prompts.cloned().collect::<Vec<_>>()
        };
        totals.add("kept", usize::from(prompts(&world) != prompts(&free)));
    }
    println!("{totals:?}");
    let pairs = totals["pairs"];
    if pairs >= 500 {
        assert!(totals["kept"] * 3 > pairs && totals["at the label"] * 4 > pairs);
        assert!(totals["prompts"] > 500 && totals["masked"] > 400);
        assert!(totals["ran"] > 200 && totals["answers"] > 50);
        let parted = totals["choice"] + totals["refused"];
        assert!(parted * 2 < pairs, "most pairs are compared to their end");
    }
}
