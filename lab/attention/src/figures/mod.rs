//! What attention saliency shows and costs: RTBAS §3.3, Figures 2 and 3, and seconds by
//! new tokens.
//!
//! Each figure is a value that prints itself as text, draws itself as SVG and is written as JSON.

mod distributions;
mod following;
mod plot;
mod process;
mod reader;
mod reference;
mod speed;
mod statistics;

pub use distributions::{Distributions, Group, distributions};
pub use following::{Followed, Following, Part, Score, Situation, following};
pub use plot::{Panel, Series};
pub use reader::{Read, Reader};
pub use reference::{Reference, Script};
pub use speed::{Curve, Point, Speed, SpeedPlan, speed};
pub use statistics::{BINS, Fit, Histogram, LOW, fit, median};

#[cfg(test)]
mod tests;

/// Which recorded model, as in the paper: `GPT-4o` and `Claude` (both versions of 3.5 together).
#[must_use]
pub fn family(model: &str) -> &str {
    match model {
        _ if model.starts_with("gpt-4o") => "GPT-4o",
        _ if model.starts_with("claude") => "Claude",
        other => other,
    }
}

/// A part of a whole in per cent, or a dash.
fn percent(part: Option<f64>) -> String {
    part.map_or("–".to_owned(), |part| format!("{:.1} %", part * 100.0))
}

/// A number with so many digits, or a dash.
fn number(value: Option<f64>, digits: usize) -> String {
    value.map_or("–".to_owned(), |value| format!("{value:.digits$}"))
}
