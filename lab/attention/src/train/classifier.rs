//! Trains the classifier that ships.

use anyhow::{Result, ensure};
use screen::attention::{TARGET_RECALL, thresholds};
use serde::Serialize;

use super::contender::Contender;
use super::fit::Trained;
use super::learner::{Calibration, Part, Scorer, scored, scores};
use super::model::{Model, Weight};
use crate::examples::{Example, Header, Truth};
use crate::tables::cross::{VALID, part};
use crate::tables::metrics::{Figures, Pair, Ranking};

/// What is trained, and how.
#[derive(Clone, Debug)]
pub struct Training {
    /// `paper`, or `lstm` with some features.
    pub contender: Contender,
    /// Which labels are learned.
    pub truth: Truth,
    /// The recall that the threshold is chosen for, in per cent of the dependencies in the validation part.
    pub recall: u8,
    /// Of the parts and the weights: the same seed on the same machine gives the same weights, bit for bit.
    pub seed: u64,
}

impl Training {
    /// With the usual settings.
    #[must_use]
    pub fn new(contender: Contender, seed: u64) -> Self {
        Self {
            contender,
            truth: Truth::Weak,
            recall: TARGET_RECALL,
            seed,
        }
    }
}

/// What came out of a training. Its figures are about what it was trained and calibrated on; those that count are
/// [`evaluate`](super::run::evaluate)'s.
#[derive(Clone, Debug, Serialize)]
pub struct Outcome {
    /// The learner.
    pub learner: String,
    /// Steps to fit.
    pub fit: usize,
    /// Steps to stop and calibrate by, of other user tasks.
    pub valid: usize,
    /// Passes over the examples until the best one.
    pub epochs: usize,
    /// The loss of the best one on the validation part.
    pub loss: f64,
    /// On the examples that were fitted.
    pub fitted: Figures,
    /// On the validation part: flattering, as the thresholds are chosen there.
    pub validated: Figures,
    /// Numbers in the network.
    pub weights: usize,
}

/// The network's own scores and those of the reference may differ by rounding only.
const TOLERANCE: f64 = 1e-4;

/// Trains on all examples but a part by which it stops and is calibrated.
///
/// # Errors
/// When there is not enough to learn from, or the exported weights score otherwise than the network.
pub fn train(
    header: &Header,
    examples: &[Example],
    training: &Training,
    progress: &mut dyn FnMut(&str),
) -> Result<(Model, Outcome)> {
    let recipe = training.contender.recipe(header, training.seed)?;
    let all: Vec<&Example> = examples.iter().collect();
    let (fit, valid) = part(&all, VALID, training.seed);
    let parts = Part {
        fit: &fit,
        valid: &valid,
        truth: training.truth,
    };
    let mut epoch = 0;
    let trained = recipe.train(&parts, &mut |loss| {
        epoch += 1;
        progress(&format!("pass {epoch}: loss {loss:.4} on other user tasks"));
    })?;
    let model = calibrated(&trained, header, &parts, training.recall)?;
    same(&trained, &model, &valid)?;
    let outcome = Outcome {
        learner: recipe.name.clone(),
        fit: fit.len(),
        valid: valid.len(),
        epochs: trained.epochs,
        loss: trained.loss,
        fitted: figures(&model, &fit, training.truth)?,
        validated: figures(&model, &valid, training.truth)?,
        weights: model.weights.iter().map(|weight| weight.values.len()).sum(),
    };
    Ok((model, outcome))
}

/// A network as numbers, with probabilities and thresholds of the validation part.
fn calibrated(trained: &Trained, header: &Header, part: &Part<'_>, recall: u8) -> Result<Model> {
    let known = scored(trained, part.valid, part.truth)?;
    let calibration = Calibration::of(&known, recall)?;
    let weights = trained.weights()?.into_iter();
    Ok(Model {
        columns: trained.columns.to_vec(),
        normal: trained.normal.clone(),
        shape: trained.shape(),
        weights: weights
            .map(|(name, values)| Weight { name, values })
            .collect(),
        calibration,
        thresholds: thresholds(&calibration.relevant(&known)),
        extractor: header.extractor.clone(),
        examples: header.digest.clone(),
    })
}

/// Refuses numbers that score otherwise than the network that they are of.
fn same(trained: &Trained, model: &Model, examples: &[&Example]) -> Result<()> {
    for example in examples {
        let (own, reference) = (scores(trained, example)?, scores(model, example)?);
        let apart = own.iter().zip(&reference).map(|(a, b)| (a - b).abs());
        let most = apart.fold(0.0, f64::max);
        ensure!(
            most <= TOLERANCE,
            "step {}: the exported weights score {most} apart from the network's: do not use them",
            example.step
        );
    }
    Ok(())
}

