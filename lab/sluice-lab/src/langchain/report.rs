//! The report: SecGPT's Table 1 for these runs, with the completions of its Table 3.

use anyhow::{Result, bail};

use super::run::Row;
use super::system::System;

/// The runs of one benchmark by one system.
fn of<'a>(rows: &'a [Row], benchmark: &str, system: System) -> Vec<&'a Row> {
    let own = rows.iter();
    own.filter(|row| row.benchmark == benchmark && row.system == system)
        .collect()
}

/// The names and categories of the benchmarks, in the order in which they were first run.
fn benchmarks(rows: &[Row]) -> Vec<(&'static str, &'static str)> {
    let mut names = Vec::new();
    for row in rows {
        let name = (row.benchmark, row.category);
        if !names.contains(&name) {
            names.push(name);
        }
    }
    names
}

fn mean(values: impl Iterator<Item = f64>) -> f64 {
    let (count, sum) = values.fold((0_u32, 0.0), |(n, sum), value| (n + 1, sum + value));
    sum / f64::from(count.max(1))
}

fn float(count: usize) -> f64 {
    f64::from(u32::try_from(count).unwrap_or(u32::MAX))
}

/// The table of the runs that came to an end, and a word on those that did not.
pub(super) fn report(rows: &[Row], failed: &[Row]) -> String {
    correctness(rows) + &failures(failed)
}

fn failures(failed: &[Row]) -> String {
    let Some(first) = failed.first() else {
        return String::new();
    };
    let count = failed.len();
    let why = first.error.as_deref().unwrap_or_default();
    format!(
        "\n{count} runs ended with an error and are in no table. The first, {} by {}: {why}\n",
        first.benchmark,
        first.system.name()
    )
}

/// Table 1: steps and answers.
fn correctness(rows: &[Row]) -> String {
    let mut table = format!(
        "Correctness (SecGPT, Table 1), and completions a query over VanillaGPT's\n{:<18}{:<29}{:<17}{:>8}{:>8}{:>9}{:>11}{:>13}\n",
        "", "", "", "queries", "steps", "overall", "questions", "completions"
    );
    let completions = |rows: &[&Row]| mean(rows.iter().map(|row| float(row.completions)));
    for (benchmark, category) in benchmarks(rows) {
        let vanilla = completions(&of(rows, benchmark, System::Vanilla));
        for system in System::ALL {
            let own = of(rows, benchmark, system);
            if own.is_empty() {
                continue;
            }
            let steps = own
                .iter()
                .map(|row| if row.score.steps { 1.0 } else { 0.0 });
            let questions: usize = own.iter().map(|row| row.questions).sum();
            table += &format!(
                "{benchmark:<18}{category:<29}{:<17}{:>8}{:>8.2}{:>9.2}{questions:>11}{:>12.2}x\n",
                system.name(),
                own.len(),
                mean(steps),
                mean(own.iter().map(|row| row.score.overall)),
                completions(&own) / vanilla,
            );
        }
    }
    table
}

/// With the model without mistakes every run must be right: what is not was lost by enforcement.
pub(super) fn hold(rows: &[Row]) -> Result<()> {
    let is_right = |row: &Row| row.score.is_full() && row.questions == 0;
    let wrong = rows.iter().filter(|row| !is_right(row));
    let wrong: Vec<String> = wrong
        .map(|row| {
            let Row {
                benchmark,
                query,
                calls,
                answer,
                questions,
                ..
            } = row;
            let system = row.system.name();
            format!("{benchmark}, {system}: {query}: called {calls:?}, answered {answer:?}, {questions} questions")
        })
        .collect();
    if !wrong.is_empty() {
        bail!("not as expected:\n{}", wrong.join("\n"));
    }
    Ok(())
}
