//! The theorem: two worlds that differ above L look the same at L.

use super::chooser::Fixed;
use super::compare::Counts;
use super::holds::{holds, worlds};
use super::labels::flows;
use super::model::is_stubborn;
use super::play::play;
use super::record::Act;
use super::world::{Side, World};

#[test]
fn two_worlds_that_differ_above_a_label_look_the_same_at_it() {
    let mut totals = Counts::default();
    for seed in worlds(500) {
        let world = World::random(seed);
        let (compared, differ) = holds(&world);
        totals.join(&compared);
        totals.add("secrets", usize::from(world.has_secrets()));
        let strange = world.tools.iter().any(|tool| tool.only.is_some());
        totals.add("strangers", usize::from(strange));
        totals.add("differ", usize::from(differ));
        totals.add("masked pairs", usize::from(compared.counts["masked"] > 0));
    }
    println!("{totals:?}");
    // Nothing of this holds of worlds in which nothing happens.
    let pairs = totals["pairs"];
    if pairs >= 500 {
        assert!(totals["secrets"] * 10 > pairs * 9 && totals["differ"] * 10 > pairs * 8);
        assert!(totals["strangers"] * 3 > pairs);
        assert!(totals["apart"] * 100 > pairs && totals["permitted"] > totals["apart"]);
        assert!(
            totals["masked pairs"] * 2 > pairs && totals["masked"] * 10 > totals["prompts"] * 8
        );
        assert!(
            totals["ran"] > pairs && totals["asked"] * 4 > pairs && totals["denied"] * 4 > pairs
        );
        assert!(totals["prompts"] > pairs && totals["answers"] * 5 > pairs);
        assert!(totals["wrong"] * 50 > pairs);
        assert!(totals["checked"] * 50 > pairs && totals["taken"] > 0);
        assert!(totals["without"] * 50 > pairs && totals["refused"] * 8 < pairs);
        assert!(totals["reminded"] * 4 > pairs && totals["pictured"] * 50 > pairs);
        assert!(totals["summaries"] * 20 > pairs && totals["facts"] * 10 > pairs);
        let parted = totals["parted"] - totals["refused"];
        assert!(parted * 2 < pairs, "most pairs are compared to their end");
    }
}

/// What apps have said, each by itself, is put together under the labels that it came with: whoever may
/// see one answer learns nothing of another above it, and nothing runs.
#[test]
fn answers_that_are_put_together_keep_their_labels() {
    let mut totals = Counts::default();
    for seed in worlds(300) {
        let world = World::of_answers(seed);
        let (compared, _) = holds(&world);
        assert_eq!(compared.counts["ran"], 0, "world {seed} runs a call");
        totals.join(&compared);
        totals.add("secrets", usize::from(world.has_secrets()));
    }
    println!("{totals:?}");
    if totals["pairs"] >= 300 {
        assert!(totals["secrets"] > 200 && totals["masked"] > 50);
        assert!(totals["answers"] > 50 && totals["asked"] > 5);
    }
}

/// A summary stands for text below its label, and whether there is one is decided by such text.
#[test]
fn a_conversation_that_is_too_long_shows_no_more_than_a_short_one() {
    let mut totals = Counts::default();
    for seed in worlds(300) {
        let world = World::too_long(seed);
        let (compared, _) = holds(&world);
        totals.join(&compared);
        totals.add("secrets", usize::from(world.has_secrets()));
    }
    println!("{totals:?}");
    if totals["pairs"] >= 300 {
        assert!(totals["secrets"] > 250);
        assert!(totals["summaries"] > 100 && totals["summarised"] > 100);
    }
}

/// The same worlds without protection: what runs at sinks that may take L only differs, unless the
/// model does not care what it sees.
#[test]
fn the_unprotected_agent_interferes() {
    let (mut attacked, mut differ) = (0, 0);
    for seed in worlds(500) {
        let world = World::random(seed);
        if is_stubborn(world.seed) {
            continue;
        }
        let [a, b] = [Side::A, Side::B].map(|side| {
            let run = play(&world, side, true, &mut Fixed(&world));
            let low = |act: &&Act| match act {
                Act::Ran { limit, .. } => {
                    limit.as_ref().is_some_and(|own| flows(own, &world.limit))
                }
                _ => false,
            };
            run.acts().filter(low).cloned().collect::<Vec<_>>()
        });
        if world.has_secrets() && !(a.is_empty() && b.is_empty()) {
            attacked += 1;
            let calls = |acts: Vec<Act>| -> Vec<(String, String)> {
                let call = |act| match act {
                    Act::Ran { call, .. } => Some((call.tool.clone(), call.arguments.to_json())),
                    _ => None,
                };
                acts.into_iter().filter_map(call).collect()
            };
            differ += usize::from(calls(a) != calls(b));
        }
    }
    println!("{differ} of {attacked} differ");
    // A share says nothing of a few worlds.
    let expected = if attacked >= 100 {
        attacked * 9 / 10
    } else {
        0
    };
    assert!(differ > expected, "{differ} of {attacked}");
}
