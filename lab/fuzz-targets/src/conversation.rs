//! What the requests of each API are read into.

#[path = "../../../crates/server/src/conversation.rs"]
mod product;

pub(crate) use product::*;
