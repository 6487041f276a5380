//! The report: SecGPT's Tables 1 to 3 for these runs.

use anyhow::{Result, bail};

use super::run::Row;
use super::score::Mistake;
use super::system::System;
use super::times::Times;

/// The runs of one benchmark by one system.
fn of<'a>(rows: &'a [Row], benchmark: &str, system: System) -> Vec<&'a Row> {
    let own = rows.iter();
    own.filter(|row| row.benchmark == benchmark && row.system == system)
        .collect()
}

/// The names and categories of the benchmarks, in the order in which they were first run.
pub(super) fn benchmarks(rows: &[Row]) -> Vec<(&str, &str)> {
    let mut names: Vec<(&str, &str)> = Vec::new();
    for row in rows {
        let name = (row.benchmark.as_str(), row.category.as_str());
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

/// All tables of the runs that came to an end, and a word on those that did not.
pub(super) fn report(rows: &[Row], failed: &[Row]) -> String {
    let tables = [correctness(rows), mistakes(rows), breakdown(rows)].join("\n");
    tables + &failures(failed)
}

fn failures(failed: &[Row]) -> String {
    let Some(first) = failed.first() else {
        return String::new();
    };
    let count = failed.len();
    let why = first.error.as_deref().unwrap_or_default();
    format!(
        "\n{count} runs ended with an error and are in no table; --resume runs them again. The first, {} by {}: {why}\n",
        first.benchmark,
        first.system.name()
    )
}

/// Table 1: steps and answers.
fn correctness(rows: &[Row]) -> String {
    let mut table = format!(
        "Correctness (SecGPT, Table 1)\n{:<18}{:<29}{:<17}{:>8}{:>8}{:>9}{:>11}\n",
        "", "", "", "queries", "steps", "overall", "questions"
    );
    for (benchmark, category) in benchmarks(rows) {
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
                "{benchmark:<18}{category:<29}{:<17}{:>8}{:>8.2}{:>9.2}{questions:>11}\n",
                system.name(),
                own.len(),
                mean(steps),
                mean(own.iter().map(|row| row.score.overall)),
            );
        }
    }
    table
}

/// Table 2: what went wrong, as shares of all mistakes.
fn mistakes(rows: &[Row]) -> String {
    let mut table = "Mistakes (SecGPT, Table 2), in percent of a system's own\n".to_owned();
    for (benchmark, category) in benchmarks(rows) {
        for system in System::ALL {
            let own = of(rows, benchmark, system);
            let all: Vec<Mistake> = own
                .iter()
                .flat_map(|row| row.score.mistakes.iter().copied())
                .collect();
            if own.is_empty() {
                continue;
            }
            let shares = Mistake::ALL.map(|mistake| {
                let count = all.iter().filter(|made| **made == mistake).count();
                (mistake, 100.0 * float(count) / float(all.len().max(1)))
            });
            let shares = shares.into_iter().filter(|(_, share)| *share > 0.0);
            let words: Vec<String> = shares
                .map(|(mistake, share)| format!("{} {share:.0}", mistake.name()))
                .collect();
            let words = match words.is_empty() {
                true => "none".to_owned(),
                false => words.join(", "),
            };
            table += &format!(
                "{benchmark:<18}{category:<29}{:<17}{words}\n",
                system.name()
            );
        }
    }
    table
}

/// Table 3: mean milliseconds and completions of a query, and both beside VanillaGPT's.
fn breakdown(rows: &[Row]) -> String {
    let heads = [
        "plan", "memory", "model", "screen", "execute", "sandbox", "hub", "total",
    ];
    let mut table = "Time of a query in milliseconds (SecGPT, Table 3); hub: labels, decisions, protocol and trace; ratios to VanillaGPT\n".to_owned();
    table += &format!("{:<18}{:<17}", "", "");
    for head in heads {
        table += &format!("{head:>9}");
    }
    table += &format!(
        "{:>8}{:>12}{:>8}{:>9}\n",
        "time", "completions", "ratio", "hub part"
    );
    for (benchmark, _) in benchmarks(rows) {
        let vanilla = of(rows, benchmark, System::Vanilla);
        for system in System::ALL {
            let own = of(rows, benchmark, system);
            if own.is_empty() {
                continue;
            }
            let of_all = |part: fn(&Times) -> f64| mean(own.iter().map(|row| part(&row.times)));
            let parts: [f64; 8] = [
                of_all(|t| t.hub_planning),
                of_all(|t| t.hub_memory),
                of_all(|t| t.spoke_planning),
                of_all(|t| t.screening),
                of_all(|t| t.execution),
                of_all(|t| t.sandbox),
                of_all(|t| t.hub),
                of_all(|t| t.total),
            ];
            table += &format!("{benchmark:<18}{:<17}", system.name());
            for part in parts {
                table += &format!("{part:>9.1}");
            }
            let completions = |rows: &[&Row]| mean(rows.iter().map(|row| float(row.completions)));
            let total = of_all(|t| t.total);
            let of_vanilla = mean(vanilla.iter().map(|row| row.times.total));
            table += &format!(
                "{:>7.2}x{:>12.1}{:>7.2}x{:>7.1} %\n",
                total / of_vanilla,
                completions(&own),
                completions(&own) / completions(&vanilla),
                100.0 * (of_all(|t| t.hub) + of_all(|t| t.hub_memory)) / total,
            );
        }
    }
    table
}

/// With the model without mistakes every run must be right: what is not was lost by enforcement.
///
/// # Errors
/// The runs that are not.
pub(super) fn hold(rows: &[Row]) -> Result<()> {
    let is_right = |row: &Row| row.score.mistakes.is_empty() && row.questions == 0;
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
        bail!("not as it should be:\n{}", wrong.join("\n"));
    }
    Ok(())
}
