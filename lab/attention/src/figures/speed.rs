//! Seconds by new history tokens: from nothing, and after a history that is in the cache.

use std::sync::Arc;
use std::time::Instant;

use agentdojo::report::table;
use anyhow::{Result, ensure};
use saliency::{CacheLimits, Engine, Model, Observer, Row};
use serde::Serialize;

use super::number;
use super::process;
use super::statistics::{Fit, fit, median};

/// What is measured.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SpeedPlan {
    /// History tokens that are all new.
    pub fresh: Vec<usize>,
    /// The tokens of a cached history, to which others are added.
    pub cached: usize,
    /// Tokens that are added to it.
    pub added: Vec<usize>,
    /// Output tokens.
    pub output: usize,
    /// How often each is measured.
    pub runs: usize,
}

impl Default for SpeedPlan {
    /// The sizes that the project has set itself targets for.
    fn default() -> Self {
        Self {
            fresh: vec![500, 1000, 2000, 4000, 8000],
            cached: 4000,
            added: vec![1, 100, 300, 1000],
            output: 50,
            runs: 5,
        }
    }
}

impl SpeedPlan {
    /// How many tokens of text it needs.
    #[must_use]
    pub fn tokens(&self) -> usize {
        let fresh = self.fresh.iter().copied().max().unwrap_or_default();
        let added = self.added.iter().copied().max().unwrap_or_default();
        let after = self.cached + added * self.runs;
        fresh.max(after) + self.output
    }
}

/// What a curve is about.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Curve {
    /// Tokens that were in the cache already.
    pub cached: usize,
    /// By new tokens.
    pub points: Vec<Point>,
    /// The straight line through the medians, over new tokens.
    pub line: Option<Fit>,
    /// The power of the new tokens that the medians grow with: 1 is linear.
    pub power: Option<f64>,
}

/// One size.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Point {
    /// New history tokens.
    pub new: usize,
    /// Output tokens.
    pub output: usize,
    /// Of each run, in order.
    pub seconds: Vec<f64>,
    /// Their median.
    pub median: f64,
    /// The shortest.
    pub best: f64,
    /// The most memory of the process during these runs, in bytes; with `peak_is_own` unset, since
    /// its start.
    pub peak: Option<u64>,
}

/// What saliency costs on this machine.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Speed {
    /// Threads that the machine has for it.
    pub threads: usize,
    /// Processes that wanted a core in the minute before: more than a little makes times too long.
    pub load: Option<f64>,
    /// Was the peak of memory counted anew for each size?
    pub peak_is_own: bool,
    /// From nothing, then after a cached history.
    pub curves: Vec<Curve>,
}

/// Measures the model on these tokens, of which there must be [`SpeedPlan::tokens`].
///
/// # Errors
/// Too few tokens, or more than the model reads.
pub fn speed(
    model: &Arc<Model>,
    tokens: &[u32],
    plan: &SpeedPlan,
    progress: &mut dyn FnMut(&str),
) -> Result<Speed> {
    ensure!(
        plan.runs > 0,
        "nothing is measured in 0 runs; give at least 1"
    );
    ensure!(
        tokens.len() >= plan.tokens(),
        "{} tokens of text are too few to measure {}; give more",
        tokens.len(),
        plan.tokens()
    );
    let mut found = Speed {
        threads: std::thread::available_parallelism().map_or(1, usize::from),
        load: process::load(),
        peak_is_own: process::forget_peak(),
        curves: Vec::new(),
    };
    // Taken off first, so that every history is followed by the same draft and none begins with it.
    let output = tokens.get(..plan.output).unwrap_or_default();
    let tokens = tokens.get(plan.output..).unwrap_or_default();
    if !plan.fresh.is_empty() {
        let mut points = Vec::new();
        for new in &plan.fresh {
            progress(&format!("{new} new tokens"));
            points.push(fresh(model, tokens, output, *new, plan.runs)?);
        }
        found.curves.push(Curve::new(0, points));
    }
    if !plan.added.is_empty() && plan.cached > 0 {
        let mut points = Vec::new();
        for new in &plan.added {
            progress(&format!("{new} new tokens after {}", plan.cached));
            points.push(added(model, tokens, output, plan, *new)?);
        }
        found.curves.push(Curve::new(plan.cached, points));
    }
    Ok(found)
}

/// From an empty cache, each time.
fn fresh(
    model: &Arc<Model>,
    tokens: &[u32],
    output: &[u32],
    new: usize,
    runs: usize,
) -> Result<Point> {
    process::forget_peak();
    let history = tokens.get(..new).unwrap_or(tokens);
    let mut seconds = Vec::new();
    for _ in 0..runs {
        let engine = Engine::new(Arc::clone(model), CacheLimits::default())?;
        seconds.push(once(&engine, history, output)?);
    }
    Ok(Point::new(new, output.len(), seconds))
}

