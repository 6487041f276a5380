//! The product's own hub against a hostile spoke. A binary of its own (`escapes-hub`), since the program that is put into
//! sandboxes has no use for it.

mod frames;
mod names;
mod stage;
mod world;

use std::io::Write;

use crate::job::{Job, Outcome, Who};
use crate::{Error, Row};

pub(crate) fn main(job: &str) -> Result<(), Error> {
    let job: Job = serde_json::from_str(job)?;
    let seen = match job.who {
        Who::NamedApp => names::run(&job)?,
        Who::Frames => frames::run(&job)?,
        Who::Spoke | Who::App | Who::Programs => {
            return Err("these attempts need no hub of the product".into());
        }
    };
    let outcome = Outcome {
        rows: Row::of(seen),
        // Nothing can be given up by these specifications.
        given_up: Vec::new(),
        whole_spoke: sandbox::whole_spoke().to_string(),
    };
    let line = serde_json::to_string(&outcome)?;
    Ok(writeln!(std::io::stdout(), "{line}")?)
}
