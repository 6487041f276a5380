//! One report of utility, security and cost, from rows of the closed loop and from the replay.

mod cell;
mod plot;
mod replay;
mod row;
mod share;
mod svg;
mod table;

use serde::Serialize;

pub use cell::{ALL, Cell, Cost, UNPROTECTED};
pub use replay::{replay_rows, replay_text};
pub use row::Row;
pub use share::Share;

/// Utility, security and cost of every defence.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Report {
    /// By model, version, suite and defence.
    pub cells: Vec<Cell>,
}

impl Report {
    /// The report of these rows.
    #[must_use]
    pub fn new(rows: &[Row]) -> Self {
        Self {
            cells: cell::cells(rows),
        }
    }

    /// For a terminal: a table for each model, version and suite.
    #[must_use]
    pub fn text(&self) -> String {
        table::report(&self.cells)
    }

    /// As JSON text.
    ///
    /// # Errors
    /// A figure cannot be written.
    pub fn json(&self) -> Result<String, serde_json::Error> {
        serde_json::to_string_pretty(self)
    }

    /// After RTBAS Figure 5: security against utility under attack, an SVG image for each model
    /// and version (with a name for its file). Top right is best.
    #[must_use]
    pub fn tradeoff(&self) -> Vec<(String, String)> {
        plot::per_model(&self.cells, "tradeoff", plot::tradeoff)
    }

    /// After RTBAS Figure 6: utility without an attack by suite, an SVG image for each model and
    /// version (with a name for its file).
    #[must_use]
    pub fn utility(&self) -> Vec<(String, String)> {
        plot::per_model(&self.cells, "utility", plot::utility)
    }
}

#[cfg(test)]
mod tests;
