//! The schema of a tool as the common APIs take it.
//!
//! Servers write schemas of every draft, and some with slips. A provider refuses a whole request because of one, and so
//! every request of the run. What providers refuse is left out here, or written as they want it. The arguments of a call are
//! checked against the server's own schema, and the model is told what is wrong with them.

use serde_json::map::Entry;
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Map, Value, json};

/// Members with a schema for each name, with a list of schemas, and with one.
const BY_NAME: &str = "properties patternProperties dependentSchemas $defs definitions";
const LISTS: &str = "allOf anyOf oneOf prefixItems";
const ONE: &str = "items additionalProperties contains propertyNames not if then else";
/// Members with a number, a count, and a text.
const NUMBERS: &str = "minimum maximum exclusiveMinimum exclusiveMaximum multipleOf";
const COUNTS: &str = "minLength maxLength minItems maxItems minProperties maxProperties";
const TEXTS: &str = "title description format pattern";

/// The schema to send: as it is written where nothing needs a change.
///
/// # Errors
/// It is not JSON.
pub(super) fn sent(schema: &str) -> serde_json::Result<Box<RawValue>> {
    let given: Value = serde_json::from_str(schema)?;
    let mut root = object(&given);
    let whole = Value::Object(root.clone());
    mend(&mut root, &whole);
    match Value::Object(root) {
        sent if sent == given => serde_json::from_str(schema),
        sent => to_raw_value(&sent),
    }
}

/// The schema as providers want it at the root: an object with properties and no alternatives.
fn object(given: &Value) -> Map<String, Value> {
    let mut root = given.as_object().cloned().unwrap_or_default();
    // Some frameworks keep the schema itself among its definitions.
    if let Some(target) = root.remove("$ref").and_then(|it| target(given, &it)) {
        for (name, value) in target.as_object().into_iter().flatten() {
            root.entry(name).or_insert_with(|| value.clone());
        }
        root.remove("$ref");
    }
    let types = root.get("type").map(types).unwrap_or_default();
    if !types.is_empty() && !types.contains(&"object") {
        root.clear();
    }
    root.insert("type".to_owned(), json!("object"));
    let properties = root.entry("properties").or_insert_with(|| json!({}));
    let mut properties = properties.as_object().cloned().unwrap_or_default();
    for word in ["allOf", "anyOf", "oneOf", "not", "enum", "const"] {
        let Some(Value::Array(parts)) = root.remove(word) else {
            continue;
        };
        // What the alternatives name: the model may write any of it.
        for part in &parts {
            let part = part.get("$ref").map_or(Some(part), |it| target(given, it));
            let more = part.and_then(|part| part.get("properties")?.as_object());
            for (name, value) in more.into_iter().flatten() {
                match properties.entry(name) {
                    Entry::Vacant(place) => drop(place.insert(value.clone())),
                    Entry::Occupied(mut known) if known.get() != value => {
                        let either = json!({"anyOf": [known.get(), value]});
                        known.insert(either);
                    }
                    Entry::Occupied(_) => {}
                }
            }
        }
    }
    root.insert("properties".to_owned(), Value::Object(properties));
    root
}

/// Makes a schema and those inside of it valid in the newest draft. `whole` is what a `$ref` refers to.
fn mend(schema: &mut Map<String, Value>, whole: &Value) {
    let limits = [
        ("minimum", "exclusiveMinimum"),
        ("maximum", "exclusiveMaximum"),
    ];
    for (limit, exclusive) in limits {
        if schema.get(exclusive) == Some(&Value::Bool(true))
            && let Some(limit) = schema.remove(limit)
        {
            schema.insert(exclusive.to_owned(), limit);
        }
    }
    // One schema for each position, which not all providers know.
    if let Some(items) = schema.get_mut("items").filter(|it| it.is_array()) {
        *items = json!({"anyOf": items.take()});
    }
    schema.retain(|word, value| keep(word, value, whole));
    let is_array = schema
        .get("type")
        .is_some_and(|it| types(it).contains(&"array"));
    if is_array && !schema.contains_key("items") {
        schema.insert("items".to_owned(), json!({}));
    }
    if let Some(properties) = schema.get("properties").cloned()
        && let Some(Value::Array(required)) = schema.get_mut("required")
    {
        required.retain(|it| it.as_str().is_some_and(|it| properties.get(it).is_some()));
    }
}

