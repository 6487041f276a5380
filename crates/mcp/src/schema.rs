//! Arguments against a tool's input schema. Arguments that a schema cannot judge are refused.

use jsonschema::{Draft, PatternOptions, Validator};
use serde_json::Value;
use wire::{Quote, head};

/// Steps that one pattern of an app's schema may take back, so that none can take for ever.
const BACKTRACK_LIMIT: usize = 100_000;

/// Bytes that one compiled pattern may have: enough for ten thousand of any character.
const PATTERN_BYTES: usize = 32 << 20;

/// Bytes that a problem may have in words.
const PROBLEM_BYTES: usize = 2 << 10;

/// Compiles a schema, by the draft that it names, the newest or the oldest. References outside of the schema are errors:
/// nothing is fetched.
pub(crate) fn compile(schema: &Value) -> Option<Validator> {
    let patterns = PatternOptions::fancy_regex()
        .backtrack_limit(BACKTRACK_LIMIT)
        .size_limit(PATTERN_BYTES)
        .dfa_size_limit(PATTERN_BYTES);
    let options = jsonschema::options()
        .offline()
        .with_pattern_options(patterns);
    // Servers write keywords of one draft under the name of another, or under the name of none.
    let drafts = [Draft::Draft202012, Draft::Draft4];
    let by = |draft| options.clone().with_draft(draft).build(schema);
    let named = options.build(schema).ok();
    named.or_else(|| drafts.into_iter().find_map(|draft| by(draft).ok()))
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
        let problem = format!("{place}: {}", error.masked());
        Quote::head(head(&problem, PROBLEM_BYTES))
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
    fn schemas_of_older_drafts_check_arguments() {
        let bounded = json!({"properties": {"n": {"type": "integer", "minimum": 0, "exclusiveMinimum": true}}});
        assert_eq!(problem(&bounded, &json!({"n": 1})), None);
        assert!(problem(&bounded, &json!({"n": 0})).is_some());
        let own = json!({"$schema": "https://example.invalid/own", "properties": {"n": {"type": "integer"}}});
        assert!(problem(&own, &json!({"n": "x"})).is_some());
    }

    #[test]
    fn patterns_with_large_counts_check_arguments() {
        let long = json!({"properties": {"a": {"pattern": "^.{1,10000}$"}}});
        assert_eq!(problem(&long, &json!({"a": "é".repeat(9_999)})), None);
        assert!(problem(&long, &json!({"a": ""})).is_some());
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
        for looped in [
            json!({"$ref": "#"}),
            json!({"allOf": [{"$ref": "#"}]}),
            json!({"$defs": {"a": {"anyOf": [{"$ref": "#/$defs/b"}]}, "b": {"not": {"$ref": "#/$defs/a"}}},
                "properties": {"v": {"$ref": "#/$defs/a"}}}),
        ] {
            // Any verdict will do.
            let _ = problem(&looped, &json!({"v": 1}));
        }
    }
}
