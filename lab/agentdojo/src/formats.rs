//! The notations in which AgentDojo's tools write results: YAML, as PyYAML dumps it, and Python's `repr`.

mod python;
#[cfg(test)]
mod samples;
mod yaml;

use policy::Format;
use policy::formats::ParseError;
use serde_json::{Map, Value};

pub use python::Python;
pub use yaml::Yaml;

/// Makes both known to configurations, as `yaml` and `python`.
pub fn register() {
    Format::register(&Yaml);
    Format::register(&Python);
}

/// Takes a member into an object; a key that it has already is an error.
fn insert(
    map: &mut Map<String, Value>,
    name: &str,
    value: Value,
    offset: usize,
) -> Result<(), ParseError> {
    match map.insert(name.to_owned(), value) {
        None => Ok(()),
        Some(_) => Err(refuse(offset, "a key stands twice in this object")),
    }
}

fn refuse(offset: usize, message: &'static str) -> ParseError {
    ParseError { offset, message }
}