/// Whether a member of a schema can stay, after those inside of it are mended.
fn keep(word: &str, value: &mut Value, whole: &Value) -> bool {
    let is_of = |list: &str| list.split(' ').any(|it| it == word);
    let below = |value: &mut Value| match value {
        Value::Object(schema) => mend(schema, whole),
        // `true`, or nothing: any value.
        _ => *value = json!({}),
    };
    match value {
        Value::Object(schemas) if is_of(BY_NAME) => schemas.values_mut().for_each(below),
        Value::Array(schemas) if is_of(LISTS) => schemas.iter_mut().for_each(below),
        Value::Object(schema) if is_of(ONE) => mend(schema, whole),
        Value::Array(names) if word == "type" => {
            names.retain(|name| name.is_string() && !types(name).is_empty());
        }
        _ => {}
    }
    let is_filled = |value: &Value| value.as_array().is_some_and(|it| !it.is_empty());
    match word {
        "type" => !types(value).is_empty(),
        "$ref" => target(whole, value).is_some(),
        "additionalProperties" => value.is_object() || value.is_boolean(),
        "required" | "enum" => is_filled(value),
        "default" | "const" => true,
        // The name of a dialect, of which providers know few.
        "$schema" => false,
        _ if is_of(LISTS) => is_filled(value),
        _ if is_of(BY_NAME) || is_of(ONE) => value.is_object(),
        _ if is_of(NUMBERS) => value.is_number(),
        _ if is_of(COUNTS) => value.is_u64(),
        _ if is_of(TEXTS) => value.is_string(),
        _ => !value.is_null(),
    }
}

/// The types that a schema names, as far as they are types.
fn types(value: &Value) -> Vec<&str> {
    let all = [
        "string", "number", "integer", "boolean", "object", "array", "null",
    ];
    let names = value
        .as_array()
        .map_or(std::slice::from_ref(value), Vec::as_slice);
    let names = names.iter().filter_map(Value::as_str);
    names.filter(|name| all.contains(name)).collect()
}

/// What a reference refers to inside of the schema. Nothing is fetched, here or by a provider.
fn target<'a>(whole: &'a Value, reference: &Value) -> Option<&'a Value> {
    whole.pointer(reference.as_str()?.strip_prefix('#')?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schemas_of_all_drafts_are_sent_as_providers_take_them() {
        // A property `a`, as a server writes it and as it is sent.
        for (given, expected) in [
            (
                json!({"type": "integer", "minimum": 0, "exclusiveMinimum": true}),
                json!({"type": "integer", "exclusiveMinimum": 0}),
            ),
            (
                json!({"maximum": "9", "exclusiveMaximum": false, "minLength": -1}),
                json!({}),
            ),
            (json!({"type": "any", "required": true}), json!({})),
            (
                json!({"type": ["str", "string"]}),
                json!({"type": ["string"]}),
            ),
            (
                json!({"type": "object", "required": null, "properties": [], "enum": []}),
                json!({"type": "object"}),
            ),
            (
                json!({"type": ["array", "null"]}),
                json!({"type": ["array", "null"], "items": {}}),
            ),
            (
                json!({"items": [{"type": "string"}, true]}),
                json!({"items": {"anyOf": [{"type": "string"}, {}]}}),
            ),
            (json!({"$ref": "#/definitions/None"}), json!({})),
            (json!({"$ref": "http://127.0.0.1:9/a.json"}), json!({})),
            (
                json!({"default": null, "nullable": null}),
                json!({"default": null}),
            ),
            (json!(true), json!({})),
            (
                json!({"properties": {"b": null}, "required": ["b", "b c", 7]}),
                json!({"properties": {"b": {}}, "required": ["b"]}),
            ),
        ] {
            let schema = |it: &Value| json!({"type": "object", "properties": {"a": it}});
            let sent = sent(&schema(&given).to_string()).expect("JSON");
            let sent: Value = serde_json::from_str(sent.get()).expect("JSON");
            assert_eq!(sent, schema(&expected), "{given}");
        }
    }

    #[test]
    fn a_schema_is_one_of_an_object() {
        let none = json!({"type": "object", "properties": {}});
        let text = json!({"type": "string"});
        let a = json!({"type": "object", "properties": {"a": text}});
        let kind = |name: &str| json!({"type": "object", "properties": {"kind": {"const": name}}});
        let kinds = json!({"anyOf": [{"const": "x"}, {"const": "y"}]});
        for (given, expected) in [
            (json!({"type": "any"}), none.clone()),
            (json!({"type": "string", "enum": ["a"]}), none.clone()),
            (
                json!({"$schema": "https://own.example/dialect"}),
                none.clone(),
            ),
            (json!({"$ref": "#"}), none.clone()),
            (json!([]), none),
            (
                json!({"properties": {"a": text}, "required": null}),
                a.clone(),
            ),
            (
                json!({"$ref": "#/definitions/A", "definitions": {"A": a}}),
                json!({"type": "object", "properties": {"a": text}, "definitions": {"A": a}}),
            ),
            (
                json!({"oneOf": [kind("x"), kind("y")]}),
                json!({"type": "object", "properties": {"kind": kinds}}),
            ),
        ] {
            let sent = sent(&given.to_string()).expect("JSON");
            let sent: Value = serde_json::from_str(sent.get()).expect("JSON");
            assert_eq!(sent, expected, "{given}");
        }
    }

    #[test]
    fn a_valid_schema_is_sent_as_it_is_written() {
        let written = r##"{ "properties": {"n": {"maximum": 12345678901234567890123.10}, "next": {"$ref": "#"}},
            "additionalProperties": false, "type": "object", "required": ["n"] }"##;
        assert_eq!(sent(written).expect("JSON").get(), written);
    }
}
