//! Converts TOML to JSON.

use serde_json::{Map, Number, Value};
use toml::Spanned;
use toml::de::DeValue;

/// Deepest nesting, since the readers of values recurse: half of what `serde_json` reads, and more than a schema or call has.
const MAX_DEPTH: usize = 64;

/// Converts a value.
///
/// # Errors
/// The part that JSON cannot have: a date, a number that is infinite or has more than 64 bits, a value that is nested too
/// deep.
pub(crate) fn json<'v, 't>(
    value: &'v Spanned<DeValue<'t>>,
) -> Result<Value, &'v Spanned<DeValue<'t>>> {
    at_depth(value, 0)
}

fn at_depth<'v, 't>(
    value: &'v Spanned<DeValue<'t>>,
    depth: usize,
) -> Result<Value, &'v Spanned<DeValue<'t>>> {
    if depth > MAX_DEPTH {
        return Err(value);
    }
    Ok(match value.get_ref() {
        DeValue::String(text) => Value::from(text.as_ref()),
        DeValue::Boolean(yes) => Value::Bool(*yes),
        DeValue::Integer(integer) => {
            let number = i64::from_str_radix(integer.as_str(), integer.radix());
            Value::from(number.map_err(|_| value)?)
        }
        DeValue::Float(float) => {
            let number = float.as_str().parse().ok().and_then(Number::from_f64);
            Value::Number(number.ok_or(value)?)
        }
        DeValue::Array(items) => {
            let items = items.iter().map(|item| at_depth(item, depth + 1));
            Value::Array(items.collect::<Result<_, _>>()?)
        }
        DeValue::Table(table) => {
            let entries = table.iter().map(|(name, value)| {
                let value = at_depth(value, depth + 1)?;
                Ok((name.get_ref().as_ref().to_owned(), value))
            });
            Value::Object(entries.collect::<Result<Map<_, _>, _>>()?)
        }
        DeValue::Datetime(_) => return Err(value),
    })
}
