//! The form that an app asks the user to fill in: flat, with primitive fields only.

use ifc::json::Number as Exact;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Number, Value};

use crate::limits::MAX_FIELD_ANSWER_BYTES;

/// A question of an app. All texts in it are the app's.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Form {
    /// What the app says.
    pub message: String,
    /// What it wants to know, in its own order.
    pub fields: Vec<Field>,
}

/// One field of a [`Form`]. A default value is not taken over from the app's schema: an empty line must
/// never say something that the app chose.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Field {
    /// The key of the answer.
    pub name: String,
    /// What the app calls it; may be empty.
    pub title: String,
    /// What the app says of it; may be empty.
    pub description: String,
    /// Whether there is no answer without it.
    pub required: bool,
    /// What it holds.
    pub kind: FieldKind,
}

/// What a field holds. Bounds that an app sets beyond these it has to check itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum FieldKind {
    /// A text.
    Text {
        /// Its least number of characters.
        min_length: Option<u32>,
        /// Its greatest number of characters.
        max_length: Option<u32>,
    },
    /// A number. Its bounds are whole numbers, rounded outwards: a fraction could change when it is written and
    /// read as JSON.
    Number {
        /// Its least value.
        minimum: Option<i32>,
        /// Its greatest value.
        maximum: Option<i32>,
    },
    /// A whole number.
    Integer {
        /// Its least value.
        minimum: Option<i64>,
        /// Its greatest value.
        maximum: Option<i64>,
    },
    /// Yes or no.
    Boolean,
    /// One of these.
    Choice(Vec<FieldOption>),
    /// Any of these.
    Choices(Vec<FieldOption>),
}

/// A value that a field can have.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FieldOption {
    /// The value that the app gets.
    pub value: String,
    /// What the app calls it; may be empty.
    pub title: String,
}

/// Why a value does not fit a field. Our own words; what to do instead.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Unfit {
    /// Nothing, where something is needed.
    #[error("an answer is needed")]
    Missing,
    /// A key that the form does not have.
    #[error("there is no such field")]
    Unknown,
    /// Not of the field's type.
    #[error("{0}")]
    Type(&'static str),
    /// Outside of the bounds that the app set.
    #[error("it is too short or too small")]
    Below,
    /// Outside of the bounds that the app set.
    #[error("it is too long or too large")]
    Above,
}

impl Form {
    /// Whether this object answers the form: each field that it has fits, and none that is required
    /// is missing.
    ///
    /// # Errors
    /// What does not fit, in the order of the fields.
    pub fn accepts(&self, answer: &Map<String, Value>) -> Result<(), Unfit> {
        for field in &self.fields {
            match answer.get(&field.name) {
                Some(value) => field.accepts(value)?,
                None if field.required => return Err(Unfit::Missing),
                None => {}
            }
        }
        // A key that the form does not have was not shown to the user, so the user has not answered it.
        let known = |name: &String| self.fields.iter().any(|field| field.name == *name);
        match answer.keys().all(known) {
            true => Ok(()),
            false => Err(Unfit::Unknown),
        }
    }

    /// Everything that the app says in it, one after the other.
    pub fn texts(&self) -> impl Iterator<Item = &str> {
        std::iter::once(self.message.as_str()).chain(self.fields.iter().flat_map(Field::texts))
    }
}

impl Field {
    /// Reads a line that a person typed; `None` leaves the field out. Options are chosen by their
    /// numbers, from 1.
    pub fn read(&self, line: &str) -> Result<Option<Value>, Unfit> {
        let typed = line.trim();
        if typed.is_empty() {
            return match self.required {
                true => Err(Unfit::Missing),
                false => Ok(None),
            };
        }
        let value = match &self.kind {
            FieldKind::Text { .. } => Value::String(typed.to_owned()),
            FieldKind::Number { .. } | FieldKind::Integer { .. } => {
                let number: Number = typed
                    .parse()
                    .map_err(|_| Unfit::Type("type a number, such as 12 or -3"))?;
                // The app gets what is written here, and `Number` has 64 bits: an account of twenty digits would be
                // another one.
                match Exact::read(typed) == Exact::read(&number.to_string()) {
                    true => Value::Number(number),
                    false => return Err(Unfit::Type("it has too many digits for a number")),
                }
            }
            FieldKind::Boolean => match typed.to_lowercase().as_str() {
                "yes" | "true" => Value::Bool(true),
                "no" | "false" => Value::Bool(false),
                _ => return Err(Unfit::Type("type yes or no")),
            },
            FieldKind::Choice(options) => Value::String(chosen(options, typed)?),
            FieldKind::Choices(options) => {
                let numbers = typed.split([',', ' ']).filter(|it| !it.is_empty());
                let values = numbers.map(|number| chosen(options, number));
                let values = values.collect::<Result<Vec<String>, Unfit>>()?;
                Value::from(values)
            }
        };
        // Of the right type by now, and perhaps out of its bounds.
        self.accepts(&value)?;
        Ok(Some(value))
    }

