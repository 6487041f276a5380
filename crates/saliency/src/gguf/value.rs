//! Metadata values.

/// A value of the metadata. Widths are not kept: what matters is whether a value fits where it is
/// used.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Value {
    /// An integer of any width and sign.
    Integer(i128),
    /// `f32` or `f64`.
    Float(f64),
    /// A truth value.
    Bool(bool),
    /// A string.
    Text(String),
    /// An array. Arrays of arrays are refused: no model needs them.
    Array(Array),
}

/// An array of the metadata.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Array {
    /// Integers that fit into 32 bits by their type.
    Integers(Vec<i32>),
    /// Integers of other types.
    Wide(Vec<i128>),
    /// `f32`; `f64` are rounded to it.
    Floats(Vec<f32>),
    /// Truth values.
    Bools(Vec<bool>),
    /// Strings.
    Text(Vec<String>),
}

impl Value {
    /// What it is, in words, with an article.
    pub(super) fn type_name(&self) -> &'static str {
        match self {
            Self::Integer(_) => "an integer",
            Self::Float(_) => "a number",
            Self::Bool(_) => "a truth value",
            Self::Text(_) => "a string",
            Self::Array(Array::Integers(_)) => "an array of 32-bit integers",
            Self::Array(Array::Wide(_)) => "an array of large integers",
            Self::Array(Array::Floats(_)) => "an array of numbers",
            Self::Array(Array::Bools(_)) => "an array of truth values",
            Self::Array(Array::Text(_)) => "an array of strings",
        }
    }
}
