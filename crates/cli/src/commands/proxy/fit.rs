//! Whether the rules fit the tools that agents bring.

use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Mutex, PoisonError};

use config::App;
use hub::trace::escape;

/// Sets of tools that are looked at. An agent has a few; one that has always new ones is told no
/// more, and nothing is decided by it.
const TOOL_SETS: usize = 256;

/// Looks at each set of tools once.
pub(super) struct Fit {
    app: App,
    seen: Mutex<HashSet<u64>>,
}

impl Fit {
    pub(super) fn new(app: App) -> Self {
        let seen = Mutex::default();
        Self { app, seen }
    }

    /// What does not fit, one line each, the first time that these tools come. A request may bring
    /// some of the tools only, so rules for others are not judged. Such a request goes on: the
    /// rules are checked with every call, and what they do not list is denied.
    pub(super) fn news(&self, tools: &[(&str, &str)]) -> Vec<String> {
        let mut hash = DefaultHasher::new();
        tools.hash(&mut hash);
        // The lock is not held while the rules are checked, since other requests wait for it.
        {
            let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
            if seen.len() >= TOOL_SETS || !seen.insert(hash.finish()) {
                return Vec::new();
            }
        }
        let mut app = self.app.clone();
        app.rules
            .tools
            .retain(|rule, _| tools.iter().any(|(tool, _)| tool == rule));
        match app.check_tools(tools) {
            Ok(()) => Vec::new(),
            Err(errors) => errors.iter().map(escape).collect(),
        }
    }
}
