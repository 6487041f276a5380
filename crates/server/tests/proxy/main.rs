//! The guard proxy between a real client connection and a real upstream connection.
#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "tests fail by panicking"
)]

mod api;
mod apis;
mod approvals;
mod audit;
mod budgets;
mod cleared;
mod dialects;
mod drafts;
mod fixtures;
mod flows;
mod images;
mod ledger;
mod load;
mod members;
mod memory;
mod names;
mod oddities;
mod page;
mod permits;
mod refined;
mod refused;
mod replicas;
mod stage;
mod telemetry;
mod washing;