fn figures(model: &Model, examples: &[&Example], truth: Truth) -> Result<Figures> {
    let pair = |(score, truth): (f64, bool)| {
        let score = model.calibration.probability(score);
        Pair {
            step: 0,
            task: 0,
            truth,
            score,
            chosen: score >= model.calibration.accurate,
            kept: model.calibration.keeps(score),
            weight: 1.0,
        }
    };
    let scored = scored(model as &dyn Scorer, examples, truth)?;
    let pairs: Vec<Pair> = scored.into_iter().map(pair).collect();
    Ok(Figures::of(&pairs, &Ranking::new(&pairs), |_| 1.0))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use screen::attention::{About, Classifier, RegionFeatures};

    use super::*;
    use crate::train::contender::{Kind, PAPER};
    use crate::train::synthetic::with_memory;

    #[test]
    fn a_trained_model_finds_what_it_aims_at_and_is_the_same_again() {
        let examples = with_memory(120, 5, 1);
        let header = Header::new("m q4", &examples[0].columns);
        let contender: Contender = "lstm:all".parse().unwrap();
        assert_eq!(contender.kind, Kind::Lstm);
        let train = |seed| {
            let training = Training::new(contender.clone(), seed);
            train(&header, &examples, &training, &mut |_| {}).unwrap()
        };
        let (model, outcome) = train(3);
        assert_eq!(outcome.fit + outcome.valid, 120);
        assert!(outcome.fitted.auroc.unwrap() > 0.7, "{outcome:?}");
        // On steps that it has never seen it finds about as much as it aims at, and masks something.
        let fresh = with_memory(300, 5, 2);
        let fresh = figures(&model, &fresh.iter().collect::<Vec<_>>(), Truth::Weak).unwrap();
        let found = fresh.kept_recall.unwrap();
        assert!((found - 0.7).abs() < 0.15, "{fresh:?}");
        assert!(fresh.kept.unwrap() < 0.6, "{fresh:?}");
        // Without `assert_eq`, which would print all weights.
        assert!(train(3).0 == model);
    }

    /// With the names of the paper's features.
    fn named(steps: usize, seed: u64) -> Vec<Example> {
        let names: Arc<[String]> = PAPER.map(str::to_owned).into();
        let mut examples = with_memory(steps, 6, seed);
        for example in &mut examples {
            example.columns = Arc::clone(&names);
        }
        examples
    }

    fn shipped(model: &Model) -> Classifier {
        let about = About {
            name: "a test".to_owned(),
            model: "ab".repeat(32),
            data: model.examples.clone(),
            command: "a test".to_owned(),
        };
        let classifier = model.classifier(TARGET_RECALL, about).unwrap();
        Classifier::from_bytes(&classifier.to_bytes().unwrap()).unwrap()
    }

    fn said(classifier: &Classifier, example: &Example) -> Vec<f32> {
        let features = example.features.iter().zip(&example.regions);
        let features = features.map(|(row, region)| RegionFeatures {
            region: ifc::RegionId(*region),
            values: row.clone(),
        });
        classifier.scores(&features.collect::<Vec<_>>()).unwrap()
    }

    #[test]
    fn the_screener_scores_as_the_network_did() {
        let examples = named(120, 1);
        let names = &examples[0].columns;
        let header = Header::new("m q4", names);
        for contender in ["paper", "lstm:all"] {
            let training = Training::new(contender.parse().unwrap(), 1);
            let (model, _) = train(&header, &examples, &training, &mut |_| {}).unwrap();
            let classifier = shipped(&model);
            for example in &examples {
                let logits = model.score(example).unwrap();
                for (found, logit) in said(&classifier, example).into_iter().zip(logits) {
                    let expected = model.calibration.probability(logit);
                    assert!((f64::from(found) - expected).abs() < TOLERANCE);
                }
            }
            assert_eq!(classifier.threshold(), model.calibration.keep);
        }
    }

    /// Such as which tool wrote a region, for a kind that is not in the training data.
    #[test]
    fn a_feature_that_never_varied_is_not_heard_later() {
        let set = |examples: &mut [Example], value: f32| {
            for row in examples.iter_mut().flat_map(|one| &mut one.features) {
                row[4] = value;
            }
        };
        let mut examples = named(120, 2);
        set(&mut examples, 0.0);
        let header = Header::new("m q4", &examples[0].columns);
        let training = Training::new("lstm:all".parse().unwrap(), 1);
        let (model, outcome) = train(&header, &examples, &training, &mut |_| {}).unwrap();
        assert!(outcome.fitted.auroc.unwrap() > 0.6, "{outcome:?}");
        let classifier = shipped(&model);
        assert_eq!(classifier.normalisation.spread[4], 0.0);
        let mut others = examples.clone();
        set(&mut others, 1.0);
        for (example, other) in examples.iter().zip(&others) {
            assert_eq!(model.score(example).unwrap(), model.score(other).unwrap());
            assert_eq!(said(&classifier, example), said(&classifier, other));
        }
    }
}
