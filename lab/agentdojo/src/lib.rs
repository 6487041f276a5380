//! AgentDojo, the benchmark of RTBAS §8.1: recorded runs of real models replayed through labels,
//! screener and policy, and the unmodified harness in a closed loop against the guard proxy.
#![forbid(unsafe_code)]

pub mod baseline;
pub mod closed_loop;
#[cfg(test)]
mod copying;
pub mod formats;
mod hex;
pub mod oracle;
pub mod policies;
pub mod python;
pub mod replay;
pub mod report;
pub mod runs;
pub mod suite;
pub mod value_match;
pub mod worst_case;
