//! The attention screener: words, tokens, features, classifier, verdicts.
mod classifier;
mod features;
pub(crate) mod histories;
mod screener;
mod tokens;
mod transcript;
