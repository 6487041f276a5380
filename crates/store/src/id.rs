//! Ids of entries, permissions, questions and chains, and the hexadecimal form of ids and digests.

use std::{fmt, io, str::FromStr};

const BYTES: usize = 16;

/// A text that is no id.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("an id is 32 hexadecimal digits")]
pub struct BadId;

macro_rules! ids {
    ($($(#[$doc:meta])* $name:ident,)*) => {$(
        $(#[$doc])*
        ///
        /// It is random, so it does not tell how many others there are.
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name([u8; BYTES]);

        impl $name {
            /// A new id, from the system's random numbers.
            pub fn random() -> io::Result<Self> {
                let mut bytes = [0; BYTES];
                match rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty())? {
                    BYTES => Ok(Self(bytes)),
                    _ => Err(io::Error::other("the system gave too few random bytes")),
                }
            }

            /// The id with these bytes. They should be random.
            pub const fn from_bytes(bytes: [u8; BYTES]) -> Self {
                Self(bytes)
            }

            /// Its bytes.
            pub const fn as_bytes(&self) -> &[u8; BYTES] {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write_hex(&self.0, f)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write_hex(&self.0, f)
            }
        }

        impl FromStr for $name {
            type Err = BadId;

            fn from_str(text: &str) -> Result<Self, BadId> {
                read_hex(text).map(Self).ok_or(BadId)
            }
        }
    )*};
}

ids! {
    /// The id of a memory.
    EntryId,
    /// The id of a permission.
    PermissionId,
    /// The id of a question.
    QuestionId,
    /// The id of a chain of the audit log.
    ChainId,
}

pub(crate) fn write_hex(bytes: &[u8], f: &mut fmt::Formatter<'_>) -> fmt::Result {
    bytes.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
}

/// The bytes of hexadecimal digits, in either case. `None` for other characters and other lengths.
pub(crate) fn read_hex<const BYTES: usize>(text: &str) -> Option<[u8; BYTES]> {
    let mut bytes = [0; BYTES];
    if text.len() != 2 * BYTES {
        return None;
    }
    for (byte, digits) in bytes.iter_mut().zip(text.as_bytes().chunks_exact(2)) {
        for digit in digits {
            // `from_str_radix` would accept a sign.
            let digit = char::from(*digit).to_digit(16)?;
            *byte = *byte << 4 | u8::try_from(digit).ok()?;
        }
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_read_as_written() {
        let id = EntryId::random().unwrap();
        assert_eq!(id.to_string().parse(), Ok(id));
        assert_ne!(id, EntryId::random().unwrap());
        for text in ["", "1", &"g".repeat(32), &format!("+{}", "0".repeat(31))] {
            assert_eq!(text.parse::<PermissionId>(), Err(BadId), "{text}");
        }
    }
}
