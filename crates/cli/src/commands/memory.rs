//! `sluice memory`: list, show and delete memories of conversations.

use std::collections::BTreeSet;
use std::sync::Arc;

use anyhow::{Result, bail};
use clap::{Args, Subcommand};
use hub::trace::{escape, escape_lines};
use ifc::{Label, Lattice};
use serde_json::{Value, json};
use store::{Apps, Content, Entry, EntryId, Family, Namespace, Query, Speaker};

use crate::exit::Exit;
use crate::ids::MEMORIES;
use crate::memory::{apps, named, open};
use crate::terminal::{Terminal, is_agreed, print, say};
use crate::words::{minute, set};
use crate::{json_lines, place::ConfigFile};

#[derive(Debug, Args)]
pub(crate) struct Memory {
    #[command(subcommand)]
    action: MemoryAction,
    #[command(flatten)]
    file: ConfigFile,
    /// Print JSON, one memory per line.
    #[arg(long, global = true)]
    json: bool,
}

#[derive(Debug, Subcommand)]
enum MemoryAction {
    /// List memories, newest first, or the best matches of a search.
    #[command(
        after_help = "Example:\n  sluice memory list\n  sluice memory list --namespace mail --search \"delivery Karin\""
    )]
    List {
        /// Only those of conversations with this app, with these apps (`calendar+mail`), or with none (`hub`)
        /// [default: all].
        #[arg(long, value_name = "NAME")]
        namespace: Option<String>,
        /// Only those that match these words [default: all].
        #[arg(long, value_name = "WORDS")]
        search: Option<String>,
        /// The largest number of memories.
        #[arg(long, value_name = "COUNT", default_value_t = 50)]
        most: usize,
    },
    /// Show a memory: text, label, sources, and the memories that were derived from it.
    #[command(after_help = "Example:\n  sluice memory show 1f0c9e…")]
    Show {
        /// The id that `list` shows, or the beginning of it.
        #[arg(value_name = "ID")]
        id: String,
    },
    /// Delete memories and everything that was derived from them.
    #[command(
        after_help = "Example:\n  sluice memory forget 1f0c9e…\n  sluice memory forget --namespace mail --yes"
    )]
    Forget {
        /// The ids that `list` shows, or their beginnings.
        #[arg(value_name = "ID", required_unless_present = "namespace")]
        ids: Vec<String>,
        /// All of conversations with this app, with these apps (`calendar+mail`), or with none (`hub`).
        #[arg(long, value_name = "NAME", conflicts_with = "ids")]
        namespace: Option<String>,
        /// Delete without asking.
        #[arg(long)]
        yes: bool,
    },
}

pub(crate) fn memory(args: &Memory) -> Result<Exit> {
    let config = args.file.open(args.json)?;
    let memories = Memories {
        memory: open(&config)?,
        apps: apps(&config)?,
        lattice: config.lattice,
        json: args.json,
    };
    match &args.action {
        MemoryAction::List {
            namespace,
            search,
            most,
        } => memories.list(namespace.as_deref(), search.as_deref(), *most),
        MemoryAction::Show { id } => memories.show(id),
        MemoryAction::Forget {
            ids,
            namespace,
            yes,
        } => memories.forget(ids, namespace.as_deref(), *yes),
    }
}

/// The memory as the user sees it: at ⊤.
struct Memories {
    memory: Arc<dyn store::Memory>,
    /// The apps of the configuration, and where they come from.
    apps: Apps,
    lattice: Lattice,
    json: bool,
}

