//! The APIs in which clients speak with us, side by side. Everything but a [`Dialect`] is the same for all of them.
//!
//! - `request/{chat,messages,responses}` read a body into a [`crate::conversation::Conversation`]
//! - `answer/{chat,messages,responses}` write an answer, a stream and an error: each is a [`Dialect`]
//! - `http`, `stream`, `frame` and `error` are shared
//! - `route` says of a path which of them it speaks
//!
//! The proxy speaks all of them, the model server chat completions alone.

pub(crate) mod answer;
pub(crate) mod dialect;
pub(crate) mod error;
pub(crate) mod frame;
pub(crate) mod http;
pub(crate) mod request;
pub(crate) mod route;
pub(crate) mod stream;

pub(crate) use self::dialect::Dialect;
