//! Histograms, medians, rank correlations and straight lines.

use serde::Serialize;

/// Bins of a histogram, as in the paper's figures.
pub const BINS: usize = 10;

/// What the paper counts as a low score.
pub const LOW: f64 = 0.2;

/// How weighted scores between 0 and 1 are distributed.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Histogram {
    /// How many scores.
    pub count: usize,
    /// The fraction of the weight in each tenth from 0 to 1; the last one includes 1. All 0 without scores.
    pub fractions: Vec<f64>,
    /// The fraction of the weight below [`LOW`].
    pub low: Option<f64>,
    /// Half of the weight is not above it.
    pub median: Option<f64>,
}

impl Histogram {
    /// Of scores with their weights.
    #[must_use]
    pub fn new(scores: &[(f64, f64)]) -> Self {
        let total: f64 = scores.iter().map(|(_, weight)| weight).sum();
        let mut fractions = vec![0.0; BINS];
        for (score, weight) in scores {
            // `as` saturates: what is below 0, or NaN, goes into the first bin, and what is 1 or more into the last.
            let bin = ((score * BINS as f64).floor() as usize).min(BINS - 1);
            if let Some(fraction) = fractions.get_mut(bin).filter(|_| total > 0.0) {
                *fraction += weight / total;
            }
        }
        let low = scores.iter().filter(|(score, _)| *score < LOW);
        let low: f64 = low.map(|(_, weight)| weight).sum();
        Self {
            count: scores.len(),
            fractions,
            low: (total > 0.0).then(|| low / total),
            median: weighted_median(scores, total),
        }
    }

    /// Of scores that all count the same.
    #[must_use]
    pub fn even(scores: &[f64]) -> Self {
        let scores: Vec<(f64, f64)> = scores.iter().map(|score| (*score, 1.0)).collect();
        Self::new(&scores)
    }

    /// The fractions as whole per cent, for a line of text.
    #[must_use]
    pub fn line(&self) -> String {
        let fractions = self.fractions.iter();
        let fractions: Vec<String> = fractions
            .map(|fraction| format!("{:3.0}", fraction * 100.0))
            .collect();
        fractions.join(" ")
    }
}

/// The least score that has half of the weight at or below it; between two scores that part the
/// weight exactly, their mean.
fn weighted_median(scores: &[(f64, f64)], total: f64) -> Option<f64> {
    let mut sorted: Vec<(f64, f64)> = scores
        .iter()
        .copied()
        .filter(|(_, weight)| *weight > 0.0)
        .collect();
    sorted.sort_by(|a, b| a.0.total_cmp(&b.0));
    let mut below = 0.0;
    let mut rest = sorted.iter().peekable();
    while let Some((score, weight)) = rest.next() {
        below += weight;
        if below > total / 2.0 {
            return Some(*score);
        }
        // Exact for weights of 1, whose sums are not rounded. Other weights hardly ever meet it.
        if below == total / 2.0 {
            let next = rest.peek().map_or(*score, |(next, _)| *next);
            return Some(f64::midpoint(*score, next));
        }
    }
    sorted.last().map(|(score, _)| *score)
}

/// The middle value, or the mean of the two in the middle.
#[must_use]
pub fn median(values: &[f64]) -> Option<f64> {
    let scores: Vec<(f64, f64)> = values.iter().map(|value| (*value, 1.0)).collect();
    weighted_median(&scores, scores.len() as f64)
}

/// The mean; `None` of nothing.
pub(super) fn mean(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

/// Means, and sums of products of what differs from them.
struct Moments {
    x: f64,
    y: f64,
    xx: f64,
    xy: f64,
    yy: f64,
}

impl Moments {
    fn of(x: &[f64], y: &[f64]) -> Option<Self> {
        let (mean_x, mean_y) = (mean(x)?, mean(y)?);
        let mut moments = Self {
            x: mean_x,
            y: mean_y,
            xx: 0.0,
            xy: 0.0,
            yy: 0.0,
        };
        for (x, y) in x.iter().zip(y) {
            let (x, y) = (x - mean_x, y - mean_y);
            moments.xx += x * x;
            moments.xy += x * y;
            moments.yy += y * y;
        }
        Some(moments)
    }
}

/// A straight line through points by least squares.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Fit {
    /// `y` at 0.
    pub start: f64,
    /// How much `y` grows with `x`.
    pub slope: f64,
    /// The fraction of the variance of `y` that the line explains.
    pub r2: f64,
}

/// The line through points `(x, y)`; `None` where all have one `x` or one `y`.
#[must_use]
pub fn fit(points: &[(f64, f64)]) -> Option<Fit> {
    let (x, y): (Vec<f64>, Vec<f64>) = points.iter().copied().unzip();
    let moments = Moments::of(&x, &y)?;
    if moments.xx <= 0.0 || moments.yy <= 0.0 {
        return None;
    }
    let slope = moments.xy / moments.xx;
    Some(Fit {
        start: moments.y - slope * moments.x,
        slope,
        r2: moments.xy * moments.xy / (moments.xx * moments.yy),
    })
}
