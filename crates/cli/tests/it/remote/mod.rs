//! Apps that are servers elsewhere, from the command line to a server of the test's, through the real sandbox.
#[path = "../../../../remote/tests/bridge/server.rs"]
mod server;

mod authority;
mod headers;
mod hostile_logins;
mod logins;
mod reviews;
mod stage;
mod typed;
