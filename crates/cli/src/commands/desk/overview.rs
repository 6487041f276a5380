//! What the pages of the desk show beside the questions: traces, permissions, memory and the configuration of the user who
//! started it.

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use anyhow::{Context, Result};
use config::{App, Config};
use hub::trace::{Event, Flow, Record};
use ifc::{Label, Lattice};
use policy::{ToolRule, Verdict};
use server::TracePart;
use server::desk::{AppFacts, Apps, Decisions, Item, Listed, Overview, ToolFacts};

use crate::commands::memory::said;
use crate::commands::permissions::{standing, what};
use crate::commands::policy::{decisions, recorded_text};
use crate::place::ConfigFile;
use crate::words::{minute, set};
use crate::{configuration, memory, paths, permissions, traces};

/// Items of one page of a list, and events of one page of a session. A page of these is some hundred kilobytes.
const ITEMS: usize = 100;
const EVENTS: usize = 200;
/// Memories of one namespace that can be listed. `sluice memory list --most` lists more.
const MEMORIES: usize = 10_000;
/// How old the decisions of a page may be.
const FRESH: Duration = Duration::from_secs(30);
/// How long back decisions are read.
const WEEK: Duration = Duration::from_secs(7 * 24 * 60 * 60);
/// Bytes of the traces whose decisions are read. They are in memory one file at a time.
const BYTES: u64 = 32 << 20;
/// Decisions of one tool that are shown.
const LAST: usize = 5;

/// What the commands of this user show, with this configuration.
pub(crate) fn overview(file: ConfigFile) -> Arc<dyn Overview> {
    let recent = Arc::default();
    Arc::new(Own { file, recent })
}

struct Own {
    file: ConfigFile,
    recent: Arc<Mutex<Recent>>,
}

#[derive(Default)]
struct Recent {
    found: Decisions,
    read: Option<Instant>,
    is_reading: bool,
}

impl Own {
    /// Each page reads the configuration again, since it may have changed. A page cannot ask for trust.
    fn config(&self) -> Result<Config> {
        configuration::open(self.file.config.as_deref(), false)
    }

    fn permissions(&self) -> Result<Vec<Item>> {
        let config = self.config()?;
        let all = permissions::open(&config)?;
        let all = all.list(&permissions::apps(&config)?, permissions::now())?;
        let item = |kept: &store::Kept| Item {
            id: kept.id.to_string(),
            about: standing(kept),
            text: what(&kept.action, &kept.taints),
            ..Item::default()
        };
        Ok(all.iter().rev().map(item).collect())
    }

    fn memories(&self) -> Result<Vec<Item>> {
        let config = self.config()?;
        let (memory, apps) = (memory::open(&config)?, memory::apps(&config)?);
        let (mut entries, mut items) = (Vec::new(), Vec::new());
        for namespace in memory.namespaces()? {
            entries.extend(memory.list(&namespace, MEMORIES, &Label::top())?);
            let of = memory::named(&namespace, &apps);
            let unreadable = memory.unreadable(&namespace)?;
            items.extend(unreadable.iter().map(|id| Item {
                id: id.to_string(),
                about: format!("{of}  cannot be read"),
                label: vec!["any".to_owned()],
                ..Item::default()
            }));
        }
        entries.sort_by_key(|entry| std::cmp::Reverse(entry.time));
        items.extend(entries.iter().map(|entry| {
            let (by, text) = said(&entry.content);
            let (at, of) = (minute(entry.time), memory::named(&entry.namespace, &apps));
            Item {
                id: entry.id.to_string(),
                about: format!("{at}  {of}, {by}"),
                text,
                label: config.lattice.describe(&entry.label),
            }
        }));
        Ok(items)
    }

    fn apps(&self) -> Result<Apps> {
        let config = self.config()?;
        let file = configuration::find(self.file.config.as_deref())?;
        Ok(Apps {
            file: file.map_or(String::new(), |file| file.path().display().to_string()),
            apps: (config.apps.values())
                .map(|app| of_app(&config.lattice, app))
                .collect(),
        })
    }
}

