//! The attention screener: words, tokens, features, classifier, verdicts.
#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "tests fail by panicking"
)]

mod classifier;
mod features;
mod histories;
mod screener;
mod shipped;
mod tokens;
mod transcript;
