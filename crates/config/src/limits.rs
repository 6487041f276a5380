//! Limits of turns and spokes.

use std::time::Duration;

/// Limits. Each has a default and a largest value, see the constants of this crate's settings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// Most steps (answers of a model) in one turn.
    pub steps: u32,
    /// Longest time of one turn.
    pub turn_timeout: Duration,
    /// Most bytes of the messages in one prompt; older ones are summarised. The default is by the providers' context.
    pub prompt_bytes: Option<usize>,
    /// Most tokens of one answer of a model. The default is 8,192, and 1,024 for an embedded model.
    pub completion_tokens: Option<u32>,
    /// Most bytes of one conversation.
    pub history_bytes: usize,
    /// Most apps that may wait for each other.
    pub hops: u32,
    /// Most steps of a conversation that serves an app's request.
    pub serving_steps: u32,
    /// Longest time of such a conversation.
    pub serving_timeout: Duration,
    /// Limits of each spoke.
    pub spoke: SpokeLimits,
}

/// Limits of one spoke.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SpokeLimits {
    /// Longest time from the start to the list of tools.
    pub start_timeout: Duration,
    /// Longest time of one tool call.
    pub call_timeout: Duration,
    /// Most bytes of one result.
    pub result_bytes: usize,
    /// Bytes of writable private memory per process.
    pub memory_bytes: u64,
    /// Processes and threads.
    pub processes: u32,
    /// Open files per process; `None` for the sandbox's own limit.
    pub open_files: Option<u64>,
    /// Bytes of one file that it writes.
    pub file_bytes: u64,
    /// Bytes of its `/tmp`.
    pub tmp_bytes: u64,
}
