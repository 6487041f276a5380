//! Handing the memories of apps over to those that have their names now.

use anyhow::{Context, Result, bail};
use hub::trace::escape;
use ifc::Label;
use store::{EntryId, MemoryError, Name, Namespace};

use super::Kept;
use crate::exit::Exit;
use crate::terminal::{Terminal, ask_word, say};

impl Kept {
    pub(super) fn adopt(&self, name: &str, yes: bool) -> Result<Exit> {
        let mut others = Vec::new();
        for namespace in self.namespaces(Some(name))? {
            // Conversations without an app belong to none, and what is of the apps as they are now
            // needs no adoption.
            if namespace == Namespace::Hub || namespace.is_of(&self.apps) {
                continue;
            }
            let ids = self.memory.ids(&namespace)?;
            if !ids.is_empty() {
                others.push((namespace, ids));
            }
        }
        let (from, ids) = match others.as_slice() {
            [] => {
                say("nothing is remembered here that its apps are not told already\n");
                return Ok(Exit::Done);
            }
            [one] => one,
            several => {
                let several = several.iter().map(|(from, _)| escape(&self.shown(from)));
                let several: Vec<String> = several.collect();
                bail!(
                    "several apps had the name '{}': {}; say which of them, and adopt one after another",
                    escape(name),
                    several.join(", ")
                );
            }
        };
        let to = self.now(from)?;
        if !yes && !self.may_be_told(from, ids, &to)? {
            say("nothing is changed\n");
            return Ok(Exit::Refused);
        }
        let count = self.memory.hand_over(from, &to)?;
        if self.json {
            for id in ids {
                // One that cannot be read is handed over too, and still cannot be.
                if let Ok(Some(entry)) = self.memory.show(*id, &Label::top()) {
                    self.print(&entry, Self::line)?;
                }
            }
        }
        let (whose, to_whom) = (escape(&self.shown(from)), escape(&to.to_string()));
        say(&format!(
            "{to_whom} is told what was of {whose} ({count})\n"
        ));
        Ok(Exit::Done)
    }

    /// Whether the user says so, having seen all of it.
    fn may_be_told(&self, from: &Namespace, ids: &[EntryId], to: &Namespace) -> Result<bool> {
        // The question is about texts that only a person can read and judge.
        if self.json || !Terminal::attended() {
            bail!("there is no terminal to ask at; --yes lets the app be told without a question");
        }
        for id in ids {
            match self.memory.show(*id, &Label::top()) {
                Ok(Some(entry)) => say(&format!("{}\n", self.line(&entry))),
                Ok(None) => {}
                Err(MemoryError::Unreadable { .. }) => say(&format!("{id}  (cannot be read)\n")),
                Err(error) => return Err(error.into()),
            }
        }
        let (whose, to_whom) = (escape(&self.shown(from)), escape(&to.to_string()));
        let prompt = format!(
            "Let {to_whom}, as it is configured now, be told all {} of {whose}? Type adopt and Enter [no]: ",
            ids.len()
        );
        Ok(ask_word(&prompt, &["adopt"]).is_some())
    }

    /// The namespace of the apps that have the names now.
    fn now(&self, namespace: &Namespace) -> Result<Namespace> {
        let names = namespace.names().into_iter();
        let now = names.map(|name| {
            let name = Name::new(name)?;
            let origin = self.apps.get(&name).copied();
            let origin = origin.with_context(|| {
                let name = escape(name.as_str());
                format!("the configuration has no app '{name}' that could be told; add it first, or forget this with `sluice memory forget`")
            })?;
            Ok((name, origin))
        });
        Ok(Namespace::Apps(now.collect::<Result<_>>()?))
    }
}
