//! The effect of a sink on the world.

/// The effect of a sink on the world.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Effect {
    /// Reads; nothing changes.
    Read,
    /// Reads, and changes what it reads: a mail is marked as read, a queue gets shorter. It is no write, and it is never
    /// repeated without the user's request.
    ReadOnce,
    /// Changes something that can be changed back.
    Write,
    /// Changes something for good: a mail sent, money paid, a file deleted.
    Irreversible,
}

impl Effect {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Read, Self::ReadOnce, Self::Write, Self::Irreversible];

    /// Whether it changes nothing but what it reads.
    #[must_use]
    pub fn reads(self) -> bool {
        matches!(self, Self::Read | Self::ReadOnce)
    }

    /// `read`, `read-once`, `write` or `irreversible`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::ReadOnce => "read-once",
            Self::Write => "write",
            Self::Irreversible => "irreversible",
        }
    }
}
