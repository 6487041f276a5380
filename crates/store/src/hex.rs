//! Bytes as hexadecimal digits.

use std::fmt;

pub(crate) fn write(bytes: &[u8], f: &mut fmt::Formatter<'_>) -> fmt::Result {
    bytes.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
}

/// The bytes of a text of hexadecimal digits, in either case; `None` if it is anything else or of another
/// length.
pub(crate) fn read<const BYTES: usize>(text: &str) -> Option<[u8; BYTES]> {
    if text.len() != 2 * BYTES {
        return None;
    }
    let mut bytes = [0; BYTES];
    for (byte, digits) in bytes.iter_mut().zip(text.as_bytes().chunks_exact(2)) {
        for digit in digits {
            // `from_str_radix` would take a sign.
            let digit = char::from(*digit).to_digit(16)?;
            *byte = *byte << 4 | u8::try_from(digit).ok()?;
        }
    }
    Some(bytes)
}
