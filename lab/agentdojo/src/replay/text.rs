//! The replay's report as text.

use super::{Group, MAIN_ATTACK, ReplayReport};
use crate::report::{ALL, Share, table};

/// What the open loop means, printed with its figures.
const OPEN_LOOP: &str = "\
Open loop: the recorded models saw everything unmasked, and were not told what was refused. Utility is therefore bounded:
`stop` ends a run at its first block or departure, without an answer; `skip` leaves out blocked calls and whatever could
not have been said without masked or unread text, and takes the rest as recorded. AgentDojo itself judges what remains.
";

/// The replay's report as text.
#[must_use]
pub fn replay_text(report: &ReplayReport) -> String {
    let mut text = String::from(OPEN_LOOP);
    text.push_str(&facts(report));
    text.push_str(&reproduction(report));
    text.push_str(&figures(report));
    text.push_str(&survivors(report));
    text.push_str(&format!("\n{:.0} s\n", report.seconds));
    text
}

fn facts(report: &ReplayReport) -> String {
    let rows = report.facts.iter().map(|fact| {
        let succeeded = fact.attack_succeeded;
        vec![
            name(&fact.model, fact.attack.as_deref()),
            fact.runs.to_string(),
            fact.errors.to_string(),
            format!("{}/{}", fact.utility, fact.runs),
            succeeded.map_or("–".to_owned(), |held| format!("{held}/{}", fact.runs)),
        ]
    });
    let head = ["recorded", "runs", "errors", "utility", "attack success"];
    format!("\n{}", table(1, &head, &rows.collect::<Vec<_>>()))
}

fn reproduction(report: &ReplayReport) -> String {
    let mut text = String::new();
    for model in &report.reproduction {
        let tasks = model
            .tasks
            .iter()
            .map(|(task, runs)| format!("{task} ×{runs}"));
        text.push_str(&format!(
            "\n{}: executed again with nothing blocked, {} of {} runs give the recorded result \
             ({} another utility, {} another attack result, {} errors)\n",
            model.model,
            model.same,
            model.runs,
            model.other_utility,
            model.other_attack,
            model.errors
        ));
        let tasks: Vec<String> = tasks.collect();
        if !tasks.is_empty() {
            text.push_str(&format!("  others: {}\n", tasks.join(", ")));
        }
    }
    text
}

fn figures(report: &ReplayReport) -> String {
    let mut text = String::new();
    let same = |a: &Group, b: &Group| a.model == b.model && a.attack == b.attack;
    for group in report.groups.chunk_by(same) {
        let Some(first) = group.first() else { continue };
        let title = name(&first.model, first.attack.as_deref());
        let attacked = first.attack.is_some();
        let head: &[&str] = match attacked {
            true => &[
                "method",
                "suite",
                "runs",
                "utility: recorded",
                "stop",
                "skip",
                "attacks: recorded",
                "left",
                "success",
                "questions",
                "attack's",
                "out of sight",
            ],
            false => &[
                "method",
                "suite",
                "runs",
                "utility: recorded",
                "stop",
                "skip",
                "no question",
                "of solved",
                "questions/run",
                "questions/call",
                "calls ×",
            ],
        };
        // Many attacks are replayed; their suites are in the JSON.
        let shown = group.iter().filter(|it| {
            !attacked || it.suite == ALL || first.attack.as_deref() == Some(MAIN_ATTACK)
        });
        let rows: Vec<Vec<String>> = shown.map(figure).collect();
        text.push_str(&format!("\n{title}\n{}", table(2, head, &rows)));
    }
    text
}

fn figure(group: &Group) -> Vec<String> {
    let of = |held: u32, of: u32| Share { of, held }.to_string();
    let checked = |held: Option<u32>| held.map_or("–".to_owned(), |held| of(held, group.runs));
    let count = |number: Option<u32>| number.map_or("–".to_owned(), |number| number.to_string());
    let mut row = vec![
        group.method.name().to_owned(),
        group.suite.clone(),
        group.runs.to_string(),
        of(group.recorded_utility, group.runs),
        checked(group.utility_stop),
        checked(group.utility_skip),
    ];
    if group.attack.is_some() {
        row.extend([
            group.recorded_attacks.to_string(),
            count(group.attacks_left),
            checked(group.attack_success),
            group.questions.to_string(),
            group.questions_of_attack.to_string(),
            group.out_of_sight.to_string(),
        ]);
        return row;
    }
    let screens = group.method.screens();
    let calls = group.completions + if screens { group.screenings } else { 0 };
    row.extend([
        of(group.silent, group.runs),
        of(group.silent_of_solved, group.recorded_utility),
        format!(
            "{:.2}",
            f64::from(group.questions) / f64::from(group.runs.max(1))
        ),
        group.load.to_string(),
        format!("{:.2}", f64::from(calls) / f64::from(group.turns.max(1))),
    ]);
    row
}

/// Every question in a run without an attack, one by one: the call, and what stood in its way.
#[must_use]
pub fn questions_text(report: &ReplayReport) -> String {
    let mut text = String::from("\nWhat runs without an attack ask about:\n");
    let mut rows: Vec<Vec<String>> = Vec::new();
    for run in report.runs.iter().filter(|run| run.attack.is_none()) {
        for asked in run.blocked.iter().filter(|call| call.asked) {
            rows.push(vec![
                format!("{}/{}", run.suite, run.user_task),
                run.model.clone(),
                run.method.name().to_owned(),
                asked.tool.clone(),
                asked.about.clone(),
            ]);
        }
    }
    match rows.is_empty() {
        true => text.push_str("none\n"),
        false => text.push_str(&table(
            5,
            &["run", "model", "method", "call", "about"],
            &rows,
        )),
    }
    text
}

fn survivors(report: &ReplayReport) -> String {
    let mut text =
        String::from("\nSuccessful attacks that are left under a method that looks at labels:\n");
    // Attacks that only keep the task from being done are counted, not listed.
    let listed = |run: &str| !run.contains("dos/");
    let mut rows: Vec<Vec<String>> = Vec::new();
    for survivor in report.survivors.iter().filter(|it| listed(&it.run)) {
        rows.push(vec![
            survivor.run.clone(),
            survivor.model.clone(),
            survivor.method.name().to_owned(),
            survivor.reason.clone(),
        ]);
    }
    let denials = report
        .survivors
        .iter()
        .filter(|it| !listed(&it.run))
        .count();
    match rows.is_empty() {
        true => text.push_str("none\n"),
        false => text.push_str(&table(4, &["run", "model", "method", "why"], &rows)),
    }
    if denials > 0 {
        text.push_str(&format!(
            "and {denials} whose goal is only that the task is not done; labels do not stop that\n"
        ));
    }
    text
}

fn name(model: &str, attack: Option<&str>) -> String {
    format!("{model}, {}", attack.unwrap_or("no attack"))
}
