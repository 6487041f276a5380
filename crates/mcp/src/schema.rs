//! Arguments against a tool's input schema. Fails closed: a schema that cannot be used makes the tool
//! unusable, and arguments that cannot be checked are refused.

use jsonschema::{PatternOptions, Validator};
use serde_json::Value;
use wire::Quote;

/// Steps that one pattern of an app's schema may take back, so that none can take for ever.
const BACKTRACK_LIMIT: usize = 100_000;

/// Bytes that one compiled pattern may have.
const PATTERN_BYTES: usize = 1 << 20;

/// Compiles a schema. References outside of the schema are errors: nothing is fetched.
pub(crate) fn compile(schema: &Value) -> Option<Validator> {
    let patterns = PatternOptions::fancy_regex()
        .backtrack_limit(BACKTRACK_LIMIT)
        .size_limit(PATTERN_BYTES)
        .dfa_size_limit(PATTERN_BYTES);
    jsonschema::options()
        .offline()
        .with_pattern_options(patterns)
        .build(schema)
        .ok()
}

/// Checks arguments; the error says the first thing that is wrong and where, for the model.
pub(crate) fn check(validator: &Validator, arguments: &Value) -> Result<(), Quote> {
    validator.validate(arguments).map_err(|error| {
        let path = error.instance_path().to_string();
        let place = if path.is_empty() {
            "the arguments"
        } else {
            path.as_str()
        };
        // The value itself is left out: it can be long, and the model has written it.
        Quote::head(&format!("{place}: {}", error.masked()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn problem(schema: &Value, arguments: &Value) -> Option<String> {
        let validator = compile(schema).expect("usable schema");
        check(&validator, arguments)
            .err()
            .map(|problem| problem.as_str().to_owned())
    }

    #[test]
    fn the_first_problem_is_named_with_its_place() {
        let schema = json!({
            "type": "object",
            "properties": {"to": {"type": "string"}, "cc": {"type": "array", "items": {"type": "string"}}},
            "required": ["to"],
            "additionalProperties": false
        });
        assert_eq!(problem(&schema, &json!({"to": "a", "cc": ["b"]})), None);
        let missing = problem(&schema, &json!({})).expect("missing");
        assert!(
            missing.contains("\"to\"") && missing.contains("required"),
            "{missing}"
        );
        let extra = problem(&schema, &json!({"to": "a", "bcc": "b"})).expect("extra");
        assert!(extra.contains("bcc"), "{extra}");
        let nested = problem(&schema, &json!({"to": "a", "cc": [7]})).expect("nested");
        assert!(nested.starts_with("/cc/0"), "{nested}");
    }

    #[test]
    fn values_are_not_repeated() {
        let secret = "4111111111111111";
        let text = problem(
            &json!({"properties": {"n": {"type": "integer"}}}),
            &json!({"n": secret}),
        );
        assert!(!text.expect("wrong type").contains(secret));
    }

    #[test]
    fn unusable_schemas_are_refused() {
        for schema in [
            json!({"type": "objekt"}),
            json!({"properties": 7}),
            json!({"$ref": "https://example.invalid/schema.json"}),
            json!({"$ref": "file:///etc/passwd"}),
            json!({"properties": {"a": {"$ref": "#/definitions/none"}}}),
            json!({"properties": {"a": {"pattern": "("}}}),
        ] {
            assert!(compile(&schema).is_none(), "{schema}");
        }
    }

    #[test]
    fn a_costly_pattern_is_refused_not_run() {
        let schema = json!({"properties": {"a": {"pattern": "^(?=(a+)+$)(a|aa)+b\\1$"}}});
        let text = "a".repeat(200);
        let started = std::time::Instant::now();
        assert!(problem(&schema, &json!({"a": text})).is_some());
        assert!(started.elapsed().as_secs() < 5);
    }

    #[test]
    fn a_schema_that_refers_to_itself_does_not_run_for_ever() {
        let schema = json!({"properties": {"next": {"$ref": "#"}, "v": {"type": "integer"}}});
        assert_eq!(problem(&schema, &json!({"next": {"next": {"v": 1}}})), None);
        assert!(problem(&schema, &json!({"next": {"next": {"v": "x"}}})).is_some());
    }
}
