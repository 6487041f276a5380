//! Dependency screeners (RTBAS section 7) and every defence that they are compared with (section 8).
//!
//! A screener says which labelled regions the agent's next step may depend on; everything else is
//! masked before the step is taken. A wrong answer costs questions or context, never security, so
//! each screener answers "everything" to whatever it does not understand.
//!
//! A [`Defence`] is a way to run an agent: the turn machine's mode, and a screener if it has a use
//! for one. [`DEFENCES`] lists those with a name; the [`Oracle`] is made from its dependencies, and
//! what is [`ByDraft`] from its model.
//!
//! | name | what it does | language-model requests beside the steps | asks the user |
//! |---|---|---|---|
//! | `none` | Algorithm 1 | none | never |
//! | `tool-filter` | only the tools that the model named before it saw a result | one per user message | never |
//! | `sandwiching` | the request again after each step's results | none | never |
//! | `delimiting` | results between marks | none | never |
//! | `confirm-every-call` | every call is a question | none | about every call |
//! | `redact-all` | no step sees labelled text | none | where a rule always asks |
//! | `naive` | every step depends on everything seen | none | about every call above its limit |
//! | `judge` | a model chooses the regions of the next step | lazily: one per step that would be asked about, and that step again if something is masked; eagerly: one per step | about calls that still are above their limit |
//! | `attention` | the attention of a small local model to each region decides, once there is a draft ([`attention`]) | none; eagerly a draft per step | as `judge` |
//! | `combined` | `attention`, and `judge` for the regions that it is unsure of | as `attention`, and `judge`'s where it is unsure | as `judge` |
//! | `oracle` | the regions are given | as `judge`, without its own | as `judge`, at best |
//!
//! The first four enforce nothing ([`hub::Mode::enforces`]): they are what an unlucky or obedient
//! model walks through, and the reason why the comparison is worth making.
//!
//! Screening does no I/O: a screener that needs a language model returns the prompt for it. Only the
//! attention screener runs one by itself, since nobody but it looks at attention; its file is read
//! before, by [`attention::open`].
#![forbid(unsafe_code)]

pub mod attention;
mod baseline;
mod defence;
mod judge;
mod oracle;

pub use baseline::{NaiveTainting, RedactAll};
pub use defence::{
    ByDraft, CONFIRM_EVERY_CALL, DEFENCES, DELIMITING, Defence, JUDGE, Known, NAIVE, NONE,
    REDACT_ALL, SANDWICHING, TOOL_FILTER, defence, names,
};
pub use judge::LmJudge;
pub use oracle::{Dependencies, Oracle};
