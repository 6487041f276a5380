//! How good a screener is: cross-validation by user task and by suite, metrics and tables.

pub mod cross;
pub mod metrics;
pub mod report;
