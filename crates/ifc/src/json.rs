//! The one reader of JSON: where each value and each name stands in a text, and one canonical form of it.
//!
//! It reads RFC 8259. Readers disagree about some texts: a name that stands twice in an object, half of a surrogate pair, a
//! number beyond the range of a double, deep nesting. Each of these is a [`Fault`]. [`Json::read`] refuses a text with a
//! fault. [`Json::read_marked`] marks the value that has the fault, so that the values beside it can still be used.
//!
//! The canonical form has members sorted by name (by code point), no blanks, strings with the shortest escapes, and numbers
//! as their original tokens. Two texts have the same form exactly if every reader of JSON that keeps numbers exact takes
//! them for the same value. A number is never rounded, so `1`, `1.0` and `1e0` differ.

mod document;
mod reader;
mod tree;
mod write;

pub use document::Json;
pub(crate) use reader::leading_string;
pub use tree::{Fault, JsonError, Key, Kind, MAX_DEPTH, MAX_NODES, Node, Tree};
pub use write::Number;
pub(crate) use write::{by_value, write_object, write_string};
