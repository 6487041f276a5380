//! Ids as they are typed: the beginning of one is enough.

use std::fmt::Display;

use anyhow::{Error, Result, anyhow, bail};
use hub::trace::escape;

/// What has ids, in messages.
pub(crate) struct Named {
    one: &'static str,
    several: &'static str,
    /// What lists them.
    command: &'static str,
}

pub(crate) const MEMORIES: Named = Named {
    one: "memory",
    several: "memories",
    command: "sluice memory list",
};

pub(crate) const PERMISSIONS: Named = Named {
    one: "permission",
    several: "permissions",
    command: "sluice permissions list",
};

impl Named {
    /// The one whose id begins so.
    ///
    /// # Errors
    /// There is none, or there are several.
    pub(crate) fn find<Id: Copy + Display>(&self, all: &[Id], id: &str) -> Result<Id> {
        // An empty word begins every id, and would mean whichever is the only one.
        let begins = |own: &&Id| !id.is_empty() && own.to_string().starts_with(id);
        let mut found = all.iter().filter(begins);
        match (found.next(), found.next()) {
            (Some(found), None) => Ok(*found),
            (None, _) => Err(self.unknown(id)),
            _ => bail!("several {} begin with {}", self.several, escape(id)),
        }
    }

    /// That there is none whose id begins so.
    pub(crate) fn unknown(&self, id: &str) -> Error {
        let Self { one, command, .. } = self;
        anyhow!("there is no {one} {}; `{command}` shows them", escape(id))
    }
}
