//! The orders that a lattice is made of, and why one is refused.

use std::fmt;

/// Enough for any configuration seen, and it keeps the largest label at 512 bytes.
pub(crate) const MAX_TAINTS: usize = 4096;

/// Longest name, in bytes. Every mistake in a label is answered with names, and a stranger's lattice may have thousands.
pub(crate) const MAX_NAME_BYTES: usize = 64;

/// Which half of a label a taint belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Dimension {
    /// Who may have influenced the text (`l_i`).
    Integrity,
    /// What the text may reveal (`l_c`).
    Confidentiality,
}

impl Dimension {
    /// `integrity` or `confidentiality`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Integrity => "integrity",
            Self::Confidentiality => "confidentiality",
        }
    }

    pub(crate) fn at(self) -> usize {
        match self {
            Self::Integrity => 0,
            Self::Confidentiality => 1,
        }
    }

    pub(crate) fn other(self) -> Self {
        match self {
            Self::Integrity => Self::Confidentiality,
            Self::Confidentiality => Self::Integrity,
        }
    }

    /// The names of its bottom and of its top.
    pub(crate) fn ends(self) -> (&'static str, &'static str) {
        match self {
            Self::Integrity => ("trusted", "untrusted"),
            Self::Confidentiality => ("public", "secret"),
        }
    }
}

/// The order of one dimension, as a configuration names it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Order {
    /// `trusted ⊑ untrusted`, or `public ⊑ secret` (RTBAS §6.2's four-point lattice has two of them).
    TwoPoint,
    /// A chain, from the least restrictive level to the most (`public`, `internal`, `secret`).
    Levels(Vec<String>),
    /// A set of independent categories (RTBAS §8.3.1): `untrusted:NAME` or `secret:NAME`.
    Categories(Vec<String>),
    /// Who may read: `readers:alice,bob`. Stored as the readers left out, so that join
    /// (fewer readers) is union. Confidentiality only.
    Readers(Vec<String>),
    /// A Hasse diagram: a name, and the names directly above it (more restrictive). It must be a
    /// distributive lattice; then joins and flows of labels are exactly those of the diagram.
    Hasse(Vec<(String, Vec<String>)>),
}

/// Why a lattice or a label name is refused.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum LatticeError {
    /// A name is used twice, or is a built-in name that would mean something else: a level
    /// `public` above the bottom, a level `secret` at the bottom, or one of the other dimension.
    Duplicate(String),
    /// A name is empty or longer than 64 bytes, or has characters outside `a-z 0-9 - _ .`.
    BadName(String),
    /// A chain, category set or reader set without names.
    Empty(Dimension),
    /// Reader sets order confidentiality only.
    ReadersForIntegrity,
    /// More taints than [`Lattice::MAX_TAINTS`](crate::Lattice::MAX_TAINTS).
    TooMany(usize),
    /// More names in one diagram than it may have.
    TooManyElements(usize),
    /// Names of a diagram that are above each other; the first is also the last.
    Cycle(Vec<String>),
    /// Two names of a diagram without a unique least upper bound.
    NoJoin {
        /// The two.
        elements: [String; 2],
        /// Their upper bounds that have no smaller one: none, or several.
        bounds: Vec<String>,
    },
    /// Two names of a diagram with nothing below both.
    NoMeet(String, String),
    /// Names `a`, `b`, `c` of a diagram for which a ∧ (b ∨ c) is not (a ∧ b) ∨ (a ∧ c).
    NotDistributive([String; 3]),
    /// A label name that this lattice does not have.
    Unknown {
        /// The name as written.
        name: String,
        /// Names that would do: all of them, or the first ones of many.
        known: Vec<String>,
    },
}

impl fmt::Display for LatticeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Duplicate(name) => {
                write!(
                    f,
                    "the name '{name}' is taken in this lattice; choose another"
                )
            }
            Self::BadName(name) => write!(
                f,
                "'{name}' is not a name: use at most {MAX_NAME_BYTES} lowercase letters, digits, '-', '_' and '.'"
            ),
            Self::Empty(dimension) => {
                write!(f, "the {} order has no names", dimension.name())
            }
            Self::ReadersForIntegrity => {
                write!(
                    f,
                    "reader sets order confidentiality; use categories for integrity"
                )
            }
            Self::TooMany(count) => write!(
                f,
                "{count} taints are more than the {} that a lattice may have",
                MAX_TAINTS
            ),
            Self::TooManyElements(count) => write!(
                f,
                "{count} names are more than a diagram may have; use categories"
            ),
            Self::Cycle(names) => {
                write!(f, "the diagram is no order: {}", names.join(" is below "))
            }
            Self::NoJoin {
                elements: [a, b],
                bounds,
            } if bounds.is_empty() => {
                write!(
                    f,
                    "'{a}' and '{b}' have no upper bound: nothing is above both"
                )
            }
            Self::NoJoin {
                elements: [a, b],
                bounds,
            } => write!(
                f,
                "'{a}' and '{b}' have no unique least upper bound: {} are above both, and none of them is the least",
                bounds.join(" and ")
            ),
            Self::NoMeet(a, b) => {
                write!(
                    f,
                    "'{a}' and '{b}' have no lower bound: nothing is below both"
                )
            }
            Self::NotDistributive([a, b, c]) => write!(
                f,
                "the diagram is not distributive: '{a}' is below the join of '{b}' and '{c}', but {a} ∧ ({b} ∨ {c}) is not ({a} ∧ {b}) ∨ ({a} ∧ {c})"
            ),
            Self::Unknown { name, known } => write!(
                f,
                "there is no label '{name}' in this lattice; it has {}",
                known.join(", ")
            ),
        }
    }
}

impl std::error::Error for LatticeError {}
