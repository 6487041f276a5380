//! What a program takes to run in a spoke.
//!
//! [`find`] reads the host's files and says which of them a command needs there: its program, the interpreter of a
//! script, the packages of that interpreter, libraries. Nothing is executed for that. [`Installer`] fetches what `npx` or
//! `uvx` would fetch at each start into a [`Store`] once, in a sandbox that reaches the user's registries and nothing else.

mod build;
mod files;
mod find;
mod install;
mod launcher;

pub use build::main as build_main;
pub use find::{FindError, Found, Host, Needs, Purpose, Wanted, find};
pub use install::{InstallError, Installed, Installer, Record, Store, StoreError, TreeError};
pub use launcher::{Package, Registry, Unknown, launcher};
