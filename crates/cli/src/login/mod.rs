//! Logins at remote servers (OAuth 2.1, as the MCP specification has it).
//!
//! Requests to servers are steps, each in a spoke of its own that reaches one origin. This module holds what needs the
//! user or the user's tokens: the way back from the browser, the file of tokens, and their renewal.

mod answer;
mod callback;
mod client;
mod fresh;
mod kept;
mod steps;

pub(crate) use self::answer::{AuthorizationRequest, elsewhere};
pub(crate) use self::callback::{Back, Callback};
pub(crate) use self::client::Client;
pub(crate) use self::fresh::{settle, token_port};
pub(crate) use self::kept::{Login, Logins, address};
pub(crate) use self::steps::LoginSteps;
