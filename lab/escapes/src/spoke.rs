//! A spoke process that was taken over: it does what it is told over its channel, and keeps to no protocol; or it is told by
//! its environment what to say to the product's hub.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;

use crate::{Error, frames, inside, kernel, neighbour};

/// Where it finds its channel, by the sandbox's contract.
const CHANNEL: i32 = 3;

pub(crate) fn main() -> Result<(), Error> {
    let channel = UnixStream::from(kernel::inherited(CHANNEL));
    if let Ok(attempt) = std::env::var(frames::VARIABLE) {
        return frames::main(channel, &attempt);
    }
    if std::env::var_os(neighbour::VARIABLE).is_some() {
        return neighbour::main(channel);
    }
    for line in BufReader::new(channel.try_clone()?).lines() {
        let ground = serde_json::from_str(&line?)?;
        let mut seen = serde_json::to_vec(&inside::make_all(&ground))?;
        seen.push(b'\n');
        (&channel).write_all(&seen)?;
    }
    Ok(())
}
