//! Bytes in hexadecimal.

/// Two small digits for each byte.
pub(crate) fn hex<'a>(bytes: impl IntoIterator<Item = &'a u8>) -> String {
    let bytes = bytes.into_iter();
    bytes.map(|byte| format!("{byte:02x}")).collect()
}
