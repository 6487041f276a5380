//! From files to a [`Config`].

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use hub::isc::ServedBy;
use ifc::{Dimension, Label, Lattice};
use policy::{AppRules, MessageRules, UserLabels};
use sha2::{Digest, Sha256};

use crate::accepts;
use crate::call_rules::{Source, conditions};
use crate::config::{App, Config, Limits, Memory, Provider, ProxySettings, Screener, SpokeLimits};
use crate::diagnostics::{Diagnostics, File, Sink, did_you_mean};
use crate::domains::domains;
use crate::examples::{self, Example, ExampleOutcome};
use crate::finish;
use crate::functionalities::{functionalities, is_reserved, keys_of_app};
use crate::grants::{anchor, egress, environment, mounts};
use crate::groups::groups;
use crate::label_rules::{Shapes, shapes, user};
use crate::manifest::{Manifest, ToolDraft, command, manifest, tool};
use crate::mcp_servers::{Server, Servers, servers};
use crate::memory::memory;
use crate::meta_labels::meta_labels;
use crate::remote;
use crate::sampling::sampling;
use crate::settings::{
    default_provider, lattice, limits, own_models, providers, proxy, screener, spoke_limits,
};
use crate::toml_reader::{At, Context, ReadFile, Table, named_file, parse};
use crate::warnings;

/// Longest configuration file. Written by hand, they have a few kilobytes.
const MAX_FILE_BYTES: u64 = 1 << 20;

/// Longest name of an app: it is a part of tool names, which providers bound.
const MAX_APP_NAME: usize = 64;

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
        for outcome in config.iter().flat_map(Config::examples) {
            examples::report(&sink, &outcome);
        }
        finished(sink, path, config)
    }

    /// Reads a configuration in which examples may fail, and says what became of them. It is for
    /// showing, not for running anything.
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

/// The path with its folder resolved, so that no `..` is left in the paths that start from it. A
/// folder that does not exist is reported when the file is read.
fn resolved(path: &Path) -> PathBuf {
    let folder = match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    let resolved = folder.canonicalize().ok();
    let resolved = resolved.and_then(|folder| Some(folder.join(path.file_name()?)));
    resolved.unwrap_or(path.to_owned())
}

