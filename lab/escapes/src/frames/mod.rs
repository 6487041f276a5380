//! A spoke process that was taken over and speaks to the hub by frames: what it may send, and what must come of it.

mod line;
mod list;

use std::os::unix::net::UnixStream;

pub(crate) use line::{FORGED, Line, SOUND};
pub(crate) use list::attempts;

use crate::Error;

/// The variable by which the process is told what to do: the name of an attempt, or [`SOUND`].
pub(crate) const VARIABLE: &str = "SLUICE_ESCAPES_FRAMES";

/// One attempt by frames.
pub(crate) struct FrameAttempt {
    pub(crate) group: &'static str,
    pub(crate) name: &'static str,
    /// Whether the hub must end the spoke for it; otherwise it is enough that nothing is gained.
    pub(crate) ends: bool,
    code: fn(&mut Line) -> std::io::Result<()>,
}

impl FrameAttempt {
    /// What is to be seen if the walls hold.
    pub(crate) const fn expected(&self) -> &'static str {
        match self.ends {
            true => "this spoke is ended, with nothing gained; the hub and another spoke go on",
            false => "nothing is gained; the hub and another spoke go on",
        }
    }
}

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
