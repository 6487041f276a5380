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
    /// Signed integers of 32 bits.
    Integers(Vec<i32>),
    /// Strings.
    Text(Vec<String>),
    /// Elements of another type, which are not kept.
    Other,
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
            Self::Array(Array::Text(_)) => "an array of strings",
            Self::Array(Array::Other) => "an array of another type",
        }
    }
}
