//! Trains the classifier that ships.

use anyhow::{Result, ensure};
use screen::attention::{About, Classifier, Columns, Platt, RegionFeatures, thresholds};
use serde::Serialize;

use super::calibration::Calibration;
use super::fit::Trained;
use super::learner::{Dataset, Scorer, labelled_scores, scores};
use super::model_spec::ModelSpec;
use crate::examples::{Example, Header};
use crate::tables::cross::{VALIDATION, split};
use crate::tables::metrics::{Metrics, ScoredPair};

/// What is trained, and how.
#[derive(Clone, Debug)]
pub struct Training {
    /// Which network, and which features.
    pub model: ModelSpec,
    /// The recall that the threshold is chosen for, in per cent of the dependencies in the validation set.
    pub target_recall: u8,
    /// Of the split and the weights: the same seed on the same machine gives the same weights, bit for bit.
    pub seed: u64,
}

/// The course of a training. Its metrics are about the data that it was trained and calibrated on; those that count
/// are [`evaluate`](super::evaluation::evaluate)'s.
#[derive(Clone, Debug, Serialize)]
pub struct Outcome {
    /// The model's name.
    pub model: String,
    /// Steps in the training set.
    pub train_steps: usize,
    /// Steps in the validation set, of other user tasks.
    pub validation_steps: usize,
    /// Epochs until the lowest validation loss.
    pub epochs: usize,
    /// That loss.
    pub validation_loss: f64,
    /// On the training set.
    pub train: Metrics,
    /// On the validation set: flattering, as the thresholds are chosen there.
    pub validation: Metrics,
    /// Numbers in the network.
    pub parameters: usize,
}

/// The probabilities of the network and of the exported classifier may differ by rounding only.
const TOLERANCE: f64 = 1e-4;

/// Trains on all examples but a validation set.
///
/// # Errors
/// There is not enough to learn from, or the exported classifier scores otherwise than the network.
pub fn train(
    header: &Header,
    examples: &[Example],
    training: &Training,
    about: About,
    progress: &mut dyn FnMut(&str),
) -> Result<(Classifier, Outcome)> {
    let settings = training.model.hyperparameters(header, training.seed)?;
    let all: Vec<&Example> = examples.iter().collect();
    let (train, validation) = split(&all, VALIDATION, training.seed);
    let dataset = Dataset {
        train: &train,
        validation: &validation,
    };
    let mut epoch = 0;
    let trained = settings.train(&dataset, &mut |loss| {
        epoch += 1;
        progress(&format!(
            "epoch {epoch}: loss {loss:.4} on other user tasks"
        ));
    })?;
    let scored = labelled_scores(&trained, &validation)?;
    let calibration = Calibration::fit(&scored, training.target_recall)?;
    // What ships is in single precision and computed by the screener's own code, so it is compared with the network
    // below.
    let classifier = Classifier {
        about,
        columns: Columns::parse(trained.columns.iter().map(String::as_str))?,
        normalisation: trained.normalisation.clone(),
        network: trained.export()?,
        platt: Platt {
            slope: calibration.slope as f32,
            intercept: calibration.intercept as f32,
        },
        thresholds: thresholds(&calibration.positives(&scored)),
        target_recall: training.target_recall,
    };
    classifier.check()?;
    check_export(&trained, &calibration, &classifier, &validation)?;
    let weights = trained.weights()?;
    let outcome = Outcome {
        model: settings.name,
        train_steps: train.len(),
        validation_steps: validation.len(),
        epochs: trained.epochs,
        validation_loss: trained.loss,
        train: metrics(&trained, &calibration, &train)?,
        validation: metrics(&trained, &calibration, &validation)?,
        parameters: weights.iter().map(|(_, values)| values.len()).sum(),
    };
    Ok((classifier, outcome))
}

/// What the screener would say of the regions of an example.
pub fn probabilities(classifier: &Classifier, example: &Example) -> Result<Vec<f32>> {
    let columns = classifier.columns.names().collect();
    let example = example.with_columns(&columns)?;
    let rows = example.features.into_iter().zip(&example.regions);
    let rows = rows.map(|(values, region)| RegionFeatures {
        region: ifc::RegionId(*region),
        values,
    });
    Ok(classifier.scores(&rows.collect::<Vec<_>>())?)
}

