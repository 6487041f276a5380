//! Reads a [`Config`] from files.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use ifc::Lattice;
use policy::{MessageRules, UserLabels};

use crate::among_checks;
use crate::app::{App, Egress};
use crate::config::{Config, Memory, Provider, ProxySettings, Screener};
use crate::desk::{DeskSettings, desk};
use crate::diagnostics::{Diagnostics, File, Sink};
use crate::examples::{self, Example, ExampleOutcome};
use crate::functionalities::functionalities;
use crate::groups::groups;
use crate::label_rules::user;
use crate::limits::Limits;
use crate::mcp_servers::{Servers, is_of_another_program, servers};
use crate::memory::memory;
use crate::read_app::{only_server, read_app};
use crate::service::{
    AuditSettings, ServiceSettings, StateSettings, TelemetrySettings, audit, service, state,
    telemetry, tenants,
};
use crate::settings::{
    APPS, default_provider, lattice, limits, own_models, providers, proxy, screener,
};
use crate::toml_reader::{Context, OfApp, ReadFile, Table, named_file, parse};
use crate::watch;

/// The keys of an app that can connect to something, or that runs outside of a sandbox.
const REACHES: [&str; 6] = [
    "client",
    "connect",
    "domain",
    "egress",
    "other_domains",
    "url",
];

/// Longest configuration file. One written by hand has a few kilobytes.
const MAX_FILE_BYTES: u64 = 1 << 20;

/// Most bytes of all files of one configuration. A file counts each time that it is named, since it is read and kept each
/// time, and a stranger's `sluice.toml` can name one tens of thousands of times.
const MAX_TOTAL_BYTES: u64 = 16 << 20;

/// The least that a file counts for: opening and parsing cost something even for an empty file.
const LEAST_FILE_BYTES: u64 = 4 << 10;

impl Config {
    /// Reads a configuration: `sluice.toml`, or an `mcpServers` file (`.json`), and all files that it
    /// names.
    ///
    /// # Errors
    /// Every error of every file. Then nothing may start.
    pub fn load(path: &Path) -> Result<Self, Diagnostics> {
        Self::load_with(&resolved(path), &read_file)
    }

    /// As [`Config::load`], with files read by `read`.
    ///
    /// # Errors
    /// As [`Config::load`].
    pub fn load_with(
        path: &Path,
        read: &dyn Fn(&Path) -> io::Result<String>,
    ) -> Result<Self, Diagnostics> {
        let sink = Sink::default();
        let config = load(path, &sink, read);
        // With an unknown label an example says nothing about its rule: ⊤ stands in its place.
        let judged = config.iter().filter(|_| !sink.lacks_labels());
        for outcome in judged.flat_map(Config::examples) {
            examples::report(&sink, &outcome);
        }
        finished(sink, path, config)
    }

    /// Reads a configuration in which examples may fail, and returns their outcomes. For display, not for running.
    ///
    /// # Errors
    /// Every other error, as [`Config::load`].
    pub fn test(path: &Path) -> Result<(Self, Vec<ExampleOutcome>), Diagnostics> {
        Self::test_with(&resolved(path), &read_file)
    }

    /// As [`Config::test`], with files read by `read`.
    ///
    /// # Errors
    /// As [`Config::test`].
    pub fn test_with(
        path: &Path,
        read: &dyn Fn(&Path) -> io::Result<String>,
    ) -> Result<(Self, Vec<ExampleOutcome>), Diagnostics> {
        let sink = Sink::default();
        let config = load(path, &sink, read);
        let config = finished(sink, path, config)?;
        let outcomes = config.examples();
        Ok((config, outcomes))
    }

    /// Runs the examples of all tools.
    pub fn examples(&self) -> Vec<ExampleOutcome> {
        let policy = self.policy();
        let mut outcomes = Vec::new();
        for (name, app) in &self.apps {
            for (tool, examples) in &app.examples {
                let run = |example: &Example| example.run(&policy, name, tool);
                outcomes.extend(examples.iter().map(run));
            }
        }
        outcomes
    }
}

/// The configuration with its warnings, if there was no error.
fn finished(sink: Sink, path: &Path, config: Option<Config>) -> Result<Config, Diagnostics> {
    let (config, warnings) = sink.finish(path, config)?;
    Ok(Config { warnings, ..config })
}

