//! The hub's client of a remote MCP server.
//!
//! It is a program of its own, `sluice-remote`, and stands in a spoke where another app has its own program: it speaks MCP
//! by stdin and stdout with the spoke around it, and by HTTP with the server. So everything that bounds an app bounds a
//! remote server, TLS and HTTP of a stranger are read where there is nothing of the user's, and the only way out is the one
//! that every spoke has: names by the hub's resolver, connections by the monitor's permit. TLS ends here. The header that
//! holds a secret is therefore in one spoke, and on the wire only inside of TLS to the host that it is for.
//!
//! It understands as much of the messages as HTTP needs, and passes the rest on unread; the spoke judges it.

mod bridge;
mod challenge;
pub mod errand;
mod http;
mod input;
mod login;
mod mask;
mod message;
mod output;
mod settings;
mod sse;
mod streamable;
mod tokens;
mod trouble;
mod two_streams;

pub use bridge::run;
pub use settings::{Settings, Transport, VARIABLE};