/// Refuses a classifier that scores otherwise than the network that it was made from: both compute the same layers by
/// different code.
fn check_export(
    trained: &Trained,
    calibration: &Calibration,
    classifier: &Classifier,
    examples: &[&Example],
) -> Result<()> {
    for example in examples {
        let expected = scores(trained, example)?.into_iter();
        let expected = expected.map(|score| calibration.probability(score));
        let found = probabilities(classifier, example)?;
        let difference = expected.zip(found).map(|(a, b)| (a - f64::from(b)).abs());
        let largest = difference.fold(0.0, f64::max);
        ensure!(
            largest <= TOLERANCE,
            "step {}: the exported classifier is {largest} off the network: do not use it",
            example.step
        );
    }
    Ok(())
}

fn metrics(
    scorer: &dyn Scorer,
    calibration: &Calibration,
    examples: &[&Example],
) -> Result<Metrics> {
    let pair = |(score, label): (f64, bool)| {
        let score = calibration.probability(score);
        ScoredPair {
            step: 0,
            task: 0,
            label,
            score,
            predicted: score >= calibration.accuracy_threshold,
            weight: 1.0,
        }
    };
    let scored = labelled_scores(scorer, examples)?;
    let pairs: Vec<ScoredPair> = scored.into_iter().map(pair).collect();
    Ok(Metrics::of(&pairs))
}

#[cfg(test)]
mod tests {
    use screen::attention::TARGET_RECALL;

    use super::*;
    use crate::train::synthetic::with_memory;

    fn trained(model: &str, examples: &[Example], seed: u64) -> (Classifier, Outcome) {
        let about = About {
            name: "a test".to_owned(),
            model: "ab".repeat(32),
            data: "cd".repeat(32),
            command: "a test".to_owned(),
        };
        let training = Training {
            model: model.parse().unwrap(),
            target_recall: TARGET_RECALL,
            seed,
        };
        let header = Header::new("m q4", &examples[0].columns);
        train(&header, examples, &training, about, &mut |_| {}).unwrap()
    }

    #[test]
    fn a_trained_classifier_reaches_its_recall_and_is_the_same_again() {
        let examples = with_memory(120, 6, 1);
        let (classifier, outcome) = trained("paper", &examples, 3);
        assert_eq!(outcome.train_steps + outcome.validation_steps, 120);
        assert!(outcome.train.auroc.unwrap() > 0.7, "{outcome:?}");
        // On steps that it has never seen it finds about as much as it aims at, and masks something.
        let (mut found, mut positives, mut kept, mut regions) = (0, 0, 0, 0);
        for example in with_memory(300, 6, 2) {
            let probabilities = probabilities(&classifier, &example).unwrap();
            for (probability, label) in probabilities.iter().zip(&example.weak) {
                let keeps = *probability >= classifier.threshold();
                found += usize::from(keeps && *label);
                positives += usize::from(*label);
                kept += usize::from(keeps);
                regions += 1;
            }
        }
        let recall = found as f64 / positives as f64;
        assert!((recall - 0.7).abs() < 0.15, "{recall}");
        assert!(kept * 10 < regions * 6, "{kept} of {regions}");
        // Without `assert_eq`, which would print all weights.
        assert!(trained("paper", &examples, 3).0 == classifier);
    }

    #[test]
    fn the_papers_network_is_exported_and_read_again() {
        let examples = with_memory(120, 6, 1);
        let (classifier, _) = trained("paper", &examples, 1);
        let bytes = classifier.to_bytes().unwrap();
        assert!(Classifier::from_bytes(&bytes).unwrap() == classifier);
        assert_eq!(classifier.network.projection, None);
    }

    /// Such as which tool wrote a region, for a kind that is not in the training data.
    #[test]
    fn a_feature_that_never_varied_is_not_heard_later() {
        let set = |examples: &mut [Example], value: f32| {
            for row in examples.iter_mut().flat_map(|one| &mut one.features) {
                row[4] = value;
            }
        };
        let mut examples = with_memory(120, 6, 2);
        // Rounding in the sum of so many must not make it vary.
        set(&mut examples, 12_345.678);
        let (classifier, outcome) = trained("paper", &examples, 1);
        assert!(outcome.train.auroc.unwrap() > 0.6, "{outcome:?}");
        assert_eq!(classifier.normalisation.std_dev[4], 0.0);
        let mut others = examples.clone();
        set(&mut others, 1.0);
        for (example, other) in examples.iter().zip(&others) {
            assert_eq!(
                probabilities(&classifier, example).unwrap(),
                probabilities(&classifier, other).unwrap()
            );
        }
    }
}
