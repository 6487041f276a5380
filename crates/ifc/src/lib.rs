//! Information-flow control for agents: labels, labelled text, redaction, permits.
//!
//! This crate is the core of Sluice: pure, std-only, no I/O, no panics. Its terms are those of RTBAS. A [`Label`] says who
//! may have influenced a text and what the text may reveal. [`Labeled`] is text with labelled regions. A [`History`] is the
//! tagged message sequence `M`. The redactor ([`redact`], Algorithm 3) turns it into a [`Prompt`] at one label. The
//! [`Monitor`] decides on every [`Sink`]: whether a [`Call`] may run, an answer be shown or a prompt be sent under its label.
//! Only a decision makes a [`Permit`], and only a permit can be acted on.
//!
//! Two things cannot be written outside this crate, and compile-fail tests hold them: a permit without a decision (or used
//! twice), and a prompt with text that was not redacted.
#![forbid(unsafe_code)]

mod approve;
mod argument_path;
mod arguments;
mod bounds;
mod call;
mod cause;
mod consult;
mod draft;
mod effect;
mod endorse;
mod entry;
mod history;
mod host;
mod image;
pub mod json;
mod judge;
mod known;
mod label;
mod labeled;
mod lattice;
mod ledger;
mod message;
mod monitor;
mod own;
mod part;
mod permissions;
mod permit;
mod policy;
mod prompt;
mod redact;
mod region;
mod relabel;
mod screener;
mod sink;
mod source;
pub mod state;
mod trusted;
mod writer;

pub use approve::Approval;
pub use argument_path::{ArgumentPath, PathError};
pub use arguments::{Arguments, ArgumentsError};
pub use bounds::{Bound, Bounds, speaks_of_code};
pub use call::Call;
pub use cause::Cause;
pub use consult::{Consultation, Nonce, consult};
pub use draft::{Draft, DraftCall};
pub use effect::Effect;
pub use endorse::{Offer, Offered, Until};
pub use history::History;
pub use host::{http_host, url_host};
pub use image::{Content, Image};
pub use known::{KnownResult, Permitted, Results};
pub use label::{Label, Taint};
pub use labeled::Labeled;
pub use lattice::{Dimension, Lattice, LatticeError, Order};
pub use ledger::{CallState, Counts, PastCalls, PermittedCall, Ran, Receipt, ReceiptId};
pub use message::{Author, CallId, Message, PastCall, Tool, Unread};
pub use monitor::Monitor;
pub use permissions::{Collaboration, Direction, Permissible, Permissions};
pub use permit::{Answer, Basis, Decision, Denial, Permit, Question};
pub use policy::{Exceeded, Part, Policy, PolicyError, Rule};
pub use prompt::{
    Prompt, PromptCall, PromptMessage, PromptTool, REDACTED, REDACTED_NOTE, UNDESCRIBED,
};
pub use redact::redact;
pub use region::{RegionId, RegionRef, Relevance};
pub use relabel::Pieces;
pub use screener::{AnswerForm, Report, Screener, Screening};
pub use sink::{
    Address, Connection, Delivery, Flow, MemoryWrite, Origin, Principal, Release, Sink, Stage,
    Submission,
};
pub use source::{Source, UnknownSource};
pub use writer::Writer;
