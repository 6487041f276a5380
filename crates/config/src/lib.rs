//! The configuration: providers, limits, fronts, apps and the rules of their tools.
//!
//! [`Config::load`] reads `sluice.toml`, and the app manifests and `mcpServers` files that it names. It collects every error
//! of every file ([`Diagnostics`]), and returns a configuration only if there is none. The crate `policy` applies the rules;
//! [`Config::policy`] returns them.
//!
//! # Trust
//! The user's `sluice.toml` is trusted. A manifest is trusted only because `sluice.toml` names it (with `sha256`, only that
//! exact file). What a running app says of itself is never trusted.
#![forbid(unsafe_code)]

mod accepts;
mod after;
mod among_checks;
mod app;
mod app_name;
mod audience;
mod call_rules;
mod check_tools;
mod config;
mod desk;
mod destinations;
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
mod service;
mod settings;
mod suggestions;
mod template;
mod toml_reader;
mod warnings;
mod watch;

pub use app::{App, Domain, Egress, Mount, Start};
pub use check_tools::ToolErrors;
pub use config::{
    Config, Dialect, JsonForm, Memory, OnViolation, Provider, ProviderKind, ProxySettings,
    Screener, ScreenerKind,
};
pub use desk::{DeskSettings, Webhook, is_approver_name};
pub use diagnostics::{Diagnostic, Diagnostics, Severity};
pub use examples::{Example, ExampleOutcome};
pub use limits::{Limits, SpokeLimits};
pub use load::resolved;
pub use mcp_servers::{
    ForeignServer, Unreadable, anchored, foreign_servers, foreign_servers_in, foreign_value,
    is_of_another_program, with_home,
};
pub use mounts::MountError;
pub use remote::{Header, Remote, is_secret_name};
pub use schema::schema;
pub use service::{
    AuditSettings, DEFAULT_TENANT, LogForm, ServiceSettings, StateSettings, TelemetrySettings,
    TenantLimits, is_tenant_name,
};
pub use suggestions::did_you_mean;
pub use template::{Piece, filled_in, from_environment, pieces};
