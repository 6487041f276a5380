use super::fit::Recipe;
use super::learner::{Learner, Part, Scorer, scored};
use super::synthetic::with_memory;
use crate::examples::{Example, Truth};

fn small(layers: usize) -> Recipe {
    Recipe {
        layers,
        hidden: 8,
        epochs: 25,
        rate: 1e-2,
        dropout: 0.0,
        ..Recipe::paper(Vec::new(), 1)
    }
}

/// The share of regions on the right side of 0.
fn accuracy(scorer: &dyn Scorer, examples: &[&Example]) -> f64 {
    let all = scored(scorer, examples, Truth::Weak).unwrap();
    let right = all.iter().filter(|(score, truth)| (*score > 0.0) == *truth);
    right.count() as f64 / all.len() as f64
}

fn parts(examples: &[Example]) -> (Vec<&Example>, Vec<&Example>, Vec<&Example>) {
    let all: Vec<&Example> = examples.iter().collect();
    let (fit, rest) = all.split_at(all.len() * 3 / 5);
    let (valid, test) = rest.split_at(rest.len() / 2);
    (fit.to_vec(), valid.to_vec(), test.to_vec())
}

#[test]
fn what_depends_on_the_region_before_needs_the_lstm() {
    let examples = with_memory(500, 4, 1);
    let (fit, valid, test) = parts(&examples);
    let part = Part {
        fit: &fit,
        valid: &valid,
        truth: Truth::Weak,
    };
    let lstm = accuracy(&*small(2).fit(&part).unwrap(), &test);
    let logistic = accuracy(&*small(0).fit(&part).unwrap(), &test);
    assert!(lstm > 0.9, "{lstm}");
    assert!(logistic > 0.6 && logistic < 0.8, "{logistic}");
}

#[test]
fn the_same_seed_gives_the_same_weights_bit_for_bit() {
    let examples = with_memory(80, 5, 2);
    let (fit, valid, _) = parts(&examples);
    let part = Part {
        fit: &fit,
        valid: &valid,
        truth: Truth::Weak,
    };
    let train = |seed: u64| {
        let recipe = Recipe {
            seed,
            epochs: 3,
            projection: Some(4),
            dropout: 0.3,
            ..small(2)
        };
        let weights = recipe.train(&part, &mut |_| {}).unwrap().weights().unwrap();
        let bits = |values: &Vec<f32>| values.iter().map(|value| value.to_bits()).collect();
        let bits: Vec<Vec<u32>> = weights.iter().map(|(_, values)| bits(values)).collect();
        bits
    };
    assert_eq!(train(7), train(7));
    assert_ne!(train(7), train(8));
}

#[test]
fn padding_changes_no_score() {
    let examples = with_memory(40, 4, 3);
    let (fit, valid, test) = parts(&examples);
    let part = Part {
        fit: &fit,
        valid: &valid,
        truth: Truth::Weak,
    };
    let recipe = Recipe {
        epochs: 2,
        ..small(2)
    };
    let trained = recipe.train(&part, &mut |_| {}).unwrap();
    let alone: Vec<f64> = test
        .iter()
        .flat_map(|one| trained.score(one).unwrap())
        .collect();
    let together = super::fit::scores_together(&trained, &test).unwrap();
    assert_eq!(alone.len(), together.len());
    for (a, b) in alone.iter().zip(together) {
        assert!((a - b).abs() < 1e-5, "{a} and {b}");
    }
}

#[test]
fn labels_of_the_test_part_and_unlabelled_regions_are_not_learned() {
    let examples = with_memory(60, 4, 4);
    let (fit, valid, _) = parts(&examples);
    let train = |fit: &[&Example], truth: Truth| {
        let part = Part {
            fit,
            valid: &valid,
            truth,
        };
        let recipe = Recipe {
            epochs: 2,
            ..small(1)
        };
        recipe
            .train(&part, &mut |_| {})
            .map(|trained| trained.weights().unwrap())
    };
    // These have no hand labels.
    assert!(train(&fit, Truth::Hand).is_err());
    // The wrong weak labels of regions that were read do not count.
    let mut read: Vec<Example> = fit.iter().map(|example| (*example).clone()).collect();
    for example in &mut read {
        example.hand = example.weak.iter().map(|label| Some(*label)).collect();
        example.weak.iter_mut().for_each(|label| *label = !*label);
    }
    let read: Vec<&Example> = read.iter().collect();
    let corrected = train(&read, Truth::HandElseWeak).unwrap();
    assert_eq!(corrected, train(&fit, Truth::Weak).unwrap());
    assert_ne!(corrected, train(&read, Truth::Weak).unwrap());
}

#[test]
fn a_part_without_both_kinds_is_refused() {
    let mut examples = with_memory(20, 4, 5);
    for example in &mut examples {
        example.weak.fill(false);
    }
    let (fit, valid, _) = parts(&examples);
    let part = |fit| Part {
        fit,
        valid: &valid,
        truth: Truth::Weak,
    };
    assert!(small(0).fit(&part(&fit)).is_err());
    assert!(small(0).fit(&part(&[])).is_err());
}
