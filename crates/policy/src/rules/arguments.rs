//! What a call carries: its arguments, read strictly, and what a tool says that it takes.

use std::collections::BTreeMap;
use std::fmt;

use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

/// The arguments of a call: a JSON object in which no key stands twice.
///
/// Two parsers may disagree about which of two equal keys counts, and the app's is not ours: what
/// is judged would not be what is done.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Arguments(Map<String, Value>);

impl Arguments {
    /// Reads them from the text that will be sent.
    ///
    /// # Errors
    /// One line that says what is wrong.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        match serde_json::from_str(text) {
            Ok(Strict(Value::Object(map))) => Ok(Self(map)),
            Ok(Strict(_)) => Err("the arguments are no JSON object".to_owned()),
            Err(error) => Err(format!("the arguments are not understood: {error}")),
        }
    }

    pub(crate) fn has(&self, name: &str) -> bool {
        self.0.contains_key(name)
    }

    /// The value; `null` is as good as none.
    pub(crate) fn value(&self, name: &str) -> Option<&Value> {
        self.0.get(name).filter(|value| !value.is_null())
    }

    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }
}

/// A JSON value without duplicate keys at any depth.
struct Strict(Value);

impl<'de> Deserialize<'de> for Strict {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(StrictVisitor).map(Strict)
    }
}

struct StrictVisitor;

impl<'de> Visitor<'de> for StrictVisitor {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(Value::from(value))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(Value::from(value))
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Value, E> {
        let number = Number::from_f64(value).map(Value::Number);
        number.ok_or_else(|| E::custom("a number is out of range"))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(Value::from(value))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut array = Vec::new();
        while let Some(Strict(item)) = items.next_element()? {
            array.push(item);
        }
        Ok(Value::Array(array))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Value, A::Error> {
        let mut map = Map::new();
        while let Some((key, Strict(value))) = members.next_entry::<String, Strict>()? {
            if map.insert(key, value).is_some() {
                return Err(A::Error::custom("a key stands twice"));
            }
        }
        Ok(Value::Object(map))
    }
}

/// What a parameter takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ParameterKind {
    /// Text.
    String,
    /// An array of texts.
    Strings,
    /// A whole number of 64 bits.
    Integer,
    /// A number with at most four digits after the point, of either sign.
    Number,
    /// An amount of money to pay: a number above zero with at most two digits after the point.
    ///
    /// A condition like "more than 1000 asks" says nothing of -5000, which some banks take for a
    /// payment the other way, nor of 0.004, which somebody rounds.
    Amount,
    /// True or false.
    Boolean,
    /// Anything. Conditions cannot look at it.
    Any,
}

impl ParameterKind {
    /// Every kind with its name in a configuration.
    pub const NAMED: [(&str, ParameterKind); 7] = [
        ("string", ParameterKind::String),
        ("strings", ParameterKind::Strings),
        ("integer", ParameterKind::Integer),
        ("number", ParameterKind::Number),
        ("amount", ParameterKind::Amount),
        ("boolean", ParameterKind::Boolean),
        ("any", ParameterKind::Any),
    ];

    /// Its name in a configuration.
    pub fn name(self) -> &'static str {
        let found = Self::NAMED.iter().find(|(_, kind)| *kind == self);
        found.map_or("any", |(name, _)| name)
    }
}

/// One parameter of a tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Parameter {
    /// What it takes.
    pub kind: ParameterKind,
    /// Whether every call must have it.
    pub required: bool,
}

/// The parameters of a tool, by name: a call with any other argument is denied, and so is one
/// without a required argument or with a value of another kind.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Parameters(pub BTreeMap<String, Parameter>);

impl Parameters {
    /// Whether the arguments are these.
    ///
    /// # Errors
    /// One line that names the first argument that is not.
    pub(crate) fn check(&self, arguments: &Arguments) -> Result<(), String> {
        if let Some(other) = arguments.names().find(|name| !self.0.contains_key(*name)) {
            let other: String = other.escape_debug().take(MAX_NAME).collect();
            return Err(format!(
                "the argument '{other}' is not among its parameters ({})",
                self.names().collect::<Vec<_>>().join(", ")
            ));
        }
        for (name, parameter) in &self.0 {
            match arguments.value(name) {
                None if parameter.required => {
                    return Err(format!("the argument '{name}' is missing"));
                }
                None => {}
                Some(value) => check_kind(name, parameter.kind, value)?,
            }
        }
        Ok(())
    }

    /// Their names.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }
}

