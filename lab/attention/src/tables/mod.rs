//! How good a screener is: cross-validation by user task and by suite, figures, tables and plots.

pub mod cross;
pub mod metrics;
pub mod plot;
pub mod report;
