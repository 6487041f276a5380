//! The formats of messages: a bounded subset of JSON Schema.
//!
//! Everything in it has a limit, so that the largest message is known when the schema is read, and
//! no object has properties that the schema does not name.

use std::collections::BTreeMap;
use std::fmt;

use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::format::Format;
use super::json::{MAX_DEPTH, MAX_NUMBER};

/// Characters of a string whose schema does not say.
const DEFAULT_LENGTH: usize = 1_000;

/// Items of an array whose schema does not say.
const DEFAULT_ITEMS: usize = 50;

/// Values of one `enum`. A list of more is no closed choice any more.
const MAX_VALUES: usize = 64;

/// Characters of one value of an `enum`: a word or two, not a message.
const MAX_VALUE: usize = 64;

/// The format of a message, or of a part of it.
#[derive(Debug, Clone, PartialEq)]
pub struct Schema {
    pub(super) shape: Shape,
    description: Option<String>,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Shape {
    Object(BTreeMap<String, Property>),
    Array {
        items: Box<Schema>,
        most: usize,
    },
    /// Free text: the one shape that can carry a sentence.
    Text {
        longest: usize,
    },
    /// A string of one form.
    Formed(Format),
    OneOf(Vec<String>),
    Number(Bounds),
    Integer(Bounds),
    Boolean,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) struct Property {
    pub(super) required: bool,
    pub(super) schema: Schema,
}

/// The least and the largest number.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(super) struct Bounds {
    least: Option<f64>,
    most: Option<f64>,
}

impl Bounds {
    pub(super) fn contains(&self, number: f64) -> bool {
        self.least.is_none_or(|least| least <= number)
            && self.most.is_none_or(|most| number <= most)
    }
}

/// What is wrong with a schema, and where in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SchemaError {
    /// The keys that lead there from the schema's root.
    pub at: Vec<String>,
    /// What is wrong.
    pub message: String,
    /// What would be right.
    pub help: String,
}

impl fmt::Display for SchemaError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}; {}", self.message, self.help)
    }
}

impl std::error::Error for SchemaError {}

impl Schema {
    /// The largest message that a schema may allow, in bytes.
    pub const MAX_BYTES: usize = 512 * 1024;

    /// Reads a schema: `type` with `properties`, `required`, `items`, `maxItems`, `maxLength`, `minimum`, `maximum`,
    /// `enum`, `format` and `description`.
    ///
    /// # Errors
    /// The first thing that is wrong with each part of it; a key that has no meaning here, too: passed over, `pattern`
    /// for one would admit more than its author means.
    pub fn read(value: &Value) -> Result<Self, Vec<SchemaError>> {
        let mut errors = Vec::new();
        let schema = read(value, &mut Vec::new(), &mut errors);
        match schema.filter(|_| errors.is_empty()) {
            // When the configuration is read, so that no message fails later by a size that its schema allows.
            Some(schema) if schema.largest() > Self::MAX_BYTES => Err(vec![SchemaError {
                at: Vec::new(),
                message: format!("a message of this form may have {} bytes", schema.largest()),
                help: format!(
                    "the most is {}; give strings a maxLength and arrays a maxItems",
                    Self::MAX_BYTES
                ),
            }]),
            Some(schema) => Ok(schema),
            None => Err(errors),
        }
    }

    /// Whether a message of this form is an object.
    #[must_use]
    pub fn is_object(&self) -> bool {
        matches!(self.shape, Shape::Object(_))
    }

    /// Whether a message of this form is any text, and no JSON.
    #[must_use]
    pub fn is_text(&self) -> bool {
        matches!(self.shape, Shape::Text { .. })
    }

    /// The names of an object's properties; none of any other message.
    pub fn properties(&self) -> impl Iterator<Item = &str> {
        let properties = match &self.shape {
            Shape::Object(properties) => Some(properties),
            _ => None,
        };
        properties
            .into_iter()
            .flatten()
            .map(|(name, _)| name.as_str())
    }

