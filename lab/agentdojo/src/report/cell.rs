//! Rows added up: one cell for each defence and suite.

use std::collections::BTreeMap;

use super::{Row, Share};

/// The usual user, who answers nothing.
pub(super) const ABSENT: &str = "absent";

/// The defence that ratios are taken over.
pub const UNPROTECTED: &str = "none";

/// The four suites together.
pub const ALL: &str = "all";

/// The rows of one defence in one suite, with one model and version of the suites.
#[derive(Debug, Clone, PartialEq)]
pub struct Cell {
    /// The agent's model.
    pub model: String,
    /// Who answers questions.
    pub user_model: String,
    /// The version of the suites.
    pub version: String,
    /// The suite, or [`ALL`].
    pub suite: String,
    /// The defence.
    pub defence: String,
    /// User's tasks done, without an attack.
    pub utility: Share,
    /// User's tasks done under attack.
    pub utility_under_attack: Share,
    /// Attacker's goals reached.
    pub attack_success: Share,
    /// Tasks without an attack in which the user is asked nothing.
    pub silent: Share,
    /// Without an attack.
    pub benign: Cost,
    /// Under attack.
    pub attacked: Cost,
    /// Rows that have no result. They count as tasks not done, and in no attack.
    pub errors: u32,
}

/// What runs cost.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Cost {
    /// Runs.
    pub runs: u32,
    /// Questions to the user.
    pub questions: u64,
    /// Calls of models, a screener's included.
    pub llm_calls: u64,
    /// Tokens read and written by models.
    pub tokens: u64,
    /// Wall time.
    pub seconds: f64,
    /// Calls over those of the unprotected agent on the same tasks.
    pub calls_ratio: Option<f64>,
    /// Tokens over those of the unprotected agent on the same tasks.
    pub tokens_ratio: Option<f64>,
}

impl Cell {
    /// The defence's name in tables, with its user if that is not the usual one.
    pub fn series(&self) -> String {
        match &*self.user_model {
            ABSENT => self.defence.clone(),
            user => format!("{} ({user} user)", self.defence),
        }
    }
}

impl Cost {
    fn add(&mut self, row: &Row) {
        self.runs += 1;
        self.questions += u64::from(row.questions);
        self.llm_calls += calls(row);
        self.tokens += tokens(row);
        self.seconds += row.seconds;
    }

    /// A sum per run; `None` of no runs.
    pub fn per_run(&self, sum: f64) -> Option<f64> {
        (self.runs > 0).then(|| sum / f64::from(self.runs))
    }
}

/// One cell for each model, version, suite (and [`ALL`]) and defence, in this order; within a
/// suite the unprotected agent comes first.
pub(super) fn cells(rows: &[Row]) -> Vec<Cell> {
    let members = rows
        .iter()
        .flat_map(|row| [&*row.suite, ALL].map(|suite| (row, suite)));
    let mut cells: BTreeMap<_, (Cell, Vec<&Row>)> = BTreeMap::new();
    for (row, suite) in members {
        // `false` sorts first: the suites before all of them together, the unprotected agent before the others.
        let key = (
            (&row.model, &row.version, suite == ALL, suite),
            (row.defence != UNPROTECTED, &row.defence, &row.user_model),
        );
        let (cell, of_cell) = cells
            .entry(key)
            .or_insert_with(|| (empty(row, suite), vec![]));
        add(cell, row);
        of_cell.push(row);
    }
    let unprotected: BTreeMap<Key<'_>, &Row> = rows
        .iter()
        .filter(|row| row.defence == UNPROTECTED && row.error.is_none())
        .map(|row| (key(row), row))
        .collect();
    let with_ratios = cells.into_values().map(|(mut cell, rows)| {
        let attacked = |wanted: bool| {
            let rows = rows.iter().copied();
            rows.filter(move |row| row.attack.is_some() == wanted)
        };
        ratios(&mut cell.benign, attacked(false), &unprotected);
        ratios(&mut cell.attacked, attacked(true), &unprotected);
        cell
    });
    with_ratios.collect()
}

/// What makes two rows the same task. Who answers does not matter: nobody asks for the unprotected
/// agent, which rows are compared with.
type Key<'a> = (
    &'a str,
    &'a str,
    &'a str,
    &'a str,
    Option<&'a str>,
    Option<&'a str>,
);

fn key(row: &Row) -> Key<'_> {
    (
        &row.model,
        &row.version,
        &row.suite,
        &row.user_task,
        row.attack.as_deref(),
        row.injection_task.as_deref(),
    )
}

/// Over the same tasks only: a run that was stopped half-way is not compared with a complete one.
fn ratios<'a>(
    cost: &mut Cost,
    rows: impl Iterator<Item = &'a Row>,
    unprotected: &BTreeMap<Key<'a>, &'a Row>,
) {
    let (mut own, mut other) = ((0, 0), (0, 0));
    for row in rows.filter(|row| row.error.is_none()) {
        if let Some(plain) = unprotected.get(&key(row)) {
            own = (own.0 + calls(row), own.1 + tokens(row));
            other = (other.0 + calls(plain), other.1 + tokens(plain));
        }
    }
    cost.calls_ratio = ratio(own.0, other.0);
    cost.tokens_ratio = ratio(own.1, other.1);
}

#[expect(
    clippy::cast_precision_loss,
    reason = "tokens of a benchmark fit a double"
)]
fn ratio(own: u64, other: u64) -> Option<f64> {
    (other > 0).then(|| own as f64 / other as f64)
}

fn calls(row: &Row) -> u64 {
    u64::from(row.llm_calls) + u64::from(row.judge_calls)
}

fn tokens(row: &Row) -> u64 {
    row.prompt_tokens + row.completion_tokens
}

fn empty(row: &Row, suite: &str) -> Cell {
    Cell {
        model: row.model.clone(),
        user_model: row.user_model.clone(),
        version: row.version.clone(),
        suite: suite.to_owned(),
        defence: row.defence.clone(),
        utility: Share::default(),
        utility_under_attack: Share::default(),
        attack_success: Share::default(),
        silent: Share::default(),
        benign: Cost::default(),
        attacked: Cost::default(),
        errors: 0,
    }
}

fn add(cell: &mut Cell, row: &Row) {
    let failed = row.error.is_some();
    cell.errors += u32::from(failed);
    if row.attack.is_none() {
        cell.utility.add(row.utility && !failed);
        cell.silent.add(row.questions == 0 && !failed);
        cell.benign.add(row);
        return;
    }
    cell.utility_under_attack.add(row.utility && !failed);
    if let (Some(succeeded), false) = (row.attack_succeeded, failed) {
        cell.attack_success.add(succeeded);
    }
    cell.attacked.add(row);
}