/// Everything but the examples.
fn load(path: &Path, sink: &Sink, read: ReadFile<'_>) -> Option<Config> {
    let files = RefCell::new(Vec::new());
    let remember = |path: &Path| {
        let text = read(path)?;
        files.borrow_mut().push(path.to_owned());
        Ok(text)
    };
    let loader = Loader {
        sink,
        read: &remember,
    };
    let mut config = loader.config(path)?;
    config.files = files.take();
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
                    .unreadable(path, format!("cannot be read: {error}"), help);
            })
            .ok()?;
        let path = path.to_owned();
        let file = File {
            path,
            text: text.into(),
        };
        if file
            .path
            .extension()
            .is_some_and(|extension| extension == "json")
        {
            return Some(self.only_servers(&file));
        }
        let mut context = Context {
            file: &file,
            sink: self.sink,
            lattice: None,
            read: self.read,
        };
        let document = parse(context)?;
        let root =
            |context| Table::new(context, 0..0, document.get_ref(), "sluice.toml".to_owned());
        let lattice = lattice(&root(context));
        context.lattice = lattice.as_ref();
        let root = root(context);
        root.value("lattice");
        let providers = providers(&root);
        let screener = screener(&root, &providers);
        let mut limits = limits(&root);
        let servers = self.server_file(&root);
        let mut apps = self.apps(&root, &servers, &limits, &providers);
        let vanilla = own_models(&root, &providers);
        accepts::check(self.sink, &apps);
        let functionalities = functionalities(&root, &mut apps, &mut limits);
        let groups = groups(&root, &apps);
        let proxy = proxy(&root, &apps);
        let memory = memory(&root);
        let user = user(&root);
        root.finish();
        Some(Config {
            lattice: lattice?,
            providers,
            vanilla,
            screener,
            limits,
            apps,
            groups,
            functionalities: functionalities.all,
            messages: functionalities.messages,
            proxy,
            memory,
            user,
            files: Vec::new(),
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
            let mut app = bare(name, Some(server), &limits.spoke, Some(&lattice));
            app.rules.other_tools = Some(conservative(Some(&lattice)).finish(name));
            (name.clone(), app)
        });
        Config {
            apps: apps.collect(),
            groups: BTreeMap::new(),
            functionalities: BTreeMap::new(),
            messages: MessageRules::default(),
            providers: vec![default_provider()],
            vanilla: None,
            screener: Screener::default(),
            proxy: ProxySettings::default(),
            memory: Memory::default(),
            user: UserLabels::default(),
            files: Vec::new(),
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
        if !table.has("file") {
            table.missing("file", "file = \"mcp.json\"");
        }
        let found = named_file(&table, "file");
        table.finish();
        found.map_or_else(Servers::default, |(_, file)| servers(&file, self.sink))
    }

    fn apps(
        &self,
        root: &Table<'_>,
        servers: &Servers,
        limits: &Limits,
        providers: &[Provider],
    ) -> BTreeMap<String, App> {
        let mut apps = BTreeMap::new();
        for (name, table) in root.named_tables("app") {
            let server = servers.servers.get(name.value);
            apps.insert(
                name.value.to_owned(),
                self.app(&name, &table, server, limits, providers),
            );
            table.finish();
        }
        let lattice = root.context.lattice;
        for (name, server) in &servers.servers {
            apps.entry(name.clone()).or_insert_with(|| {
                let mut app = bare(name, Some(server), &limits.spoke, lattice);
                app.rules.other_tools = Some(conservative(lattice).finish(name));
                app
            });
        }
        apps
    }

    fn app(
        &self,
        name: &At<&str>,
        table: &Table<'_>,
        server: Option<&Server>,
        limits: &Limits,
        providers: &[Provider],
    ) -> App {
        let lattice = table.context.lattice;
        check_name(table, name);
        keys_of_app(table);
        let manifest = self.manifest_of(table);
        let mut app = bare(name.value, server, &limits.spoke, lattice);
        app.manifest = manifest.as_ref().map(|manifest| manifest.digest);
        let offers = manifest.iter().flat_map(|manifest| &manifest.offers);
        let offers = offers.map(|(name, tool)| (name.clone(), ServedBy::Tool(tool.clone())));
        app.offers = offers.collect();
        how_to_start(table, name, server, manifest.as_ref(), &mut app);
        if let Some(description) = table.string("description") {
            app.description = Some(description.value.to_owned());
            app.described_by_user = true;
        }
        let provider = table.string("provider");
        app.provider = provider.map(|name| name.value.to_owned());
        environment(table, &mut app);
        app.mounts = mounts(table);
        app.egress = egress(table);
        (app.domains, app.ask_domains) = domains(table, &app.egress);
        if let Some(remote) = app.remote.clone() {
            remote.open(&mut app);
        }
        app.fresh = table.boolean("fresh").unwrap_or(false);
        app.sampling = sampling(table, providers);
        app.resources = table.boolean("resources").unwrap_or(false);
        app.prompts = table.boolean("prompts").unwrap_or(false);
        if let Some(table) = table.table("limits") {
            spoke_limits(&table, &mut app.limits);
            table.finish();
        }
        let inherited = manifest.as_ref().and_then(|m| m.descriptions.clone());
        if let Some(descriptions) = table.label("descriptions").or(inherited) {
            app.descriptions = descriptions;
        } else if app.client {
            // They come from the agent itself, whose system prompt is its own program as well.
            app.descriptions = Label::bottom();
        }
        app.rules.claims = table.table("meta_labels").map(|table| meta_labels(&table));
        if let Some(table) = table.table("answer") {
            app.rules.answer = table.label("limit").unwrap_or(app.rules.answer);
            let addresses = table.label("addresses");
            app.rules.addresses = addresses.unwrap_or(app.rules.addresses);
            table.finish();
        }
        // The user's shapes win over the manifest's of the same name.
        let mut shapes = manifest
            .as_ref()
            .map_or_else(Shapes::new, |m| m.shapes.clone());
        shapes.extend(self::shapes(table));
        let others = table.table("other_tools");
        let others = others.map(|table| self::others(&table, &shapes));
        // Without a manifest nothing is known of the tools, and all of them are as bad as can be;
        // with one, those that it does not list are denied unless the user says otherwise.
        let others = match (others, &manifest) {
            (Some(others), _) => Some(others.over(conservative(lattice))),
            (None, None) => Some(conservative(lattice)),
            (None, Some(_)) => None,
        };
        let drafts = tools(table, manifest, others.as_ref(), &shapes);
        if let Some(others) = &others {
            warnings::egress(self.sink, &app, "(other tools)", others);
        }
        if let Some(others) = others {
            app.among.extend(others.among(name.value));
            app.rules.other_tools = Some(others.finish(name.value));
        }
        let of_app: Vec<Source> = conditions(table).unwrap_or_default();
        finish::tools(&table.context, &mut app, drafts, &of_app);
        app
    }

    fn manifest_of(&self, table: &Table<'_>) -> Option<Manifest> {
        let found = named_file(table, "manifest");
        let pin = table.string("sha256");
        let (at, file) = found?;
        let digest = <[u8; 32]>::from(Sha256::digest(file.text.as_bytes()));
        if let Some(pin) = pin {
            let digest = hex(&digest);
            if !pin.value.eq_ignore_ascii_case(&digest) {
                let message = format!("the manifest '{}' is not the one that was pinned", at.value);
                let help = format!("read it again; if you believe it, write sha256 = \"{digest}\"");
                table.context.error(&pin.span, message, help);
                // What it says is not judged: it is another file.
                return None;
            }
        }
        let mut manifest = manifest(Context {
            file: &file,
            ..table.context
        })?;
        manifest.digest = digest;
        anchor(&mut manifest.command, &file);
        Some(manifest)
    }
}