    /// The schema as JSON Schema, complete with its defaults.
    #[must_use]
    pub fn to_json(&self) -> Value {
        let mut all = match &self.shape {
            Shape::Object(properties) => {
                let required: Vec<&String> = properties
                    .iter()
                    .filter(|(_, property)| property.required)
                    .map(|(name, _)| name)
                    .collect();
                let named = |(name, property): (&String, &Property)| {
                    (name.clone(), property.schema.to_json())
                };
                json!({
                    "type": "object",
                    "properties": properties.iter().map(named).collect::<Map<_, _>>(),
                    "required": required,
                    "additionalProperties": false,
                })
            }
            Shape::Array { items, most } => {
                json!({"type": "array", "items": items.to_json(), "maxItems": most})
            }
            Shape::Text { longest } => json!({"type": "string", "maxLength": longest}),
            Shape::Formed(format) => json!({"type": "string", "format": format.name()}),
            Shape::OneOf(values) => json!({"type": "string", "enum": values}),
            Shape::Number(bounds) => bounded("number", bounds),
            Shape::Integer(bounds) => bounded("integer", bounds),
            Shape::Boolean => json!({"type": "boolean"}),
        };
        if let (Some(text), Some(map)) = (&self.description, all.as_object_mut()) {
            map.insert("description".to_owned(), Value::from(text.as_str()));
        }
        all
    }

    /// The bytes of the largest message, escapes included.
    fn largest(&self) -> usize {
        // A character takes at most six bytes, as an escape.
        let text = |characters: usize| characters.saturating_mul(6).saturating_add(2);
        match &self.shape {
            Shape::Object(properties) => {
                let one = |(name, property): (&String, &Property)| {
                    let value = property.schema.largest();
                    text(name.chars().count()).saturating_add(value + 2)
                };
                properties.iter().map(one).fold(2, usize::saturating_add)
            }
            Shape::Array { items, most } => {
                let one = items.largest().saturating_add(1);
                // What overflows is too large in any case.
                one.saturating_mul(*most).saturating_add(2)
            }
            Shape::Text { longest } => text(*longest),
            Shape::Formed(_) => text(Format::LONGEST),
            Shape::OneOf(_) => text(MAX_VALUE),
            Shape::Number(_) | Shape::Integer(_) | Shape::Boolean => MAX_NUMBER,
        }
    }
}

fn bounded(name: &str, bounds: &Bounds) -> Value {
    let mut all = Map::from_iter([("type".to_owned(), Value::from(name))]);
    let ends = [("minimum", bounds.least), ("maximum", bounds.most)];
    for (key, end) in ends {
        if let Some(end) = end {
            all.insert(key.to_owned(), Value::from(end));
        }
    }
    Value::Object(all)
}

/// One part of a schema as it is written.
#[derive(Deserialize)]
#[serde(
    tag = "type",
    rename_all = "lowercase",
    rename_all_fields = "camelCase",
    deny_unknown_fields
)]
enum Written {
    Object {
        description: Option<String>,
        #[serde(default)]
        properties: BTreeMap<String, Value>,
        #[serde(default)]
        required: Vec<String>,
        additional_properties: Option<bool>,
    },
    Array {
        description: Option<String>,
        items: Value,
        max_items: Option<usize>,
    },
    String {
        description: Option<String>,
        max_length: Option<usize>,
        #[serde(rename = "enum")]
        values: Option<Vec<String>>,
        format: Option<String>,
    },
    Number {
        description: Option<String>,
        minimum: Option<f64>,
        maximum: Option<f64>,
    },
    Integer {
        description: Option<String>,
        minimum: Option<f64>,
        maximum: Option<f64>,
    },
    Boolean {
        description: Option<String>,
    },
}

