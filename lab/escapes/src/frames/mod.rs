//! A spoke process that was taken over and speaks to the hub by frames: what it may send, and what must come of it.

mod line;
mod list;

use std::os::unix::net::UnixStream;

pub(crate) use line::{FORGED, Line, SOUND};
pub(crate) use list::{FrameAttempt, attempts};

use crate::Error;

/// The variable by which the process is told what to do: the name of an attempt, or [`SOUND`].
pub(crate) const VARIABLE: &str = "SLUICE_ESCAPES_FRAMES";

/// The process: does the attempt, and then stays as it is until it is ended.
pub(crate) fn main(channel: UnixStream, name: &str) -> Result<(), Error> {
    let mut line = Line::new(channel);
    if name == SOUND {
        return Ok(line.be_sound()?);
    }
    let attempts = attempts();
    let attempt = attempts.iter().find(|attempt| attempt.name == name);
    let attempt = attempt.ok_or_else(|| format!("no attempt by frames is called {name}"))?;
    // The hub may have ended it in the middle.
    let _ = (attempt.code)(&mut line);
    loop {
        std::thread::park();
    }
}
