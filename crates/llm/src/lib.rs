//! Language-model providers: servers of three APIs, and the embedded model.
//!
//! A provider is a sink. The only way to one leads through [`Broker`], which compares the label of
//! the redacted [`ifc::Prompt`] with the provider's clearance before any byte leaves.

mod broker;
mod cleared;
#[cfg(feature = "conformance")]
pub mod conformance;
mod embedded;
mod http;
mod key;
mod options;
mod provider;
#[cfg(feature = "conformance")]
mod scripted;

pub use model_files as models;

pub use broker::{Answer, Broker, BrokerError};
pub use cleared::Cleared;
pub use embedded::Embedded;
pub use http::{
    Check, Dialect, Endpoint, HttpConfig, HttpConfigError, HttpProvider, JsonForm, KeyElsewhere,
    Limits, Retry, Timeouts, Usual, set_up_tls, thoughts,
};
pub use key::ApiKey;
pub use options::{RequestOptions, TokenLimit, ToolChoice};
pub use provider::{DeltaSink, ErrorKind, ErrorNames, NoDeltas, Provider, ProviderError, one_line};
#[cfg(feature = "conformance")]
pub use scripted::{Scripted, call_answer, text_answer};
