//! What a sink does to the world.

/// What a sink does to the world.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Effect {
    /// Reads; nothing changes.
    Read,
    /// Reads, and changes by it what it reads: mails are marked as read, a queue is shorter. It counts as no
    /// write, and is never made twice unasked to find out more.
    ReadOnce,
    /// Changes something that can be changed back.
    Write,
    /// Changes something for good: a mail sent, money paid, a file deleted.
    Irreversible,
}

impl Effect {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Read, Self::ReadOnce, Self::Write, Self::Irreversible];

    /// Whether its result is what it is for: it changes nothing but what it reads.
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
