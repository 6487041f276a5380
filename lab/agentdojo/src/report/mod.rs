//! One report of utility, security and cost, from rows of the closed loop.

mod cell;
mod goals;
mod lists;
mod oversight;
mod plot;
mod row;
mod share;
mod svg;
mod table;
mod tunings;

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use crate::method::Method;
pub(crate) use lists::about;
pub(crate) use row::TaskKey;
use tunings::Series;

pub use cell::{ALL, Cell, Cost, UNPROTECTED};
pub use goals::{Goal, Goals, VERSION as GOALS_VERSION};
pub use lists::{Lost, Place, Remaining, Succeeded};
pub use oversight::{Load, Oversight};
pub use row::{Row, Success};
pub use share::Share;
pub use svg::{Anchor, Svg, colour, file_name, float};
pub use table::table;
pub use tunings::TuningUse;

/// Utility, security and cost of every defence.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Report {
    /// By model, version, suite and defence; all attacks together.
    pub cells: Vec<Cell>,
    /// By model, version, attack and defence; all suites together.
    pub attacks: Vec<Cell>,
    /// What each defence asks of the user; all suites together, too.
    pub oversight: Vec<Oversight>,
    /// What users who are not under attack are asked about.
    pub questions: Vec<Remaining>,
    /// The tasks that are lost without a question.
    pub lost: Vec<Lost>,
    /// The attacks that succeed behind a defence that refuses calls.
    pub succeeded: Vec<Succeeded>,
    /// The tunings of the attention screener. Where a defence has several, each has its own cells.
    pub tunings: Vec<TuningUse>,
    /// The defences beside what the project aims at.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub goals: Vec<Goals>,
}

impl Report {
    /// The report of these rows. A task that was run again counts as it came out last.
    #[must_use]
    pub fn new(rows: &[Row]) -> Self {
        // Later entries of a key replace earlier ones, and rows are in the order in which they were made.
        let last: BTreeMap<TaskKey, &Row> = rows.iter().map(|row| (row.key(), row)).collect();
        let tunings = tunings::uses(last.values().copied());
        let series = Series::new(&tunings);
        // From here on, the tunings of one defence are different defences: they must not be added up.
        let renamed = last.values().map(|row| Row {
            defence: series.name(row),
            ..Row::clone(row)
        });
        let rows: Vec<Row> = renamed.collect();
        let measured: Vec<&Row> = rows.iter().filter(|row| row.error.is_none()).collect();
        let cells = cell::cells(&rows);
        let oversight = oversight::oversight(&rows);
        Self {
            goals: goals::goals(&rows, &cells, &oversight),
            cells,
            oversight,
            attacks: cell::attacks(&rows),
            questions: lists::remaining(&measured),
            lost: lists::lost(&oversight::lost(&rows)),
            succeeded: lists::succeeded(&measured),
            tunings,
        }
    }

    /// For a terminal: a table for each model, version and suite, one by attack where there are
    /// several, what is asked of the user, the tunings of the attention screener, and the lists: of what
    /// is asked about, what is lost, and what succeeds; of `every` run, or a little shorter.
    #[must_use]
    pub fn text(&self, every: bool) -> String {
        let mut text = table::report(&self.cells);
        let names: BTreeSet<&str> = self
            .attacks
            .iter()
            .filter_map(|cell| cell.attack.as_deref())
            .collect();
        if names.len() > 1 {
            text.push_str(&table::attacks(&self.attacks));
        }
        text.push_str(&oversight::text(&self.oversight));
        text.push_str(&tunings::text(&self.tunings));
        text + &self.lists(every)
    }

    /// Adds what the recorded runs of GPT-4o say to each defence's aims: the share of those without an
    /// attack in which nothing is asked, replayed by a method.
    pub fn add_recorded(&mut self, silent: impl Fn(Method) -> Share) {
        goals::add_recorded(&mut self.goals, silent);
    }

    /// The aims as tables, one for each defence.
    #[must_use]
    pub fn goals_text(&self) -> String {
        goals::text(&self.goals)
    }

    /// The lists alone.
    #[must_use]
    pub fn lists(&self, every: bool) -> String {
        lists::text(&self.questions, &self.lost, &self.succeeded, every)
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
