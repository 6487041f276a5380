//! The parts of a [`MonitorState`].

pub use crate::endorse::{Endorsement, Reach};
pub use crate::ledger::{CallState, CountedCall, EnteredCall, LedgerState};
pub use crate::monitor::session::{Allowed, Grant};
pub use crate::monitor::snapshot::MonitorState;
pub use crate::policy::Scope;
pub use crate::sink::Target;
pub use crate::trusted::{Final, Trusted};
