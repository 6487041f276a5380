//! Structured text, with the place of every value and key.
//!
//! A [`Format`] names a parser; JSON, YAML and Python's `repr` have one module each, which knows
//! nothing of the others. Each gives the same: the values in the order of the text ([`Node`]) and
//! what they mean together. [`Document`] joins the two and checks that they agree.

#[cfg(test)]
mod differential;
mod document;
mod format;
mod json;
mod python;
#[cfg(test)]
mod samples;
mod tree;
mod yaml;

pub use self::document::Document;
pub use self::format::Format;
pub use self::tree::{Key, Kind, Node, ParseError};
