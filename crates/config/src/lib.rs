//! What a configuration says: providers, limits, fronts, apps and the rules of their tools.
//!
//! [`Config::load`] reads `sluice.toml`, the app manifests that it names and `mcpServers` files. It
//! collects every error of every file ([`Diagnostics`]) and gives a configuration only if there is
//! none: a policy that was half understood is not a policy. The rules themselves, and what becomes
//! of a call under them, are the crate `policy`: [`Config::policy`] is the way there.
//!
//! # What is believed
//! The user's `sluice.toml` is trusted. A manifest is believed *only* because `sluice.toml` names
//! it (and, with `sha256`, only that exact file); what the running app says is never believed.
#![forbid(unsafe_code)]

mod accepts;
mod among_checks;
mod app;
mod app_name;
mod call_rules;
mod chains;
mod check_tools;
mod config;
mod diagnostics;
mod domains;
mod examples;
mod finish;
mod forms;
mod functionalities;
mod grants;
mod groups;
mod how_to_start;
mod json;
mod label_rules;
mod limits;
mod load;
mod manifest;
mod mcp_servers;
mod memory;
mod meta_labels;
mod mounts;
mod read_app;
mod remote;
mod result_checks;
mod result_conditions;
mod schema;
mod settings;
mod suggestions;
mod toml_reader;
mod warnings;
mod watch;

pub use app::{App, Domain, Egress, Mount, Start};
pub use check_tools::ToolErrors;
pub use config::{
    Config, JsonForm, Memory, OnViolation, Provider, ProviderKind, ProxySettings, Screener,
    ScreenerKind,
};
pub use diagnostics::{Diagnostic, Diagnostics, Severity};
pub use examples::{Example, ExampleOutcome};
pub use limits::{Limits, SpokeLimits};
pub use load::resolved;
pub use mounts::MountError;
pub use remote::{Header, Piece, Remote, is_secret_name};
pub use schema::schema;
