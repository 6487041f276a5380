//! The configuration of a run: the user's own, the profile of the agent, and the agent's MCP servers.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow, bail};
use config::{App, Config, Domain, Mount, foreign_servers};
use hub::trace::escape;
use ifc::{Dimension, Label};
use names::Pattern;
use policy::Place as At;
use sandbox::Layer;
use serde_json::json;

use super::agent::{Kind, Own};
use super::home::Home;
use super::workspace::{ARGUMENT, Workspace, is_below};
use crate::commands::app::block::{self, Access, Wish};
use crate::commands::{gateway, wrap};
use crate::configuration;
use crate::fetch::{self, Fetch};
use crate::known::{self, Known};
use crate::needs::Here;
use crate::place::Place;
use crate::proposal::Tool;
use crate::session::say_notes;
use crate::terminal::{Terminal, message};

/// The categories of the labels in a profile, unless the user's configuration has some of its own.
pub(super) const LATTICE: &str = "[lattice]\nintegrity = { categories = [\"workspace\", \"web\", \"other\"] }\n\
    confidentiality = { categories = [\"workspace\", \"other\"] }\n";

/// The name of the agent's sandbox in questions about connections.
const SANDBOX: &str = "agent-sandbox";
/// Package registries, with the names below them.
const REGISTRIES: [&str; 11] = [
    "registry.npmjs.org",
    "registry.yarnpkg.com",
    "pypi.org",
    "files.pythonhosted.org",
    "crates.io",
    "proxy.golang.org",
    "sum.golang.org",
    "rubygems.org",
    "repo.maven.apache.org",
    "plugins.gradle.org",
    "repo.packagist.org",
];

/// What helps a server that a file of the workspace lists.
const ELSEWHERE: &str =
    "list the server in your own settings of the agent, or in a file outside of the workspace";

/// The configuration of a run.
pub(super) struct Rules {
    pub(super) config: Config,
    /// The label of the workspace's text.
    pub(super) files: Label,
    /// The agent's sandbox, if it has one.
    pub(super) sandbox: Option<App>,
    /// The agent's own servers, with the files that they see.
    pub(super) servers: Vec<(Wish, block::Data)>,
}

/// What the rules are made of.
pub(super) struct Sources<'a> {
    pub(super) place: &'a Place,
    pub(super) kind: Kind,
    pub(super) own: &'a Own,
    pub(super) workspace: &'a Workspace,
    /// Folders and files beside the workspace that the agent and its servers may write.
    pub(super) mounts: &'a [PathBuf],
    /// What the agent's sandbox has; `None` without one.
    pub(super) sandbox: Option<Opened<'a>>,
    /// Whether packages of servers are installed without a question.
    pub(super) yes: bool,
}

/// What the agent's sandbox has beside the workspace.
pub(super) struct Opened<'a> {
    pub(super) program: &'a Path,
    pub(super) home: &'a Home,
    /// Folders and files that the agent may read.
    pub(super) read: &'a [PathBuf],
    /// Domains that it may connect to, beside those of registries and of git remotes.
    pub(super) domains: &'a [String],
}

/// Whether an app of the configuration is this server, which then has the rules of the configuration.
fn is_same(app: &App, wish: &Wish) -> bool {
    match (&app.remote, &wish.url) {
        (Some(remote), Some(url)) => remote.url.to_string() == *url,
        (None, None) => !app.client && app.command == wish.command,
        _ => false,
    }
}

