//! What learns, what it makes, and how its scores become probabilities and decisions.

use anyhow::{Result, ensure};
use screen::attention::threshold;

use crate::examples::{Example, Truth};

/// What a learner sees: examples to fit, and others of other user tasks to stop by and to calibrate on.
#[derive(Clone, Copy)]
pub struct Part<'a> {
    /// Those to learn from.
    pub fit: &'a [&'a Example],
    /// Those to stop and calibrate by.
    pub valid: &'a [&'a Example],
    /// Which labels are the truth.
    pub truth: Truth,
}

/// Something that learns to tell which regions a call depends on.
pub trait Learner {
    /// Its name in tables.
    fn name(&self) -> String;

    /// Is anything learned from a part, be it a threshold only? Otherwise every step is asked about at once, and
    /// none is held out.
    fn learns(&self) -> bool {
        true
    }

    /// Learns; the same part gives the same scorer.
    ///
    /// # Errors
    /// When there is nothing to learn from, or the features are not what it needs.
    fn fit(&self, part: &Part<'_>) -> Result<Box<dyn Scorer>>;
}

/// Something that scores regions: higher is more probably a dependency. Only the order matters.
pub trait Scorer {
    /// One finite score for each region.
    ///
    /// # Errors
    /// When the example has not the features that it needs.
    fn score(&self, example: &Example) -> Result<Vec<f64>>;

    /// The score from which on it says itself that a region is a dependency. Its scores then stay as they are, from
    /// 0 to 1, and no threshold is learned for them; `None` where only their order means something.
    fn decides(&self) -> Option<f64> {
        None
    }
}

/// How scores become probabilities (Platt's sigmoid) and decisions.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Calibration {
    /// The probability is the sigmoid of `slope` times the score plus `offset`.
    pub slope: f64,
    /// See [`slope`](Self::slope).
    pub offset: f64,
    /// A region with at least this probability is decided to be a dependency: the fewest mistakes.
    pub accurate: f64,
    /// The same for the target recall, by the screener's own function: what is below is masked.
    pub keep: f32,
}

impl Calibration {
    /// Of scores with what is true of them; `recall` is in per cent.
    ///
    /// # Errors
    /// When not both kinds of regions are among them.
    pub fn of(scored: &[(f64, bool)], recall: u8) -> Result<Self> {
        let dependent = scored.iter().filter(|(_, truth)| *truth).count();
        ensure!(
            dependent > 0 && dependent < scored.len(),
            "the validation part has {dependent} dependent regions of {}: give it more user tasks",
            scored.len()
        );
        let (slope, offset) = platt(scored);
        let mut all = Self {
            slope,
            offset,
            accurate: 0.0,
            keep: 0.0,
        };
        let mut sorted: Vec<(f64, bool)> = scored
            .iter()
            .map(|(score, truth)| (all.probability(*score), *truth))
            .collect();
        sorted.sort_by(|a, b| b.0.total_cmp(&a.0));
        all.accurate = fewest_mistakes(&sorted);
        all.keep = threshold(&all.relevant(scored), recall);
        Ok(all)
    }

    /// How probable a score is.
    #[must_use]
    pub fn probability(&self, score: f64) -> f64 {
        sigmoid(self.slope * score + self.offset)
    }

    /// Does a region of this probability stay in sight? As the screener decides it, to the bit.
    #[must_use]
    pub fn keeps(&self, probability: f64) -> bool {
        probability as f32 >= self.keep
    }

    /// The probabilities of the dependent ones of some scores: what the screener's thresholds are made from.
    #[must_use]
    pub fn relevant(&self, scored: &[(f64, bool)]) -> Vec<f32> {
        let dependent = scored.iter().filter(|(_, truth)| *truth);
        dependent
            .map(|(score, _)| self.probability(*score) as f32)
            .collect()
    }
}

/// 1 / (1 + e^-x).
#[must_use]
pub fn sigmoid(x: f64) -> f64 {
    1.0 / (1.0 + (-x).exp())
}

