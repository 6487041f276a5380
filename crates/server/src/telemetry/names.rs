//! The tools that the policy names.

use std::collections::HashSet;
use std::sync::{PoisonError, RwLock};

/// What any other tool is called: its name is a model's or a client's word, and there is no end of them.
const OTHER: &str = "other";

/// The tools that the policy in force has rules for, by app.
#[derive(Debug, Default)]
pub struct PolicyNames(RwLock<HashSet<(String, String)>>);

impl PolicyNames {
    /// Takes the tools of a configuration that comes into force, as pairs of app and tool.
    pub fn replace(&self, tools: impl IntoIterator<Item = (String, String)>) {
        let tools = tools.into_iter().collect();
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = tools;
    }

    /// The name of a tool as anyone may know it.
    pub fn tool<'a>(&self, app: &str, tool: &'a str) -> &'a str {
        let known = self.0.read().unwrap_or_else(PoisonError::into_inner);
        match known.contains(&(app.to_owned(), tool.to_owned())) {
            true => tool,
            false => OTHER,
        }
    }
}