impl Sources<'_> {
    /// Reads the configuration, and learns which tools the servers have.
    pub(super) async fn read(&self) -> Result<Rules> {
        let layers = self.place.layers();
        let before = self.place.file.open(false)?;
        // Of the user's own lines.
        say_notes(&before);
        let wishes = self.wishes(&before);
        let mut config = self.loaded(&wishes, &[])?;
        let labels = self.of_files(&config);
        let files = config.lattice.labels(labels.iter().map(String::as_str))?;
        let mut sandbox = config.apps.remove(SANDBOX);
        self.provide(&mut config, &layers).await?;
        if !wishes.is_empty() {
            // This was without rules for their tools, to learn which there are.
            config.apps.retain(|_, app| !app.client);
            let lists = gateway::lists(&config, &layers).await;
            let tools = wishes.iter().map(|(wish, _)| {
                let listed = lists.get(&wish.name).into_iter().flatten();
                let tools: Vec<Tool> = listed.map(Tool::from).collect();
                (known::note(wish, &tools).iter()).for_each(|note| message(note));
                tools
            });
            config = self.loaded(&wishes, &tools.collect::<Vec<_>>())?;
            sandbox = config.apps.remove(SANDBOX);
            // One that does not start is not started again.
            config
                .apps
                .retain(|name, app| app.client || lists.contains_key(name));
            for (wish, _) in &wishes {
                let app = config.apps.get_mut(&wish.name);
                // What it is given stays in its sandbox.
                let closed = app.filter(|it| it.domains.is_empty() && it.egress.is_empty());
                closed.into_iter().for_each(wrap::read_freely);
            }
            self.provide(&mut config, &layers).await?;
            let ready = wishes.iter().map(|(wish, _)| &wish.name);
            let ready = ready.filter(|name| config.apps.contains_key(*name));
            let ready: Vec<String> = ready.map(|name| escape(name)).collect();
            if !ready.is_empty() {
                message(&format!(
                    "note: {} run behind the gateway, each in a sandbox; they reach no domain unless `sluice app add` gave them one",
                    ready.join(", ")
                ));
            }
        }
        let sandbox = self.sandbox.as_ref().zip(sandbox);
        let sandbox = sandbox.map(|(opened, app)| self.confined(opened, &config, app));
        Ok(Rules {
            sandbox: sandbox.transpose()?,
            config,
            files,
            servers: wishes,
        })
    }

    async fn provide(&self, config: &mut Config, layers: &BTreeSet<Layer>) -> Result<()> {
        let fetch = match (self.yes, Terminal::attended()) {
            (true, _) => Fetch::Yes,
            (false, true) => Fetch::Ask,
            (false, false) => Fetch::No,
        };
        fetch::provide_for(config, &BTreeSet::new(), fetch, layers, false).await
    }

    /// The agent's servers with the files that they see. Those that cannot be used are named.
    fn wishes(&self, config: &Config) -> Vec<(Wish, block::Data)> {
        let mut wishes: Vec<(Wish, block::Data)> = Vec::new();
        for (file, value) in &self.own.servers {
            // The text is JSON, whatever form the file had.
            let path = file.with_extension("json");
            let read = foreign_servers(&path, &value.to_string(), &|name| std::env::var(name).ok());
            let (servers, notes) = match read {
                Ok(read) => read,
                Err(_) => continue,
            };
            for note in notes {
                message(&format!("note: {}", escape(&note)));
            }
            for mut wish in servers {
                for note in &wish.notes {
                    message(&format!("note: {}: {}", escape(&wish.name), escape(note)));
                }
                let is_taken = wishes.iter().any(|(other, _)| other.name == wish.name);
                let data = match (&wish.left_out, is_taken) {
                    (Some(reason), _) => Err(anyhow!("{reason}")),
                    (None, true) => Err(anyhow!("another server has this name")),
                    (None, false) => self.data(&wish, file),
                };
                match data {
                    Ok(data) => {
                        let is_configured = loop {
                            match config.apps.get(&wish.name) {
                                Some(app) if is_same(app, &wish) => break true,
                                None if wish.name != self.kind.app() => break false,
                                _ => wish.name += "-2",
                            }
                        };
                        if !is_configured {
                            wishes.push((wish, data));
                        }
                    }
                    Err(reason) => message(&format!(
                        "note: the server {} is left out: {}",
                        escape(&wish.name),
                        escape(&format!("{reason:#}"))
                    )),
                }
            }
        }
        wishes
    }

    /// The files that a server's command and variables name. It writes what `--mount` names, and the workspace only if it is
    /// known as one that writes. One of a file that the agent may write gets nothing else of the user's.
    fn data(&self, wish: &Wish, of: &Path) -> Result<block::Data> {
        if is_below(of, &self.workspace.folder) {
            self.check_inside(wish)?;
        }
        let mut words: Vec<&Path> = wish.command.iter().map(Path::new).collect();
        words.extend(wish.env.values().map(Path::new));
        let is_known = matches!(Known::of(wish), Ok(Some(known)) if known.writes());
        let workspace = is_known.then_some(&self.workspace.folder);
        let may_write = self.mounts.iter().chain(workspace);
        let may_write =
            may_write.filter(|folder| words.iter().any(|word| word.starts_with(folder)));
        let write: Vec<PathBuf> = may_write.cloned().collect();
        let mut data = block::data(wish, &write)?;
        // What lies in one of these folders comes with it.
        data.retain(|(path, access)| {
            *access == Access::Write
                || !write
                    .iter()
                    .any(|folder| Path::new(path).starts_with(folder))
        });
        Ok(data)
    }

    fn check_inside(&self, wish: &Wish) -> Result<()> {
        let lists = ["PATH", "LD_LIBRARY_PATH"].map(str::to_owned);
        let lists = lists.into_iter().filter(|name| wish.env.contains_key(name));
        if let Some(name) = wish.variables().into_iter().chain(lists).next() {
            bail!(
                "a file of the workspace, which the agent may write, does not give it {name}; {ELSEWHERE}"
            );
        }
        let words = wish.command.iter().chain(wish.env.values());
        let mut paths = words.filter_map(|word| provision::named_path(word));
        let is_outside = |path: &PathBuf| {
            path.canonicalize()
                .is_ok_and(|end| !end.starts_with(&self.workspace.folder))
        };
        match paths.find(is_outside) {
            Some(path) => bail!(
                "a file of the workspace, which the agent may write, does not give it {}; {ELSEWHERE}",
                path.display()
            ),
            None => Ok(()),
        }
    }

    fn loaded(&self, wishes: &[(Wish, block::Data)], tools: &[Vec<Tool>]) -> Result<Config> {
        let before = self.place.file.open(false)?;
        let mut lines = String::from("\n");
        if !before.names_lattice {
            lines += LATTICE;
        }
        if !before.apps.contains_key(self.kind.app()) {
            lines += &self.profile(&before);
        }
        for (number, (wish, data)) in wishes.iter().enumerate() {
            lines += &block::of(wish, data, tools.get(number).map_or(&[], Vec::as_slice));
        }
        if let Some(opened) = &self.sandbox {
            let program = json!(opened.program.to_string_lossy());
            lines +=
                &format!("\n[app.{SANDBOX}]\ncommand = [{program}]\nother_domains = \"ask\"\n");
        }
        let mut config = configuration::open_with(
            self.place.file.config.as_deref(),
            Terminal::attended(),
            &lines,
        )?;
        config.proxy.app = Some(self.kind.app().to_owned());
        Ok(config)
    }

    /// The profile with the labels of this workspace.
    fn profile(&self, config: &Config) -> String {
        let list = |names: &[String]| json!(names).to_string();
        let files = self.of_files(config);
        let (output, shell) = match self.sandbox.is_some() {
            true => (files.clone(), vec!["secret".to_owned()]),
            false => (
                vec!["untrusted".to_owned(), "secret".to_owned()],
                self.own_secret(config),
            ),
        };
        let folder = self.workspace.folder.to_string_lossy();
        let quoted = json!(folder).to_string();
        let text = self.kind.profile().replace("@files@", &list(&files));
        let text = text
            .replace("@output@", &list(&output))
            .replace("@shell@", &list(&shell));
        let text = text.replace("\"@folder@\"", &quoted);
        let mut text = match self.has_categories(config) {
            true => text,
            // Labels of the whole order, where the user has one of another kind.
            false => {
                (text.replace("untrusted:web", "untrusted")).replace("untrusted:workspace, ", "")
            }
        };
        // At the end, since it has names of files.
        let plain = self.workspace.is_plain();
        for argument in ["file_path", "notebook_path", "filePath"] {
            let condition = plain.replace(ARGUMENT, &format!("context.arguments.{argument}"));
            text = text.replace(&format!("@plain {argument}@"), &condition);
        }
        text
    }

    /// Whether the categories of the profiles are there.
    fn has_categories(&self, config: &Config) -> bool {
        !config.names_lattice
            || config
                .lattice
                .labels(["untrusted:workspace", "untrusted:web", "secret:workspace"])
                .is_ok()
    }

    fn of_files(&self, config: &Config) -> Vec<String> {
        let name = match (self.workspace.is_mine(), self.has_categories(config)) {
            (true, true) => "secret:workspace",
            (true, false) => "secret",
            (false, true) => "untrusted:workspace",
            (false, false) => "untrusted",
        };
        vec![name.to_owned()]
    }

    /// The secrets that may be sent where the workspace's own text may go.
    fn own_secret(&self, config: &Config) -> Vec<String> {
        let is_known = self.workspace.is_mine() && self.has_categories(config);
        is_known
            .then(|| "secret:workspace".to_owned())
            .into_iter()
            .collect()
    }

    /// The agent's sandbox: what the agent sees, and where it may connect to.
    fn confined(&self, opened: &Opened<'_>, config: &Config, mut app: App) -> Result<App> {
        let label = |names: &[String]| config.lattice.labels(names.iter().map(String::as_str));
        let files = label(&self.of_files(config))?;
        let secret = files.meet(&config.lattice.whole(Dimension::Confidentiality));
        let folder = &self.workspace.folder;
        // Named for the servers, it is not mounted twice.
        let mounts = self.mounts.iter().filter(|path| *path != folder);
        let written = mounts.chain([folder, &opened.home.folder]);
        let written = written.map(|path| (path.clone(), true));
        let read = opened.home.shown.iter().chain(opened.read).cloned();
        let read = read.map(|path| (path, false));
        let mounts = written.chain(read).map(|(path, write)| Mount {
            source: path.clone(),
            target: path,
            write,
            size: None,
            execute: false,
            label: secret.clone(),
            place: At {
                file: PathBuf::from(self.kind.app()),
                line: 1,
            },
        });
        app.mounts = mounts.collect();
        // The workspace's own secrets may go there, and no others.
        let own = label(&self.own_secret(config))?;
        let limit = own.join(&config.lattice.whole(Dimension::Integrity));
        let domains = REGISTRIES.iter().map(|name| (*name).to_owned());
        let named = opened.domains.iter().cloned();
        for name in domains
            .chain(named)
            .chain(self.workspace.domains(opened.domains)?)
        {
            let (name, address) = match name.split_once('=') {
                Some((name, address)) => (name, Some(address)),
                None => (&*name, None),
            };
            let pattern = Pattern::new(name);
            let pattern = pattern.map_err(|reason| anyhow!("the domain {name}: {reason}"))?;
            let address = address.map(str::parse).transpose();
            let address = address.with_context(|| format!("the address of {name}"))?;
            app.domains.push(Domain {
                pattern,
                ports: Domain::PORTS.to_vec(),
                limit: Some(limit.clone()),
                addresses: address.into_iter().collect(),
            });
        }
        let found = Here::of(config).find_for(&mut app, None);
        found.map_err(|reason| anyhow!("the agent cannot be started in a sandbox: {reason}"))?;
        // Agents build and start programs where they write.
        let written = app.mounts.iter_mut().filter(|mount| mount.write);
        written.for_each(|mount| mount.execute = true);
        Ok(app)
    }
}
