//! `sluice memory`: what is remembered of conversations.

use std::collections::BTreeSet;
use std::path::PathBuf;

use anyhow::{Result, bail};
use clap::{Args, Subcommand};
use hub::trace::escape;
use ifc::{Label, Lattice};
use serde_json::{Value, json};
use store::{Apps, Content, Entry, EntryId, Family, Namespace, Query, Speaker};

use crate::exit::Exit;
use crate::ids::MEMORIES;
use crate::memory::{apps, named, open};
use crate::terminal::{Terminal, ask_word, print, say};
use crate::{configuration, json_lines};

#[derive(Debug, Args)]
pub(crate) struct Memory {
    #[command(subcommand)]
    action: MemoryAction,
    /// The configuration [default: $SLUICE_CONFIG, ./sluice.toml, then the user's configuration
    /// folder]: each has a memory of its own.
    #[arg(long, value_name = "FILE", global = true)]
    config: Option<PathBuf>,
    /// One JSON object per memory.
    #[arg(long, global = true)]
    json: bool,
}

#[derive(Debug, Subcommand)]
enum MemoryAction {
    /// List memories, newest first, or those with certain words, best first.
    #[command(
        after_help = "Example:\n  sluice memory list\n  sluice memory list --namespace mail --search \"delivery Karin\""
    )]
    List {
        /// Only those of conversations with this app, or with these (`calendar+mail`), or with none (`hub`).
        #[arg(long, value_name = "NAME")]
        namespace: Option<String>,
        /// Only those that answer these words.
        #[arg(long, value_name = "WORDS")]
        search: Option<String>,
        /// At most so many.
        #[arg(long, value_name = "COUNT", default_value_t = 50)]
        most: usize,
    },
    /// Show the whole of a memory: text, label, what it came from and what came of it.
    #[command(after_help = "Example:\n  sluice memory show 1f0c9e…")]
    Show {
        /// An id, as `list` shows it, or the beginning of one.
        #[arg(value_name = "ID")]
        id: String,
    },
    /// Forget memories, and everything that was derived from them.
    #[command(
        after_help = "Example:\n  sluice memory forget 1f0c9e…\n  sluice memory forget --namespace mail --yes"
    )]
    Forget {
        /// Ids, or the beginning of one.
        #[arg(value_name = "ID", required_unless_present = "namespace")]
        ids: Vec<String>,
        /// Everything of conversations with this app, or with these (`calendar+mail`), or with none (`hub`).
        #[arg(long, value_name = "NAME", conflicts_with = "ids")]
        namespace: Option<String>,
        /// Do not ask.
        #[arg(long)]
        yes: bool,
    },
}

/// Lists, shows or forgets memories.
pub(crate) fn memory(args: &Memory) -> Result<Exit> {
    let attended = !args.json && Terminal::attended();
    let config = configuration::open(args.config.as_deref(), attended)?;
    let kept = Kept {
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
        } => kept.list(namespace.as_deref(), search.as_deref(), *most),
        MemoryAction::Show { id } => kept.show(id),
        MemoryAction::Forget {
            ids,
            namespace,
            yes,
        } => kept.forget(ids, namespace.as_deref(), *yes),
    }
}

/// The memory as the user sees it: at ⊤.
struct Kept {
    memory: std::sync::Arc<dyn store::Memory>,
    /// The apps of the configuration, and where they come from.
    apps: Apps,
    lattice: Lattice,
    json: bool,
}

impl Kept {
    fn list(&self, namespace: Option<&str>, search: Option<&str>, most: usize) -> Result<Exit> {
        let mut entries = match search {
            Some(words) => self.found(namespace, words, most)?,
            None => self.newest(namespace, most)?,
        };
        let more = entries.len() > most;
        entries.truncate(most);
        for entry in &entries {
            self.print(entry, Self::line)?;
        }
        match (more, entries.is_empty()) {
            (true, _) => say("there are more; --most shows them\n"),
            (false, true) => say("nothing is remembered here\n"),
            (false, false) => {}
        }
        // Last, since it may be an error: what can be read is shown before it.
        self.complete(namespace)?;
        Ok(Exit::Done)
    }

    /// # Errors
    /// Something of what the user means cannot be read, and is not in the list.
    fn complete(&self, namespace: Option<&str>) -> Result<()> {
        let mut left_out = Vec::new();
        for namespace in self.namespaces(namespace)? {
            let ids = self.memory.unreadable(&namespace)?;
            left_out.extend(ids.iter().map(EntryId::to_string));
        }
        match left_out.len() {
            0 => Ok(()),
            1 => bail!("memory {} cannot be read; forget it", left_out.concat()),
            _ => bail!(
                "these memories cannot be read; forget them: {}",
                left_out.join(" ")
            ),
        }
    }

