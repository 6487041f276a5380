//! One report of utility, security and cost, from rows of the closed loop.

mod cell;
mod goals;
mod oversight;
mod row;
mod share;
mod table;

use std::collections::BTreeMap;

pub(crate) use row::TaskKey;

pub use cell::{ALL, Cell, Cost, UNPROTECTED};
pub use goals::{Goal, Goals, VERSION as GOALS_VERSION};
pub use oversight::{Load, Oversight};
pub use row::Row;
pub use share::Share;
pub use table::table;

/// Utility, security and cost of every defence.
#[derive(Debug, Clone, PartialEq)]
pub struct Report {
    /// By model, version, suite and defence; all attacks together.
    pub cells: Vec<Cell>,
    /// What each defence asks of the user; all suites together, too.
    pub oversight: Vec<Oversight>,
    /// The defences beside what the project aims at.
    pub goals: Vec<Goals>,
}

impl Report {
    /// The report of these rows. A task that was run again counts as it came out last.
    pub fn new(rows: &[Row]) -> Self {
        // Later entries of a key replace earlier ones, and rows are in the order in which they were made.
        let last: BTreeMap<TaskKey, &Row> = rows.iter().map(|row| (row.key(), row)).collect();
        let rows: Vec<Row> = last.into_values().cloned().collect();
        let cells = cell::cells(&rows);
        let oversight = oversight::oversight(&rows);
        Self {
            goals: goals::goals(&rows, &cells, &oversight),
            cells,
            oversight,
        }
    }

    /// For a terminal: a table for each model, version and suite, and what is asked of the user.
    pub fn text(&self) -> String {
        table::report(&self.cells) + &oversight::text(&self.oversight)
    }

    /// Adds the recorded runs of GPT-4o without an attack to the aims of the default defence, which they are replayed with.
    pub fn add_recorded(&mut self, silent: Share) {
        goals::add_recorded(&mut self.goals, silent);
    }

    /// The aims as tables, one for each defence.
    pub fn goals_text(&self) -> String {
        goals::text(&self.goals)
    }
}

#[cfg(test)]
mod tests;
