//! The engine, on small random models and on the feature model.
#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::print_stderr,
    reason = "tests fail by panicking, and say when they are skipped"
)]

mod engine;
mod lab;
mod naive;

use saliency::{Engine, Losses, Observer, Row, SaliencyError};

/// Equation 2: a row per output token, a column per history token.
#[derive(Debug, Clone, PartialEq)]
struct Saliency {
    rows: Vec<Vec<f32>>,
    losses: Losses,
}

impl Observer for Saliency {
    fn row(&mut self, row: Row<'_>) {
        row.add_to(&mut self.rows[row.output]);
    }
}

fn saliency(engine: &Engine, history: &[u32], output: &[u32]) -> Result<Saliency, SaliencyError> {
    let mut sums = Saliency {
        rows: vec![vec![0.0; history.len()]; output.len()],
        losses: Vec::new(),
    };
    sums.losses = engine.observe(history, output, &mut sums)?;
    Ok(sums)
}