/// Reads the part of a schema at these keys.
fn read(value: &Value, at: &mut Vec<String>, errors: &mut Vec<SchemaError>) -> Option<Schema> {
    let error = |at: &[String], message: String, help: &str| SchemaError {
        at: at.to_vec(),
        message,
        help: help.to_owned(),
    };
    // Each level of a message is one key here, or two.
    if at.len() > 2 * MAX_DEPTH {
        let message = format!("the schema is nested deeper than {MAX_DEPTH}");
        errors.push(error(at, message, "make it flatter"));
        return None;
    }
    let written = match Written::deserialize(value) {
        Ok(written) => written,
        Err(wrong) => {
            let help = "a schema has a type (object, array, string, number, integer, boolean) and the keys of its type";
            errors.push(error(at, wrong.to_string(), help));
            return None;
        }
    };
    let (shape, description) = match written {
        Written::Object {
            description,
            properties: written,
            required,
            additional_properties,
        } => {
            let mut properties = BTreeMap::new();
            for (name, value) in &written {
                if let Some(schema) = below(&["properties", name], value, at, errors) {
                    let required = required.contains(name);
                    properties.insert(name.clone(), Property { required, schema });
                }
            }
            let missing = required.iter().find(|name| !written.contains_key(*name));
            let wrong = match missing {
                Some(name) => Some(format!("the required '{name}' is not among the properties")),
                None if additional_properties == Some(true) => {
                    Some("a message has no properties that the schema does not name".to_owned())
                }
                None => None,
            };
            if let Some(message) = wrong {
                errors.push(error(at, message, "correct it, or leave it out"));
            }
            (Shape::Object(properties), description)
        }
        Written::Array {
            description,
            items,
            max_items,
        } => {
            let items = Box::new(below(&["items"], &items, at, errors)?);
            let most = max_items.unwrap_or(DEFAULT_ITEMS);
            (Shape::Array { items, most }, description)
        }
        Written::String {
            description,
            max_length,
            values,
            format,
        } => {
            let shape = string(max_length, values, format);
            match shape {
                Ok(shape) => (shape, description),
                Err((message, help)) => {
                    errors.push(error(at, message, &help));
                    return None;
                }
            }
        }
        Written::Number {
            description,
            minimum,
            maximum,
        } => (
            Shape::Number(Bounds {
                least: minimum,
                most: maximum,
            }),
            description,
        ),
        Written::Integer {
            description,
            minimum,
            maximum,
        } => (
            Shape::Integer(Bounds {
                least: minimum,
                most: maximum,
            }),
            description,
        ),
        Written::Boolean { description } => (Shape::Boolean, description),
    };
    Some(Schema { shape, description })
}

/// The same below some more keys.
fn below(
    keys: &[&str],
    value: &Value,
    at: &mut Vec<String>,
    errors: &mut Vec<SchemaError>,
) -> Option<Schema> {
    let before = at.len();
    at.extend(keys.iter().map(|key| (*key).to_owned()));
    let schema = read(value, at, errors);
    at.truncate(before);
    schema
}

/// The shape of a string, or what is wrong with it, and what would be right.
fn string(
    max_length: Option<usize>,
    values: Option<Vec<String>>,
    format: Option<String>,
) -> Result<Shape, (String, String)> {
    match (max_length, values, format) {
        (longest, None, None) => Ok(Shape::Text {
            longest: longest.unwrap_or(DEFAULT_LENGTH),
        }),
        (None, Some(values), None) => {
            let is_short = |word: &String| (1..=MAX_VALUE).contains(&word.chars().count());
            if values.iter().all(is_short) && (1..=MAX_VALUES).contains(&values.len()) {
                return Ok(Shape::OneOf(values));
            }
            let help = format!("write 1 to {MAX_VALUES} strings of at most {MAX_VALUE} characters");
            Err(("an enum is a short list of words".to_owned(), help))
        }
        (None, None, Some(format)) => Format::named(&format).map(Shape::Formed).ok_or_else(|| {
            let help = format!("it is one of {}", Format::names().join(", "));
            ("this is no format of a message".to_owned(), help)
        }),
        _ => Err((
            "a string has a maxLength, an enum or a format".to_owned(),
            "leave one of them".to_owned(),
        )),
    }
}