/// An app of which nothing is known but how to start it.
fn bare(
    name: &str,
    server: Option<&Server>,
    limits: &SpokeLimits,
    lattice: Option<&Lattice>,
) -> App {
    let mut app = App {
        name: name.to_owned(),
        description: None,
        described_by_user: true,
        manifest: None,
        client: false,
        command: server.map_or_else(Vec::new, |server| server.command.clone()),
        remote: server.and_then(|server| server.remote.clone()),
        found: None,
        server: server.map(|server| server.place.clone()),
        env: server.map_or_else(BTreeMap::new, |server| server.env.clone()),
        env_from: Vec::new(),
        mounts: Vec::new(),
        egress: Vec::new(),
        domains: Vec::new(),
        ask_domains: false,
        fresh: false,
        sampling: None,
        resources: false,
        prompts: false,
        limits: limits.clone(),
        provider: None,
        descriptions: lattice.map_or(Label::top(), |l| l.whole(Dimension::Integrity)),
        offers: BTreeMap::new(),
        asks: None,
        rules: AppRules {
            tools: BTreeMap::new(),
            other_tools: None,
            // The answer goes to the user, whose data it is.
            answer: Label::top(),
            addresses: Label::bottom(),
            has_conditions: false,
            claims: None,
        },
        examples: BTreeMap::new(),
        among: Vec::new(),
    };
    if let Some(remote) = app.remote.clone() {
        remote.open(&mut app);
    }
    app
}

/// `[app.NAME.other_tools]`. What is said of a tool by name cannot be said of tools without one.
fn others(table: &Table<'_>, shapes: &Shapes) -> ToolDraft {
    for key in ["cedar", "policy_file", "examples"] {
        if table.has(key) {
            let message = format!("'{key}' is about one tool");
            let help = "write it under [app.NAME.tools.TOOL]; conditions for all listed tools stand under [app.NAME]";
            table.context.error(&table.span, message, help);
        }
    }
    tool(table, shapes)
}

/// The keys of an app that are about its process.
const PROCESS_KEYS: [&str; 14] = [
    "command",
    "url",
    "env",
    "env_from",
    "mount",
    "egress",
    "domain",
    "other_domains",
    "fresh",
    "limits",
    "sampling",
    "resources",
    "prompts",
    "meta_labels",
];

/// The rule of a tool of which nothing is known: irreversible, never without a question, and its
/// results may come from anybody and hold any secret.
///
/// Its results have every taint of the lattice, not ⊤: the user can then give a tool or a provider
/// exactly these taints, and a question can name them. ⊤ stays for what no configuration mentions.
fn conservative(lattice: Option<&Lattice>) -> ToolDraft {
    let whole = |l: &Lattice| {
        l.whole(Dimension::Integrity)
            .join(&l.whole(Dimension::Confidentiality))
    };
    ToolDraft::conservative(lattice.map_or(Label::top(), whole))
}

fn check_name(table: &Table<'_>, name: &At<&str>) {
    let allowed = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    if name.value.is_empty() || name.value.len() > MAX_APP_NAME || !name.value.chars().all(allowed)
    {
        let message = format!("'{}' is no name for an app", name.value);
        let help = "use at most 64 letters, digits, '-' and '_'";
        table.context.error(&name.span, message, help);
    }
    if is_reserved(name.value) {
        let message = format!("'{}' is no name for an app", name.value);
        let help = "ask__NAME is how a model asks for a functionality; call the app otherwise";
        table.context.error(&name.span, message, help);
    }
}