    /// One more than `most`, if there are so many.
    fn newest(&self, namespace: Option<&str>, most: usize) -> Result<Vec<Entry>> {
        let mut entries = Vec::new();
        for namespace in self.namespaces(namespace)? {
            entries.extend(
                self.memory
                    .list(&namespace, most.saturating_add(1), &Label::top())?,
            );
        }
        // A stable sort: question and answer of a turn have the same time, and the newest comes first already.
        entries.sort_by_key(|entry| std::cmp::Reverse(entry.time));
        Ok(entries)
    }

    fn found(&self, namespace: Option<&str>, words: &str, most: usize) -> Result<Vec<Entry>> {
        let query = Query::new(words);
        let mut found = Vec::new();
        let (top, most) = (Label::top(), most.saturating_add(1));
        for namespace in self.namespaces(namespace)? {
            found.extend(self.memory.search(&namespace, &query, &top, most)?);
        }
        found.sort_by(|a, b| b.score.total_cmp(&a.score));
        Ok(found.into_iter().map(|found| found.entry).collect())
    }

    fn show(&self, id: &str) -> Result<Exit> {
        let found = self.find(id)?;
        let entry = self.memory.show(found, &Label::top())?;
        let entry = entry.ok_or_else(|| MEMORIES.unknown(id))?;
        // Looked up before anything is printed, or a failed look-up would read as "led to nothing".
        let derived = self.memory.derived(&[found])?;
        self.print(&entry, |kept, entry| kept.details(entry, &derived))?;
        Ok(Exit::Done)
    }

    fn forget(&self, ids: &[String], namespace: Option<&str>, yes: bool) -> Result<Exit> {
        let meant: Vec<EntryId> = match namespace {
            Some(_) => self.ids(namespace)?,
            // All or none: a typing mistake should not leave the rest of the list forgotten.
            None => ids.iter().map(|id| self.find(id)).collect::<Result<_>>()?,
        };
        let going = self.memory.derived(&meant)?;
        if going.count() == 0 {
            say("nothing is remembered here\n");
            return Ok(Exit::Done);
        }
        if !yes && !self.confirmed(&meant, &going)? {
            say("nothing is forgotten\n");
            return Ok(Exit::Refused);
        }
        self.remove(&meant)
    }

    /// Whether the user says so, having seen all of it.
    fn confirmed(&self, meant: &[EntryId], going: &Family) -> Result<bool> {
        if self.json || !Terminal::attended() {
            bail!("there is no terminal to ask at; --yes forgets without a question");
        }
        let meant: BTreeSet<&EntryId> = meant.iter().collect();
        let derived = |id: &EntryId| match meant.contains(id) {
            true => "",
            false => "  (derived)",
        };
        for entry in &going.entries {
            say(&format!("{}{}\n", self.line(entry), derived(&entry.id)));
        }
        for id in &going.unreadable {
            say(&format!("{id}  (cannot be read){}\n", derived(id)));
        }
        let prompt = format!(
            "Forget these {}, for good? Type forget and Enter [no]: ",
            going.count()
        );
        Ok(ask_word(&prompt, &["forget"]).is_some())
    }

    fn remove(&self, meant: &[EntryId]) -> Result<Exit> {
        let forgotten = self.memory.forget(meant)?;
        if self.json {
            for entry in &forgotten.family.entries {
                self.print(entry, Self::line)?;
            }
        }
        say(&format!("{} forgotten\n", forgotten.family.count()));
        if let Err(error) = forgotten.erased {
            say(&format!("their text is still on the disk: {error}\n"));
        }
        Ok(Exit::Done)
    }

    fn print(&self, entry: &Entry, text: impl Fn(&Self, &Entry) -> String) -> Result<()> {
        match self.json {
            true => json_lines::print_json(&self.json(entry))?,
            false => print(&text(self, entry))?,
        }
        Ok(())
    }

    fn shown(&self, namespace: &Namespace) -> String {
        named(namespace, &self.apps)
    }

