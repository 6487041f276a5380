//! Versioned, size-limited frames between the hub and a spoke.
//!
//! A frame is four bytes of payload length (big-endian), one byte of version, and JSON. [`HubFrame`]s
//! go to the spoke, [`SpokeFrame`]s come back. The codec does no I/O: [`encode`] gives bytes, a
//! [`Decoder`] takes them in any portions and holds at most one frame.
//!
//! The hub trusts nothing that comes from a spoke (SecGPT, §3): every limit in [`limits`] is checked
//! again by the receiver, and an error means that the connection is closed.

mod ask;
mod check;
mod codec;
mod failure;
mod form;
mod frame;
pub mod json;
pub mod limits;
mod text;

pub use ask::{Refusal, Reply, Wish};
pub use check::{Frame, Violation};
pub use codec::{DecodeError, Decoder, EncodeError, WIRE_VERSION, encode};
pub use failure::{Breach, FailureReason, SpokeFault, ToolProblem};
pub use form::{Field, FieldKind, FieldOption, Form, Unfit};
pub use frame::{
    AppCommand, AppLimits, Hints, HubFrame, Offer, Progress, ServerInfo, SpokeFrame,
    ToolDescription, ToolFilter, is_tool_name,
};
pub use text::{Quote, head};
