//! Which tunings of the attention screener rows come from.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use super::Row;
use crate::closed_loop::Defence;
use crate::tuning::Tuning;

/// What earlier versions kept does not say.
const UNKNOWN: &str = "tuning unknown";

/// One tuning of the attention screener, and what was measured with it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct TuningUse {
    /// The tuning; `None` for rows that do not say.
    pub tuning: Option<Tuning>,
    /// The defences that it was used for.
    pub defences: BTreeSet<String>,
    /// The suites that it was used on.
    pub suites: BTreeSet<String>,
}

/// The tunings of rows, those that are unknown first.
pub(super) fn uses<'a>(rows: impl Iterator<Item = &'a Row>) -> Vec<TuningUse> {
    let mut uses: BTreeMap<Option<&Tuning>, TuningUse> = BTreeMap::new();
    for row in rows.filter(|row| Defence::named_needs_attention(&row.defence)) {
        let tuning = row.tuning.as_ref();
        let it = uses.entry(tuning).or_insert_with(|| TuningUse {
            tuning: tuning.cloned(),
            defences: BTreeSet::new(),
            suites: BTreeSet::new(),
        });
        it.defences.insert(row.defence.clone());
        it.suites.insert(row.suite.clone());
    }
    uses.into_values().collect()
}

/// A line for each tuning.
pub(super) fn text(uses: &[TuningUse]) -> String {
    let lines = uses.iter().map(|it| match &it.tuning {
        Some(tuning) => {
            let caveat = tuning.caveat(&it.suites);
            let caveat = caveat.map_or_else(String::new, |caveat| format!(" ({caveat})"));
            format!("attention: {tuning}{caveat}\n")
        }
        None => {
            let names: Vec<&str> = it.defences.iter().map(String::as_str).collect();
            let names = names.join(", ");
            format!("attention: {UNKNOWN} (rows of {names}, kept by an earlier version)\n")
        }
    });
    let lines: String = lines.collect();
    match lines.is_empty() {
        true => lines,
        false => format!("\n{lines}"),
    }
}

/// The names of defences in reports, which say the tuning where a report has several of one defence.
pub(super) struct Series<'a>(BTreeSet<&'a str>);

impl<'a> Series<'a> {
    pub(super) fn new(uses: &'a [TuningUse]) -> Self {
        let mut seen = BTreeSet::new();
        let names = uses.iter().flat_map(|it| &it.defences).map(String::as_str);
        // A name that comes a second time belongs to more than one tuning.
        Self(names.filter(|name| !seen.insert(*name)).collect())
    }

    pub(super) fn name(&self, row: &Row) -> String {
        if !self.0.contains(row.defence.as_str()) {
            return row.defence.clone();
        }
        let tuning = row.tuning.as_ref();
        let tuning = tuning.map_or_else(|| UNKNOWN.to_owned(), Tuning::tag);
        format!("{} ({tuning})", row.defence)
    }
}
