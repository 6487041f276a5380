//! Which tunings of the attention screener rows come from.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use super::Row;
use crate::closed_loop::Defence;
use crate::replay::Method;
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
pub(super) fn uses(rows: &[&Row]) -> Vec<TuningUse> {
    let mut uses: BTreeMap<Option<&Tuning>, TuningUse> = BTreeMap::new();
    for row in rows.iter().filter(|row| is_tuned(&row.defence)) {
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
        Some(tuning) => line(tuning, &it.suites),
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

/// What is said of a tuning that was used on these suites.
pub(super) fn line(tuning: &Tuning, suites: &BTreeSet<String>) -> String {
    let caveat = tuning.caveat(suites);
    let caveat = caveat.map_or_else(String::new, |caveat| format!(" ({caveat})"));
    format!("attention: {tuning}{caveat}\n")
}

/// Tells the tunings of one defence apart, where a report has several: they must not be added up.
pub(super) struct Tags<'a>(BTreeSet<&'a str>);

impl<'a> Tags<'a> {
    pub(super) fn of(uses: &'a [TuningUse]) -> Self {
        let mut seen = BTreeSet::new();
        let names = uses.iter().flat_map(|it| &it.defences);
        Self(
            names
                .map(String::as_str)
                .filter(|it| !seen.insert(*it))
                .collect(),
        )
    }

    /// What is added to the name of a defence; `None` where it has one tuning only.
    pub(super) fn tag(&self, defence: &str, tuning: Option<&Tuning>) -> Option<String> {
        let tag = || tuning.map_or_else(|| UNKNOWN.to_owned(), Tuning::tag);
        self.0.contains(defence).then(tag)
    }
}

/// Whether a defence of the loop or the replay has the attention screener.
fn is_tuned(defence: &str) -> bool {
    let method = Method::ALL.into_iter().find(|it| it.name() == defence);
    method.is_some_and(Method::needs_attention) || Defence::named_needs_attention(defence)
}
