//! `sluice init`: MCP clients whose servers go behind Sluice.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use clap::Args;
use clients::{
    CLIENTS, Change, ClientFile, Edited, Gateway, Journal, Kind, Machine, Opened, Record, Scope,
    Servers, SettingsChange,
};
use config::{Piece, ServiceSettings, from_environment, pieces};
use hub::trace::escape;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use similar::TextDiff;

use crate::commands::app::add::{self, How};
use crate::commands::app::block::{self, Wish};
use crate::commands::app::{foreign, import, section};
use crate::configuration::{Examples, Found};
use crate::exit::Exit;
use crate::hex::hex;
use crate::json_lines::print_json;
use crate::terminal::{Terminal, is_agreed, message, print, say};
use crate::{paths, service};

#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  sluice init --dry-run
  sluice init --client claude-code --client codex
  sluice init --all --yes
  sluice undo

Each server becomes an app of your sluice.toml, as by `sluice app import`, and one entry that starts `sluice gateway` takes
the place of all of them; it uses a running `sluice serve`. A server that cannot be added stays as it is. Restart the client afterwards.")]
pub(crate) struct Init {
    /// A client whose files are changed (repeatable) [default: all that are found, each after a question].
    #[arg(long, value_name = "NAME", value_parser = ids_of_clients())]
    client: Vec<String>,
    /// Change the files of all clients that are found.
    #[arg(long, conflicts_with = "client")]
    all: bool,
    /// Lists of servers that are changed (repeatable): the user's, those of single projects in a user's file, and those of
    /// the project in the working folder [default: all three].
    #[arg(long, value_name = "SCOPE", value_parser = ["user", "local", "project"])]
    scope: Vec<String>,
    /// Start each server by `sluice wrap` in its own entry, in place of one gateway. No app is added.
    #[arg(long)]
    wrap: bool,
    /// Print what would change, and change nothing. No server is started.
    #[arg(long)]
    dry_run: bool,
    /// Print JSON, one file per line. Without --yes nothing is changed.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    how: How,
}

/// The clients that can be named.
pub(super) fn ids_of_clients() -> [&'static str; CLIENTS.len()] {
    CLIENTS.map(|client| client.id)
}

/// A server of a client, and what can become of it.
struct Row {
    name: String,
    entry: Value,
    state: State,
    wish: Wish,
    /// Variables that the client is to set for Sluice.
    given: BTreeMap<String, String>,
}

enum State {
    Behind,
    Direct,
    Remote,
    Disabled(String),
    /// It cannot be taken.
    Unfit(String),
}

impl State {
    fn shown(&self) -> String {
        match self {
            Self::Behind => "behind Sluice".to_owned(),
            Self::Direct => "direct".to_owned(),
            Self::Remote => "direct, remote".to_owned(),
            Self::Disabled(reason) => format!("disabled: {reason}"),
            Self::Unfit(reason) => format!("stays as it is: {reason}"),
        }
    }
}

/// A file with the lists that are looked at.
struct Plan {
    opened: Opened,
    lists: Vec<(Servers, Vec<Row>)>,
}

impl Plan {
    fn path(&self) -> String {
        self.opened.file.path.display().to_string()
    }
}

