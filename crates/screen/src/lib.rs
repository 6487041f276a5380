//! Dependency screeners (RTBAS section 7).
//!
//! A screener decides which labelled regions the agent's next step may depend on; everything else is
//! masked before the step is taken. A wrong answer costs questions or context, never security, so
//! each screener answers "everything" to whatever it does not understand.
//!
//! A [`Defence`] is a screener and the turn machine's mode for it. [`DEFENCES`] lists those that need
//! nothing but their name; the [`Oracle`] is made from its dependencies, and what is `ByDraft` from
//! its model. What enforces nothing and is only compared with is no part of this crate.
//!
//! | name | what it does | language-model requests beside the steps | asks the user |
//! |---|---|---|---|
//! | `redact-all` | no step sees labelled text | none | where a rule always asks |
//! | `naive` | every step depends on everything seen | none | about every call above its limit |
//! | `judge` | a model chooses the regions of the next step | lazily: one per step that would be asked about, and that step again if something is masked; eagerly: one per step | about calls that still are above their limit |
//! | `attention` | the attention of a small local model to each region decides, once there is a draft | lazily: as `judge`, without its own, and that step once more before a question (the check); eagerly: a draft per step, which is the step if nothing is masked | as `judge` |
//! | `combined` | `attention`, and `judge` for the regions that it is unsure of | as `attention`, and `judge`'s where it is unsure | as `judge` |
//! | `oracle` | the regions are given | as `judge`, without its own | as `judge`, at best |
//!
//! Screening does no I/O: a screener that needs a language model returns the prompt for it. Only the
//! attention screener runs one by itself, since nobody but it looks at attention; its file is read
//! before, by `attention::open`.
#![forbid(unsafe_code)]

#[cfg(feature = "attention")]
pub mod attention;
mod baseline;
mod defence;
mod judge;
mod oracle;

pub use baseline::{NaiveTainting, RedactAll};
#[cfg(feature = "attention")]
pub use defence::ByDraft;
pub use defence::{DEFENCES, Defence, JUDGE, Known, NAIVE, REDACT_ALL, defence, names};
pub use judge::LmJudge;
pub use oracle::{Dependencies, Oracle};
