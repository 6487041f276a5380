//! Reading the header's numbers and strings, in order, with limits.

use super::source::Source;
use super::{GgufError, limits};

/// Bytes that are read ahead.
const BUFFER_BYTES: usize = 256 << 10;

/// Reads forwards through the header.
pub(super) struct Reader<'a> {
    source: &'a Source,
    /// What was read ahead, and how much of it is used.
    buffer: Vec<u8>,
    used: usize,
    /// The place in the file of the buffer's end.
    ahead: u64,
}

impl<'a> Reader<'a> {
    pub(super) fn new(source: &'a Source) -> Self {
        Self {
            source,
            buffer: Vec::new(),
            used: 0,
            ahead: 0,
        }
    }

    /// The place in the file of the next byte.
    pub(super) fn position(&self) -> u64 {
        self.ahead - (self.buffer.len() - self.used) as u64
    }

    /// Refuses to read `length` bytes that are not in the file or not in its header.
    fn check(&self, length: u64, what: &'static str) -> Result<(), GgufError> {
        let at = self.position();
        // The file's end first, so that an incomplete download is reported as one.
        if length > self.source.length().saturating_sub(at) {
            return Err(GgufError::Truncated { what, at });
        }
        let end = at.saturating_add(length);
        if end > limits::HEADER_BYTES {
            return Err(too_large(
                "bytes before its weights",
                end,
                limits::HEADER_BYTES,
            ));
        }
        Ok(())
    }

    fn fill(&mut self, target: &mut [u8]) -> Result<(), GgufError> {
        let mut target = target;
        while !target.is_empty() {
            if self.used == self.buffer.len() {
                self.read_ahead()?;
            }
            let rest = self.buffer.get(self.used..).unwrap_or_default();
            let count = rest.len().min(target.len());
            let (now, later) = target.split_at_mut(count);
            now.copy_from_slice(rest.get(..count).unwrap_or_default());
            self.used += count;
            target = later;
        }
        Ok(())
    }

    fn read_ahead(&mut self) -> Result<(), GgufError> {
        let rest = self.source.length().saturating_sub(self.ahead);
        let count = usize::try_from(rest).map_or(BUFFER_BYTES, |rest| rest.min(BUFFER_BYTES));
        // `check` has compared with the length on opening; a file that became shorter since ends here.
        if count == 0 {
            return Err(std::io::Error::from(std::io::ErrorKind::UnexpectedEof).into());
        }
        self.buffer.resize(count, 0);
        self.source.read_exact_at(&mut self.buffer, self.ahead)?;
        self.used = 0;
        self.ahead += count as u64;
        Ok(())
    }

    /// The next `N` bytes.
    pub(super) fn bytes<const N: usize>(
        &mut self,
        what: &'static str,
    ) -> Result<[u8; N], GgufError> {
        self.check(N as u64, what)?;
        let mut bytes = [0; N];
        self.fill(&mut bytes)?;
        Ok(bytes)
    }

    /// A `u32`.
    pub(super) fn u32(&mut self, what: &'static str) -> Result<u32, GgufError> {
        Ok(u32::from_le_bytes(self.bytes(what)?))
    }

    /// A `u64`.
    pub(super) fn u64(&mut self, what: &'static str) -> Result<u64, GgufError> {
        Ok(u64::from_le_bytes(self.bytes(what)?))
    }

    /// A count of things that take at least `least` bytes each in the header.
    pub(super) fn count(
        &mut self,
        what: &'static str,
        least: u64,
        limit: u64,
    ) -> Result<usize, GgufError> {
        let found = self.u64(what)?;
        if found > limit {
            return Err(too_large(what, found, limit));
        }
        // Before anything is allocated: a file of a few bytes can claim a count that would take all memory.
        self.check(found.saturating_mul(least), what)?;
        usize::try_from(found).map_err(|_too_large| too_large(what, found, limit))
    }

    /// A string with its length before it.
    pub(super) fn string(&mut self, what: &'static str, limit: u64) -> Result<String, GgufError> {
        let at = self.position();
        let length = self.count(what, 1, limit)?;
        let mut bytes = vec![0; length];
        self.fill(&mut bytes)?;
        String::from_utf8(bytes).map_err(|_invalid| GgufError::Malformed {
            what: "a string is not UTF-8",
            at,
        })
    }
}

pub(super) fn too_large(what: &'static str, found: u64, limit: u64) -> GgufError {
    GgufError::TooLarge { what, found, limit }
}
