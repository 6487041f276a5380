//! What the benchmark prints.

use agentdojo::report::table;
use anyhow::Result;
use serde::Serialize;

use crate::grade::Row;
use crate::measure::{ALL, ANSWERS, Figures, Safety, Tasks, measure, safety};

/// Everything that was measured.
#[derive(Debug, Clone, Serialize)]
pub struct Report {
    /// Without an attack.
    pub figures: Vec<Figures>,
    /// What left without being named, without an attack and with one.
    pub safety: Vec<Safety>,
    /// The runs.
    pub rows: Vec<Row>,
}

impl Report {
    /// The report of these runs.
    #[must_use]
    pub fn new(rows: Vec<Row>) -> Self {
        Self {
            figures: measure(&rows),
            safety: safety(&rows),
            rows,
        }
    }

    /// As JSON.
    ///
    /// # Errors
    /// None that a report has.
    pub fn json(&self) -> Result<String> {
        Ok(serde_json::to_string_pretty(self)?)
    }

    fn agents(&self) -> Vec<&str> {
        let mut agents: Vec<&str> = Vec::new();
        for row in &self.rows {
            if !agents.contains(&row.agent.as_str()) {
                agents.push(&row.agent);
            }
        }
        agents
    }

    /// Tables for a terminal.
    #[must_use]
    pub fn text(&self) -> String {
        let mut text = String::from(NOTE);
        for agent in self.agents() {
            let own = self.figures.iter().filter(|it| it.agent == agent);
            let own: Vec<&Figures> = own.collect();
            if !own.is_empty() {
                text.push_str(&format!(
                    "\n{agent}: when it is asked about (RTBAS Table 2)\n{}",
                    asked(&own)
                ));
                text.push_str(&format!(
                    "\n{agent}: labels (RTBAS §8.3.1) and tasks done (RTBAS Figure 7)\n{}",
                    done(&own)
                ));
                text.push_str(&format!(
                    "\n{agent}: what it takes of the user\n{}",
                    taken(&own)
                ));
            }
            let own = self
                .safety
                .iter()
                .filter(|it| it.agent == agent && it.domain == ALL);
            let own: Vec<&Safety> = own.collect();
            text.push_str(&format!(
                "\n{agent}: private data that left without a question that names it\n{}",
                left(&own)
            ));
        }
        let errors = self
            .rows
            .iter()
            .filter_map(|row| Some((row, row.error.as_ref()?)));
        for (row, error) in errors {
            text.push_str(&format!("\n{} behind {}: {error}\n", row.task, row.defence));
        }
        text
    }
}

const NOTE: &str = "\
Shares with their 95 % interval (Wilson). A false positive is a call that needs no question and was asked about, a false negative one
that needs a question and was not; RTBAS §8.2 defines the two names the other way round, and its Table 2 uses them as here. Rates are over
calls; `tasks` counts tasks with such a call over all tasks, as the paper does. The rows oracle and perfect-judge are told the dependencies.
A call that is never made is not asked about. Runs that failed count in no share, and their number in the last column of two tables.
Completions are those of the agent's model and of the judge's.
";

fn which(figures: &Figures) -> String {
    match (figures.domain.as_str(), figures.tasks) {
        (ALL, Tasks::All) => "all tasks".to_owned(),
        (ALL, Tasks::Open) => "all, open".to_owned(),
        (ALL, Tasks::Seeded) => "all, seeded".to_owned(),
        (domain, _) => domain.to_owned(),
    }
}

fn rows(own: &[&Figures], cells: impl Fn(&Figures) -> Vec<String>) -> Vec<Vec<String>> {
    let row = |it: &&Figures| {
        let mut row = vec![it.defence.clone(), which(it)];
        row.extend(cells(it));
        row
    };
    own.iter().map(row).collect()
}

fn asked(own: &[&Figures]) -> String {
    let head = [
        "defence",
        "tasks",
        "false positives",
        "false negatives",
        "tasks with FP",
        "tasks with FN",
    ];
    let cells = |it: &Figures| {
        let shares = [
            it.false_positives,
            it.false_negatives,
            it.tasks_with_false_positives,
            it.tasks_with_false_negatives,
        ];
        shares.map(|share| share.to_string()).to_vec()
    };
    table(2, &head, &rows(own, cells))
}

fn done(own: &[&Figures]) -> String {
    let head = [
        "defence",
        "tasks",
        "exact, calls",
        "exact, arguments",
        "done, user blocks",
        "done, user allows",
    ];
    let cells = |it: &Figures| {
        let shares = [
            it.exact_calls,
            it.exact_arguments,
            it.utility_blocked,
            it.utility_allowed,
        ];
        shares.map(|share| share.to_string()).to_vec()
    };
    table(2, &head, &rows(own, cells))
}

fn taken(own: &[&Figures]) -> String {
    let head = [
        "defence",
        "tasks",
        "completions/task",
        "questions/call",
        "TCR@0",
        "TCR@1",
        "TCR@2",
        "TCR@3",
        "failed",
    ];
    let cells = |it: &Figures| {
        let tcr = ANSWERS.map(|answers| it.tcr.get(&answers).copied().unwrap_or_default());
        let completions = f64::from(it.completions) / f64::from(it.utility_allowed.of.max(1));
        let mut cells = vec![format!("{completions:.1}"), it.load.to_string()];
        cells.extend(tcr.map(|share| share.to_string()));
        cells.push(it.errors.to_string());
        cells
    };
    let all: Vec<&Figures> = own
        .iter()
        .copied()
        .filter(|it| it.tasks == Tasks::All)
        .collect();
    table(2, &head, &rows(&all, cells))
}

fn left(own: &[&Safety]) -> String {
    let head = [
        "defence",
        "variant",
        "runs that leak",
        "done, user blocks",
        "done, user allows",
        "questions",
        "failed",
    ];
    let row = |it: &&Safety| {
        let variant = if it.injected {
            "injection"
        } else {
            "no attack"
        };
        vec![
            it.defence.clone(),
            variant.to_owned(),
            it.leaking.to_string(),
            it.utility_blocked.to_string(),
            it.utility_allowed.to_string(),
            it.questions.to_string(),
            it.errors.to_string(),
        ]
    };
    table(2, &head, &own.iter().map(row).collect::<Vec<_>>())
}
