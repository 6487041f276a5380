//! Tables for a terminal.

use super::{Cell, Cost};

/// A table as text: columns as wide as their widest entry, the first `left` ones to the left.
pub fn table(left: usize, head: &[&str], rows: &[Vec<String>]) -> String {
    let width = |column: usize| {
        let entries = rows.iter().filter_map(|row| row.get(column));
        let widest = entries.map(|entry| entry.chars().count()).max();
        let head = head.get(column).map_or(0, |name| name.chars().count());
        widest.unwrap_or_default().max(head)
    };
    let widths: Vec<usize> = (0..head.len()).map(width).collect();
    let line = |entries: Vec<&str>| {
        let mut line = String::new();
        for (at, (entry, width)) in entries.iter().zip(&widths).enumerate() {
            line.push_str(if at == 0 { "" } else { "  " });
            let padded = match at < left {
                true => format!("{entry:<width$}"),
                false => format!("{entry:>width$}"),
            };
            line.push_str(&padded);
        }
        line.trim_end().to_owned() + "\n"
    };
    let mut text = line(head.to_vec());
    for row in rows {
        text.push_str(&line(row.iter().map(String::as_str).collect()));
    }
    text
}

/// Every cell, grouped by model, version and suite.
pub(super) fn report(cells: &[Cell]) -> String {
    let mut text = String::from(
        "Shares with their 95 % interval (Wilson). Calls and tokens: of all models, × over the unprotected agent on the same tasks.\n",
    );
    let same =
        |a: &Cell, b: &Cell| a.model == b.model && a.version == b.version && a.suite == b.suite;
    for group in cells.chunk_by(same) {
        let Some(first) = group.first() else { continue };
        text.push_str(&format!(
            "\n{}, suites {}, {}\n",
            first.model, first.version, first.suite
        ));
        let rows: Vec<Vec<String>> = group.iter().map(row).collect();
        text.push_str(&table(1, &HEAD, &rows));
    }
    text
}

const HEAD: [&str; 11] = [
    "defence",
    "utility",
    "under attack",
    "attack success",
    "no question",
    "questions/task",
    "calls/task",
    "×",
    "tokens/task",
    "×",
    "s/task",
];

fn row(cell: &Cell) -> Vec<String> {
    // The costs of tasks without an attack, where there are some.
    let cost = match cell.benign.runs {
        0 => &cell.attacked,
        _ => &cell.benign,
    };
    let mut name = cell.series();
    if cell.errors > 0 {
        name.push_str(&format!(" ({} errors)", cell.errors));
    }
    vec![
        name,
        cell.utility.to_string(),
        cell.utility_under_attack.to_string(),
        cell.attack_success.to_string(),
        cell.silent.to_string(),
        mean(cost, cost.questions, 2),
        mean(cost, cost.llm_calls, 1),
        times(cost.calls_ratio),
        match cost.tokens {
            0 => "–".to_owned(),
            tokens => mean(cost, tokens, 0),
        },
        match cost.tokens {
            0 => "–".to_owned(),
            _ => times(cost.tokens_ratio),
        },
        match cost.per_run(cost.seconds) {
            Some(seconds) if seconds > 0.0 => format!("{seconds:.2}"),
            _ => "–".to_owned(),
        },
    ]
}

#[expect(
    clippy::cast_precision_loss,
    reason = "sums of a benchmark fit a double"
)]
fn mean(cost: &Cost, sum: u64, digits: usize) -> String {
    cost.per_run(sum as f64)
        .map_or_else(|| "–".to_owned(), |mean| format!("{mean:.digits$}"))
}

fn times(ratio: Option<f64>) -> String {
    ratio.map_or_else(|| "–".to_owned(), |ratio| format!("{ratio:.2}"))
}
