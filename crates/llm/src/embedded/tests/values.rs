//! What a real model makes of one value of a call: it has no say in the value's form.

use serde_json::{Value, json};

use super::*;

const MAIL: &str =
    "Ana: lunch on Thursday at 10:00, for twelve. It is urgent. Bring a hat and a fork.";

/// Names and words of the schemas stand in no text: the model has them from the grammar alone.
#[tokio::test]
async fn a_value_of_a_call_is_of_its_schema() {
    let Some(model) = load(models::QWEN_CODER_1_5B, |_| {}).await else {
        return;
    };
    let when = json!({
        "type": "object",
        "properties": {
            "slot": {
                "type": "object",
                "properties": {"weekday": {"enum": ["d1", "d2", "d3", "d4", "d5"]}, "minutes": {"type": "integer"}},
                "required": ["weekday", "minutes"],
                "additionalProperties": false,
            },
            "fixed": {"type": "boolean"},
        },
        "required": ["slot", "fixed"],
        "additionalProperties": false,
    });
    let values = [
        ("title", json!({"type": "string"})),
        (
            "priority",
            json!({"type": "string", "enum": ["p0", "p1", "p2"]}),
        ),
        ("people", json!({"type": "integer", "minimum": 0})),
        ("when", when),
        (
            "items",
            json!({"type": "array", "items": {"type": "string"}, "minItems": 2, "maxItems": 4}),
        ),
    ];
    for (argument, schema) in values {
        let call = json!({"tool": "create_event", "arguments": {argument: hub::OPEN}});
        let note = format!("{}{call}", hub::FILL_NOTE);
        let shape = json!({
            "type": "object",
            "properties": {"value": schema},
            "required": ["value"],
            "additionalProperties": false,
        });
        let mut request = ask(vec![user(MAIL), user(&note)]);
        request.shape = AnswerShape::Json {
            schema: shape.to_string(),
        };
        request.max_tokens = 96;
        let done = answer(&model, request).await.unwrap();
        assert_eq!(done.stop, StopReason::End, "{argument}: {}", done.text);
        let value: Value = serde_json::from_str(&done.text).unwrap();
        let validator = jsonschema::validator_for(&shape).unwrap();
        assert!(validator.is_valid(&value), "{argument}: {value}");
        assert!(hub::schema::fits(&value, &shape), "{argument}: {value}");
    }
}
