//! The files that a program needs in a spoke.
//!
//! [`find`] reads the host's files and returns those that a command needs: its program, a script's interpreter with its
//! packages, libraries. It executes nothing. [`Installer`] fetches the packages of `npx` or `uvx` into a [`Store`] once, in a
//! sandbox that reaches only the user's registries.

mod build;
mod files;
mod find;
mod install;
mod launcher;

pub use build::main as build_main;
pub use files::holds_certificates;
pub use find::{
    FindError, Found, Host, Needs, Purpose, Wanted, find, is_diverted, named, named_path,
};
pub use install::{
    InstallError, Installed, Installer, Record, Registry, Store, StoreError, TreeError,
};
pub use launcher::{Package, Unknown, launcher};
