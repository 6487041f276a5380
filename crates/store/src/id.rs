//! Names of single entries and permissions.

use std::{fmt, io, str::FromStr};

use crate::hex;

/// Bytes of an id.
const BYTES: usize = 16;

/// A text that is no id: not 32 hexadecimal digits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("an id is 32 hexadecimal digits")]
pub struct BadId;

macro_rules! ids {
    ($($(#[$doc:meta])* $name:ident,)*) => {$(
        $(#[$doc])*
        ///
        /// It is random, so that it tells nothing of how many others there are.
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name([u8; BYTES]);

        impl $name {
            /// A new one, from the system's random numbers.
            ///
            /// # Errors
            /// The system gives none.
            pub fn random() -> io::Result<Self> {
                random().map(Self)
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
                hex::write(&self.0, f)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(self, f)
            }
        }

        impl FromStr for $name {
            type Err = BadId;

            fn from_str(text: &str) -> Result<Self, BadId> {
                hex::read(text).map(Self).ok_or(BadId)
            }
        }
    )*};
}

ids! {
    /// The id of a memory.
    EntryId,
    /// The id of a permission.
    PermissionId,
}

fn random() -> io::Result<[u8; BYTES]> {
    let mut bytes = [0; BYTES];
    match rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty())? {
        BYTES => Ok(bytes),
        _ => Err(io::Error::other("the system gave too few random bytes")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_read_as_it_is_written() {
        let id = EntryId::random().unwrap();
        assert_eq!(id.to_string().parse(), Ok(id));
        assert_ne!(id, EntryId::random().unwrap());
    }

    #[test]
    fn what_is_no_id_is_refused() {
        for text in ["", "1", &"g".repeat(32), &format!("+{}", "0".repeat(31))] {
            assert_eq!(text.parse::<PermissionId>(), Err(BadId), "{text}");
        }
    }
}
