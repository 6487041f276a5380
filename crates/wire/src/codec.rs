//! Frames to bytes and back, without I/O.

use std::marker::PhantomData;

use crate::check::{Frame, Violation};
use crate::json::{JsonError, JsonScan};
use crate::limits::{HEADER_BYTES, MAX_FRAME_BYTES, MAX_FRAME_DEPTH, MAX_FRAME_NODES};

/// The protocol's version. Hub and spoke are built together, so another version means a stale binary
/// and is refused; there is no negotiation.
pub const WIRE_VERSION: u8 = 10;

/// Capacity that a decoder keeps between frames. Most frames are smaller; a larger buffer is given
/// back after its frame.
const KEPT_CAPACITY: usize = 64 << 10;

/// A frame that cannot be sent.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EncodeError {
    /// The frame breaks a limit of its own.
    #[error("this frame cannot be sent: {0}")]
    Violation(#[from] Violation),
    /// The frame is too long as a whole.
    #[error("this frame cannot be sent: it has {0} bytes, and {MAX_FRAME_BYTES} are allowed")]
    TooLong(usize),
    /// The frame could not be written as JSON.
    #[error("this frame cannot be sent: it cannot be written as JSON")]
    Json,
}

/// Bytes that are not a frame. None of these can be recovered from: the stream has lost its place,
/// or its writer is not what it should be. Close it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// The header announces more than a frame may have. Nothing was allocated for it.
    #[error("the other end announced a frame of {0} bytes, and {MAX_FRAME_BYTES} are allowed")]
    TooLong(usize),
    /// The other end speaks another version.
    #[error(
        "the other end speaks wire version {found}, and this is version {WIRE_VERSION}; install hub and spoke together"
    )]
    Version {
        /// The version in the header.
        found: u8,
    },
    /// The payload is not JSON of this direction's frames.
    #[error("the other end sent something that is not a frame")]
    Malformed,
    /// The payload is nested too deep or has too many values.
    #[error("the other end sent a frame that cannot be accepted: {0}")]
    Json(#[from] JsonError),
    /// The frame breaks a limit of its own.
    #[error("the other end sent a frame that cannot be accepted: {0}")]
    Violation(#[from] Violation),
    /// The stream ended inside a frame.
    #[error("the other end closed the connection inside a frame")]
    Truncated,
}

/// Writes a frame: four bytes of payload length (big-endian), one byte of version, JSON.
///
/// # Errors
/// An [`EncodeError`] when the frame breaks a limit. The other end would refuse it.
pub fn encode<F: Frame>(frame: &F) -> Result<Vec<u8>, EncodeError> {
    frame.check()?;
    // Room for the header: the length is known when the JSON is written.
    let mut bytes = vec![0; HEADER_BYTES];
    serde_json::to_writer(&mut bytes, frame).map_err(|_| EncodeError::Json)?;
    let payload = bytes.len().saturating_sub(HEADER_BYTES);
    let length = u32::try_from(payload).map_err(|_| EncodeError::TooLong(payload))?;
    if payload > MAX_FRAME_BYTES {
        return Err(EncodeError::TooLong(payload));
    }
    let [a, b, c, d] = length.to_be_bytes();
    for (place, byte) in bytes.iter_mut().zip([a, b, c, d, WIRE_VERSION]) {
        *place = byte;
    }
    Ok(bytes)
}

/// Reads frames of one direction from bytes in any portions.
///
/// It holds one frame at most, and never more than has really arrived (rounded up to twice that). After an
/// error it gives the same error for ever.
#[derive(Debug)]
pub struct Decoder<F> {
    header: Header,
    payload: Vec<u8>,
    failed: Option<DecodeError>,
    frame: PhantomData<fn() -> F>,
}

#[derive(Debug, Clone, Copy)]
enum Header {
    /// So many bytes of the length have arrived, with this value so far.
    Length {
        have: usize,
        value: usize,
    },
    /// The length is known; the version comes next.
    Version {
        length: usize,
    },
    Payload {
        length: usize,
    },
}

const NEXT_FRAME: Header = Header::Length { have: 0, value: 0 };

impl<F: Frame> Default for Decoder<F> {
    fn default() -> Self {
        Self::new()
    }
}

impl<F: Frame> Decoder<F> {
    /// A decoder at the beginning of a stream.
    pub const fn new() -> Self {
        Self {
            header: NEXT_FRAME,
            payload: Vec::new(),
            failed: None,
            frame: PhantomData,
        }
    }

    /// Takes bytes from the front of `input` until a frame is complete or the input is used up. Call
    /// it again with what is left; `None` means that all was taken and more is needed.
    ///
    /// # Errors
    /// A [`DecodeError`]; the stream must be closed.
    pub fn decode(&mut self, input: &mut &[u8]) -> Result<Option<F>, DecodeError> {
        if let Some(error) = &self.failed {
            return Err(error.clone());
        }
        let result = self.advance(input);
        if let Err(error) = &result {
            // The next frame's beginning is unknown from here on, and text within one could be read as a frame of its own.
            self.failed = Some(error.clone());
            self.payload = Vec::new();
        }
        result
    }

    /// Tells the decoder that the stream has ended.
    ///
    /// # Errors
    /// [`DecodeError::Truncated`] when it ended inside a frame, or the error from before.
    pub fn finish(&self) -> Result<(), DecodeError> {
        match (&self.failed, self.header) {
            (Some(error), _) => Err(error.clone()),
            (None, Header::Length { have: 0, .. }) => Ok(()),
            (None, _) => Err(DecodeError::Truncated),
        }
    }

    /// Bytes that the decoder has allocated now.
    pub fn allocated(&self) -> usize {
        self.payload.capacity()
    }

    fn advance(&mut self, input: &mut &[u8]) -> Result<Option<F>, DecodeError> {
        loop {
            match self.header {
                // Before anything is allocated for the payload: a hijacked spoke could announce four gigabytes.
                Header::Length { have: 4, value } if value > MAX_FRAME_BYTES => {
                    return Err(DecodeError::TooLong(value));
                }
                Header::Length { have: 4, value } => {
                    self.header = Header::Version { length: value }
                }
                Header::Length { have, value } => {
                    let Some(byte) = take_byte(input) else {
                        return Ok(None);
                    };
                    self.header = Header::Length {
                        have: have + 1,
                        // Four bytes at most, so nothing is shifted out.
                        value: value << 8 | usize::from(byte),
                    };
                }
                // Before the payload, so that a stale binary is reported as one and not as bad JSON.
                Header::Version { length } => match take_byte(input) {
                    None => return Ok(None),
                    Some(WIRE_VERSION) => self.header = Header::Payload { length },
                    Some(found) => return Err(DecodeError::Version { found }),
                },
                Header::Payload { length } => {
                    self.take_payload(input, length);
                    if self.payload.len() < length {
                        return Ok(None);
                    }
                    return self.parse().map(Some);
                }
            }
        }
    }

    /// Appends what belongs to this frame. The buffer doubles, but never beyond the frame's length, so
    /// that a header alone costs nothing.
    fn take_payload(&mut self, input: &mut &[u8], length: usize) {
        let wanted = length.saturating_sub(self.payload.len()).min(input.len());
        let Some((now, rest)) = input.split_at_checked(wanted) else {
            return;
        };
        let needed = self.payload.len().saturating_add(wanted);
        if needed > self.payload.capacity() {
            let goal = needed
                .max(self.payload.capacity().saturating_mul(2))
                .min(length);
            self.payload
                .reserve_exact(goal.saturating_sub(self.payload.len()));
        }
        self.payload.extend_from_slice(now);
        *input = rest;
    }

    fn parse(&mut self) -> Result<F, DecodeError> {
        // Before serde makes values of it: a few megabytes of `0,0,0` become hundreds.
        JsonScan::new(MAX_FRAME_DEPTH, MAX_FRAME_NODES).feed(&self.payload)?;
        let frame: F = serde_json::from_slice(&self.payload).map_err(|_| DecodeError::Malformed)?;
        // The type holds no limits, and that the sender has checked them counts for nothing if it is hijacked.
        frame.check()?;
        self.header = NEXT_FRAME;
        self.payload.clear();
        // One large frame must not cost its size in memory for as long as the spoke lives.
        if self.payload.capacity() > KEPT_CAPACITY {
            self.payload = Vec::new();
        }
        Ok(frame)
    }
}

fn take_byte(input: &mut &[u8]) -> Option<u8> {
    let (first, rest) = input.split_first()?;
    *input = rest;
    Some(*first)
}
