//! Dependency screeners: baselines and the LM judge (RTBAS section 7).
//!
//! A screener says which labelled regions the agent's next step may depend on; everything else is
//! masked before the step is taken. A wrong answer costs questions or context, never security, so
//! each screener answers "everything" to whatever it does not understand.
//!
//! Sans-IO: a screener that needs a language model returns the prompt for it.
#![forbid(unsafe_code)]

mod baseline;
mod judge;

pub use baseline::{NaiveTainting, RedactAll};
pub use judge::LmJudge;

use ifc::Screener;

/// The names that [`screener`] takes, the default first.
pub const NAMES: [&str; 3] = [LmJudge::NAME, NaiveTainting::NAME, RedactAll::NAME];

/// A configuration names a screener that does not exist.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("there is no screener '{0}'; use one of {known}", known = NAMES.join(", "))]
pub struct UnknownScreener(pub String);

/// The screener that a configuration calls `name`.
///
/// # Errors
/// [`UnknownScreener`], with the names that exist.
pub fn screener(name: &str) -> Result<Box<dyn Screener>, UnknownScreener> {
    match name {
        LmJudge::NAME => Ok(Box::new(LmJudge)),
        NaiveTainting::NAME => Ok(Box::new(NaiveTainting)),
        RedactAll::NAME => Ok(Box::new(RedactAll)),
        _ => Err(UnknownScreener(name.to_owned())),
    }
}
