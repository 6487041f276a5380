//! A hub that believes every frame: whatever comes next answers what was asked last.

use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use serde_json::Value;
use wire::limits::MAX_FRAME_BYTES;
use wire::{AppCommand, AppLimits, HubFrame, Offer, encode};

use super::super::heard::{Heard, spec};
use crate::Error;
use crate::frames::SOUND;

/// How long it waits for a frame.
const PATIENCE: Duration = Duration::from_secs(2);

/// What it heard from the hostile spoke of this attempt.
pub(in crate::product) fn by_frames(hostile: &Path, attempt: &str) -> Result<Heard, Error> {
    let (mut ours, theirs) = UnixStream::pair()?;
    ours.set_read_timeout(Some(PATIENCE))?;
    let sandboxed = sandbox::spawn(&spec(attempt), hostile, OwnedFd::from(theirs))?;
    let mut heard = Heard::default();
    let app = AppCommand {
        argv: vec!["/nothing".to_owned()],
        env: BTreeMap::new(),
        cwd: "/tmp".to_owned(),
    };
    let (limits, offer) = (AppLimits::default(), Offer::default());
    ours.write_all(&encode(&HubFrame::Start { app, limits, offer })?)?;
    take_until(&mut ours, "ready", &mut heard);
    for id in 1..=2 {
        let call = HubFrame::Call {
            id,
            tool: SOUND.to_owned(),
            arguments: "{}".to_owned(),
            timeout_ms: 1000,
        };
        // A spoke that is gone is noticed when nothing comes.
        let _ = ours.write_all(&encode(&call)?);
        take_until(&mut ours, "result", &mut heard);
    }
    drop(sandboxed);
    Ok(heard)
}

/// Takes whatever comes for what it says it is, up to one of this kind.
fn take_until(channel: &mut UnixStream, kind: &str, heard: &mut Heard) {
    while let Ok(frame) = next(channel) {
        for part in ["ready", "result", "request"] {
            if let Some(said) = frame.get(part) {
                heard.counted.push(said.to_string());
            }
        }
        if frame.get(kind).is_some() {
            return;
        }
    }
}

/// The next frame, of whatever version.
fn next(channel: &mut UnixStream) -> io::Result<Value> {
    let mut header = [0; 5];
    channel.read_exact(&mut header)?;
    // The fifth byte is the version, which this hub does not look at.
    let [a, b, c, d, _] = header;
    let length = usize::try_from(u32::from_be_bytes([a, b, c, d])).map_err(io::Error::other)?;
    if length > MAX_FRAME_BYTES {
        return Err(io::Error::other("too long"));
    }
    let mut payload = vec![0; length];
    channel.read_exact(&mut payload)?;
    Ok(serde_json::from_slice(&payload)?)
}
