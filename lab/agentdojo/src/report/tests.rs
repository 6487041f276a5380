use super::{Report, Row, Share, Success};
use crate::oracle::Asked;
use crate::tuning::Tuning;

fn row(defence: &str, task: u32, attack: bool, utility: bool, succeeded: bool) -> Row {
    let protected = defence != "none";
    Row {
        defence: defence.to_owned(),
        tuning: None,
        version: "v1".to_owned(),
        suite: if task.is_multiple_of(2) {
            "banking"
        } else {
            "slack"
        }
        .to_owned(),
        user_task: format!("user_task_{task}"),
        injection_task: attack.then(|| "injection_task_0".to_owned()),
        attack: attack.then(|| "important_instructions".to_owned()),
        model: "some-model".to_owned(),
        user_model: "absent".to_owned(),
        utility,
        attack_succeeded: attack.then_some(succeeded),
        questions: u32::from(protected),
        llm_calls: 4,
        judge_calls: if protected { 2 } else { 0 },
        prompt_tokens: if protected { 1500 } else { 1000 },
        completion_tokens: 0,
        seconds: 0.5,
        error: None,
        asked: Vec::new(),
        consequential: None,
        foreign_calls: Vec::new(),
        success: None,
        goal_seen: None,
        output: None,
    }
}

fn rows() -> Vec<Row> {
    let mut rows = Vec::new();
    for task in 0..20 {
        for attack in [false, true] {
            rows.push(row("none", task, attack, task % 5 != 0, task % 2 == 0));
            rows.push(row("judge", task, attack, task % 4 != 0, false));
            rows.push(row(
                "a <b> & \"c\"",
                task,
                attack,
                task % 3 != 0,
                task % 7 == 0,
            ));
        }
    }
    rows
}

#[test]
fn the_report_of_a_few_rows() {
    let report = Report::new(&rows());
    insta::assert_snapshot!("text", report.text(false));
    let plots = [report.tradeoff(), report.utility()];
    let names = plots.iter().flatten().map(|(name, _)| name.as_str());
    let expected = ["tradeoff-some-model-v1.svg", "utility-some-model-v1.svg"];
    assert_eq!(names.collect::<Vec<_>>(), expected);
    insta::assert_snapshot!("tradeoff", plots[0][0].1);
    insta::assert_snapshot!("utility", plots[1][0].1);
}

#[test]
fn a_failed_run_is_no_stopped_attack() {
    let mut failed = row("judge", 0, true, true, true);
    failed.error = Some("no answer".to_owned());
    let report = Report::new(&[failed, row("judge", 2, true, true, false)]);
    let cell = &report.cells[0];
    assert_eq!(cell.errors, 1);
    assert_eq!(cell.attack_success, Share { of: 1, held: 0 });
    assert_eq!(cell.utility_under_attack, Share { of: 2, held: 1 });
}

#[test]
fn ratios_are_over_the_same_tasks() {
    // The unprotected agent has run one task more.
    let rows = [
        row("none", 0, false, true, false),
        row("none", 2, false, true, false),
        row("judge", 0, false, true, false),
    ];
    let report = Report::new(&rows);
    let judge = report.cells.iter().find(|cell| cell.defence == "judge");
    assert_eq!(judge.unwrap().benign.calls_ratio, Some(1.5));
    assert_eq!(judge.unwrap().benign.tokens_ratio, Some(1.5));
}

#[test]
fn wilson_by_the_book() {
    // 15 of 50: the usual example gives 0.191 to 0.438.
    let (low, high) = Share { of: 50, held: 15 }.interval().unwrap();
    assert!(
        (low - 0.191).abs() < 0.001 && (high - 0.438).abs() < 0.001,
        "{low} {high}"
    );
    // All of few is not certain.
    let (low, high) = Share { of: 3, held: 3 }.interval().unwrap();
    assert!((0.4..0.5).contains(&low) && high > 0.999, "{low} {high}");
    assert_eq!(Share::default().interval(), None);
    assert_eq!(Share::default().to_string(), "–");
}

#[test]
fn a_row_reads_back() {
    let row = row("judge", 1, true, true, false);
    let text = serde_json::to_string(&row).unwrap();
    assert_eq!(serde_json::from_str::<Row>(&text).unwrap(), row);
}

/// A row whose user was asked about these tools, and in which the attack succeeded like this.
fn asked(row: Row, tools: &[&str], success: Option<Success>) -> Row {
    let asked = |tool: &&str| Asked {
        tool: (*tool).to_owned(),
        rule: "limit".to_owned(),
        excess: vec!["untrusted:review".to_owned()],
        causes: vec!["get_reviews".to_owned(), "get_reviews".to_owned()],
        wanted: *tool == "reserve",
    };
    Row {
        asked: tools.iter().map(asked).collect(),
        success,
        ..row
    }
}

fn by_answer(carried_by: &[&str]) -> Option<Success> {
    Some(Success {
        carried_by: carried_by.iter().map(|it| (*it).to_owned()).collect(),
        calls: Vec::new(),
        answer_only: true,
    })
}

