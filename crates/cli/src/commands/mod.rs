//! The subcommands.

pub(crate) mod app;
pub(crate) mod chat;
pub(crate) mod doctor;
pub(crate) mod gateway;
pub(crate) mod guard;
pub(crate) mod memory;
pub(crate) mod model;
pub(crate) mod permissions;
pub(crate) mod policy;
pub(crate) mod proxy;
pub(crate) mod run;
pub(crate) mod secret;
pub(crate) mod trace;
pub(crate) mod trust;
pub(crate) mod wrap;