    /// The namespaces that the user means; all of them without a name.
    fn namespaces(&self, name: Option<&str>) -> Result<Vec<Namespace>> {
        let all = self.memory.namespaces()?;
        let Some(name) = name else { return Ok(all) };
        let name = name.strip_prefix(APPS).unwrap_or(name);
        // Names alone mean every app that ever had them.
        let means = |own: &Namespace| own.to_string() == name || self.shown(own) == name;
        let meant: Vec<Namespace> = all.iter().filter(|own| means(own)).cloned().collect();
        if meant.is_empty() && !all.is_empty() {
            let known: Vec<String> = all.iter().map(|own| escape(&self.shown(own))).collect();
            let known = known.join(", ");
            bail!(
                "there is no memory of '{}'; there are {known}",
                escape(name)
            );
        }
        Ok(meant)
    }

    /// The ids of all memories of the namespaces that the user means, whether they can be read or not.
    fn ids(&self, namespace: Option<&str>) -> Result<Vec<EntryId>> {
        let mut ids = Vec::new();
        for namespace in self.namespaces(namespace)? {
            ids.extend(self.memory.ids(&namespace)?);
        }
        Ok(ids)
    }

    /// The one memory whose id begins so. It need not be one that can be read: what cannot be is to be forgotten.
    fn find(&self, id: &str) -> Result<EntryId> {
        if let Ok(whole) = id.parse::<EntryId>() {
            // Not looked for among the namespaces: a damaged entry may not say to which one it belongs.
            let found = self.memory.derived(&[whole])?;
            return (found.count() > 0)
                .then_some(whole)
                .ok_or_else(|| MEMORIES.unknown(id));
        }
        MEMORIES.find(&self.ids(None)?, id)
    }

    /// Id, day, whose it is, label and the beginning of the text, on one line.
    fn line(&self, entry: &Entry) -> String {
        let id: String = entry.id.to_string().chars().take(SHORT).collect();
        let (by, text) = said(&entry.content);
        let mut beginning: String = text.chars().take(LINE).collect();
        if beginning.len() < text.len() {
            beginning.push('…');
        }
        format!(
            "{id}  {}  {}, {by}  {}  {}",
            time(entry),
            escape(&self.shown(&entry.namespace)),
            self.label(entry),
            escape(&beginning)
        )
    }

    fn details(&self, entry: &Entry, family: &Family) -> String {
        let (by, text) = said(&entry.content);
        let ids = |ids: &[EntryId]| match ids {
            [] => "nothing".to_owned(),
            ids => ids
                .iter()
                .map(EntryId::to_string)
                .collect::<Vec<_>>()
                .join(", "),
        };
        let derived = family.entries.iter().map(|entry| entry.id);
        let derived = derived.chain(family.unreadable.iter().copied());
        let derived: Vec<EntryId> = derived.filter(|id| *id != entry.id).collect();
        let unknown = match entry.unknown.as_slice() {
            [] => String::new(),
            unknown => format!(
                "  (the lattice no longer has {})",
                escape(&unknown.join(", "))
            ),
        };
        format!(
            "{}\ntime       {}\nof         {}, {by}\nlabel      {}{unknown}\nsession    {}\nmade from  {}\nled to     {}\n\n{}",
            entry.id,
            time(entry),
            escape(&self.shown(&entry.namespace)),
            self.label(entry),
            escape(&entry.origin),
            ids(&entry.sources),
            ids(&derived),
            hub::trace::escape_lines(&text)
        )
    }

    fn label(&self, entry: &Entry) -> String {
        let names = self.lattice.describe(&entry.label);
        match names.is_empty() {
            true => "{trusted, public}".to_owned(),
            false => format!("{{{}}}", escape(&names.join(", "))),
        }
    }

    fn json(&self, entry: &Entry) -> Value {
        let (by, text) = said(&entry.content);
        let sources: Vec<String> = entry.sources.iter().map(EntryId::to_string).collect();
        json!({
            "id": entry.id.to_string(),
            "at_ms": entry.time.millis(),
            "namespace": match entry.namespace {
                Namespace::Hub => self.shown(&entry.namespace),
                _ => format!("{APPS}{}", self.shown(&entry.namespace)),
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

/// Before the names of apps for programs, so that no app is the hub.
const APPS: &str = "app:";

/// Digits of an id in a list: few enough to type, enough to tell a few thousand apart.
const SHORT: usize = 12;

/// Characters of a text in a list.
const LINE: usize = 100;

/// Who or what says something, and what.
fn said(content: &Content) -> (&'static str, String) {
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

fn time(entry: &Entry) -> String {
    match jiff::Timestamp::from_millisecond(entry.time.millis()) {
        Ok(time) => {
            let local = time.to_zoned(jiff::tz::TimeZone::system());
            local.strftime("%Y-%m-%d %H:%M").to_string()
        }
        Err(_) => "an unknown time".to_owned(),
    }
}
