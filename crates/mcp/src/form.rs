//! An app's elicitation as a form, or a refusal.

use std::collections::HashSet;

use rmcp::model::{ElicitRequestParams, ElicitationSchema};
use serde_json::{Map, Value};
use wire::{Field, FieldKind, FieldOption, Form};

/// Reads an elicitation in form mode. What cannot be shown to a person as it is, is refused.
///
/// # Errors
/// Why, for the app.
pub(crate) fn read(params: ElicitRequestParams) -> Result<Form, String> {
    let ElicitRequestParams::FormElicitationParams {
        message,
        requested_schema,
        ..
    } = params
    else {
        // A page that the app chooses could ask for anything, out of the sight of the hub.
        return Err("this client shows forms only, no addresses".to_owned());
    };
    let form = Form {
        message,
        fields: fields(&requested_schema)?,
    };
    form.check().map_err(|problem| problem.to_string())?;
    Ok(form)
}

/// The fields in the order in which the app wrote them.
fn fields(schema: &ElicitationSchema) -> Result<Vec<Field>, String> {
    // A set: an app may write a hundred thousand of both.
    let required: HashSet<&String> = schema.required.iter().flatten().collect();
    if let Some(missing) = required
        .iter()
        .find(|name| !schema.properties.contains_key(**name))
    {
        let known = schema.properties.len();
        return Err(format!(
            "the field '{}' is required and not among the {known} properties",
            wire::head(missing, 100)
        ));
    }
    let names: Vec<&String> = match &schema.property_order {
        Some(order) => order.iter().collect(),
        None => schema.properties.keys().collect(),
    };
    let field = |name: &String| {
        let property = schema.properties.get(name).map(serde_json::to_value);
        let Some(Ok(Value::Object(property))) = property else {
            return Err("a property is no object".to_owned());
        };
        Ok(Field {
            name: name.clone(),
            title: text(&property, "title"),
            description: text(&property, "description"),
            required: required.contains(name),
            kind: kind(&property)?,
        })
    };
    names.into_iter().map(field).collect()
}

/// The specification allows text, numbers, yes or no, and choices among texts; nothing is nested.
fn kind(property: &Map<String, Value>) -> Result<FieldKind, String> {
    let word = property.get("type").and_then(Value::as_str);
    let length = |key| {
        let value = property.get(key).and_then(Value::as_u64);
        value.map(|value| u32::try_from(value).unwrap_or(u32::MAX))
    };
    Ok(match word {
        Some("string") => match options(property)? {
            Some(options) => FieldKind::Choice(options),
            None => FieldKind::Text {
                min_length: length("minLength"),
                max_length: length("maxLength"),
            },
        },
        // Rounded outwards, so that nothing is refused here which the app would take.
        Some("number") => FieldKind::Number {
            minimum: whole_number(property.get("minimum"), f64::floor),
            maximum: whole_number(property.get("maximum"), f64::ceil),
        },
        Some("integer") => FieldKind::Integer {
            minimum: property.get("minimum").and_then(Value::as_i64),
            maximum: property.get("maximum").and_then(Value::as_i64),
        },
        Some("boolean") => FieldKind::Boolean,
        Some("array") => {
            let items = property.get("items").and_then(Value::as_object);
            let options = items.map(options).transpose()?.flatten();
            FieldKind::Choices(options.ok_or("a list needs options to choose from")?)
        }
        _ => return Err("a field must be a string, number, integer, boolean or choice".to_owned()),
    })
}

/// A bound as a whole number; one that is none of ours is the app's to check.
fn whole_number(bound: Option<&Value>, round: fn(f64) -> f64) -> Option<i32> {
    let bound = round(bound?.as_f64()?);
    bound.to_string().parse().ok()
}

/// `enum` with or without `enumNames`, `oneOf` or `anyOf`.
fn options(schema: &Map<String, Value>) -> Result<Option<Vec<FieldOption>>, String> {
    let words = |value: &Value| value.as_str().map(str::to_owned);
    if let Some(Value::Array(values)) = schema.get("enum") {
        let titles = schema.get("enumNames").and_then(Value::as_array);
        let option = |(at, value): (usize, &Value)| {
            let title = titles.and_then(|titles| titles.get(at)).and_then(words);
            Some(FieldOption {
                value: words(value)?,
                title: title.unwrap_or_default(),
            })
        };
        let options: Option<Vec<_>> = values.iter().enumerate().map(option).collect();
        return Ok(Some(options.ok_or("an option must be a string")?));
    }
    let Some(Value::Array(values)) = schema.get("oneOf").or_else(|| schema.get("anyOf")) else {
        return Ok(None);
    };
    let option = |value: &Value| {
        let value = value.as_object()?;
        Some(FieldOption {
            value: words(value.get("const")?)?,
            title: text(value, "title"),
        })
    };
    let options: Option<Vec<_>> = values.iter().map(option).collect();
    Ok(Some(
        options.ok_or("an option must have a string as const")?,
    ))
}

