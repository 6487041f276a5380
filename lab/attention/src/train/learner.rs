//! What learns, and what it makes.

use anyhow::{Result, ensure};

use crate::examples::Example;

/// The examples of one training. Labels are always the weak ones; see [`Example::weak`].
#[derive(Clone, Copy)]
pub struct Dataset<'a> {
    /// Examples to fit.
    pub train: &'a [&'a Example],
    /// Examples of other user tasks, for early stopping and calibration.
    pub validation: &'a [&'a Example],
}

/// Learns which regions a call depends on.
pub trait Learner {
    /// Its name in tables.
    fn name(&self) -> String;

    /// Learns. The same dataset gives the same scorer.
    ///
    /// # Errors
    /// There is nothing to learn from, or a feature is missing.
    fn fit(&self, dataset: &Dataset<'_>) -> Result<Box<dyn Scorer>>;
}

/// Scores regions; a higher score is more probably a dependency.
pub trait Scorer {
    /// One finite score for each region.
    fn score(&self, example: &Example) -> Result<Vec<f64>>;

    /// The decision threshold of a scorer that brings its own. Its scores are then probabilities already. `None`
    /// where only the order of the scores means something, so that they must be calibrated.
    fn own_threshold(&self) -> Option<f64> {
        None
    }
}

/// One finite score for each region of an example.
///
/// # Errors
/// The scorer fails, or gives another number of scores, or one that is not finite.
pub fn scores(scorer: &dyn Scorer, example: &Example) -> Result<Vec<f64>> {
    let scores = scorer.score(example)?;
    ensure!(
        scores.len() == example.regions.len() && scores.iter().all(|score| score.is_finite()),
        "step {}: {} scores for {} regions, or one is not finite",
        example.step,
        scores.len(),
        example.regions.len()
    );
    Ok(scores)
}

/// The scores of all regions, each with its weak label.
pub fn labelled_scores(scorer: &dyn Scorer, examples: &[&Example]) -> Result<Vec<(f64, bool)>> {
    let mut all = Vec::new();
    for example in examples {
        let scores = scores(scorer, example)?.into_iter();
        all.extend(scores.zip(example.weak.iter().copied()));
    }
    Ok(all)
}
