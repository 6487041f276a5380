//! Apps that are servers elsewhere, from the command line to a server of the test's, through the real sandbox.
use test_support as server;

mod authority;
mod headers;
mod hostile_logins;
mod logins;
mod reviews;
mod stage;
mod typed;