/// Newton's method converges in less than ten steps on two parameters.
const NEWTON_STEPS: usize = 50;
/// Keeps the sigmoid finite where the scores tell both kinds apart.
const RIDGE: f64 = 1e-3;

/// Fits the sigmoid (Platt 1999), with his softened targets so that few regions do not make it steep.
fn platt(scored: &[(f64, bool)]) -> (f64, f64) {
    let count = scored.len() as f64;
    let dependent = scored.iter().filter(|(_, truth)| *truth).count() as f64;
    let high = (dependent + 1.0) / (dependent + 2.0);
    let low = 1.0 / (count - dependent + 2.0);
    // On scores of unit spread, so that the ridge means the same for every scorer.
    let mean = scored.iter().map(|(score, _)| score).sum::<f64>() / count;
    let spread = scored
        .iter()
        .map(|(score, _)| (score - mean).powi(2))
        .sum::<f64>()
        / count;
    let spread = spread.sqrt().max(1e-12);
    let loss = |slope: f64, offset: f64| {
        let each = scored.iter().map(|(score, truth)| {
            let x = slope * (score - mean) / spread + offset;
            let target = if *truth { high } else { low };
            x.max(0.0) - x * target + (-x.abs()).exp().ln_1p()
        });
        each.sum::<f64>() + RIDGE * slope * slope / 2.0
    };
    let (mut slope, mut offset) = (0.0, (dependent / (count - dependent)).ln());
    let mut best = loss(slope, offset);
    for _ in 0..NEWTON_STEPS {
        let (mut g, mut h) = ((RIDGE * slope, 0.0), (RIDGE, 0.0, 1e-9));
        for (score, truth) in scored {
            let x = (score - mean) / spread;
            let p = sigmoid(slope * x + offset);
            let error = p - if *truth { high } else { low };
            let curve = p * (1.0 - p);
            g = (g.0 + error * x, g.1 + error);
            h = (h.0 + curve * x * x, h.1 + curve * x, h.2 + curve);
        }
        let det = h.0 * h.2 - h.1 * h.1;
        if det <= 0.0 {
            break;
        }
        let step = ((h.2 * g.0 - h.1 * g.1) / det, (h.0 * g.1 - h.1 * g.0) / det);
        let halves = (0..20).map(|times| 0.5_f64.powi(times));
        let tried = halves.map(|share| (slope - share * step.0, offset - share * step.1));
        let Some(next) = tried
            .into_iter()
            .find(|(slope, offset)| loss(*slope, *offset) < best)
        else {
            break;
        };
        let now = loss(next.0, next.1);
        let gained = best - now;
        (slope, offset) = next;
        best = now;
        if gained < 1e-10 * best.abs() {
            break;
        }
    }
    (slope / spread, offset - slope * mean / spread)
}

/// The threshold with the fewest mistakes on what is sorted from the highest down; the highest of equals.
fn fewest_mistakes(sorted: &[(f64, bool)]) -> f64 {
    let dependent = sorted.iter().filter(|(_, truth)| *truth).count();
    let (mut mistakes, mut lowest) = (dependent, f64::INFINITY);
    let (mut hits, mut alarms) = (0, 0);
    for group in sorted.chunk_by(|a, b| a.0 == b.0) {
        let Some((score, _)) = group.first() else {
            continue;
        };
        hits += group.iter().filter(|(_, truth)| *truth).count();
        alarms += group.iter().filter(|(_, truth)| !truth).count();
        if dependent - hits + alarms < mistakes {
            mistakes = dependent - hits + alarms;
            lowest = *score;
        }
    }
    between(sorted, lowest)
}

/// Half-way from the lowest score that is still above to the next one below.
fn between(sorted: &[(f64, bool)], lowest: f64) -> f64 {
    let below = sorted.iter().map(|(score, _)| *score);
    match below.into_iter().find(|score| *score < lowest) {
        Some(_) if lowest.is_infinite() => lowest,
        Some(below) => (lowest + below) / 2.0,
        None => lowest,
    }
}

