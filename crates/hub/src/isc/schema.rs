//! The formats of messages: a bounded subset of JSON Schema.
//!
//! Everything in it has a limit, so that the largest message is known when the schema is read, and
//! no object has properties that the schema does not name.

use std::collections::BTreeMap;
use std::fmt;

use serde_json::{Map, Value, json};

use super::format::Format;
use super::json::{MAX_DEPTH, MAX_NUMBER};

/// Characters of a string whose schema does not say.
const DEFAULT_LENGTH: u64 = 1_000;

/// Items of an array whose schema does not say.
const DEFAULT_ITEMS: u64 = 50;

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

    /// Reads a schema: `type` with `properties`, `required`, `items`, `maxItems`, `maxLength`,
    /// `minimum`, `maximum`, `enum`, `format` and `description`.
    ///
    /// # Errors
    /// Everything that is wrong with it, keys that have no meaning here among it.
    pub fn read(value: &Value) -> Result<Self, Vec<SchemaError>> {
        let mut reader = Reader {
            at: Vec::new(),
            errors: Vec::new(),
        };
        let schema = reader.schema(value, 0);
        match schema {
            // When the configuration is read, so that no message fails later by a size that its schema allows.
            Some(schema) if reader.errors.is_empty() => match schema.largest() {
                bytes if bytes > Self::MAX_BYTES => Err(vec![SchemaError {
                    at: Vec::new(),
                    message: format!("a message of this form may have {bytes} bytes"),
                    help: format!(
                        "the most is {}; give strings a maxLength and arrays a maxItems",
                        Self::MAX_BYTES
                    ),
                }]),
                _ => Ok(schema),
            },
            _ => Err(reader.errors),
        }
    }

    /// Whether a message of this form is an object.
    pub fn is_object(&self) -> bool {
        matches!(self.shape, Shape::Object(_))
    }

    /// Whether a message of this form is any text, and no JSON.
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

struct Reader {
    at: Vec<String>,
    errors: Vec<SchemaError>,
}

/// The types, and the keys that each takes beside `type` and `description`.
const TYPES: [(&str, &[&str]); 6] = [
    (
        "object",
        &["properties", "required", "additionalProperties"],
    ),
    ("array", &["items", "maxItems"]),
    ("string", &["maxLength", "enum", "format"]),
    ("number", &["minimum", "maximum"]),
    ("integer", &["minimum", "maximum"]),
    ("boolean", &[]),
];

impl Reader {
    /// Notes an error; there is nothing to go on with then.
    fn error<T>(
        &mut self,
        key: Option<&str>,
        message: impl Into<String>,
        help: impl Into<String>,
    ) -> Option<T> {
        let mut at = self.at.clone();
        at.extend(key.map(str::to_owned));
        self.errors.push(SchemaError {
            at,
            message: message.into(),
            help: help.into(),
        });
        None
    }

    /// Reads what stands below a key.
    fn below(&mut self, keys: &[&str], value: &Value, depth: usize) -> Option<Schema> {
        let before = self.at.len();
        self.at.extend(keys.iter().map(|key| (*key).to_owned()));
        let schema = self.schema(value, depth + 1);
        self.at.truncate(before);
        schema
    }

    fn schema(&mut self, value: &Value, depth: usize) -> Option<Schema> {
        if depth > MAX_DEPTH {
            let message = format!("the schema is nested deeper than {MAX_DEPTH}");
            return self.error(None, message, "make it flatter");
        }
        let Some(all) = value.as_object() else {
            let help = "write { type = \"string\" }, or another type";
            return self.error(None, "a schema is a table", help);
        };
        let names: Vec<&str> = TYPES.iter().map(|(name, _)| *name).collect();
        let named = all.get("type").and_then(Value::as_str);
        let known = named.and_then(|named| TYPES.iter().find(|(name, _)| *name == named));
        let Some((name, keys)) = known else {
            let key = all.contains_key("type").then_some("type");
            let help = format!("write type = one of {}", names.join(", "));
            return self.error(key, "this is no type of a message", help);
        };
        for key in all.keys() {
            // A key that means nothing here means a restriction to whoever wrote it, `pattern` for one: passed over, it
            // would admit more.
            if !["type", "description"].contains(&key.as_str()) && !keys.contains(&key.as_str()) {
                let mut takes = vec!["type", "description"];
                takes.extend(*keys);
                let help = format!("{name} takes {}", takes.join(", "));
                self.error::<()>(Some(key), format!("'{key}' says nothing here"), help);
            }
        }
        let description = match all.get("description") {
            None => None,
            Some(Value::String(text)) => Some(text.clone()),
            Some(_) => {
                let message = "a description is a string";
                self.error(Some("description"), message, "write it in words")
            }
        };
        let shape = match *name {
            "object" => self.object(all, depth)?,
            "array" => self.array(all, depth)?,
            "string" => self.string(all)?,
            "number" => Shape::Number(self.bounds(all)),
            "integer" => Shape::Integer(self.bounds(all)),
            _ => Shape::Boolean,
        };
        Some(Schema { shape, description })
    }

