//! The official recorded runs of AgentDojo: real models in its environments, with and without
//! attacks.
//!
//! They lie in the source distribution of one version of the package (MIT licence), as
//! `runs/MODEL/SUITE/USER_TASK/ATTACK|none/INJECTION_TASK|none.json`. They are read straight from
//! it and never unpacked.

mod archive;
mod fetch;
mod recording;

pub use archive::{Wanted, read};
pub use fetch::{PACKAGE, SHA256, archive};
pub use recording::{Message, RecordedCall, Recording};

#[cfg(test)]
mod tests;