/// The scores of all labelled regions with what is true of them.
///
/// # Errors
/// When the scorer fails, or does not answer with one finite score per region.
pub fn scored(
    scorer: &dyn Scorer,
    examples: &[&Example],
    truth: Truth,
) -> Result<Vec<(f64, bool)>> {
    let mut all = Vec::new();
    for example in examples {
        let scores = scores(scorer, example)?;
        let labelled = scores.into_iter().zip(truth.of(example));
        all.extend(labelled.filter_map(|(score, truth)| Some((score, truth?))));
    }
    Ok(all)
}

/// One finite score for each region of an example.
///
/// # Errors
/// When the scorer fails, or answers otherwise.
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
        let found = Calibration::of(&scored, 95).unwrap();
        assert!((found.slope - 1.5).abs() < 0.08, "{found:?}");
        assert!((found.offset + 1.0).abs() < 0.08, "{found:?}");
        assert!((found.accurate - 0.5).abs() < 0.12, "{found:?}");
        let kept = |(score, truth): &&(f64, bool)| *truth && found.keeps(found.probability(*score));
        let dependent = scored.iter().filter(|(_, truth)| *truth).count() as f64;
        let recall = scored.iter().filter(kept).count() as f64 / dependent;
        assert!((recall - 0.95).abs() < 0.001, "{recall}");
    }

    #[test]
    fn the_fewest_mistakes_are_those_found_by_hand() {
        let sorted = [
            (0.9, true),
            (0.8, true),
            (0.6, false),
            (0.4, true),
            (0.2, false),
        ];
        assert_eq!(fewest_mistakes(&sorted), 0.7);
        // Nothing is better than to say no always.
        assert_eq!(
            fewest_mistakes(&[(0.9, false), (0.2, false)]),
            f64::INFINITY
        );
        // Equal scores are decided alike.
        let equal = [(0.5, true), (0.5, false), (0.5, true)];
        assert_eq!(fewest_mistakes(&equal), 0.5);
    }

    /// The operating point of the tables is that of the file of weights.
    #[test]
    fn what_is_kept_is_what_the_screener_keeps() {
        let mut random = fastrand::Rng::with_seed(2);
        let scored: Vec<(f64, bool)> = (0..300)
            .map(|at| (random.f64() * 4.0 - 2.0, at % 3 == 0))
            .collect();
        for recall in RECALLS {
            let found = Calibration::of(&scored, recall).unwrap();
            let shipped = thresholds(&found.relevant(&scored));
            assert_eq!(shipped[usize::from(recall - RECALLS.start())], found.keep);
            let kept = scored
                .iter()
                .filter(|(score, truth)| *truth && found.keeps(found.probability(*score)));
            // Of a hundred dependent ones.
            assert_eq!(kept.count(), usize::from(recall));
        }
    }

    #[test]
    fn scores_that_tell_all_apart_stay_finite() {
        let scored: Vec<(f64, bool)> = (0..50).map(|at| (f64::from(at), at >= 25)).collect();
        let found = Calibration::of(&scored, 99).unwrap();
        assert!(found.slope.is_finite() && found.slope > 0.0);
        assert!(found.keeps(found.probability(25.0)) && !found.keeps(found.probability(24.0)));
        // And scores that tell nothing are the share of the dependent.
        let flat: Vec<(f64, bool)> = (0..40).map(|at| (1.0, at % 4 == 0)).collect();
        let found = Calibration::of(&flat, 90).unwrap();
        assert!((found.probability(1.0) - 0.25).abs() < 0.03, "{found:?}");
    }

    #[test]
    fn one_kind_of_regions_is_refused() {
        assert!(Calibration::of(&[(0.5, true)], 95).is_err());
        assert!(Calibration::of(&[], 95).is_err());
    }
}
