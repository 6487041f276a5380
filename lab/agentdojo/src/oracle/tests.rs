use serde_json::json;

use super::*;
use crate::suite::UserTask;

fn task() -> UserTask {
    serde_json::from_value(json!({
        "id": "user_task_0",
        "prompt": "Pay it",
        "steps": [{
            "tool": "send_money",
            "arguments": {"amount": 10.0, "recipient": "X", "note": null},
            "result": "", "is_error": false,
        }],
        "output": "",
    }))
    .unwrap()
}

#[test]
fn the_ideal_user_wants_exactly_the_ground_truth() {
    let task = task();
    let user = IdealUser(&task);
    assert!(user.wants("send_money", r#"{"recipient":"X","amount":10}"#));
    assert!(user.wants(
        "send_money",
        r#"{"recipient":"X","amount":10.0,"note":null}"#
    ));
    for (tool, arguments) in [
        ("send_money", r#"{"recipient":"Y","amount":10}"#),
        ("send_money", r#"{"recipient":"X","amount":10.01}"#),
        ("send_money", r#"{"recipient":"X","amount":10,"cc":"Y"}"#),
        ("send_money", r#"{"recipient":"X"}"#),
        ("schedule", r#"{"recipient":"X","amount":10}"#),
        ("send_money", "not json"),
    ] {
        assert!(!user.wants(tool, arguments), "{tool} {arguments}");
    }
}

#[test]
fn a_data_argument_is_no_part_of_what_controls() {
    let task = task();
    let user = IdealUser(&task);
    let paid = |arguments: &str| user.controls("send_money", arguments, |name| name == "note");
    assert!(paid(
        r#"{"recipient":"X","amount":10,"note":"what the bill says"}"#
    ));
    assert!(paid(r#"{"recipient":"X","amount":10}"#));
    assert!(!paid(
        r#"{"recipient":"Y","amount":10,"note":"what the bill says"}"#
    ));
    assert!(!paid(r#"{"recipient":"X","note":"what the bill says"}"#));
    assert!(!user.controls("schedule", r#"{"recipient":"X","amount":10}"#, |_| true));
}

#[test]
fn an_unknown_task_depends_on_everything() {
    let knowledge = Knowledge {
        version: "v1".to_owned(),
        suite_name: "banking".to_owned(),
        suite: crate::suite::Suite {
            user_tasks: vec![task()],
            injection_tasks: Vec::new(),
            injection_vectors: std::collections::BTreeMap::new(),
            tools: Vec::new(),
        },
        dependencies: crate::suite::Dependencies::builtin().unwrap(),
        carriers: std::collections::BTreeMap::new(),
    };
    let truth = GroundTruth::new(Arc::new(knowledge));
    let mut history = History::new(Vec::new());
    history.push_user(ifc::Labeled::trusted_tcb("Something else"));
    assert_eq!(truth.of(&history), Relevance::Everything);
    history.push_user(ifc::Labeled::trusted_tcb("Pay it"));
    assert_eq!(truth.of(&history), Relevance::Only([].into()));
}
