//! What is seen of a service from outside: metrics, health, traces and log lines.
//!
//! None of it has a text of a conversation, a key or a token. A name becomes a label of a metric only where an operator has
//! written it: names of tenants, apps, rules and providers, and those of tools for which the policy has a rule.

mod endpoints;
mod logs;
mod metrics;
mod names;
mod spans;
mod store;

pub use endpoints::{Check, Endpoints};
pub use logs::Logs;
pub(crate) use metrics::MeasuredRequest;
pub use metrics::Metrics;
pub use names::PolicyNames;
pub use spans::Spans;
pub use store::MeteredState;
