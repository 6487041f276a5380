//! JSON Schemas, as far as the hub reads them. They come from apps: a keyword that is not read admits more.

use serde_json::{Map, Value};

/// How deep a part of a schema may lie, references followed. One that leads to itself ends here.
const MAX_DEPTH: usize = 32;

/// Parts of a schema with its references followed. A large tool has some hundreds; without a bound a few references
/// to references would make a schema of any size.
const MAX_PARTS: usize = 8192;

/// Whether a value is of the types, lists of values and members that a JSON Schema says in so many words. What it says
/// otherwise (patterns, ranges, references) is passed over: a spoke validates a whole call by all of its tool's schema
/// before the app gets it.
#[must_use]
pub fn fits(value: &Value, schema: &Value) -> bool {
    let is = |kind: &str| match kind {
        "string" => value.is_string(),
        "number" => value.is_number(),
        "integer" => value.as_f64().is_some_and(|number| number.fract() == 0.0),
        "boolean" => value.is_boolean(),
        "object" => value.is_object(),
        "array" => value.is_array(),
        "null" => value.is_null(),
        _ => false,
    };
    let of_type = match schema.get("type") {
        Some(Value::String(kind)) => is(kind),
        Some(Value::Array(kinds)) => kinds.iter().filter_map(Value::as_str).any(is),
        _ => true,
    };
    let listed = schema.get("enum").and_then(Value::as_array);
    let is_listed = listed.is_none_or(|values| values.contains(value));
    let required = schema.get("required").and_then(Value::as_array);
    let mut required = required.into_iter().flatten().filter_map(Value::as_str);
    let has = |name: &str| value.as_object().is_none_or(|it| it.contains_key(name));
    let members = schema.get("properties").and_then(Value::as_object);
    let mut members = members.into_iter().flatten();
    let member_fits =
        |(name, schema): (&String, &Value)| value.get(name).is_none_or(|it| fits(it, schema));
    let items = schema.get("items").zip(value.as_array());
    of_type
        && is_listed
        && required.all(has)
        && members.all(member_fits)
        && items.is_none_or(|(schema, items)| items.iter().all(|item| fits(item, schema)))
}

/// A schema with what its references (`#/…`) lead to in their places, so that each part is complete. A reference that
/// leads nowhere, too deep or too far becomes any value.
pub(crate) fn inlined(schema: &Value) -> Value {
    inline(schema, schema, MAX_DEPTH, &mut { MAX_PARTS })
}

fn inline(part: &Value, root: &Value, depth: usize, left: &mut usize) -> Value {
    let any = || Value::Object(Map::new());
    let (Some(depth), Some(fewer)) = (depth.checked_sub(1), left.checked_sub(1)) else {
        return any();
    };
    *left = fewer;
    let mut within = |part: &Value| inline(part, root, depth, left);
    match part {
        Value::Object(members) => match members.get("$ref").and_then(Value::as_str) {
            Some(reference) => {
                let pointer = reference.strip_prefix('#');
                let target = pointer.and_then(|pointer| root.pointer(pointer));
                target.map_or_else(any, within)
            }
            None => {
                let members = members.iter();
                members
                    .map(|(name, it)| (name.clone(), within(it)))
                    .collect()
            }
        },
        Value::Array(items) => items.iter().map(within).collect(),
        _ => part.clone(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// As servers in Python write the type of an argument.
    #[test]
    fn a_reference_is_what_it_leads_to() {
        let person = json!({"type": "object", "properties": {"name": {"type": "string"}}});
        let schema = json!({
            "properties": {"to": {"$ref": "#/$defs/Person"}, "cc": {"items": {"$ref": "#/$defs/Person"}}},
            "$defs": {"Person": person},
        });
        let alone = inlined(&schema);
        assert_eq!(alone["properties"]["to"], person);
        assert_eq!(alone["properties"]["cc"]["items"], person);
        // A member of that name is none.
        let named = json!({"properties": {"$ref": {"type": "string"}}});
        assert_eq!(inlined(&named), named);
    }

    #[test]
    fn what_leads_nowhere_or_to_itself_is_anything() {
        for lost in [
            "#/$defs/none",
            "https://example.org/x",
            "Person",
            "#",
            "#/a",
        ] {
            let alone = inlined(&json!({"a": {"$ref": lost}}));
            assert!(fits(&json!(7), &alone["a"]), "{alone}");
        }
        // Each of these leads twice to the next.
        let chain =
            |n: usize| json!({"a": {"$ref": format!("#/d{n}")}, "b": {"$ref": format!("#/d{n}")}});
        let all: Map<String, Value> = (0..64).map(|n| (format!("d{n}"), chain(n + 1))).collect();
        let size = inlined(&Value::Object(all)).to_string().len();
        assert!(size < 1 << 20, "{size}");
    }
}
