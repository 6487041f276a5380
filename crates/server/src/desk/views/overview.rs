//! What the pages beside the questions show. The composition root reads it from the user's files.

use std::collections::BTreeMap;

use hub::trace::Names;

use crate::TracePart;

/// What the pages show. The methods read files, so each is called on a thread where it may block. An error is one line for
/// the user.
pub trait Overview: Send + Sync {
    /// The items of one page, counted from 0, and the number of pages.
    ///
    /// # Errors
    /// They cannot be read.
    fn list(&self, what: Listed, page: usize) -> Result<(Vec<Item>, usize), String>;
    /// Part of a session: the page and the conversation by their numbers, from 0. Without a page it is the last one. `None`
    /// if there is no such session.
    ///
    /// # Errors
    /// The file cannot be read.
    fn session(
        &self,
        id: &str,
        page: Option<usize>,
        conversation: Option<usize>,
    ) -> Result<Option<TracePart>, String>;
    /// The bytes of a session's trace, which grow with each event.
    fn session_bytes(&self, id: &str) -> Option<u64>;
    /// Revokes a permission by its full id.
    ///
    /// # Errors
    /// There is no such permission, or it cannot be revoked.
    fn revoke(&self, id: &str) -> Result<(), String>;
    /// The configuration.
    ///
    /// # Errors
    /// It has mistakes, or is not trusted.
    fn apps(&self) -> Result<Apps, String>;
    /// The decisions of the last week as far as they have been read. Does not wait for them.
    fn decisions(&self) -> Decisions;
}

/// What is listed, newest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Listed {
    /// Recorded sessions.
    Sessions,
    /// What the user has allowed with "always".
    Permissions,
    /// What is remembered of conversations.
    Memories,
}

/// Something that is listed.
#[derive(Debug, Clone, Default)]
pub struct Item {
    /// Its id in full: letters, digits, `-`, `_` and `.`.
    pub id: String,
    /// When it was made, and of what kind it is.
    pub about: String,
    /// The text of a memory; what a permission allows.
    pub text: String,
    /// The label of a memory.
    pub label: Names,
}

/// A configuration.
#[derive(Debug, Clone, Default)]
pub struct Apps {
    /// Its file; empty if there is none.
    pub file: String,
    /// Its apps.
    pub apps: Vec<AppFacts>,
}

/// A configured app.
#[derive(Debug, Clone, Default)]
pub struct AppFacts {
    /// Its name.
    pub name: String,
    /// What it is for, where it runs and what it reaches: a sentence each.
    pub about: Vec<String>,
    /// The rules of its tools.
    pub tools: Vec<ToolFacts>,
}

/// The rule of a tool.
#[derive(Debug, Clone, Default)]
pub struct ToolFacts {
    /// The tool, or words for all tools without a rule of their own.
    pub name: String,
    /// Its effect.
    pub effect: String,
    /// Limits and labels, each with the words for it.
    pub labels: Vec<(String, Names)>,
    /// More about it: a sentence each.
    pub notes: Vec<String>,
    /// File and line of the rule.
    pub place: Option<String>,
}

/// Decisions of recent sessions.
#[derive(Debug, Clone, Default)]
pub struct Decisions {
    /// When they were read; `None` before that.
    pub read: Option<String>,
    /// Whether there were more bytes of traces than are read.
    pub is_partial: bool,
    /// By app and tool, as `app.tool`.
    pub tools: BTreeMap<String, ToolDecisions>,
}

/// The decisions about one tool's calls.
#[derive(Debug, Clone, Default)]
pub struct ToolDecisions {
    /// How many calls were allowed, asked about and denied.
    pub counts: [usize; 3],
    /// The last ones, newest first: the session, and how it was decided.
    pub last: Vec<(String, String)>,
}