/// The command, from exactly one of `[app.NAME]`, its manifest and the `mcpServers` file; only the
/// user's own wins over the manifest's.
fn how_to_start(
    table: &Table<'_>,
    name: &At<&str>,
    server: Option<&Server>,
    manifest: Option<&Manifest>,
    app: &mut App,
) {
    app.client = table.boolean("client").unwrap_or(false);
    if let (true, Some(manifest)) = (app.client, manifest) {
        app.description.clone_from(&manifest.description);
        app.described_by_user = manifest.description.is_none();
    }
    if app.client {
        at_a_client(table, name, server);
        return;
    }
    let mut own = command(table);
    anchor(&mut own, table.context.file);
    if server.is_some()
        && ["manifest", "command", "url"]
            .iter()
            .any(|key| table.has(key))
    {
        let message = format!("the app '{}' is also in the mcpServers file", name.value);
        let help = "leave out manifest, command and url here, or rename one of the two";
        table.context.error(&name.span, message, help);
    }
    if let Some(manifest) = manifest {
        app.description.clone_from(&manifest.description);
        app.described_by_user = manifest.description.is_none();
        app.command.clone_from(&manifest.command);
    }
    if !own.is_empty() {
        app.command = own;
    }
    if let Some(remote) = remote::remote(table) {
        app.remote = Some(remote);
    }
    if app.remote.is_some() || table.has("url") {
        app.command.clear();
        elsewhere(table, name);
        return;
    }
    // A command that is wrong and a manifest that could not be read have been reported.
    let unknown = table.has("command") || (table.has("manifest") && manifest.is_none());
    if app.command.is_empty() && !unknown {
        table.missing(
            "command",
            "command = [\"PROGRAM\"], url = \"https://…\", or a manifest that has a command",
        );
    }
}

/// An app that is a remote server has nothing of this machine.
fn elsewhere(table: &Table<'_>, name: &At<&str>) {
    for key in ["command", "env", "env_from", "mount", "egress"] {
        if table.value(key).is_some() {
            let message = format!(
                "the app '{}' is a server elsewhere, and '{key}' is about a program here",
                name.value
            );
            let help = "leave it out, or leave out 'url'";
            table.context.error(&name.span, message, help);
        }
    }
}

/// An app whose tools run at a client of the guard proxy has no process here.
fn at_a_client(table: &Table<'_>, name: &At<&str>, server: Option<&Server>) {
    for key in PROCESS_KEYS {
        if table.value(key).is_some() {
            let message = format!(
                "the app '{}' runs at a client, and '{key}' is about a process of ours",
                name.value
            );
            table
                .context
                .error(&name.span, message, "leave it out, or leave out 'client'");
        }
    }
    if server.is_some() {
        let message = format!("the app '{}' is also in the mcpServers file", name.value);
        let help = "an app at a client is not started here; rename one of the two";
        table.context.error(&name.span, message, help);
    }
}

/// The tools of the manifest, with the user's keys over the manifest's.
fn tools(
    table: &Table<'_>,
    manifest: Option<Manifest>,
    others: Option<&ToolDraft>,
    shapes: &Shapes,
) -> BTreeMap<String, ToolDraft> {
    let mut drafts = manifest.map(|manifest| manifest.tools).unwrap_or_default();
    for (name, table) in table.named_tables("tools") {
        let own = tool(&table, shapes);
        let base = drafts.get(name.value).or(others).cloned();
        if base.is_none() && own.effect.is_none() {
            let known: Vec<&str> = drafts.keys().map(String::as_str).collect();
            let meant = did_you_mean(name.value, known.iter().copied());
            let message = format!("the manifest has no tool '{}'", name.value);
            let help = format!(
                "{meant}it has {}; to add a tool, give its effect",
                known.join(", ")
            );
            table.context.error(&name.span, message, help);
        }
        let draft = own.over(base.unwrap_or_default());
        drafts.insert(name.value.to_owned(), draft);
    }
    drafts
}

fn hex(digest: &[u8]) -> String {
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Reads a file of limited length.
fn read_file(path: &Path) -> io::Result<String> {
    let mut text = String::new();
    std::fs::File::open(path)?
        .take(MAX_FILE_BYTES + 1)
        .read_to_string(&mut text)?;
    if text.len() as u64 > MAX_FILE_BYTES {
        return Err(io::Error::other("it is longer than 1 MiB"));
    }
    Ok(text)
}
