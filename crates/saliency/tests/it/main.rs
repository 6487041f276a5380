//! The engine, on small random models and on the feature model.
#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::print_stderr,
    reason = "tests fail by panicking, and say when they are skipped"
)]

mod engine;
mod lab;
mod naive;