/// Puts Sluice between clients and their servers.
pub(crate) async fn init(args: Init) -> Result<Exit> {
    let only_look = args.dry_run || args.json && !args.how.yes;
    let here = std::env::current_dir().context("the working folder is gone")?;
    let machine = Machine::new(&|name| std::env::var_os(name).map(PathBuf::from), &here);
    let machine = machine.context("no home directory; set HOME to an absolute path")?;
    let mut files = clients::find(&machine);
    files
        .retain(|file| args.client.is_empty() || args.client.iter().any(|id| id == file.client.id));
    for id in &args.client {
        if files.iter().all(|file| file.client.id != id) {
            bail!("no configuration of {id} was found; start it once, and try again");
        }
    }
    let file = match args.how.place.file.config.is_none()
        && std::env::var_os("SLUICE_CONFIG").is_none_or(|it| it.is_empty())
    {
        // Not one of the working folder: clients start in any folder.
        true => Found::own().context("no home directory; name a file with --config")?,
        false => args.how.place.writable()?,
    };
    // Only a service that reads this file has the apps, and no client may lose them.
    let service = service::find(&ServiceSettings::default())?;
    let has_service = service
        .as_ref()
        .is_some_and(|it| it.file.as_deref() == Some(file.path()));
    if let Some(service) = service.filter(|_| !has_service) {
        say(&format!(
            "note: the service at {} does not read {}, so the clients start their servers without it; for its apps, \
             have an entry in the client that starts `sluice gateway --service`\n",
            service.url,
            file.path().display()
        ));
    }
    let mut run = Run {
        program: std::env::current_exe()?.to_string_lossy().into_owned(),
        has_service,
        file,
        args,
        names: BTreeMap::new(),
        shown: BTreeSet::new(),
        failed: false,
        changed: false,
    };
    let plans: Vec<Plan> = files.iter().filter_map(|file| run.plan(file)).collect();
    if plans.is_empty() && !run.failed {
        say("no MCP client with a server was found\n");
        return Ok(Exit::Done);
    }
    if only_look {
        for plan in &plans {
            run.look(plan)?;
        }
        return Ok(run.exit());
    }
    plans.iter().for_each(|plan| say(&shown(plan)));
    if !run.args.how.yes && !Terminal::attended() {
        bail!(
            "there is no terminal to ask at; add --yes with --all or --client NAME, or look with --dry-run"
        );
    }
    if run.args.how.yes && !run.args.all && run.args.client.is_empty() {
        bail!("--yes needs --all or --client NAME");
    }
    let journal = Journal::open(&folder()?)?;
    let id = journal.next_id()?;
    // All apps first: what an entry offers depends on them.
    let mut ready = Vec::new();
    for plan in &plans {
        if let Some(apps) = run.prepare(plan, &journal, &id).await? {
            ready.push((plan, apps));
        }
    }
    let mut added = BTreeSet::new();
    for (plan, apps) in ready {
        run.write(plan, &apps, &journal, &id);
        added.extend(apps);
    }
    if run.changed && !run.args.wrap {
        let config = run.file.open(Examples::MayFail, false)?.config;
        let has_rules = |name: &String| {
            config
                .apps
                .get(name)
                .is_none_or(|app| !app.rules.tools.is_empty())
        };
        added.retain(|name| !has_rules(name));
        let without: Vec<String> = added.into_iter().collect();
        if !without.is_empty() {
            message(&format!(
                "without rules: {}. Each call of their tools is asked about, and waits for `sluice approve` in a client that cannot ask its \
                 user; for rules, add them again with `sluice app add --replace NAME -- COMMAND`, without --yes",
                without.join(", ")
            ));
        }
    }
    say(match run.changed {
        true => "restart the clients; `sluice undo` takes all of this back\n",
        false => "nothing was changed\n",
    });
    Ok(run.exit())
}

/// The folder of the records of changes.
pub(super) fn folder() -> Result<PathBuf> {
    Ok(paths::data()?.join("init"))
}

struct Run {
    args: Init,
    /// Whether a service runs that clients can use.
    has_service: bool,
    program: String,
    file: Found,
    /// How the apps are started that servers are to become, by their names.
    names: BTreeMap<String, Option<Vec<toml::Value>>>,
    /// Apps that a preview has shown: several clients can have the same server.
    shown: BTreeSet<String>,
    failed: bool,
    changed: bool,
}

impl Run {
    fn exit(&self) -> Exit {
        match self.failed {
            true => Exit::Failed,
            false => Exit::Done,
        }
    }

    fn left_alone(&mut self, what: &str, reason: &str) {
        self.failed = true;
        message(&format!("{what} is left alone: {reason}"));
    }