#[test]
fn remaining_questions_and_successful_attacks_are_listed() {
    let benign =
        |defence, task, tools: &[&str]| asked(row(defence, task, false, true, false), tools, None);
    let attacked = |defence, task| {
        let row = row(defence, task, true, true, true);
        asked(row, &[], by_answer(&["get_reviews"]))
    };
    let denied = Row {
        attack: Some("dos".to_owned()),
        ..attacked("oracle", 4)
    };
    let mut rows = vec![
        benign("naive", 2, &["reserve"]),
        benign("oracle", 10, &["reserve", "reserve", "mail"]),
        benign("oracle", 2, &["reserve"]),
        benign("judge", 2, &["reserve"]),
        attacked("none", 2),
        attacked("oracle+trusted-answers", 2),
        denied,
    ];
    let text = Report::new(&rows).text(false);
    let lists = text.find("\nWhat the questions").unwrap();
    insta::assert_snapshot!("lists", text[lists..]);
    for row in &mut rows {
        (row.asked, row.success) = (Vec::new(), None);
    }
    let none = Report::new(&rows).text(false);
    assert_eq!(none.matches("\n  none\n").count(), 2, "{none}");
}

#[test]
fn attacks_are_shown_by_themselves_where_there_are_several() {
    let mut rows = rows();
    assert!(!Report::new(&rows).text(false).contains("by attack"));
    rows.retain(|row| row.suite == "banking");
    let other = rows.iter().filter(|row| row.attack.is_some()).cloned();
    let other: Vec<Row> = other
        .map(|row| Row {
            attack: Some("direct".to_owned()),
            attack_succeeded: Some(row.defence == "none"),
            ..row
        })
        .collect();
    rows.extend(other);
    let text = Report::new(&rows).text(false);
    let table = text.find("some-model, suites v1, by attack").unwrap();
    let end = text.find("\nWhat the questions").unwrap();
    insta::assert_snapshot!("attacks", text[table..end]);
}

#[test]
fn a_task_counts_as_it_came_out_last() {
    let mut failed = row("oracle", 0, false, false, false);
    failed.error = Some("no answer".to_owned());
    let again = row("oracle", 0, false, true, false);
    let again = asked(again, &["reserve"], None);
    let report = Report::new(&[failed.clone(), again.clone()]);
    assert_eq!(report.cells[0].utility, Share { of: 1, held: 1 });
    assert_eq!((report.cells[0].errors, report.questions.len()), (0, 1));
    let report = Report::new(&[again, failed]);
    assert_eq!(report.cells[0].utility, Share { of: 1, held: 0 });
    assert_eq!((report.cells[0].errors, report.questions.len()), (1, 0));
}

#[test]
fn users_are_kept_apart_and_compared_with_the_same_agent() {
    let plain = row("none", 0, false, true, false);
    let absent = row("oracle", 0, false, false, false);
    let ideal = Row {
        user_model: "ideal".to_owned(),
        utility: true,
        ..absent.clone()
    };
    let report = Report::new(&[plain, absent, ideal]);
    let found = report.cells.iter().filter(|cell| cell.suite == super::ALL);
    let found: Vec<_> = found
        .map(|cell| (cell.series(), cell.utility.held, cell.benign.calls_ratio))
        .collect();
    let expected = [
        ("none".to_owned(), 1, Some(1.0)),
        ("oracle".to_owned(), 0, Some(1.5)),
        ("oracle (ideal user)".to_owned(), 1, Some(1.5)),
    ];
    assert_eq!(found, expected);
}

/// Rows of one defence whose attention screener was tuned like this.
fn tuned(tuning: Option<&Tuning>, utility: bool) -> Vec<Row> {
    let rows = [0, 1].into_iter().flat_map(|task| {
        [false, true].map(|attack| Row {
            tuning: tuning.cloned(),
            ..row("attention", task, attack, utility, true)
        })
    });
    rows.collect()
}

#[test]
fn tunings_of_one_defence_are_never_added_up() {
    let shipped = Tuning {
        weights: "1a2b3c4d5e6f".to_owned(),
        recall: 70,
        command: "sluice-lab screener train --seed 1".to_owned(),
    };
    let held_out = Tuning {
        weights: "ffffffffffff".to_owned(),
        recall: 70,
        command: "sluice-lab screener train --seed 1 --without banking".to_owned(),
    };
    let mut rows = tuned(Some(&shipped), true);
    let alone = Report::new(&rows);
    let text = alone.text(false);
    let line = "\nattention: weights 1a2b3c4d5e6f by `sluice-lab screener train --seed 1`, recall 70 % \
                (trained on these suites' recorded runs)\n";
    assert!(text.contains(line), "{text}");
    assert!(alone.cells.iter().all(|cell| cell.series() == "attention"));

    rows.extend(tuned(Some(&held_out), false));
    rows.extend(tuned(None, false));
    rows.push(row("none", 0, false, true, false));
    let rows: Vec<Row> = rows
        .into_iter()
        .map(|row| {
            let success = row.attack.as_ref().and_then(|_| by_answer(&[]));
            asked(row, &["reserve"], success)
        })
        .collect();
    let report = Report::new(&rows);
    let all = report.cells.iter().filter(|cell| cell.suite == super::ALL);
    let found: Vec<_> = all
        .map(|cell| (cell.series(), cell.utility.held, cell.utility.of))
        .collect();
    let expected = [
        ("none", 1, 1),
        ("attention (1a2b3c4d5e6f, 70 %)", 2, 2),
        ("attention (ffffffffffff, 70 %)", 0, 2),
        ("attention (tuning unknown)", 0, 2),
    ];
    assert_eq!(
        found,
        expected.map(|(name, held, of)| (name.to_owned(), held, of))
    );
    // By attack, in the lists and in the plots, too.
    assert_eq!(report.attacks.len(), 3);
    assert_eq!(report.succeeded.len(), 6);
    assert!(report.questions.iter().all(|asked| asked.times == 1));
    for (_, plot) in report.tradeoff().into_iter().chain(report.utility()) {
        for (name, ..) in expected {
            assert!(name == "none" || plot.contains(name), "{name}: {plot}");
        }
    }
    insta::assert_snapshot!("tunings", report.text(false));
}
