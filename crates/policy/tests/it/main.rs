//! Labels of results, values and lists, by the public interface.
//!
//! One program, since each links the whole crate.

mod call_labels;
mod heads;
mod labels;
mod linear;
mod lines;
mod properties;
mod text_lists;
mod user_labels;