/// Characters of an argument's name, which a model wrote, in a message.
const MAX_NAME: usize = 64;

fn check_kind(name: &str, kind: ParameterKind, value: &Value) -> Result<(), String> {
    let strings = |items: &Vec<Value>| items.iter().all(Value::is_string);
    let (fits, is) = match kind {
        ParameterKind::Any => (true, ""),
        ParameterKind::String => (value.is_string(), "text"),
        ParameterKind::Strings => (value.as_array().is_some_and(strings), "an array of texts"),
        ParameterKind::Integer => (value.as_i64().is_some(), "a whole number of 64 bits"),
        ParameterKind::Number => (
            decimal(value).is_some(),
            "a number below 900 billion with at most four digits after the point",
        ),
        ParameterKind::Amount => (
            is_amount(value),
            "an amount above zero with at most two digits after the point",
        ),
        ParameterKind::Boolean => (value.is_boolean(), "true or false"),
    };
    match fits {
        true => Ok(()),
        false => Err(format!("the argument '{name}' is not {is}")),
    }
}

/// Digits after the point of a Cedar decimal.
const DECIMALS: usize = 4;

/// The largest whole part of an exact amount: a double has every multiple of 0.0001 apart from its
/// neighbours below 2^53 / 10^4; above, two amounts would be one.
const MAX_NUMBER: f64 = 900_000_000_000.0;

/// A number as Cedar writes decimals, if it is one exactly.
pub(crate) fn decimal(value: &Value) -> Option<String> {
    let number = value.as_f64()?;
    if number.abs() > MAX_NUMBER {
        return None;
    }
    // Rust prints the shortest digits that mean this double, never with an exponent.
    let text = number.to_string();
    let text = match text.strip_prefix("-0") {
        Some("") => "0".to_owned(),
        _ => text,
    };
    match text.split_once('.') {
        None => Some(format!("{text}.0")),
        Some((_, digits)) if digits.len() <= DECIMALS => Some(text),
        Some(_) => None,
    }
}

/// Digits after the point of an amount of money.
const CENTS: usize = 2;

fn is_amount(value: &Value) -> bool {
    let text = decimal(value).unwrap_or_default();
    let cents = text.split_once('.').map(|(_, digits)| digits.len());
    cents.is_some_and(|digits| digits <= CENTS) && value.as_f64().is_some_and(|number| number > 0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Arguments, String> {
        Arguments::parse(text)
    }

    #[test]
    fn arguments_are_one_object_without_duplicates() {
        for text in [
            "",
            "[]",
            "1",
            "null",
            "{\"a\":1}x",
            "{\"a\":1,\"a\":1}",
            "{a:1}",
            "{\"a\":{\"b\":1,\"\\u0062\":2}}",
            "{\"a\":[{\"b\":1,\"b\":2}]}",
            "{\"a\":1e999}",
        ] {
            assert!(parse(text).is_err(), "{text}");
        }
        let deep = format!("{{\"a\":{}{}}}", "[".repeat(100_000), "]".repeat(100_000));
        assert!(parse(&deep).is_err());
        let arguments = parse("{\"a\":null,\"b\":[1,-2,0.5,true,\"x\",{}]}").unwrap();
        assert!(arguments.has("a") && arguments.value("a").is_none());
        let expected: Value = serde_json::from_str("[1,-2,0.5,true,\"x\",{}]").unwrap();
        assert_eq!(arguments.value("b"), Some(&expected));
    }

    #[test]
    fn an_amount_is_above_zero_and_has_cents() {
        for (text, expected) in [
            ("5", true),
            ("5.25", true),
            ("0.01", true),
            ("1e3", true),
            ("5.251", false),
            ("0.001", false),
            ("0", false),
            ("-0.0", false),
            ("-5000", false),
            ("1e12", false),
            ("\"5\"", false),
            ("null", false),
        ] {
            let value: Value = serde_json::from_str(text).unwrap();
            assert_eq!(is_amount(&value), expected, "{text}");
        }
    }

    #[test]
    fn numbers_are_exact_or_nothing() {
        for (text, expected) in [
            ("1000", Some("1000.0")),
            ("1e3", Some("1000.0")),
            ("-0.0", Some("0.0")),
            ("-0.5", Some("-0.5")),
            ("98.7001", Some("98.7001")),
            ("0.00001", None),
            ("1e12", None),
            ("-1e300", None),
            ("\"1\"", None),
        ] {
            let value: Value = serde_json::from_str(text).unwrap();
            assert_eq!(decimal(&value).as_deref(), expected, "{text}");
        }
    }
}
