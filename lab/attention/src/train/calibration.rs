//! From scores to probabilities (Platt scaling) and decision thresholds.

use anyhow::{Result, ensure};
use screen::attention::threshold;

/// Platt scaling and the two decision thresholds of a scorer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Calibration {
    /// The probability is the sigmoid of `slope · score + intercept`.
    pub slope: f64,
    /// See [`slope`](Self::slope).
    pub intercept: f64,
    /// The threshold with the highest accuracy.
    pub accuracy_threshold: f64,
    /// The threshold for the target recall, by the screener's own function.
    pub recall_threshold: f32,
}

impl Calibration {
    /// Fits scores with their labels; `target_recall` is in per cent.
    ///
    /// # Errors
    /// The labels are all positive or all negative.
    pub fn fit(scored: &[(f64, bool)], target_recall: u8) -> Result<Self> {
        let positives = scored.iter().filter(|(_, label)| *label).count();
        ensure!(
            positives > 0 && positives < scored.len(),
            "the validation set has {positives} dependent regions of {}: give it more user tasks",
            scored.len()
        );
        let (slope, intercept) = platt(scored);
        let mut calibration = Self {
            slope,
            intercept,
            accuracy_threshold: 0.0,
            recall_threshold: 0.0,
        };
        let mut descending: Vec<(f64, bool)> = scored
            .iter()
            .map(|(score, label)| (calibration.probability(*score), *label))
            .collect();
        descending.sort_by(|a, b| b.0.total_cmp(&a.0));
        calibration.accuracy_threshold = most_accurate_threshold(&descending);
        calibration.recall_threshold = threshold(&calibration.positives(scored), target_recall);
        Ok(calibration)
    }

    /// The probability of a dependency at this score.
    pub fn probability(&self, score: f64) -> f64 {
        sigmoid(self.slope * score + self.intercept)
    }

    /// Whether the screener keeps a region of this probability in sight.
    pub fn keeps(&self, probability: f64) -> bool {
        // In single precision, as the screener compares.
        probability as f32 >= self.recall_threshold
    }

    /// The probabilities of the positives, from which the screener's thresholds are made.
    pub fn positives(&self, scored: &[(f64, bool)]) -> Vec<f32> {
        let positives = scored.iter().filter(|(_, label)| *label);
        positives
            .map(|(score, _)| self.probability(*score) as f32)
            .collect()
    }
}

fn sigmoid(x: f64) -> f64 {
    1.0 / (1.0 + (-x).exp())
}

/// Newton's method converges in less than ten iterations on two parameters.
const MAX_ITERATIONS: usize = 50;
/// L2 regularisation of the slope: keeps the sigmoid finite where the scores separate the labels.
const L2: f64 = 1e-3;

/// Fits the sigmoid (Platt 1999), with his smoothed targets so that few regions do not make it steep.
fn platt(scored: &[(f64, bool)]) -> (f64, f64) {
    let count = scored.len() as f64;
    let positives = scored.iter().filter(|(_, label)| *label).count() as f64;
    let high = (positives + 1.0) / (positives + 2.0);
    let low = 1.0 / (count - positives + 2.0);
    // On standardised scores, so that the regularisation means the same for every scorer.
    let mean = scored.iter().map(|(score, _)| score).sum::<f64>() / count;
    let variance = scored.iter().map(|(score, _)| (score - mean).powi(2));
    let std_dev = (variance.sum::<f64>() / count).sqrt().max(1e-12);
    let target = |label: bool| if label { high } else { low };
    let loss = |slope: f64, intercept: f64| {
        let each = scored.iter().map(|(score, label)| {
            let x = slope * (score - mean) / std_dev + intercept;
            x.max(0.0) - x * target(*label) + (-x.abs()).exp().ln_1p()
        });
        each.sum::<f64>() + L2 * slope * slope / 2.0
    };
    let (mut slope, mut intercept) = (0.0, (positives / (count - positives)).ln());
    let mut best = loss(slope, intercept);
    for _ in 0..MAX_ITERATIONS {
        // The small terms keep the matrix invertible where all probabilities are near 0 or 1.
        let (mut gradient, mut hessian) = ((L2 * slope, 0.0), (L2, 0.0, 1e-9));
        for (score, label) in scored {
            let x = (score - mean) / std_dev;
            let p = sigmoid(slope * x + intercept);
            let error = p - target(*label);
            let curvature = p * (1.0 - p);
            gradient = (gradient.0 + error * x, gradient.1 + error);
            hessian = (
                hessian.0 + curvature * x * x,
                hessian.1 + curvature * x,
                hessian.2 + curvature,
            );
        }
        let determinant = hessian.0 * hessian.2 - hessian.1 * hessian.1;
        // Singular by rounding all the same: what was found so far stands.
        if determinant <= 0.0 {
            break;
        }
        let step = (
            (hessian.2 * gradient.0 - hessian.1 * gradient.1) / determinant,
            (hessian.0 * gradient.1 - hessian.1 * gradient.0) / determinant,
        );
        // A full Newton step can overshoot, so it is halved until the loss falls.
        let tried = (0..20).map(|halvings| {
            let length = 0.5_f64.powi(halvings);
            (slope - length * step.0, intercept - length * step.1)
        });
        let Some(next) = tried
            .into_iter()
            .find(|(slope, intercept)| loss(*slope, *intercept) < best)
        else {
            break;
        };
        let now = loss(next.0, next.1);
        let improvement = best - now;
        (slope, intercept) = next;
        best = now;
        if improvement < 1e-10 * best.abs() {
            break;
        }
    }
    (slope / std_dev, intercept - slope * mean / std_dev)
}

