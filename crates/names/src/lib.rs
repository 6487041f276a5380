//! What a spoke says of the places that it wants to reach, read without trust: pure, no I/O.
//!
//! Inside a spoke every name that it may reach stands for an address of its own from 25.18.0.0/15
//! ([`Table`]), which it learns from a resolver that the hub answers for ([`dns`]). A connection to such an
//! address reaches the hub, which so knows the name, and compares it with what the first bytes say
//! ([`first_bytes`]). A crate of its own because it parses hostile bytes and has a heavy dependency, the
//! public suffix list (SecGPT appendix B.1), which `policy`, `config` and `server` need alike.

pub mod dns;
pub mod first_bytes;
mod http_head;
mod name;
mod table;
mod tls_hello;
mod web;

pub use name::{BadName, DomainName, Pattern};
pub use table::{MAX_NAMES, NETWORK, PREFIX, Table};
pub use web::{BadUrl, Origin, Place, WebUrl};
