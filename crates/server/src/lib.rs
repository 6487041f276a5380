//! The driver: runs turns over spokes and providers with tokio.
//!
//! `hub`, `agent` and `ifc` decide; this crate brings them the world. [`Session`] is the main
//! path: it plans, opens spokes, drives the turn machine, asks the user and writes the trace.

mod consult;
mod drive;
mod egress;
mod openai_api;
pub mod openai_server;
pub mod proxy;
mod session;
mod spoke;
mod tool_check;
mod trace_file;
mod user;

pub use egress::Egress;
pub use session::{AppSetup, Choice, Session, SessionError, SessionSetup};
pub use spoke::{Spoke, SpokeError, SpokeSetup};
pub use tool_check::ToolCheck;
pub use trace_file::{TraceError, TraceFile};
pub use user::{QuestionView, User};
