//! The subcommands.

pub(crate) mod bench;
pub(crate) mod chat;
pub(crate) mod demo;
pub(crate) mod doctor;
pub(crate) mod model;
pub(crate) mod policy;
pub(crate) mod proxy;
pub(crate) mod run;
#[cfg(feature = "bench")]
pub(crate) mod screener;
pub(crate) mod trace;
pub(crate) mod trust;
