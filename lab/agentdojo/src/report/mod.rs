//! One report of utility, security and cost, from rows of the closed loop and from the replay.

mod cell;
mod detail;
mod lists;
mod plot;
mod replay;
mod row;
mod share;
mod svg;
mod table;
mod tunings;

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use detail::key_of_detail;
pub(crate) use detail::{TaskKey, key_of_row, key_of_tuning};
use tunings::Tags;

pub use cell::{ALL, AttackCell, Cell, Cost, UNPROTECTED};
pub use detail::{Detail, Success};
pub use lists::{Remaining, Succeeded};
pub use replay::{REPLAYED, replay_details, replay_rows, replay_text};
pub use row::Row;
pub use share::Share;
pub use svg::{Anchor, Svg, colour};
pub use table::table;
pub use tunings::TuningUse;

/// Utility, security and cost of every defence.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Report {
    /// By model, version, suite and defence; all attacks together.
    pub cells: Vec<Cell>,
    /// By model, version, attack and defence; all suites together.
    pub attacks: Vec<AttackCell>,
    /// What users who are not under attack are asked about.
    pub questions: Vec<Remaining>,
    /// The attacks that succeed behind a defence that refuses calls.
    pub succeeded: Vec<Succeeded>,
    /// The tunings of the attention screener. Where a defence has several, each has its own cells.
    pub tunings: Vec<TuningUse>,
}

impl Report {
    /// The report of these rows, and of what is known beside them. A task that was run again
    /// counts as it came out last.
    #[must_use]
    pub fn new(rows: &[Row], details: &[Detail]) -> Self {
        let last: BTreeMap<TaskKey, &Row> = rows.iter().map(|row| (key_of_row(row), row)).collect();
        let rows: Vec<&Row> = last.values().copied().collect();
        let details: BTreeMap<TaskKey, &Detail> = details
            .iter()
            .map(|detail| (key_of_detail(detail), detail))
            .filter(|(key, _)| last.get(key).is_some_and(|row| row.error.is_none()))
            .collect();
        let details: Vec<&Detail> = details.into_values().collect();
        let tunings = tunings::uses(&rows);
        let tags = Tags::of(&tunings);
        Self {
            cells: cell::cells(&rows, &tags),
            attacks: cell::attacks(&rows, &tags),
            questions: lists::remaining(&details, &tags),
            succeeded: lists::succeeded(&details, &tags),
            tunings,
        }
    }

    /// For a terminal: a table for each model, version and suite, one by attack where there are
    /// several, the tunings of the attention screener, and the two lists.
    #[must_use]
    pub fn text(&self) -> String {
        let mut text = table::report(&self.cells);
        let names: BTreeSet<&str> = self
            .attacks
            .iter()
            .map(|cell| cell.attack.as_str())
            .collect();
        if names.len() > 1 {
            text.push_str(&table::attacks(&self.attacks));
        }
        text.push_str(&tunings::text(&self.tunings));
        text + &lists::text(&self.questions, &self.succeeded)
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
