//! Dependency screeners (RTBAS section 7).
//!
//! A screener decides which labelled regions the agent's next step may depend on. Everything else is masked
//! before the step. A wrong verdict costs questions or context, never security. An error means that every region is
//! relevant.
//!
//! A [`Defence`] is a screener and the times at which the turn machine runs it.
//!
//! | name | what it does | requests to a language model beside the steps | questions to the user |
//! |---|---|---|---|
//! | `redact-all` | no step sees labelled text | none | where a rule always asks |
//! | `naive` | every step depends on everything seen | none | every call above its limit |
//! | `judge` | a model chooses the regions of the next step | lazily: one per step that would be asked about, and that step again if something is masked; eagerly: one per step | calls that are still above their limit |
//! | `attention` | the attention of a small local model to each region decides, once there is a draft | lazily: that step again if something is masked, and once more before a question (the check); eagerly: a draft per step, which is the step if nothing is masked | as `judge` |
//! | `combined` | `attention`, and `judge` for the regions of which it is unsure | as `attention`, and `judge`'s where it is unsure | as `judge` |
//! | `oracle` | the regions are given | as `judge`, without its own | as `judge`, at best |
//!
//! Screening does no I/O: a screener that needs a language model returns the prompt for it. Only the attention
//! screener runs a model itself; `attention::open` reads that model's file.
#![forbid(unsafe_code)]

#[cfg(feature = "attention")]
pub mod attention;
mod baseline;
mod defence;
mod judge;

pub use baseline::{NaiveTainting, Oracle, RedactAll};
pub use defence::{Defence, NAMES, defence};
pub use judge::LmJudge;