    fn accepts(&self, value: &Value) -> Result<(), Unfit> {
        match (&self.kind, value) {
            (
                FieldKind::Text {
                    min_length,
                    max_length,
                },
                Value::String(text),
            ) => {
                // Ours before the app's own: an app may leave its bound out, and the answer has to fit a frame.
                if text.len() > MAX_FIELD_ANSWER_BYTES {
                    return Err(Unfit::Above);
                }
                // JSON Schema counts characters, not bytes (`minLength` and `maxLength`).
                let length = u32::try_from(text.chars().count()).unwrap_or(u32::MAX);
                within(&length, min_length.as_ref(), max_length.as_ref())
            }
            (FieldKind::Number { minimum, maximum }, Value::Number(number)) => {
                let number = number.as_f64().ok_or(Unfit::Above)?;
                let (least, most) = (minimum.map(f64::from), maximum.map(f64::from));
                within(&number, least.as_ref(), most.as_ref())
            }
            (FieldKind::Integer { minimum, maximum }, Value::Number(number)) => {
                let number = number.as_i64().ok_or(Unfit::Type("type a whole number"))?;
                within(&number, minimum.as_ref(), maximum.as_ref())
            }
            (FieldKind::Boolean, Value::Bool(_)) => Ok(()),
            (FieldKind::Choice(options), Value::String(value)) => offered(options, value),
            (FieldKind::Choices(options), Value::Array(values)) => {
                // The first value that is repeated or unknown ends this, so each value is compared with no more
                // others than there are options, however long the list is.
                let one = |(at, value): (usize, &Value)| match value.as_str() {
                    Some(_) if values.iter().take(at).any(|before| before == value) => {
                        Err(Unfit::Type("name each option once"))
                    }
                    Some(text) => offered(options, text),
                    None => Err(Unfit::Type("it is none of the options")),
                };
                values.iter().enumerate().try_for_each(one)
            }
            _ => Err(Unfit::Type("it has another type")),
        }
    }

    fn texts(&self) -> impl Iterator<Item = &str> {
        let own = [&self.name, &self.title, &self.description];
        let options = match &self.kind {
            FieldKind::Choice(options) | FieldKind::Choices(options) => options.as_slice(),
            _ => &[],
        };
        let options = options.iter().flat_map(|it| [&it.value, &it.title]);
        own.into_iter().chain(options).map(String::as_str)
    }
}

fn chosen(options: &[FieldOption], number: &str) -> Result<String, Unfit> {
    // Options are numbered from 1, so 0 is none of them.
    let number: usize = number.parse().unwrap_or(0);
    let option = number.checked_sub(1).and_then(|at| options.get(at));
    let option = option.ok_or(Unfit::Type("type the number of an option"))?;
    Ok(option.value.clone())
}

fn offered(options: &[FieldOption], value: &str) -> Result<(), Unfit> {
    match options.iter().any(|option| option.value == value) {
        true => Ok(()),
        false => Err(Unfit::Type("it is none of the options")),
    }
}