impl Overview for Own {
    fn list(&self, what: Listed, page: usize) -> Result<(Vec<Item>, usize), String> {
        let all = match what {
            Listed::Sessions => sessions(),
            Listed::Permissions => self.permissions(),
            Listed::Memories => self.memories(),
        };
        let mut all = all.map_err(line)?;
        let pages = all.len().div_ceil(ITEMS);
        let start = page.saturating_mul(ITEMS).min(all.len());
        let mut shown: Vec<Item> = all.drain(start..).take(ITEMS).collect();
        if what == Listed::Sessions {
            shown
                .iter_mut()
                .for_each(|item| item.about = about(&item.id).unwrap_or_default());
        }
        Ok((shown, pages))
    }

    fn session(
        &self,
        id: &str,
        page: Option<usize>,
        conversation: Option<usize>,
    ) -> Result<Option<TracePart>, String> {
        let read = |file: PathBuf| TracePart::read(&file, page, EVENTS, conversation);
        let part = find(id).map(read).transpose();
        part.map_err(|error| format!("the trace of {id} cannot be read: {error}"))
    }

    fn session_bytes(&self, id: &str) -> Option<u64> {
        Some(find(id)?.metadata().ok()?.len())
    }

    fn revoke(&self, id: &str) -> Result<(), String> {
        // As `sluice permissions revoke`: in any lattice, also where the configuration has mistakes.
        let revoke = || {
            let all = permissions::open_in(Lattice::four_point())?;
            let is_own = |own: &store::PermissionId| own.to_string() == id;
            let found = all.ids()?.into_iter().find(is_own);
            all.revoke(found.context("there is no such permission any more")?)?;
            Ok(())
        };
        revoke().map_err(line)
    }

    fn apps(&self) -> Result<Apps, String> {
        self.apps().map_err(line)
    }

    fn decisions(&self) -> Decisions {
        let mut recent = self.recent.lock().unwrap_or_else(PoisonError::into_inner);
        let is_old = recent.read.is_none_or(|at| at.elapsed() > FRESH);
        if is_old && !recent.is_reading {
            recent.is_reading = true;
            let recent = self.recent.clone();
            // It may take seconds. Nothing waits for it, and the process may end meanwhile.
            thread::spawn(move || {
                let found = read_decisions();
                let mut recent = recent.lock().unwrap_or_else(PoisonError::into_inner);
                *recent = Recent {
                    found,
                    read: Some(Instant::now()),
                    is_reading: false,
                };
            });
        }
        recent.found.clone()
    }
}

fn line(error: anyhow::Error) -> String {
    format!("{error:#}")
}

/// The name of a session that a link can have as it is.
fn name(file: &Path) -> Option<&str> {
    file.file_stem()?.to_str().filter(|name| is_plain(name))
}

fn is_plain(name: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    name.chars().all(is_plain)
}

/// The file of a session. An id comes from a link.
fn find(id: &str) -> Option<PathBuf> {
    let file = paths::traces().ok()?.join(format!("{id}.jsonl"));
    (is_plain(id) && file.is_file()).then_some(file)
}

/// The ids of all sessions, newest first.
fn sessions() -> Result<Vec<Item>> {
    let item = |file: &PathBuf| {
        let id = name(file)?.to_owned();
        Some(Item {
            id,
            ..Item::default()
        })
    };
    Ok(traces::sessions()?.iter().rev().filter_map(item).collect())
}

/// What a session is, by its first event, and when the last one was.
fn about(id: &str) -> Option<String> {
    /// The first record is short.
    const FIRST: u64 = 4096;
    let file = File::open(find(id)?).ok()?;
    let about = file.metadata().ok()?;
    let mut first = String::new();
    // Bytes that are no text leave it empty, as a damaged record does.
    let _ = BufReader::new(file.take(FIRST)).read_line(&mut first);
    let record = serde_json::from_str(&first).map(|record: Record| record.event);
    let mode = match record {
        Ok(Event::SessionStarted { mode, screener, .. }) => format!("{mode}, {screener}  "),
        _ => String::new(),
    };
    let last = minute(about.modified().ok()?.into());
    Some(format!(
        "{mode}last event {last}  {} KiB",
        about.len().div_ceil(1024)
    ))
}

