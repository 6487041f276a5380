//! The control socket between hub and init process: JSON packets, with descriptors beside them.
//!
//! A sequenced-packet socket keeps the bounds of messages, so there is no framing to get wrong; a packet that does not
//! fit the buffer is an error, never half a message.

use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::io::Errno;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::spec::{MAX_LISTENERS, MAX_SPEC_BYTES};
use crate::{Enforced, Layer, Spec};

/// Descriptors beside one message: the listeners, and the resolver's socket.
const MAX_DESCRIPTORS: usize = MAX_LISTENERS + 1;

/// Hub to init: what to build. Beside it travel the spoke's channel, unless it is a probe, then the three streams of a
/// program, and then the control group, if there is one.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Request {
    /// Process id of the hub, so that init notices if its parent died before the death signal was armed.
    pub(crate) hub: u32,
    /// Only try the layers and report; execute nothing.
    pub(crate) probe: bool,
    /// Whether a control group travels beside this, in which the spoke is to start.
    pub(crate) group: bool,
    /// Whether standard streams travel beside this, for a program that the user works with.
    pub(crate) program: bool,
    /// What to build.
    pub(crate) spec: Spec,
}

/// Init to hub.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(crate) enum Report {
    /// The process that becomes the spoke exists; its pid descriptor travels beside this.
    Forked {
        /// Why it is not in the control group that was sent.
        outside: Option<String>,
    },
    /// Everything is in place; the listeners travel beside this, in the order of the ports, then those of names in the
    /// order of theirs, and last the resolver's socket if there are names. Next comes the execution, which closes
    /// the socket.
    Ready {
        /// What is in force.
        enforced: Enforced,
        /// Ports of the listeners.
        ports: Vec<u16>,
        /// Ports on which names lead to the hub.
        names: Vec<u16>,
    },
    /// No spoke will run.
    Refused {
        /// The layer that is missing, if it is one.
        layer: Option<Layer>,
        /// Why.
        reason: String,
    },
}

/// Sends one message with descriptors beside it.
pub(crate) fn send(
    socket: impl AsFd,
    message: &impl Serialize,
    descriptors: &[BorrowedFd<'_>],
) -> Result<(), String> {
    let bytes = serde_json::to_vec(message).map_err(|error| error.to_string())?;
    if bytes.len() > MAX_SPEC_BYTES {
        return Err(format!(
            "message of {} bytes; at most {MAX_SPEC_BYTES} are possible",
            bytes.len()
        ));
    }
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_DESCRIPTORS))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    if !descriptors.is_empty() && !ancillary.push(SendAncillaryMessage::ScmRights(descriptors)) {
        return Err(format!(
            "{} descriptors; at most {MAX_DESCRIPTORS} are possible",
            descriptors.len()
        ));
    }
    let sent = sendmsg(
        socket,
        &[IoSlice::new(&bytes)],
        &mut ancillary,
        SendFlags::NOSIGNAL,
    )
    .map_err(|errno| errno.to_string())?;
    if sent == bytes.len() {
        Ok(())
    } else {
        Err("message sent in part".to_owned())
    }
}

/// Receives one message with the descriptors beside it (close-on-exec); `None` when the other side has closed.
pub(crate) fn receive<T: DeserializeOwned>(
    socket: impl AsFd,
) -> Result<Option<(T, Vec<OwnedFd>)>, String> {
    let mut bytes = vec![0; MAX_SPEC_BYTES];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_DESCRIPTORS))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let result = rustix::io::retry_on_intr(|| {
        recvmsg(
            &socket,
            &mut [IoSliceMut::new(&mut bytes)],
            &mut ancillary,
            RecvFlags::CMSG_CLOEXEC,
        )
    });
    let received = match result {
        // The other side ended without having read what was sent to it.
        Err(Errno::CONNRESET) => return Ok(None),
        result => result.map_err(|errno| errno.to_string())?,
    };
    let mut descriptors = Vec::new();
    for message in ancillary.drain() {
        if let RecvAncillaryMessage::ScmRights(rights) = message {
            descriptors.extend(rights);
        }
    }
    if received
        .flags
        .intersects(ReturnFlags::TRUNC | ReturnFlags::CTRUNC)
    {
        return Err("message too long".to_owned());
    }
    // No message of ours is empty, so nothing is the end.
    let Some(bytes) = bytes
        .get(..received.bytes)
        .filter(|bytes| !bytes.is_empty())
    else {
        return Ok(None);
    };
    let message = serde_json::from_slice(bytes).map_err(|error| error.to_string())?;
    Ok(Some((message, descriptors)))
}
