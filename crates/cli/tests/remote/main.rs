//! Apps that are servers elsewhere, from the command line to a server of the test's, through the real sandbox.
#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "tests fail by panicking"
)]

#[path = "../../../remote/tests/bridge/server.rs"]
mod server;

#[path = "../common/home.rs"]
mod home;
#[path = "../common/terminal.rs"]
mod terminal;

mod authority;
mod headers;
mod hostile_logins;
mod logins;
mod reviews;
mod stage;
mod typed;