fn of_app(lattice: &Lattice, app: &App) -> AppFacts {
    let program = app.command.first().map_or("", String::as_str);
    let runs = match (app.client, &app.remote) {
        (true, _) => "runs in the agent behind the proxy".to_owned(),
        (false, Some(remote)) => format!("runs at {}", remote.url.origin()),
        // Its arguments may hold a secret.
        (false, None) => format!("runs in a sandbox: {program}"),
    };
    let answer = set(&lattice.describe(&app.rules.answer));
    let folders = app.mounts.iter().map(|mount| {
        let access = if mount.write { "writes to" } else { "reads" };
        format!("{access} {}", mount.source.display())
    });
    let domains = app.domains.iter().map(|it| it.pattern.to_string());
    let relays = app
        .egress
        .iter()
        .map(|it| format!("{}:{}", it.host, it.port));
    let asked = app
        .ask_domains
        .then(|| "any domain, after a question".to_owned());
    let reached = domains.chain(relays).chain(asked);
    let about = app.description.iter().cloned();
    let about = about.chain([runs, format!("answers may show {answer}")]);
    let about = about
        .chain(folders)
        .chain(reached.map(|it| format!("connects to {it}")));
    let tools = app.rules.tools.iter();
    let tools = tools.map(|(name, rule)| of_tool(lattice, name, rule));
    let others = app.rules.other_tools.iter();
    AppFacts {
        name: app.name.clone(),
        about: about.collect(),
        tools: tools
            .chain(others.map(|rule| of_tool(lattice, "(other tools)", rule)))
            .collect(),
    }
}

fn of_tool(lattice: &Lattice, name: &str, rule: &ToolRule) -> ToolFacts {
    let limit = ("limit".to_owned(), lattice.describe(&rule.limit));
    let arguments = rule.arguments.iter();
    let arguments =
        arguments.map(|(path, limit)| (format!("limit of {path}"), lattice.describe(&limit.label)));
    let result = lattice.describe(rule.result.worst());
    let result = ("results are at most".to_owned(), result);
    let conditions = rule.conditions.iter();
    let conditions = conditions.map(|_| "it has conditions".to_owned());
    let approvers = rule.approvers.iter();
    let approvers = approvers.map(|names| format!("only {} may allow it", names.join(", ")));
    ToolFacts {
        name: name.to_owned(),
        effect: rule.effect.name().to_owned(),
        labels: [limit]
            .into_iter()
            .chain(arguments)
            .chain([result])
            .collect(),
        notes: approvers.chain(conditions).collect(),
        place: rule.place.as_ref().map(ToString::to_string),
    }
}

/// The decisions of the newest traces. A file that cannot be read is left out.
fn read_decisions() -> Decisions {
    let (mut found, mut left) = (Decisions::default(), BYTES);
    let after = SystemTime::now().checked_sub(WEEK);
    for file in traces::sessions().unwrap_or_default().iter().rev() {
        let (Some(session), Ok(about)) = (name(file), file.metadata()) else {
            continue;
        };
        if about.modified().ok() < after {
            continue;
        }
        let Some(rest) = left.checked_sub(about.len()) else {
            found.is_partial = true;
            continue;
        };
        left = rest;
        let part = TracePart::read(file, Some(0), usize::MAX, None).unwrap_or_default();
        let records = part.records.into_iter();
        let records: Vec<_> = records.filter_map(|(_, record)| record.ok()).collect();
        for recorded in decisions(&records).iter().rev() {
            let Flow::Call(call) = recorded.flow else {
                continue;
            };
            let key = format!("{}.{}", call.app, call.tool.as_str());
            let tool = found.tools.entry(key).or_default();
            let [allowed, asked, denied] = &mut tool.counts;
            *match recorded.verdict {
                Verdict::Allow => allowed,
                Verdict::Ask => asked,
                Verdict::Deny => denied,
            } += 1;
            if tool.last.len() < LAST {
                tool.last
                    .push((session.to_owned(), recorded_text(recorded)));
            }
        }
    }
    found.read = Some(minute(SystemTime::now().into()));
    found
}