impl Memories {
    fn list(&self, namespace: Option<&str>, search: Option<&str>, most: usize) -> Result<Exit> {
        let namespaces = self.namespaces(namespace)?;
        // One more than asked for tells whether there are more.
        let (top, count) = (Label::top(), most.saturating_add(1));
        let mut entries: Vec<Entry> = Vec::new();
        if let Some(words) = search {
            let (query, mut found) = (Query::new(words), Vec::new());
            for namespace in &namespaces {
                found.extend(self.memory.search(namespace, &query, &top, count)?);
            }
            found.sort_by(|a, b| b.score.total_cmp(&a.score));
            entries.extend(found.into_iter().map(|found| found.entry));
        } else {
            for namespace in &namespaces {
                entries.extend(self.memory.list(namespace, count, &top)?);
            }
            // A stable sort: the question and the answer of a turn may have the same time.
            entries.sort_by_key(|entry| std::cmp::Reverse(entry.time));
        }
        let more = entries.len() > most;
        entries.truncate(most);
        for entry in &entries {
            self.print(entry, || self.line(entry))?;
        }
        match (more, entries.is_empty()) {
            (true, _) => say("there are more; show them with --most COUNT\n"),
            (false, true) => say("there are no memories here\n"),
            (false, false) => {}
        }
        // Unreadable entries are an error, after the readable ones were shown.
        let mut unreadable = Vec::new();
        for namespace in &namespaces {
            unreadable.extend(self.memory.unreadable(namespace)?);
        }
        if !unreadable.is_empty() {
            let ids: Vec<String> = unreadable.iter().map(EntryId::to_string).collect();
            let (all, words) = (ids.join(", "), ids.join(" "));
            bail!("{all} cannot be read; forget it with `sluice memory forget {words}`");
        }
        Ok(Exit::Done)
    }

    fn show(&self, id: &str) -> Result<Exit> {
        let found = self.find(id)?;
        let entry = self.memory.show(found, &Label::top())?;
        let entry = entry.ok_or_else(|| MEMORIES.unknown(id))?;
        // Before anything is printed: a failed look-up must not read as "derived nothing".
        let family = self.memory.derived(&[found])?;
        self.print(&entry, || self.details(&entry, &family))?;
        Ok(Exit::Done)
    }

    fn forget(&self, named: &[String], namespace: Option<&str>, yes: bool) -> Result<Exit> {
        let chosen: Vec<EntryId> = match namespace {
            Some(_) => self.ids(namespace)?,
            // All or none: after a typing mistake nothing is deleted.
            None => (named.iter().map(|id| self.find(id))).collect::<Result<_>>()?,
        };
        let family = self.memory.derived(&chosen)?;
        if family.count() == 0 {
            say("there are no memories here\n");
            return Ok(Exit::Done);
        }
        if !yes && !self.confirmed(&chosen, &family)? {
            say("nothing was forgotten\n");
            return Ok(Exit::Refused);
        }
        let forgotten = self.memory.forget(&chosen)?;
        if self.json {
            for entry in &forgotten.family.entries {
                self.print(entry, String::new)?;
            }
        }
        say(&format!("{} forgotten\n", forgotten.family.count()));
        if let Err(error) = forgotten.erased {
            say(&format!("their text is still on disk: {error}\n"));
        }
        Ok(Exit::Done)
    }

    /// Shows all of them, and asks.
    fn confirmed(&self, chosen: &[EntryId], family: &Family) -> Result<bool> {
        if self.json || !Terminal::attended() {
            bail!("there is no terminal to ask at; forget without a question by --yes");
        }
        let chosen: BTreeSet<&EntryId> = chosen.iter().collect();
        let derived = |id: &EntryId| match chosen.contains(id) {
            true => "",
            false => "  (derived)",
        };
        for entry in &family.entries {
            say(&format!("{}{}\n", self.line(entry), derived(&entry.id)));
        }
        for id in &family.unreadable {
            say(&format!("{id}  (cannot be read){}\n", derived(id)));
        }
        let count = family.count();
        let prompt = format!("Forget these {count} for good? Type forget to confirm [no]: ");
        Ok(is_agreed(&prompt, "forget"))
    }

    fn print(&self, entry: &Entry, text: impl FnOnce() -> String) -> Result<()> {
        match self.json {
            true => json_lines::print_json(&self.json(entry))?,
            false => print(&text())?,
        }
        Ok(())
    }

    /// The namespaces with this name; all of them without one.
    fn namespaces(&self, name: Option<&str>) -> Result<Vec<Namespace>> {
        let all = self.memory.namespaces()?;
        let Some(name) = name else { return Ok(all) };
        let name = name.strip_prefix(APPS).unwrap_or(name);
        // The plain name of an app selects every app that ever had it.
        let has_name = |own: &&Namespace| own.to_string() == name || named(own, &self.apps) == name;
        let found: Vec<Namespace> = all.iter().filter(has_name).cloned().collect();
        if found.is_empty() && !all.is_empty() {
            let known: Vec<String> = all.iter().map(|own| named(own, &self.apps)).collect();
            let (name, known) = (escape(name), escape(&known.join(", ")));
            bail!("there is no memory of '{name}'; choose one of {known}");
        }
        Ok(found)
    }

