use super::{Report, Row, Share};

fn row(defence: &str, task: u32, attack: bool, utility: bool, succeeded: bool) -> Row {
    let protected = defence != "none";
    Row {
        defence: defence.to_owned(),
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
        answer_only: None,
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
    insta::assert_snapshot!("text", Report::new(&rows()).text());
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

#[test]
fn a_task_counts_as_it_came_out_last() {
    let mut failed = row("oracle", 0, false, false, false);
    failed.error = Some("no answer".to_owned());
    let again = row("oracle", 0, false, true, false);
    let report = Report::new(&[failed.clone(), again.clone()]);
    assert_eq!(report.cells[0].utility, Share { of: 1, held: 1 });
    assert_eq!(report.cells[0].errors, 0);
    let report = Report::new(&[again, failed]);
    assert_eq!(report.cells[0].utility, Share { of: 1, held: 0 });
    assert_eq!(report.cells[0].errors, 1);
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
