//! Entries in the form of OCSF have what its classes require.

use serde_json::{Value, json};
use server::audit::{Entry, Note, OCSF_VERSION, ocsf};
use store::Time;

/// What version 1.3.0 requires of the classes that we use: the required attributes, and one of those of a constraint.
fn schema() -> Value {
    let text = json!({"type": "string", "minLength": 1});
    let named = json!({"type": "object", "required": ["name"], "properties": {"name": text}});
    let class = |class: u32, required: Value| {
        json!({
            "if": {"properties": {"class_uid": {"const": class}}},
            "then": {"required": required, "properties": {"category_uid": {"const": class / 1000}}},
        })
    };
    json!({
        "type": "object",
        "required": ["activity_id", "category_uid", "class_uid", "metadata", "severity_id", "time", "type_uid"],
        "properties": {
            "class_uid": {"enum": [3002, 3004, 6002, 6003]},
            "activity_id": {"enum": [0, 1, 2, 3, 4, 99]},
            "severity_id": {"enum": [0, 1, 2, 3, 4, 5, 6, 99]},
            "status_id": {"enum": [0, 1, 2, 99]},
            "action_id": {"enum": [0, 1, 2]},
            "disposition_id": {"enum": [0, 1, 2]},
            "time": {"type": "integer"},
            "type_uid": {"type": "integer"},
            "metadata": {
                "type": "object",
                "required": ["product", "version"],
                "properties": {
                    "version": {"const": OCSF_VERSION},
                    "product": {"required": ["name", "vendor_name"]},
                },
            },
            "actor": {"anyOf": [{"required": ["app_name"]}, {"required": ["user"]}], "properties": {"user": named, "app_name": text}},
            "api": {"required": ["operation"], "properties": {"operation": text}},
            "src_endpoint": {"required": ["svc_name"]},
            "user": named,
            "service": named,
            "entity": named,
            "app": named,
        },
        "allOf": [
            class(3002, json!(["user", "service"])),
            class(3004, json!(["entity"])),
            class(6002, json!(["app"])),
            class(6003, json!(["actor", "api", "src_endpoint"])),
        ],
    })
}

#[test]
fn every_kind_of_entry_is_an_event_of_ocsf() {
    let validator = jsonschema::validator_for(&schema()).unwrap();
    let kinds = [
        ("decision", "allow", 600_399),
        ("decision", "deny", 600_399),
        ("answer", "once", 600_399),
        ("grant", "session", 600_399),
        ("connection", "deny", 600_399),
        ("login", "done", 300_201),
        ("login", "failed", 300_201),
        ("token", "new", 300_401),
        ("token", "revoke", 300_404),
        ("permission", "revoke", 300_404),
        ("reload", "done", 300_403),
        ("start", "done", 600_203),
        ("stop", "done", 600_204),
    ];
    for (kind, outcome, type_uid) in kinds {
        for who in [None, Some("ada")] {
            let note = Note::new(kind, outcome)
                .with("who", who)
                .with("front", "proxy");
            let entry = Entry {
                version: 1,
                chain: "00".repeat(16),
                number: 7,
                at: Time::from_millis(1_700_000_000_000),
                note,
                after: Vec::new(),
                prev: String::new(),
            };
            let event = ocsf(&entry, "{}");
            let errors: Vec<String> = (validator.iter_errors(&event))
                .map(|it| it.to_string())
                .collect();
            assert_eq!(errors, [""; 0], "{event}");
            assert_eq!(event["type_uid"], type_uid);
            let [class, activity] =
                ["class_uid", "activity_id"].map(|it| event[it].as_u64().unwrap());
            assert_eq!(class * 100 + activity, type_uid);
        }
    }
    // The schema is no form: without what it requires it refuses.
    assert!(!validator.is_valid(&json!({"class_uid": 6003})));
}