    /// The ids of all memories of the namespaces with this name, including those that cannot be read.
    fn ids(&self, namespace: Option<&str>) -> Result<Vec<EntryId>> {
        let mut ids = Vec::new();
        for namespace in self.namespaces(namespace)? {
            ids.extend(self.memory.ids(&namespace)?);
        }
        Ok(ids)
    }

    /// The one memory whose id begins so. It may be one that cannot be read.
    fn find(&self, id: &str) -> Result<EntryId> {
        let Ok(whole) = id.parse::<EntryId>() else {
            return MEMORIES.find(&self.ids(None)?, id);
        };
        // Not by namespaces: a damaged entry may have none.
        match self.memory.derived(&[whole])?.count() {
            0 => Err(MEMORIES.unknown(id)),
            _ => Ok(whole),
        }
    }

    /// Id, time, namespace, label and the beginning of the text, on one line.
    fn line(&self, entry: &Entry) -> String {
        let (by, text) = said(&entry.content);
        let mut beginning: String = text.chars().take(LINE).collect();
        if beginning.len() < text.len() {
            beginning.push('…');
        }
        format!(
            "{:.SHORT$}  {}  {}, {by}  {}  {}",
            entry.id.to_string(),
            minute(entry.time),
            escape(&named(&entry.namespace, &self.apps)),
            self.label(entry),
            escape(&beginning)
        )
    }

    fn details(&self, entry: &Entry, family: &Family) -> String {
        let (by, text) = said(&entry.content);
        let derived = family.entries.iter().map(|entry| entry.id);
        let derived = derived.chain(family.unreadable.iter().copied());
        let derived: Vec<EntryId> = derived.filter(|id| *id != entry.id).collect();
        let unknown = match entry.unknown.is_empty() {
            true => String::new(),
            false => format!("  (the lattice no longer has {})", entry.unknown.join(", ")),
        };
        format!(
            "{}\ntime       {}\nof         {}, {by}\nlabel      {}{}\nsession    {}\nsources    {}\nderived    {}\n\n{}",
            entry.id,
            minute(entry.time),
            escape(&named(&entry.namespace, &self.apps)),
            self.label(entry),
            escape(&unknown),
            escape(&entry.origin),
            ids(&entry.sources),
            ids(&derived),
            escape_lines(&text)
        )
    }

    fn label(&self, entry: &Entry) -> String {
        escape(&set(&self.lattice.describe(&entry.label)))
    }

    fn json(&self, entry: &Entry) -> Value {
        let (by, text) = said(&entry.content);
        let sources: Vec<String> = entry.sources.iter().map(EntryId::to_string).collect();
        let own = named(&entry.namespace, &self.apps);
        json!({
            "id": entry.id.to_string(),
            "at_ms": entry.time.millis(),
            "namespace": match entry.namespace {
                Namespace::Hub => own,
                Namespace::Apps(_) => format!("{APPS}{own}"),
            },
            "by": by,
            "text": text,
            "label": self.lattice.describe(&entry.label),
            "unknown": entry.unknown,
            "session": entry.origin,
            "sources": sources,
        })
    }
}

/// Before the names of apps in JSON, so that no app is the hub.
const APPS: &str = "app:";

/// Digits of an id in a list: few enough to type, enough to tell a few thousand apart.
const SHORT: usize = 12;

/// Characters of a text in a list.
const LINE: usize = 100;

fn ids(ids: &[EntryId]) -> String {
    match ids {
        [] => "nothing".to_owned(),
        ids => (ids.iter().map(EntryId::to_string))
            .collect::<Vec<_>>()
            .join(", "),
    }
}

/// The speaker or the kind, and the text.
pub(crate) fn said(content: &Content) -> (&'static str, String) {
    match content {
        Content::Interaction { speaker, text } => match speaker {
            Speaker::User => ("user", text.clone()),
            Speaker::System => ("assistant", text.clone()),
        },
        Content::Summary { text } => ("summary", text.clone()),
        Content::Fact {
            entity,
            attribute,
            value,
        } => ("fact", format!("{entity}, {attribute}: {value}")),
    }
}
