//! The embedded model: the grammar that it writes by, and what it writes. Its own files, which use one another.

pub(crate) mod llm_calls;
pub(crate) mod llm_grammar;

#[path = "../../../../crates/llm/src/embedded/grammar.rs"]
mod grammar;
#[path = "../../../../crates/llm/src/embedded/json.rs"]
mod json;
#[path = "../../../../crates/llm/src/embedded/parse.rs"]
mod parse;
#[path = "../../../../crates/llm/src/embedded/schema.rs"]
mod schema;