    /// Reads a file; `None` if there is nothing to do in it.
    fn plan(&mut self, file: &ClientFile) -> Option<Plan> {
        let mut opened = match file.open() {
            Ok(opened) => opened,
            Err(problem) => {
                self.left_alone(&file.path.display().to_string(), &problem.to_string());
                return None;
            }
        };
        let scopes = &self.args.scope;
        opened
            .lists
            .retain(|list| scopes.is_empty() || scopes.iter().any(|it| it == list.scope.name()));
        let mut lists = Vec::new();
        for list in &opened.lists {
            let servers = list.servers.iter();
            let rows = servers.map(|(name, entry)| self.row(file, list, name, entry));
            lists.push((list.clone(), rows.collect::<Vec<_>>()));
        }
        // Another client's servers are for this one only if it is named.
        let has_servers = lists.iter().any(|(_, rows)| !rows.is_empty());
        (has_servers || !self.args.client.is_empty()).then_some(Plan { opened, lists })
    }

    /// The apps that there are, or will be if each server starts.
    fn apps(&self, is_preview: bool) -> Result<BTreeSet<String>> {
        let new = self.names.keys().filter(|_| is_preview && !self.args.wrap);
        Ok(section::names(&self.file.text()?)
            .into_iter()
            .chain(new.cloned())
            .collect())
    }

    /// Prints a file, and what would change in it.
    fn look(&mut self, plan: &Plan) -> Result<()> {
        let taken: Vec<&Row> = rows(plan).filter(|row| self.is_taken(row)).collect();
        let path = plan.path();
        let edited = self.preview(plan).unwrap_or_else(|error| {
            self.left_alone(&path, &format!("{error:#}"));
            None
        });
        let before = plan.opened.snapshot.text()?.unwrap_or_default();
        let diff = edited.map_or(String::new(), |edited| {
            let diff = TextDiff::from_lines(before, &edited.text);
            diff.unified_diff().header(&path, &path).to_string()
        });
        let servers = plan
            .lists
            .iter()
            .flat_map(|(list, rows)| rows.iter().map(move |row| (list, row)));
        let servers = servers.map(|(list, row)| {
            json!({ "name": row.name, "scope": list.scope.name(), "project": list.project, "state": row.state.shown() })
        });
        let file = &plan.opened.file;
        let value = json!({ "client": file.client.id, "file": file.path, "scope": file.scope.name(), "servers": servers.collect::<Vec<_>>(), "diff": diff });
        if self.args.json {
            return Ok(print_json(&value)?);
        }
        let mut text = shown(plan) + &diff;
        let is_there = |row: &Row| add::is_there(&row.wish, &self.file).unwrap_or(false);
        let new = taken.iter().filter(|row| !self.args.wrap && !is_there(row));
        for row in new {
            if !self.shown.insert(row.wish.name.clone()) {
                continue;
            }
            let data = block::data(&row.wish, &[]).unwrap_or_default();
            let lines = block::of(&row.wish, &data, &[]);
            let path = self.file.path().display();
            text += &format!("added to {path}, if it starts:{lines}");
        }
        Ok(print(text.trim_end())?)
    }

    fn row(&mut self, file: &ClientFile, list: &Servers, name: &str, entry: &Value) -> Row {
        // A list of one project is about that folder.
        let path = list
            .project
            .as_ref()
            .map(|folder| folder.join(".claude.json"));
        let path = path.as_ref().unwrap_or(&file.path);
        let read = foreign::through_client(path, &list.alone(name));
        let (mut wish, secrets) = read.unwrap_or_else(|error| {
            let left_out = Some(format!("{error:#}"));
            let none = Wish {
                left_out,
                ..Wish::default()
            };
            (none, Vec::new())
        });
        let is_ours = clients::is_ours(entry);
        let given = match wish.left_out {
            None if !is_ours => self.name_app(&mut wish, &secrets, file.client.id),
            _ => BTreeMap::new(),
        };
        let state = match &wish.left_out {
            _ if is_ours => State::Behind,
            Some(reason) if wish.is_disabled => State::Disabled(reason.clone()),
            _ => match import::unfit(&wish).or_else(|| block::unset(&wish)) {
                Some(reason) => State::Unfit(reason),
                None if wish.url.is_some() => State::Remote,
                None => State::Direct,
            },
        };
        Row {
            name: name.to_owned(),
            entry: entry.clone(),
            state,
            wish,
            given,
        }
    }