/// After a history that is in the cache; what is added is other text each time.
fn added(
    model: &Arc<Model>,
    tokens: &[u32],
    output: &[u32],
    plan: &SpeedPlan,
    new: usize,
) -> Result<Point> {
    process::forget_peak();
    let (known, rest) = tokens
        .split_at_checked(plan.cached)
        .unwrap_or((tokens, &[]));
    let engine = Engine::new(Arc::clone(model), CacheLimits::default())?;
    // The last history token is never cached, so one more is given.
    let filled: Vec<u32> = known.iter().chain(rest.first()).copied().collect();
    engine.observe(&filled, &[], &mut Sums(Vec::new()))?;
    let mut seconds = Vec::new();
    for tail in rest.chunks_exact(new.max(1)).take(plan.runs) {
        let history = [known, tail].concat();
        seconds.push(once(&engine, &history, output)?);
    }
    ensure!(
        seconds.len() == plan.runs,
        "the text is too short for {} runs of {new} tokens",
        plan.runs
    );
    Ok(Point::new(new, output.len(), seconds))
}

/// Equation 2 of RTBAS: a number per output token and history token, summed over layers and heads.
struct Sums(Vec<Vec<f32>>);

impl Observer for Sums {
    fn row(&mut self, row: Row<'_>) {
        if let Some(sums) = self.0.get_mut(row.output) {
            row.add_to(sums);
        }
    }
}

fn once(engine: &Engine, history: &[u32], output: &[u32]) -> Result<f64> {
    let start = Instant::now();
    let mut sums = Sums(vec![vec![0.0; history.len()]; output.len()]);
    engine.observe(history, output, &mut sums)?;
    let seconds = start.elapsed().as_secs_f64();
    // Outside of the measured time. A model whose numbers are not finite would have a time that says nothing.
    ensure!(
        sums.0.iter().flatten().all(|value| value.is_finite()),
        "the saliency is not finite; check the model file"
    );
    Ok(seconds)
}

impl Point {
    fn new(new: usize, output: usize, seconds: Vec<f64>) -> Self {
        Self {
            new,
            output,
            median: median(&seconds).unwrap_or_default(),
            best: seconds.iter().copied().fold(f64::INFINITY, f64::min),
            seconds,
            peak: process::peak(),
        }
    }
}

impl Curve {
    pub(super) fn new(cached: usize, points: Vec<Point>) -> Self {
        let medians = points.iter().map(|point| (point.new as f64, point.median));
        let medians: Vec<(f64, f64)> = medians.collect();
        // The slope of the logarithms is the exponent: seconds ≈ c · tokens^power.
        let logarithms = medians.iter().filter(|(x, y)| *x > 0.0 && *y > 0.0);
        let logarithms: Vec<(f64, f64)> = logarithms.map(|(x, y)| (x.ln(), y.ln())).collect();
        Self {
            cached,
            line: fit(&medians),
            power: fit(&logarithms).map(|line| line.slope),
            points,
        }
    }

    fn name(&self) -> String {
        match self.cached {
            0 => "from nothing".to_owned(),
            cached => format!("after {cached} cached tokens"),
        }
    }

    fn text(&self) -> String {
        let rows = self.points.iter().map(|point| {
            let gib = |bytes: u64| bytes as f64 / f64::from(1 << 30);
            vec![
                point.new.to_string(),
                point.output.to_string(),
                number(Some(point.median), 3),
                number(Some(point.best), 3),
                number(Some(point.median * 1000.0 / point.new.max(1) as f64), 2),
                number(point.peak.map(gib), 2),
            ]
        });
        let rows: Vec<Vec<String>> = rows.collect();
        let head = [
            "new tokens",
            "output",
            "median s",
            "best s",
            "ms per new token",
            "peak GiB",
        ];
        let line = match &self.line {
            Some(line) => format!(
                "line: {:.3} s + {:.3} ms per new token, R² {:.4}; grows with tokens to the power {}\n",
                line.start,
                line.slope * 1000.0,
                line.r2,
                number(self.power, 2)
            ),
            None => String::new(),
        };
        let name = self.name();
        let head = table(0, &head, &rows);
        format!("{name}\n{head}{line}")
    }
}

impl Speed {
    /// Tables.
    #[must_use]
    pub fn text(&self) -> String {
        let mut text = format!(
            "Seconds of one step, {} threads, load before: {}{}\n",
            self.threads,
            number(self.load, 2),
            if self.peak_is_own {
                ""
            } else {
                "; memory is the most since the start of the process"
            }
        );
        for curve in &self.curves {
            text.push('\n');
            text.push_str(&curve.text());
        }
        text
    }
}