/// The path with its folder resolved, so that one configuration has one name and its relative paths have no `..`. A missing
/// folder is reported when the file is read.
pub fn resolved(path: &Path) -> PathBuf {
    let folder = match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    let resolved = folder.canonicalize().ok();
    let resolved = resolved.and_then(|folder| Some(folder.join(path.file_name()?)));
    resolved.unwrap_or(path.to_owned())
}

/// Everything but the examples.
pub(crate) fn load(path: &Path, sink: &Sink, read: ReadFile<'_>) -> Option<Config> {
    let files = RefCell::new(BTreeSet::new());
    let left = Cell::new(MAX_TOTAL_BYTES);
    let remember = |path: &Path| {
        let too_much = || io::Error::other("all files together are longer than 16 MiB");
        // Checked before the file is read: a read costs something too.
        let rest = left.get().checked_sub(LEAST_FILE_BYTES);
        let rest = rest.ok_or_else(too_much)?;
        let text = read(path)?;
        let more = (text.len() as u64).saturating_sub(LEAST_FILE_BYTES);
        left.set(rest.saturating_sub(more));
        if more > rest {
            return Err(too_much());
        }
        files.borrow_mut().insert(path.to_owned());
        Ok(text)
    };
    let loader = Loader {
        sink,
        read: &remember,
    };
    let mut config = loader.config(path)?;
    // No app may write one of these.
    config.files = files.take();
    path.clone_into(&mut config.root);
    // Last, when all files of the configuration are known.
    for error in config.check_mounts(&[]).err().into_iter().flatten() {
        sink.line(&error.place, &error.message, &error.help);
    }
    Some(config)
}

struct Loader<'a> {
    sink: &'a Sink,
    read: ReadFile<'a>,
}

