//! Configuration, and the information-flow policy that it describes.
//!
//! [`Config::load`] reads `sluice.toml`, the app manifests that it names and `mcpServers` files. It
//! collects every error of every file ([`Diagnostics`]) and gives a configuration only if there is
//! none: a policy that was half understood is not a policy.
//!
//! [`AppPolicy`] implements [`ifc::Policy`] over a configuration: what limit and effect a tool has,
//! what limits its arguments add, what its conditions in Cedar say ([`Conditions`]), and which bytes
//! of its results have which label ([`ResultLabels`]). Unknown apps and tools are denied, and so are
//! arguments that cannot be read and conditions that cannot be evaluated; text that no rule names
//! has the most restrictive label that the tool's results may have. Why a call is judged as it is,
//! a [`Judgement`] says.
//!
//! # What is believed
//! The user's `sluice.toml` is trusted. A manifest is believed *only* because `sluice.toml` names
//! it (and, with `sha256`, only that exact file); what the running app says is never believed.
#![forbid(unsafe_code)]

mod app_policy;
mod config;
mod diagnostics;
mod grants;
mod labels;
mod load;
mod manifest;
mod mcp_servers;
mod rules;
mod settings;
mod toml_reader;

pub use app_policy::AppPolicy;
pub use config::{
    App, ArgumentLimit, Config, Egress, Limits, Mount, OnViolation, Provider, ProviderKind,
    ProxySettings, Screener, ScreenerKind, SpokeLimits, ToolRule,
};
pub use diagnostics::{Diagnostic, Diagnostics, Place};
pub use labels::{
    Form, Format, Head, LabelPath, LabelRule, Mark, PathError, ResultLabels, Unless, UserLabels,
    UserRule,
};
pub use rules::{
    Conditions, Example, ExampleOutcome, Front, Judgement, LimitPart, Parameter, ParameterKind,
    Parameters, SessionFacts, ToolErrors, Verdict,
};
