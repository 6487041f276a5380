//! What a program takes to run in a spoke.
//!
//! [`find`] reads the host's files and says which of them a command needs there: its program, the interpreter of a
//! script, the packages of that interpreter, libraries. Nothing is executed for that.

mod find;
mod launcher;

pub use find::{FindError, Found, Host, Needs, Purpose, Wanted, find};
pub use launcher::{Package, Registry, launcher};