    /// Gives an app another name if another server has its name, and has the client set its secrets.
    fn name_app(
        &mut self,
        wish: &mut Wish,
        secrets: &[(String, String)],
        client: &str,
    ) -> BTreeMap<String, String> {
        let text = self.file.text().unwrap_or_default();
        let base = wish.name.clone();
        let more = (2..).map(|number| format!("{base}-{client}-{number}"));
        let names = [base.clone(), format!("{base}-{client}")];
        for name in names.into_iter().chain(more) {
            let mut named = Wish {
                name: name.clone(),
                ..wish.clone()
            };
            let given = foreign::hand_over(&mut named, secrets);
            let own = start(&block::of(&named, &[], &[]), &name);
            let there = section::split(&text, &name)
                .map(|split| split.own)
                .unwrap_or_default();
            let is_other = !there.is_empty() && start(&there, &name) != own;
            if !is_other && self.names.get(&name).is_none_or(|other| *other == own) {
                self.names.insert(name, own);
                *wish = named;
                return given;
            }
        }
        BTreeMap::new()
    }

    fn is_taken(&self, row: &Row) -> bool {
        match row.state {
            State::Direct => {
                !self.args.wrap || clients::wrapped(&self.program, &row.name, &row.entry).is_some()
            }
            State::Remote => !self.args.wrap,
            _ => false,
        }
    }

    /// Asks about a file and adds its servers as apps. Returns the apps that are there; `None` if the file is not to be changed.
    async fn prepare(
        &mut self,
        plan: &Plan,
        journal: &Journal,
        id: &str,
    ) -> Result<Option<BTreeSet<String>>> {
        for row in rows(plan) {
            match &row.state {
                State::Unfit(reason) => self.left_alone(&row.name, reason),
                State::Direct | State::Remote if !self.is_taken(row) => message(&format!(
                    "{} stays as it is: it has no command; without --wrap it can become an app",
                    row.name
                )),
                _ => {}
            }
        }
        let taken: Vec<Wish> = rows(plan)
            .filter(|row| self.is_taken(row))
            .map(|row| row.wish.clone())
            .collect();
        let all = taken.iter().map(|wish| wish.name.clone()).collect();
        // Before any question: only servers that do not start make a difference later.
        match self.preview(plan) {
            Ok(Some(_)) => {}
            Ok(None) => return Ok(None),
            Err(error) => {
                self.left_alone(&plan.path(), &format!("{error:#}"));
                return Ok(None);
            }
        }
        let (client, path) = (plan.opened.file.client.name, plan.path());
        let prompt =
            format!("Type yes to put Sluice between {client} and the servers in {path} [no]: ");
        if !self.args.how.yes && !is_agreed(&prompt, "yes") {
            return Ok(None);
        }
        match self.args.wrap {
            true => Ok(Some(all)),
            false => self.import(taken, journal, id).await,
        }
    }

    /// Changes a file.
    fn write(&mut self, plan: &Plan, ready: &BTreeSet<String>, journal: &Journal, id: &str) {
        let apps: Vec<String> = match self.args.wrap {
            true => Vec::new(),
            false => ready.iter().cloned().collect(),
        };
        let changes = |now: &Opened| self.changes(plan, now, Some(ready)).unwrap_or_default();
        match journal.change(id, &plan.opened.file, &apps, &changes) {
            Ok(Some(_)) => {
                self.changed = true;
                let taken = rows(plan).filter(|row| self.is_taken(row));
                let taken = taken.filter(|row| ready.contains(&row.wish.name));
                let names: Vec<&str> = taken.map(|row| row.name.as_str()).collect();
                let path = plan.path();
                message(&match names.is_empty() {
                    true => format!("{path} has an entry for Sluice now"),
                    false => format!("{path}: behind Sluice now: {}", names.join(", ")),
                });
            }
            Ok(None) => {}
            Err(problem) => self.left_alone(&plan.path(), &problem.to_string()),
        }
    }

