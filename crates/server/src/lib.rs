//! The driver: runs turns over spokes and providers with tokio.
//!
//! `hub` and `ifc` decide; this crate brings them the world. There is one driver, which brings the
//! turn machine what it needs, and two fronts that bring it a conversation: [`Session`] plans, opens
//! spokes, asks the user and writes the trace; [`proxy`] serves agents that hold theirs elsewhere.

pub mod access;
mod api;
mod asked;
pub mod audit;
mod consult;
mod conversation;
pub mod desk;
mod driver;
mod egress;
mod front;
pub mod gateway;
pub mod limits;
mod locks;
mod mediate;
pub mod openai_server;
mod parts;
mod program;
pub mod proxy;
mod public_address;
pub mod service;
mod session;
mod sink;
mod spoke;
mod state;
pub mod telemetry;
mod trace_file;
mod user;

pub use egress::{
    AskedConnection, Domains, Egress, Gate, Resolve, SystemResolver, TokenPort, Tokens,
};
pub use hub::question::{
    Assessment, ConnectionView, MessageView, QuestionView, TrustView, TrustedText,
};
pub use parts::{Parts, Told};
pub use program::{Change, Ended, Program, ProgramSetup, Streams};
pub use session::{
    AppSetup, Choice, ChosenFor, Selections, Session, SessionError, SessionSetup, ToolCheck,
};
pub use sink::{At, Began, EventSink, Sinks, TraceContext, Work};
pub use spoke::{Executed, Mediator, Spoke, SpokeError, SpokeSetup};
pub use state::StateSetup;
pub use trace_file::{Rotation, TraceError, TraceFile, TracePart, remove_old_traces};
pub use user::{FormAnswer, FormView, Selection, SelectionView, ServingView, User};