fn text(object: &Map<String, Value>, key: &str) -> String {
    let text = object.get(key).and_then(Value::as_str);
    text.unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read_json(params: Value) -> Result<Vec<Field>, String> {
        let params = serde_json::from_value(params).map_err(|error| error.to_string())?;
        Ok(read(params)?.fields)
    }

    fn schema(properties: Value) -> Value {
        json!({"message": "?", "requestedSchema": {"type": "object", "properties": properties}})
    }

    #[test]
    fn each_kind_of_field_is_read() {
        let kind = |property: Value| {
            let fields = read_json(schema(json!({"x": property}))).unwrap();
            let [field] = <[Field; 1]>::try_from(fields).unwrap();
            field.kind
        };
        assert_eq!(
            kind(json!({"type": "string", "maxLength": 5, "default": "evil", "format": "email"})),
            FieldKind::Text {
                min_length: None,
                max_length: Some(5)
            }
        );
        assert_eq!(
            kind(json!({"type": "integer", "minimum": 1, "maximum": 10})),
            FieldKind::Integer {
                minimum: Some(1),
                maximum: Some(10)
            }
        );
        assert_eq!(
            kind(json!({"type": "number", "minimum": -0.5, "maximum": 1.5})),
            FieldKind::Number {
                minimum: Some(-1),
                maximum: Some(2)
            }
        );
        assert_eq!(kind(json!({"type": "boolean"})), FieldKind::Boolean);
        let option = |value: &str, title: &str| FieldOption {
            value: value.to_owned(),
            title: title.to_owned(),
        };
        let plain = vec![option("a", ""), option("b", "")];
        let titled = vec![option("a", "A"), option("b", "B")];
        assert_eq!(
            kind(json!({"type": "string", "enum": ["a", "b"]})),
            FieldKind::Choice(plain.clone())
        );
        assert_eq!(
            kind(json!({"type": "string", "enum": ["a", "b"], "enumNames": ["A", "B"]})),
            FieldKind::Choice(titled.clone())
        );
        let consts = json!([{"const": "a", "title": "A"}, {"const": "b", "title": "B"}]);
        assert_eq!(
            kind(json!({"type": "string", "oneOf": consts})),
            FieldKind::Choice(titled.clone())
        );
        assert_eq!(
            kind(json!({"type": "array", "items": {"type": "string", "enum": ["a", "b"]}})),
            FieldKind::Choices(plain)
        );
        assert_eq!(
            kind(json!({"type": "array", "items": {"anyOf": consts}})),
            FieldKind::Choices(titled)
        );
    }

    #[test]
    fn the_apps_order_and_what_it_requires_are_kept() {
        let params: ElicitRequestParams = serde_json::from_str(
            r#"{"message": "?", "requestedSchema": {"type": "object", "required": ["a"],
                "properties": {"z": {"type": "boolean"}, "a": {"type": "string", "title": "A", "description": "it"}}}}"#,
        )
        .unwrap();
        let form = read(params).unwrap();
        let fields: Vec<_> = form
            .fields
            .iter()
            .map(|field| (field.name.as_str(), field.required, field.title.as_str()))
            .collect();
        assert_eq!(fields, [("z", false, ""), ("a", true, "A")]);
    }

    #[test]
    fn what_is_no_flat_form_is_refused() {
        let nested = json!({"x": {"type": "object", "properties": {"y": {"type": "string"}}}});
        let free_list = json!({"x": {"type": "array", "items": {"type": "string"}}});
        let many: Map<String, Value> = (0..100)
            .map(|i| (i.to_string(), json!({"type": "string"})))
            .collect();
        let options: Vec<String> = (0..10_000).map(|i| i.to_string()).collect();
        for params in [
            schema(nested),
            schema(free_list),
            schema(Value::Object(many)),
            schema(json!({"x": {"type": "string", "enum": options}})),
            schema(json!({"x": {"type": "string", "enum": []}})),
            schema(json!({"x": {"type": "string", "description": "x".repeat(10_000)}})),
            schema(json!({"x": {"$ref": "#/properties/x"}})),
            json!({"message": "x".repeat(100_000), "requestedSchema": {"type": "object", "properties": {}}}),
            json!({"message": "?", "requestedSchema": {"type": "object", "properties": {}, "required": ["x"]}}),
            json!({"mode": "url", "message": "?", "url": "https://evil.example/", "elicitationId": "1"}),
        ] {
            assert!(read_json(params.clone()).is_err(), "{params}");
        }
    }
}
