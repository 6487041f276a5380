//! What attention saliency costs: seconds by new tokens (RTBAS §3.3).

mod process;
mod reader;
mod speed;
mod statistics;

pub use reader::Reader;
pub use speed::{Curve, Point, Speed, SpeedPlan, speed};
pub use statistics::{Fit, fit, median};

#[cfg(test)]
mod tests;

/// A number with so many digits, or a dash.
fn number(value: Option<f64>, digits: usize) -> String {
    value.map_or("–".to_owned(), |value| format!("{value:.digits$}"))
}