impl Loader<'_> {
    fn config(&self, path: &Path) -> Option<Config> {
        let text = (self.read)(path)
            .map_err(|error| {
                let help = "name a sluice.toml or a JSON file with mcpServers";
                self.sink
                    .unreadable(path, &format!("cannot be read: {error}"), help);
            })
            .ok()?;
        let file = File::new(path.to_owned(), text);
        if is_of_another_program(path) {
            return Some(self.only_servers(&file));
        }
        let mut context = Context {
            file: &file,
            sink: self.sink,
            lattice: None,
            by_app: false,
            app: None,
            read: self.read,
        };
        let document = parse(context)?;
        let root = |context| Table::new(context, 0..0, document.get_ref(), watch::ROOT.to_owned());
        let first = root(context);
        let servers = self.server_file(&first);
        // First: the labels in the rest of the file are read by it.
        let table = |key| document.get_ref().get(key)?.get_ref().as_table();
        let apps = table("app").into_iter().flat_map(|apps| apps.keys());
        let apps = apps.map(|name| name.get_ref().to_string());
        let apps: BTreeSet<String> = apps.chain(servers.servers.keys().cloned()).collect();
        let order = table("lattice").and_then(|lattice| lattice.get("confidentiality"));
        context.by_app = order.is_some_and(|order| order.get_ref().as_str() == Some(APPS));
        let lattice = lattice(&first, &apps);
        context.lattice = lattice.as_ref();
        let root = root(context);
        // Read above by another `Table`; marked here, so that `finish` does not report them.
        root.value("lattice");
        let mut providers = providers(&root);
        let names_provider = !providers.is_empty();
        if !names_provider {
            providers.push(default_provider());
        }
        let screener = screener(&root, &providers);
        let mut limits = limits(&root);
        root.value("mcp_servers");
        let mut apps = self.apps(&root, &servers, &limits);
        let connect = |app: &str| table("app")?.get(app)?.get_ref().get("connect");
        let taken: BTreeSet<u16> = providers.iter().filter_map(Provider::port_here).collect();
        for app in apps.values() {
            let mut here = app.egress.iter().filter(|egress| egress.is_here());
            let provider = here.find(|egress| taken.contains(&egress.port));
            if let (Some(key), Some(Egress { port, .. })) = (connect(&app.name), provider) {
                let message =
                    format!("port {port} is a provider's: the app could change its models");
                context.error(&key.span(), message, "leave it out");
            }
        }
        let vanilla = own_models(&root, &providers);
        // The values of an `among` may come from the tools of any app, so all must be known.
        among_checks::check(self.sink, &apps);
        let functionalities = functionalities(&root, &mut apps, &mut limits);
        let groups = groups(&root, &apps);
        let proxy = proxy(&root, &apps);
        let desk = desk(&root);
        let memory = memory(&root);
        let (service, state, audit) = (service(&root), state(&root), audit(&root));
        let (telemetry, tenants) = (telemetry(&root), tenants(&root, &apps));
        let (user_name, user) = user(&root);
        let names_lattice = root.has("lattice");
        root.finish();
        Some(Config {
            // Only here: the rest was read for its errors.
            lattice: lattice?,
            providers,
            names_provider,
            names_lattice,
            vanilla,
            screener,
            limits,
            apps,
            groups,
            functionalities: functionalities.all,
            messages: functionalities.messages,
            proxy,
            desk,
            memory,
            service,
            state,
            audit,
            telemetry,
            tenants,
            user_name,
            user,
            root: PathBuf::new(),
            files: BTreeSet::new(),
            notes: servers.notes,
            warnings: Vec::new(),
        })
    }

    /// A configuration that is nothing but an `mcpServers` file.
    fn only_servers(&self, file: &File) -> Config {
        let lattice = Lattice::four_point();
        let limits = Limits::default();
        let found = servers(file, self.sink);
        let apps = found.servers.iter().map(|(name, server)| {
            let app = only_server(name, server, &limits.spoke, Some(&lattice), false);
            (name.clone(), app)
        });
        Config {
            apps: apps.collect(),
            groups: BTreeMap::new(),
            functionalities: BTreeMap::new(),
            messages: MessageRules::default(),
            providers: vec![default_provider()],
            names_provider: false,
            names_lattice: false,
            vanilla: None,
            screener: Screener::default(),
            proxy: ProxySettings::default(),
            desk: DeskSettings::default(),
            memory: Memory::default(),
            service: ServiceSettings::default(),
            state: StateSettings::default(),
            audit: AuditSettings::default(),
            telemetry: TelemetrySettings::default(),
            tenants: BTreeMap::new(),
            user_name: None,
            user: UserLabels::default(),
            root: PathBuf::new(),
            files: BTreeSet::new(),
            notes: found.notes,
            warnings: Vec::new(),
            limits,
            lattice,
        }
    }

    fn server_file(&self, root: &Table<'_>) -> Servers {
        let Some(table) = root.table("mcp_servers") else {
            return Servers::default();
        };
        table.needs("file", "file = \"mcp.json\"");
        let found = named_file(&table, "file");
        table.finish();
        found.map_or_else(Servers::default, |(_, file)| servers(&file, self.sink))
    }

    fn apps(&self, root: &Table<'_>, servers: &Servers, limits: &Limits) -> BTreeMap<String, App> {
        let mut apps = BTreeMap::new();
        for (name, mut table) in root.named_tables("app") {
            let server = servers.servers.get(name.value);
            let mut keys = REACHES.iter();
            table.context.app = Some(OfApp {
                name: name.value,
                reaches: keys.any(|key| table.has(key))
                    || server.is_some_and(|server| server.remote.is_some()),
            });
            // Rules for a server that is left out go with it.
            let has_own = ["command", "url", "manifest", "client"]
                .iter()
                .any(|key| table.has(key));
            if server.is_none() && servers.left_out.contains(name.value) && !has_own {
                continue;
            }
            apps.insert(
                name.value.to_owned(),
                read_app(&name, &table, server, limits),
            );
            table.finish();
        }
        let (lattice, by_app) = (root.context.lattice, root.context.by_app);
        for (name, server) in &servers.servers {
            // One without a table in `sluice.toml` has the most restrictive rules.
            apps.entry(name.clone())
                .or_insert_with(|| only_server(name, server, &limits.spoke, lattice, by_app));
        }
        apps
    }
}

/// Reads a file of limited length.
fn read_file(path: &Path) -> io::Result<String> {
    let mut text = String::new();
    std::fs::File::open(path)?
        // One byte more, to tell a file at the limit from a longer one. A pipe's metadata has no length.
        .take(MAX_FILE_BYTES + 1)
        .read_to_string(&mut text)?;
    if text.len() as u64 > MAX_FILE_BYTES {
        return Err(io::Error::other("it is longer than 1 MiB"));
    }
    Ok(text)
}
