//! Language-model providers: OpenAI-compatible servers, and the embedded model.
//!
//! A provider is a sink. The only way to one leads through [`Broker`], which compares the label of
//! the redacted [`ifc::Prompt`] with the provider's clearance before any byte leaves.

mod broker;
mod cleared;
#[cfg(feature = "conformance")]
pub mod conformance;
mod embedded;
mod key;
mod openai;
mod options;
mod provider;
#[cfg(feature = "conformance")]
mod scripted;

pub use model_files as models;

pub use broker::{Answer, Broker, BrokerError};
pub use cleared::Cleared;
pub use embedded::Embedded;
pub use key::ApiKey;
pub use openai::{
    BASE_URL_VARIABLE, Check, DEFAULT_BASE_URL, DEFAULT_KEY_VARIABLE, Endpoint, JsonForm,
    KeyElsewhere, Limits, OpenAi, OpenAiConfig, OpenAiConfigError, Retry, Timeouts,
};
pub use options::{RequestOptions, TokenLimit, ToolChoice};
pub use provider::{DeltaSink, ErrorKind, ErrorNames, NoDeltas, Provider, ProviderError, one_line};
#[cfg(feature = "conformance")]
pub use scripted::{Scripted, call_answer, text_answer};
