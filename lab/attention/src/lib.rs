//! What makes and measures the attention screener (RTBAS §3.3 and §7.2): the steps of recorded
//! runs with their dependency labels, the training of its classifier, and the tables.
#![forbid(unsafe_code)]

pub mod corpus;
pub mod data;
pub mod examples;
pub mod extract;
pub mod label;
pub mod speed;
pub mod tables;
pub mod train;
