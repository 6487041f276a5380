//! Twins of types, as they are stored.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Display;
use std::ops::Range;
use std::sync::Arc;

use ifc::{ArgumentPath, CallState, Direction, Effect, Lattice, ReceiptId, Source, Until};
use serde::{Deserialize, Deserializer, Serialize};

/// The twin of a type `T`.
pub trait Stored<T>: Sized {
    /// The twin of a value.
    fn write(value: &T, lattice: &Lattice) -> Self;

    /// The value.
    ///
    /// # Errors
    /// The twin does not have the form of one.
    fn read(self, lattice: &Lattice) -> Result<T, String>;
}

/// Makes the twin of a struct or an enum from the twins of its members. The members of a tuple are `0 => name`, and others of an
/// enum `name => name`.
#[macro_export]
macro_rules! twin {
    ($vis:vis $stored:ident of $of:ident { $($(#[$attr:meta])* $member:ident: $twin:ty,)* }) => {
        /// The twin of the type of this name.
        #[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
        #[serde(deny_unknown_fields)]
        $vis struct $stored { $($(#[$attr])* $member: $twin,)* }

        impl $crate::state::Stored<$of> for $stored {
            fn write(of: &$of, lattice: &ifc::Lattice) -> Self {
                Self { $($member: $crate::state::Stored::write(&of.$member, lattice),)* }
            }

            fn read(self, lattice: &ifc::Lattice) -> Result<$of, String> {
                Ok($of { $($member: $crate::state::Stored::read(self.$member, lattice)?,)* })
            }
        }
    };
    ($vis:vis enum $stored:ident of $of:ident {
        $($variant:ident { $($member:tt => $(#[$attr:meta])* $name:ident: $twin:ty,)* })*
    }) => {
        /// The twin of the type of this name.
        #[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
        #[serde(deny_unknown_fields, rename_all = "snake_case")]
        $vis enum $stored { $($variant { $($(#[$attr])* $name: $twin,)* },)* }

        impl $crate::state::Stored<$of> for $stored {
            fn write(of: &$of, lattice: &ifc::Lattice) -> Self {
                match of {
                    $($of::$variant { $($member: $name,)* } => Self::$variant {
                        $($name: $crate::state::Stored::write($name, lattice),)*
                    },)*
                }
            }

            fn read(self, lattice: &ifc::Lattice) -> Result<$of, String> {
                Ok(match self {
                    $(Self::$variant { $($name,)* } => $of::$variant {
                        $($member: $crate::state::Stored::read($name, lattice)?,)*
                    },)*
                })
            }
        }
    };
}

/// Reads a member that may be null and must not be missing.
///
/// # Errors
/// It has another form.
pub fn present<'de, T: Deserialize<'de>, D: Deserializer<'de>>(
    from: D,
) -> Result<Option<T>, D::Error> {
    Option::deserialize(from)
}

/// An error of the stored state, with what it is about.
pub(super) fn unreadable(what: impl Display) -> String {
    format!("the stored state cannot be read: {what}")
}

macro_rules! own {
    ($($of:ty),*) => {$(
        impl Stored<$of> for $of {
            fn write(value: &$of, _: &Lattice) -> Self {
                value.clone()
            }

            fn read(self, _: &Lattice) -> Result<$of, String> {
                Ok(self)
            }
        }
    )*};
}

own!(String, u16, u64, usize, bool);

impl<S: Stored<T>, T> Stored<Vec<T>> for Vec<S> {
    fn write(values: &Vec<T>, lattice: &Lattice) -> Self {
        values.iter().map(|it| S::write(it, lattice)).collect()
    }

    fn read(self, lattice: &Lattice) -> Result<Vec<T>, String> {
        self.into_iter().map(|it| it.read(lattice)).collect()
    }
}

impl<S: Stored<T>, T: Ord> Stored<BTreeSet<T>> for Vec<S> {
    fn write(values: &BTreeSet<T>, lattice: &Lattice) -> Self {
        values.iter().map(|it| S::write(it, lattice)).collect()
    }

    fn read(self, lattice: &Lattice) -> Result<BTreeSet<T>, String> {
        self.into_iter().map(|it| it.read(lattice)).collect()
    }
}

impl<S: Stored<T>, T> Stored<BTreeMap<String, T>> for BTreeMap<String, S> {
    fn write(values: &BTreeMap<String, T>, lattice: &Lattice) -> Self {
        let values = values.iter();
        values
            .map(|(name, it)| (name.clone(), S::write(it, lattice)))
            .collect()
    }

    fn read(self, lattice: &Lattice) -> Result<BTreeMap<String, T>, String> {
        let values = self.into_iter();
        values
            .map(|(name, it)| Ok((name, it.read(lattice)?)))
            .collect()
    }
}

impl<S: Stored<T>, T> Stored<Option<T>> for Option<S> {
    fn write(value: &Option<T>, lattice: &Lattice) -> Self {
        value.as_ref().map(|it| S::write(it, lattice))
    }

    fn read(self, lattice: &Lattice) -> Result<Option<T>, String> {
        self.map(|it| it.read(lattice)).transpose()
    }
}

macro_rules! pointers {
    ($($pointer:ident),*) => {$(
        impl<S: Stored<T>, T> Stored<$pointer<T>> for S {
            fn write(value: &$pointer<T>, lattice: &Lattice) -> Self {
                S::write(value.as_ref(), lattice)
            }

            fn read(self, lattice: &Lattice) -> Result<$pointer<T>, String> {
                self.read(lattice).map($pointer::new)
            }
        }
    )*};
}

pointers!(Arc, Box);

impl<R: Stored<T>, S: Stored<U>, T, U> Stored<(T, U)> for (R, S) {
    fn write((one, other): &(T, U), lattice: &Lattice) -> Self {
        (R::write(one, lattice), S::write(other, lattice))
    }

    fn read(self, lattice: &Lattice) -> Result<(T, U), String> {
        Ok((self.0.read(lattice)?, self.1.read(lattice)?))
    }
}

impl Stored<Range<usize>> for (usize, usize) {
    fn write(span: &Range<usize>, _: &Lattice) -> Self {
        (span.start, span.end)
    }

    fn read(self, _: &Lattice) -> Result<Range<usize>, String> {
        match self.0 <= self.1 {
            true => Ok(self.0..self.1),
            false => Err(unreadable("a span ends before it begins")),
        }
    }
}

/// The twin of what has a name, such as a state, an effect or a digest.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Word(String);

macro_rules! words {
    ($($of:ty: $write:expr, $read:expr;)*) => {$(
        impl Stored<$of> for Word {
            fn write(value: &$of, _: &Lattice) -> Self {
                let write: fn(&$of) -> String = $write;
                Self(write(value))
            }

            fn read(self, _: &Lattice) -> Result<$of, String> {
                let read: fn(&str) -> Option<$of> = $read;
                read(&self.0).ok_or_else(|| unreadable("a word has no meaning"))
            }
        }
    )*};
}

words! {
    CallState: |it| it.name().to_owned(), |word| one_of(&CallState::ALL, CallState::name, word);
    Effect: |it| it.name().to_owned(), |word| one_of(&Effect::ALL, Effect::name, word);
    Until: |it| it.name().to_owned(), |word| one_of(&[Until::Task, Until::Session], Until::name, word);
    Direction: |it| it.name().to_owned(), |word| one_of(&Direction::ALL, Direction::name, word);
    Source: ToString::to_string, |word| word.parse().ok();
    ArgumentPath: ToString::to_string, |word| word.parse().ok();
    ReceiptId: |id| format!("{:016x}-{}", id.seed, id.number), read_id;
    [u8; 32]: hex, read_hex;
}

fn one_of<T: Copy>(all: &[T], name: impl Fn(T) -> &'static str, word: &str) -> Option<T> {
    all.iter().copied().find(|it| name(*it) == word)
}

fn read_id(name: &str) -> Option<ReceiptId> {
    let (seed, number) = name.split_once('-')?;
    Some(ReceiptId {
        seed: u64::from_str_radix(seed, 16).ok()?,
        number: number.parse().ok()?,
    })
}

/// A digest in hexadecimal digits.
#[must_use]
pub fn hex(digest: &[u8; 32]) -> String {
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn read_hex(text: &str) -> Option<[u8; 32]> {
    let digits = |at: usize| u8::from_str_radix(text.get(at..at + 2)?, 16).ok();
    let bytes: Option<Vec<u8>> = (0..text.len()).step_by(2).map(digits).collect();
    bytes?.try_into().ok()
}
