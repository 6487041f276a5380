use super::fit::{Hyperparameters, scores_together};
use super::learner::{Dataset, Learner, Scorer, labelled_scores};
use super::synthetic::with_memory;
use crate::examples::Example;

fn small(examples: &[Example], layers: usize) -> Hyperparameters {
    Hyperparameters {
        layers,
        hidden: 8,
        epochs: 25,
        learning_rate: 1e-2,
        dropout: 0.0,
        ..Hyperparameters::paper(examples[0].columns.to_vec(), 1)
    }
}

/// The share of regions on the right side of 0.
fn accuracy(scorer: &dyn Scorer, examples: &[&Example]) -> f64 {
    let all = labelled_scores(scorer, examples).unwrap();
    let right = all.iter().filter(|(score, label)| (*score > 0.0) == *label);
    right.count() as f64 / all.len() as f64
}

/// Training set, validation set and test set.
fn split(examples: &[Example]) -> (Vec<&Example>, Vec<&Example>, Vec<&Example>) {
    let all: Vec<&Example> = examples.iter().collect();
    let (train, rest) = all.split_at(all.len() * 3 / 5);
    let (validation, test) = rest.split_at(rest.len() / 2);
    (train.to_vec(), validation.to_vec(), test.to_vec())
}

#[test]
fn what_depends_on_the_region_before_needs_the_lstm() {
    let examples = with_memory(500, 4, 1);
    let (train, validation, test) = split(&examples);
    let dataset = Dataset {
        train: &train,
        validation: &validation,
    };
    let fit = |layers| small(&examples, layers).fit(&dataset).unwrap();
    let lstm = accuracy(&*fit(2), &test);
    let logistic = accuracy(&*fit(0), &test);
    assert!(lstm > 0.9, "{lstm}");
    assert!(logistic > 0.6 && logistic < 0.8, "{logistic}");
}

#[test]
fn the_same_seed_gives_the_same_weights_bit_for_bit() {
    let examples = with_memory(80, 5, 2);
    let (train, validation, _) = split(&examples);
    let dataset = Dataset {
        train: &train,
        validation: &validation,
    };
    let train = |seed: u64| {
        let settings = Hyperparameters {
            seed,
            epochs: 3,
            projection: Some(4),
            dropout: 0.3,
            ..small(&examples, 2)
        };
        let trained = settings.train(&dataset, &mut |_| {}).unwrap();
        let bits = |values: &Vec<f32>| values.iter().map(|value| value.to_bits()).collect();
        let weights = trained.weights().unwrap();
        let bits: Vec<Vec<u32>> = weights.iter().map(|(_, values)| bits(values)).collect();
        bits
    };
    assert_eq!(train(7), train(7));
    assert_ne!(train(7), train(8));
}

#[test]
fn padding_changes_no_score() {
    let examples = with_memory(40, 4, 3);
    let (train, validation, test) = split(&examples);
    let dataset = Dataset {
        train: &train,
        validation: &validation,
    };
    let settings = Hyperparameters {
        epochs: 2,
        ..small(&examples, 2)
    };
    let trained = settings.train(&dataset, &mut |_| {}).unwrap();
    let alone: Vec<f64> = test
        .iter()
        .flat_map(|one| trained.score(one).unwrap())
        .collect();
    let together = scores_together(&trained, &test).unwrap();
    assert_eq!(alone.len(), together.len());
    for (a, b) in alone.iter().zip(together) {
        assert!((a - b).abs() < 1e-5, "{a} and {b}");
    }
}

#[test]
fn a_dataset_of_one_class_is_refused() {
    let mut examples = with_memory(20, 4, 5);
    for example in &mut examples {
        example.weak.fill(false);
    }
    let (train, validation, _) = split(&examples);
    let fit = |train: &[&Example]| {
        let dataset = Dataset {
            train,
            validation: &validation,
        };
        small(&examples, 0).fit(&dataset)
    };
    assert!(fit(&train).is_err());
    assert!(fit(&[]).is_err());
}
