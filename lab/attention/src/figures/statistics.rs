//! Medians and straight lines.

use serde::Serialize;

/// The middle value, or the mean of the two in the middle.
#[must_use]
pub fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let (low, high) = (values.len().checked_sub(1)? / 2, values.len() / 2);
    Some(f64::midpoint(*sorted.get(low)?, *sorted.get(high)?))
}

/// The mean; `None` of nothing.
fn mean(values: &[f64]) -> Option<f64> {
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