    /// Adds apps, and returns those that are there; `None` if the user does not want them started.
    async fn import(
        &mut self,
        wishes: Vec<Wish>,
        journal: &Journal,
        id: &str,
    ) -> Result<Option<BTreeSet<String>>> {
        let existed = self.file.path().exists();
        if existed {
            self.file.open(Examples::MayFail, Terminal::attended())?;
        }
        let there = section::names(&self.file.text()?);
        let new = wishes.iter().filter(|wish| !there.contains(&wish.name));
        let apps: BTreeMap<_, _> = new.map(|wish| (wish.name.clone(), None)).collect();
        let path = self.file.path().to_owned();
        let change = (!apps.is_empty()).then_some(SettingsChange {
            path,
            existed,
            apps,
        });
        let record = change
            .map(|change| journal.add(id, Kind::Settings(change)))
            .transpose()?;
        let imported = import::add_all(wishes, &self.args.how, &self.file).await;
        if let Some(record) = record {
            self.note_lines(record, journal)?;
        }
        let Some(imported) = imported? else {
            return Ok(None);
        };
        for (name, reason) in &imported.left_out {
            self.left_alone(name, reason);
        }
        Ok(Some(imported.ready().cloned().collect()))
    }

    /// Records the lines of the apps that were added, so that undoing can tell whether the user has changed them.
    fn note_lines(&mut self, record: Record, journal: &Journal) -> Result<()> {
        let Kind::Settings(mut change) = record.kind.clone() else {
            return Ok(());
        };
        let text = self.file.text()?;
        let there = section::names(&text);
        change.apps.retain(|name, _| there.contains(name));
        for (name, lines) in &mut change.apps {
            *lines = Some(digest(&section::split(&text, name)?.own));
        }
        if change.apps.is_empty() {
            return Ok(journal.remove(&record)?);
        }
        self.changed = true;
        Ok(journal.save(&record.of(Kind::Settings(change)))?)
    }

    fn preview(&self, plan: &Plan) -> Result<Option<Edited>> {
        Ok(plan.opened.edit(&self.changes(plan, &plan.opened, None)?)?)
    }

    /// The changes of a file once these apps are there; without them, once each server has become an app.
    fn changes(
        &self,
        plan: &Plan,
        now: &Opened,
        ready: Option<&BTreeSet<String>>,
    ) -> Result<Vec<Change>> {
        let all = self.apps(ready.is_none())?;
        let is_ready = |row: &Row| ready.is_none_or(|ready| ready.contains(&row.wish.name));
        let mut changes = Vec::new();
        for (list, rows) in &plan.lists {
            let Some(now) = now.lists.iter().find(|it| it.place == list.place) else {
                continue;
            };
            let is_same = |row: &&Row| {
                now.servers
                    .iter()
                    .any(|(name, entry)| *name == row.name && *entry == row.entry)
            };
            let taken = rows
                .iter()
                .filter(|row| self.is_taken(row) && is_ready(row));
            let taken: Vec<&Row> = taken.filter(is_same).collect();
            if self.args.wrap {
                changes.extend(taken.iter().filter_map(|row| {
                    Some(Change {
                        place: list
                            .place
                            .iter()
                            .cloned()
                            .chain([row.name.clone()])
                            .collect(),
                        take: Vec::new(),
                        put: clients::wrapped(&self.program, &row.name, &row.entry)?,
                    })
                }));
                continue;
            }
            let none = |row: &Row| matches!(row.state, State::Disabled(_) | State::Unfit(_));
            let is_welcome = list.scope == Scope::User
                && !self.args.client.is_empty()
                && !all.is_empty()
                && rows.iter().all(none);
            if taken.is_empty() && !is_welcome {
                continue;
            }
            let name = list.scope.entry();
            let before = now
                .servers
                .iter()
                .find(|(it, _)| it == name)
                .map(|(_, entry)| entry);
            if before.is_some_and(|entry| !clients::is_ours(entry)) {
                bail!("it has an entry '{name}' that is not Sluice's; rename it");
            }
            let apps = taken.iter().map(|row| row.wish.name.clone()).collect();
            let entry = self.entry(plan, before, (apps, &all), &taken);
            changes.push(Change {
                place: list.place.clone(),
                take: taken.iter().map(|row| row.name.clone()).collect(),
                put: vec![(name.to_owned(), entry)],
            });
        }
        Ok(changes)
    }