fn within<T: PartialOrd>(value: &T, least: Option<&T>, most: Option<&T>) -> Result<(), Unfit> {
    match (
        least.is_none_or(|least| value >= least),
        most.is_none_or(|most| value <= most),
    ) {
        (true, true) => Ok(()),
        (false, _) => Err(Unfit::Below),
        (_, false) => Err(Unfit::Above),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn field(required: bool, kind: FieldKind) -> Field {
        Field {
            name: "x".to_owned(),
            title: String::new(),
            description: String::new(),
            required,
            kind,
        }
    }

    fn options() -> Vec<FieldOption> {
        let option = |value: &str| FieldOption {
            value: value.to_owned(),
            title: String::new(),
        };
        vec![option("red"), option("blue")]
    }

    #[test]
    fn a_line_becomes_a_value_of_the_fields_type_or_nothing() {
        let check = |kind: FieldKind, line: &str, expected: Result<Value, ()>| {
            let read = field(true, kind).read(line);
            assert_eq!(read.map(Option::unwrap).map_err(|_| ()), expected, "{line}");
        };
        let text = |min_length, max_length| FieldKind::Text {
            min_length,
            max_length,
        };
        check(text(None, None), " Ada \n", Ok(json!("Ada")));
        check(text(Some(2), Some(3)), "é", Err(()));
        check(text(Some(2), Some(3)), "ééé", Ok(json!("ééé")));
        check(text(None, Some(3)), "four", Err(()));
        check(text(None, None), "", Err(()));
        let integer = || FieldKind::Integer {
            minimum: Some(1),
            maximum: Some(9),
        };
        check(integer(), "7", Ok(json!(7)));
        for line in ["0", "10", "1.5", "seven", "1e1", "0x1"] {
            check(integer(), line, Err(()));
        }
        let number = |minimum, maximum| FieldKind::Number { minimum, maximum };
        check(number(None, None), "-1.5", Ok(json!(-1.5)));
        for line in ["nan", "inf", "1e999", "--1"] {
            check(number(None, None), line, Err(()));
        }
        check(number(Some(1), Some(2)), "0.9", Err(()));
        check(number(Some(1), Some(2)), "1.5", Ok(json!(1.5)));
        check(number(Some(1), Some(2)), "2.1", Err(()));
        check(FieldKind::Boolean, "Yes", Ok(json!(true)));
        check(FieldKind::Boolean, "y", Err(()));
        check(FieldKind::Choice(options()), "2", Ok(json!("blue")));
        for line in ["0", "3", "blue", "-1"] {
            check(FieldKind::Choice(options()), line, Err(()));
        }
        let both = Ok(json!(["blue", "red"]));
        check(FieldKind::Choices(options()), "2, 1", both);
        check(FieldKind::Choices(options()), "1 1 1", Err(()));
    }

    /// What is typed, or what an app gets for it, would be another number.
    #[test]
    fn a_number_is_the_one_that_was_typed_or_none() {
        let read = |line: &str| {
            let kind = FieldKind::Number {
                minimum: None,
                maximum: None,
            };
            field(true, kind).read(line).map(Option::unwrap)
        };
        for line in [
            "0",
            "-0",
            "0.30000000000000004",
            "-1.50",
            "12e2",
            "1E+3",
            "0.1e-7",
            "18446744073709551615",
            "100000000000000000000",
            "5e-324",
        ] {
            let value = read(line).unwrap();
            // As the app reads it: written and read once more.
            let again: Value = serde_json::from_str(&value.to_string()).unwrap();
            assert_eq!(again, value, "{line}");
            assert_eq!(again.as_f64(), line.parse().ok(), "{line}");
        }
        for line in [
            "21000418450200051332",
            "18446744073709551617",
            "0.1000000000000000055511151231257827",
            "1e-400",
            "9007199254740993.0",
        ] {
            assert!(read(line).is_err(), "{line}");
        }
    }

    proptest! {
        #[test]
        fn every_double_can_be_typed(number in any::<f64>().prop_filter("finite", |it| it.is_finite())) {
            let kind = FieldKind::Number { minimum: None, maximum: None };
            let line = serde_json::to_string(&number).unwrap();
            let value = field(true, kind).read(&line).unwrap().unwrap();
            let again: Value = serde_json::from_str(&value.to_string()).unwrap();
            prop_assert_eq!(again.as_f64().map(f64::to_bits), Some(number.to_bits()), "{}", line);
        }
    }

    #[test]
    fn an_answer_has_what_is_required_and_nothing_else() {
        let text = || FieldKind::Text {
            min_length: None,
            max_length: None,
        };
        let mut optional = field(false, text());
        optional.name = "y".to_owned();
        let form = Form {
            message: "?".to_owned(),
            fields: vec![field(true, text()), optional],
        };
        let check = |answer: Value, expected: Result<(), Unfit>| {
            assert_eq!(form.accepts(answer.as_object().unwrap()), expected);
        };
        check(json!({"x": "a"}), Ok(()));
        check(json!({"x": "a", "y": "b"}), Ok(()));
        check(json!({"y": "b"}), Err(Unfit::Missing));
        check(json!({"x": "a", "z": "b"}), Err(Unfit::Unknown));
        assert!(form.accepts(json!({"x": 7}).as_object().unwrap()).is_err());
        assert_eq!(form.fields[1].read(" \n"), Ok(None));
    }
}