/// The threshold with the fewest errors, half-way to the next score below; the highest such threshold.
fn most_accurate_threshold(descending: &[(f64, bool)]) -> f64 {
    let positives = descending.iter().filter(|(_, label)| *label).count();
    // The first candidate predicts no dependency at all, which misses every positive.
    let (mut fewest_errors, mut lowest_above) = (positives, f64::INFINITY);
    let (mut true_positives, mut false_positives) = (0, 0);
    for group in descending.chunk_by(|a, b| a.0 == b.0) {
        let Some((score, _)) = group.first() else {
            continue;
        };
        true_positives += group.iter().filter(|(_, label)| *label).count();
        false_positives += group.iter().filter(|(_, label)| !label).count();
        let errors = positives - true_positives + false_positives;
        if errors < fewest_errors {
            fewest_errors = errors;
            lowest_above = *score;
        }
    }
    let mut scores = descending.iter().map(|(score, _)| *score);
    match scores.find(|score| *score < lowest_above) {
        Some(below) if lowest_above.is_finite() => (lowest_above + below) / 2.0,
        _ => lowest_above,
    }
}

#[cfg(test)]
mod tests {
    use screen::attention::{RECALLS, thresholds};

    use super::*;

    #[test]
    fn platt_finds_the_sigmoid_that_made_the_labels() {
        let mut random = fastrand::Rng::with_seed(5);
        let draw = |_| {
            let score = random.f64() * 8.0 - 4.0;
            (score, random.f64() < sigmoid(1.5 * score - 1.0))
        };
        let scored: Vec<(f64, bool)> = (0..20_000).map(draw).collect();
        let found = Calibration::fit(&scored, 95).unwrap();
        assert!((found.slope - 1.5).abs() < 0.08, "{found:?}");
        assert!((found.intercept + 1.0).abs() < 0.08, "{found:?}");
        assert!((found.accuracy_threshold - 0.5).abs() < 0.12, "{found:?}");
        let kept = |(score, label): &&(f64, bool)| *label && found.keeps(found.probability(*score));
        let positives = scored.iter().filter(|(_, label)| *label).count() as f64;
        let recall = scored.iter().filter(kept).count() as f64 / positives;
        assert!((recall - 0.95).abs() < 0.001, "{recall}");
    }

    #[test]
    fn the_most_accurate_threshold_is_the_one_found_by_hand() {
        let descending = [
            (0.9, true),
            (0.8, true),
            (0.6, false),
            (0.4, true),
            (0.2, false),
        ];
        assert_eq!(most_accurate_threshold(&descending), 0.7);
        // Nothing is better than to say no always.
        assert_eq!(
            most_accurate_threshold(&[(0.9, false), (0.2, false)]),
            f64::INFINITY
        );
        // Equal scores are decided alike.
        let equal = [(0.5, true), (0.5, false), (0.5, true)];
        assert_eq!(most_accurate_threshold(&equal), 0.5);
    }

    /// The operating point of the tables is that of the file of weights.
    #[test]
    fn what_is_kept_is_what_the_screener_keeps() {
        let mut random = fastrand::Rng::with_seed(2);
        let scored: Vec<(f64, bool)> = (0..300)
            .map(|at| (random.f64() * 4.0 - 2.0, at % 3 == 0))
            .collect();
        for recall in RECALLS {
            let found = Calibration::fit(&scored, recall).unwrap();
            let shipped = thresholds(&found.positives(&scored));
            let at = usize::from(recall - RECALLS.start());
            assert_eq!(shipped[at], found.recall_threshold);
            let kept = scored
                .iter()
                .filter(|(score, label)| *label && found.keeps(found.probability(*score)));
            // Of a hundred positives.
            assert_eq!(kept.count(), usize::from(recall));
        }
    }

    #[test]
    fn scores_that_separate_the_labels_stay_finite() {
        let scored: Vec<(f64, bool)> = (0..50).map(|at| (f64::from(at), at >= 25)).collect();
        let found = Calibration::fit(&scored, 99).unwrap();
        assert!(found.slope.is_finite() && found.slope > 0.0);
        assert!(found.keeps(found.probability(25.0)) && !found.keeps(found.probability(24.0)));
        // And scores that say nothing have the base rate.
        let flat: Vec<(f64, bool)> = (0..40).map(|at| (1.0, at % 4 == 0)).collect();
        let found = Calibration::fit(&flat, 90).unwrap();
        assert!((found.probability(1.0) - 0.25).abs() < 0.03, "{found:?}");
    }

    #[test]
    fn labels_of_one_class_are_refused() {
        assert!(Calibration::fit(&[(0.5, true)], 95).is_err());
        assert!(Calibration::fit(&[], 95).is_err());
    }
}
