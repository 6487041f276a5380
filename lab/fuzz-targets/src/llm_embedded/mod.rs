//! The embedded model: the grammar that it writes by, and what it writes. Its own files, which use one another.

pub(crate) mod llm_calls;
pub(crate) mod llm_grammar;

#[path = "../../../../crates/model/src/grammar.rs"]
mod grammar;
#[path = "../../../../crates/model/src/parse.rs"]
mod parse;
#[path = "../../../../crates/model/src/schema.rs"]
mod schema;
