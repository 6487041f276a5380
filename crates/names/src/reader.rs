//! Reading numbers and slices off foreign bytes, never past their end.

/// The bytes that are not read yet.
#[derive(Clone, Copy)]
pub(crate) struct Reader<'a>(pub(crate) &'a [u8]);

impl<'a> Reader<'a> {
    pub(crate) fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }

    pub(crate) fn u8(&mut self) -> Option<u8> {
        let (first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(*first)
    }

    pub(crate) fn u16(&mut self) -> Option<u16> {
        let bytes = self.take(2)?.try_into().ok()?;
        Some(u16::from_be_bytes(bytes))
    }

    /// Three bytes, as the length of a TLS handshake message has.
    pub(crate) fn u24(&mut self) -> Option<u32> {
        let high = self.u8()?;
        Some(u32::from(high) << 16 | u32::from(self.u16()?))
    }

    /// A slice behind its length of one byte.
    pub(crate) fn vector8(&mut self) -> Option<Self> {
        let length = self.u8()?;
        self.take(length.into()).map(Reader)
    }

    /// A slice behind its length of two bytes.
    pub(crate) fn vector16(&mut self) -> Option<Self> {
        let length = self.u16()?;
        self.take(length.into()).map(Reader)
    }

    pub(crate) fn is_empty(self) -> bool {
        self.0.is_empty()
    }
}
