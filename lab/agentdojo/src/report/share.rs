//! A proportion of runs with its confidence interval.

use std::fmt;

/// The standard normal distribution's quantile for 95 %.
const Z: f64 = 1.959_963_984_540_054;

/// A binomial proportion: `held` of `of` runs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Share {
    /// Runs that count.
    pub of: u32,
    /// Runs for which it holds.
    pub held: u32,
}

impl Share {
    /// Counts one more run.
    pub fn add(&mut self, holds: bool) {
        self.of += 1;
        self.held += u32::from(holds);
    }

    /// Between 0 and 1; `None` of no runs.
    #[must_use]
    pub fn value(self) -> Option<f64> {
        (self.of > 0).then(|| f64::from(self.held) / f64::from(self.of))
    }

    /// The 95 % interval of Wilson, between 0 and 1.
    #[must_use]
    pub fn interval(self) -> Option<(f64, f64)> {
        let share = self.value()?;
        let runs = f64::from(self.of);
        // Wilson's interval stays within 0 and 1 and holds for small counts; the normal approximation gives 0 of
        // 10 runs no width at all.
        let scale = 1.0 + Z * Z / runs;
        let middle = share + Z * Z / (2.0 * runs);
        let spread = Z * (share * (1.0 - share) / runs + Z * Z / (4.0 * runs * runs)).sqrt();
        let at = |bound: f64| (bound / scale).clamp(0.0, 1.0);
        Some((at(middle - spread), at(middle + spread)))
    }
}

impl fmt::Display for Share {
    /// `47.7 % [44–52]`, or a dash.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Some(share), Some((low, high))) = (self.value(), self.interval()) else {
            return f.pad("–");
        };
        let (low, high) = (low * 100.0, high * 100.0);
        f.pad(&format!("{:.1} % [{low:.0}–{high:.0}]", share * 100.0))
    }
}