    /// The entry of the gateway. It offers these apps alone if there are others, and what the entry before it has offered.
    fn entry(
        &self,
        plan: &Plan,
        before: Option<&Value>,
        (mut apps, all): (BTreeSet<String>, &BTreeSet<String>),
        taken: &[&Row],
    ) -> Value {
        let limited = match before {
            Some(before) => clients::gateway_apps(before)
                .map(|before| apps.extend(before))
                .is_some(),
            None => !apps.is_empty() && !all.is_subset(&apps),
        };
        let config = self.file.path().to_string_lossy().into_owned();
        let given: BTreeMap<String, String> =
            taken.iter().flat_map(|row| row.given.clone()).collect();
        let read = taken.iter().flat_map(|row| row.wish.variables());
        let read = read.flat_map(|entry| pieces(&from_environment(&entry).1).unwrap_or_default());
        let read = read.filter_map(|piece| match piece {
            Piece::Variable(name, _) => Some(name),
            _ => None,
        });
        let read: BTreeSet<String> = read.collect();
        let mut arguments = vec!["gateway".to_owned(), "--config".to_owned(), config];
        // A service does not get the variables of the client.
        let was_served = |entry: &Value| entry.to_string().contains("\"--service\"");
        let is_free = given.is_empty() && read.is_empty();
        if self.has_service && is_free && before.is_none_or(was_served) {
            arguments.push("--service".to_owned());
        }
        for app in apps.iter().filter(|_| limited) {
            arguments.extend(["--app".to_owned(), app.clone()]);
        }
        let gateway = Gateway {
            program: self.program.clone(),
            arguments,
            variables: read
                .into_iter()
                .filter(|name| !given.contains_key(name))
                .collect(),
            env: given,
        };
        clients::gateway(plan.opened.file.client, &gateway, before)
    }
}

/// The SHA-256 of lines of the configuration.
pub(super) fn digest(lines: &str) -> String {
    hex(&Sha256::digest(lines))
}

/// What the lines of an app say of its start.
fn start(lines: &str, name: &str) -> Option<Vec<toml::Value>> {
    let table: toml::Table = toml::from_str(lines).ok()?;
    let app = table.get("app")?.get(name)?;
    let keys = ["command", "url", "env", "env_from", "headers"];
    let empty = || toml::Value::Boolean(false);
    Some(
        keys.iter()
            .map(|key| app.get(key).cloned().unwrap_or_else(empty))
            .collect(),
    )
}

fn rows(plan: &Plan) -> impl Iterator<Item = &Row> {
    plan.lists.iter().flat_map(|(_, rows)| rows)
}

/// The lines of a file: its servers and their states.
fn shown(plan: &Plan) -> String {
    let file = &plan.opened.file;
    let new = plan.opened.snapshot.bytes.is_none();
    let new = if new { " (new)" } else { "" };
    let mut text = String::new();
    for (list, rows) in &plan.lists {
        let project = list
            .project
            .as_ref()
            .map(|it| format!(" of {}", it.display()))
            .unwrap_or_default();
        text += &format!(
            "{}, {}{project}: {}{new}\n",
            file.client.name,
            list.scope.name(),
            file.path.display()
        );
        for row in rows {
            text += &format!(
                "  {:<20} {}\n",
                escape(&row.name),
                escape(&row.state.shown())
            );
        }
        if rows.is_empty() {
            text += "  no server\n";
        }
    }
    text
}