    fn object(&mut self, all: &Map<String, Value>, depth: usize) -> Option<Shape> {
        if all
            .get("additionalProperties")
            .is_some_and(|more| *more != Value::Bool(false))
        {
            let help = "leave it out: it is always false";
            let message = "a message has no properties that the schema does not name";
            self.error::<()>(Some("additionalProperties"), message, help);
        }
        let required = self.required(all);
        let mut properties = BTreeMap::new();
        match all.get("properties") {
            None => {}
            Some(Value::Object(named)) => {
                for (name, value) in named {
                    if let Some(schema) = self.below(&["properties", name], value, depth) {
                        let required = required.contains(name);
                        properties.insert(name.clone(), Property { required, schema });
                    }
                }
                if let Some(name) = required.iter().find(|name| !named.contains_key(*name)) {
                    let message = format!("the required '{name}' is not among the properties");
                    self.error::<()>(Some("required"), message, "add it, or leave it out here");
                }
            }
            Some(_) => {
                let help = "write properties = { NAME = { type = \"string\" } }";
                self.error::<()>(Some("properties"), "properties are a table", help);
            }
        }
        Some(Shape::Object(properties))
    }

    fn required(&mut self, all: &Map<String, Value>) -> Vec<String> {
        let Some(required) = all.get("required") else {
            return Vec::new();
        };
        let names = required.as_array().and_then(|names| {
            let names = names.iter().map(|name| name.as_str().map(str::to_owned));
            names.collect::<Option<Vec<String>>>()
        });
        let (message, help) = ("required is a list of names", "write required = [\"NAME\"]");
        let names = names.or_else(|| self.error(Some("required"), message, help));
        names.unwrap_or_default()
    }

    fn array(&mut self, all: &Map<String, Value>, depth: usize) -> Option<Shape> {
        let most = self.count(all, "maxItems", DEFAULT_ITEMS);
        let Some(items) = all.get("items") else {
            let help = "add items = { type = \"string\" }, or another type";
            return self.error(None, "an array needs the schema of its items", help);
        };
        let items = Box::new(self.below(&["items"], items, depth)?);
        Some(Shape::Array { items, most })
    }

    fn string(&mut self, all: &Map<String, Value>) -> Option<Shape> {
        let given = ["maxLength", "enum", "format"];
        let given = given.iter().filter(|key| all.contains_key(**key));
        if given.count() > 1 {
            let message = "a string has a maxLength, an enum or a format";
            return self.error(None, message, "leave one of them");
        }
        if let Some(values) = all.get("enum") {
            return self.values(values);
        }
        if let Some(format) = all.get("format") {
            let found = format.as_str().and_then(Format::named);
            let found = found.or_else(|| {
                let help = format!("it is one of {}", Format::names().join(", "));
                self.error(Some("format"), "this is no format of a message", help)
            });
            return found.map(Shape::Formed);
        }
        let longest = self.count(all, "maxLength", DEFAULT_LENGTH);
        Some(Shape::Text { longest })
    }

    fn values(&mut self, values: &Value) -> Option<Shape> {
        let words = values.as_array().and_then(|values| {
            let short = |word: &&str| !word.is_empty() && word.chars().count() <= MAX_VALUE;
            let words = values.iter().map(|value| value.as_str().filter(short));
            words
                .map(|word| word.map(str::to_owned))
                .collect::<Option<Vec<String>>>()
        });
        let words = words.filter(|words| (1..=MAX_VALUES).contains(&words.len()));
        let help = format!("write 1 to {MAX_VALUES} strings of at most {MAX_VALUE} characters");
        let message = "an enum is a short list of words";
        let words = words.or_else(|| self.error(Some("enum"), message, help));
        words.map(Shape::OneOf)
    }

    fn count(&mut self, all: &Map<String, Value>, key: &str, default: u64) -> usize {
        let count = all.get(key).map_or(Some(default), Value::as_u64);
        let count = count.and_then(|count| usize::try_from(count).ok());
        let message = format!("'{key}' is a count");
        let count = count.or_else(|| self.error(Some(key), message, "write a whole number"));
        count.unwrap_or_default()
    }

    fn bounds(&mut self, all: &Map<String, Value>) -> Bounds {
        let mut end = |key: &str| {
            let message = format!("'{key}' is a number");
            let end = all.get(key)?.as_f64();
            end.or_else(|| self.error(Some(key), message, "write a number"))
        };
        Bounds {
            least: end("minimum"),
            most: end("maximum"),
        }
    }
}
