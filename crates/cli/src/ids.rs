//! Ids as they are typed: the beginning of one is enough.

use std::fmt::Display;

use anyhow::{Error, Result, anyhow, bail};
use hub::trace::escape;

/// A kind of thing with ids: its name, and the command that lists the ids.
pub(crate) struct Named(&'static str, &'static str);

pub(crate) const MEMORIES: Named = Named("memory", "sluice memory list");
pub(crate) const PERMISSIONS: Named = Named("permission", "sluice permissions list");

impl Named {
    /// The only id that begins with this text.
    pub(crate) fn find<Id: Copy + Display>(&self, all: &[Id], id: &str) -> Result<Id> {
        // Every id begins with the empty text.
        let begins = |own: &&Id| !id.is_empty() && own.to_string().starts_with(id);
        let mut found = all.iter().filter(begins);
        match (found.next(), found.next()) {
            (Some(found), None) => Ok(*found),
            (None, _) => Err(self.unknown(id)),
            _ => bail!("more than one {} begins with {}", self.0, escape(id)),
        }
    }

    /// The error that no id begins with this text.
    pub(crate) fn unknown(&self, id: &str) -> Error {
        let (Self(one, command), id) = (self, escape(id));
        anyhow!("there is no {one} {id}; list them with `{command}`")
    }
}
