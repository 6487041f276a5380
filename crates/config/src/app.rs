//! An app, as the configuration has it: how to start it, what it may have, what is said of its tools.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use hub::isc::ServedBy;
use ifc::Label;
use names::Pattern;
use policy::{AppRules, Place};
use sha2::{Digest, Sha256};

use crate::accepts::AmongSource;
use crate::examples::Example;
use crate::limits::SpokeLimits;
use crate::remote::Remote;

/// An app: how to start it, what it may have, what is said of its tools.
#[derive(Debug, Clone)]
pub struct App {
    /// Its name.
    pub name: String,
    /// What it is for, in words of its manifest or of the user; `None` for a bare MCP server.
    pub description: Option<String>,
    /// Whether these words, or the lack of any, are the user's. The author of a manifest is believed only about this
    /// app itself.
    pub described_by_user: bool,
    /// The SHA-256 of its manifest, if it has one.
    pub manifest: Option<[u8; 32]>,
    /// Whether its tools run at a client of the guard proxy. Then it has no command, and no spoke.
    pub client: bool,
    /// Program and arguments. A program with a `/` is an absolute path.
    pub command: Vec<String>,
    /// The server that it is, if it is one elsewhere. Then it has no command, and what speaks to it in its spoke is ours.
    pub remote: Option<Remote>,
    /// Where an `mcpServers` file has it; `None` for an app of `sluice.toml` alone. Such a file cannot say what an app is to
    /// see, so what its arguments name is meant to be seen.
    pub server: Option<Place>,
    /// How it is started on this machine, once that has been found.
    pub found: Option<Start>,
    /// Its environment, literally.
    pub env: BTreeMap<String, String>,
    /// Variables of the hub that it gets with their values. A missing one is an error at start.
    pub env_from: Vec<String>,
    /// Files and directories that it sees.
    pub mounts: Vec<Mount>,
    /// Where it may connect to by a port of its own.
    pub egress: Vec<Egress>,
    /// Where it may connect to by name.
    pub domains: Vec<Domain>,
    /// Whether the user is asked about other names; otherwise they are denied.
    pub ask_domains: bool,
    /// Whether each query gets a spoke and a conversation of its own.
    pub fresh: bool,
    /// Whether its resources are tools of it, `resources/list` and `resources/read`.
    pub resources: bool,
    /// Whether its prompts are tools of it, `prompts/list` and `prompts/get`.
    pub prompts: bool,
    /// Resource limits.
    pub limits: SpokeLimits,
    /// The provider that its conversations are with, if it has one of its own. No other is asked in its
    /// place, so what the app returns goes to no other model.
    pub provider: Option<String>,
    /// The label of what the running app says of itself: names, descriptions and parameters of its
    /// tools. Unless the user or the manifest says otherwise it is `untrusted`, and trusted for an app
    /// with `client = true`, whose tools are described by the agent that the user runs.
    pub descriptions: Label,
    /// The functionalities that it serves, and how.
    pub offers: BTreeMap<String, ServedBy>,
    /// The functionalities that its conversation may ask for; `None` is all of them.
    pub asks: Option<BTreeSet<String>>,
    /// The rules of its tools and of its answers.
    pub rules: AppRules,
    /// Calls of its tools, by tool, that are known to be allowed, asked about or denied.
    pub examples: BTreeMap<String, Vec<Example>>,
    /// Where the values come from that its arguments accept by `among`.
    pub(crate) among: Vec<AmongSource>,
}

/// A file or directory of the host that an app sees.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mount {
    /// On the host, absolute (relative paths start from the folder of `sluice.toml`).
    pub source: PathBuf,
    /// In the spoke, absolute.
    pub target: PathBuf,
    /// Whether the app may write.
    pub write: bool,
    /// Bytes that may lie in it, for a folder that the app may write. Each file and folder counts for at least 4 KiB, and
    /// each name for up to 1 KiB more.
    pub size: Option<u64>,
    /// Whether files in it may be executed.
    pub execute: bool,
    /// The label of what lies in it: the app has that from its start on, and may send it wherever it connects to. What a
    /// configuration mounts without one is untrusted and secret (⊤).
    pub label: Label,
    /// Where it is configured.
    pub place: Place,
}

/// How an app is started on this machine, and what it takes beside what its configuration gives it. It is no part of who
/// the app is: another place of the same program is not another app.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Start {
    /// Program and arguments, by their places.
    pub command: Vec<String>,
    /// Variables that it needs.
    pub env: BTreeMap<String, String>,
    /// The mounts that it needs, all of them to read only: those of the program may be executed, others are data that the
    /// command names.
    pub mounts: Vec<Mount>,
    /// The tools that the user has seen of it, each with a digest of what it takes, where it was installed for the user.
    pub reviewed: Option<BTreeMap<String, String>>,
}

/// A connection that the hub relays.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Egress {
    /// The port on the spoke's own 127.0.0.1.
    pub listen: u16,
    /// Host name or address of the destination, an IPv6 address in brackets.
    pub host: String,
    /// Port of the destination.
    pub port: u16,
    /// Addresses that the destination's name may stand for although they are not public.
    pub addresses: Vec<IpAddr>,
}

/// A domain that an app may connect to, with everything below it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Domain {
    /// The domain.
    pub pattern: Pattern,
    /// The ports.
    pub ports: Vec<u16>,
    /// What the app may have been given when it connects there unasked; `None` is whatever is no secret.
    pub limit: Option<Label>,
    /// Addresses that names of it may stand for although they are not public.
    pub addresses: Vec<IpAddr>,
}

impl Domain {
    /// The ports where the configuration names none: what a web address without a port means.
    pub const PORTS: [u16; 2] = [443, 80];

    /// Whether the app connects there unasked whatever it was given.
    pub(crate) fn takes_everything(&self) -> bool {
        self.limit.as_ref().is_some_and(Label::is_top)
    }
}

impl App {
    /// Lets it reach the server that it is, if it is one. Whatever it is given may flow there: the limits of its tools are
    /// the place to say what that is, since to call it is to send it.
    pub(crate) fn open_remote(&mut self) {
        let Some(remote) = &self.remote else {
            return;
        };
        let port = remote.url.port();
        match remote.url.place() {
            // The spoke has a loopback of its own, so the server is reached by a relay on the same port of it.
            names::Place::ThisMachine => self.egress.push(Egress {
                listen: port,
                host: "127.0.0.1".to_owned(),
                port,
                addresses: Vec::new(),
            }),
            names::Place::Named(name) => {
                // A name of the internet is a pattern too.
                let Ok(pattern) = Pattern::new(name.as_str()) else {
                    return;
                };
                let same =
                    |domain: &Domain| domain.pattern == pattern && domain.ports.contains(&port);
                // What the user says of it counts more.
                if !self.domains.iter().any(same) {
                    self.domains.push(Domain {
                        pattern,
                        ports: vec![port],
                        limit: Some(Label::top()),
                        addresses: remote.addresses.clone(),
                    });
                }
            }
        }
    }

    /// The label of what it has from its start on.
    #[must_use]
    pub fn holds(&self) -> Label {
        let found = self.found.iter().flat_map(|start| &start.mounts);
        let mounts = self.mounts.iter().chain(found);
        mounts.map(|mount| &mount.label).collect()
    }

    /// The most restrictive label that anything it returns may have; ⊤ if there is no rule for any tool.
    #[must_use]
    pub fn worst_result(&self) -> Label {
        let rules = self.rules.tools.values().chain(&self.rules.other_tools);
        let worst = rules.map(|rule| rule.result.worst().clone());
        worst
            .reduce(|all, one| all.join(&one))
            .unwrap_or_else(Label::top)
    }

    /// The ports on which it may reach names.
    #[must_use]
    pub fn name_ports(&self) -> BTreeSet<u16> {
        let asked = self.ask_domains.then_some(Domain::PORTS);
        let named = self.domains.iter().flat_map(|domain| &domain.ports);
        named.copied().chain(asked.into_iter().flatten()).collect()
    }

    /// Where the app comes from: a digest of the server that it is, or of its command, its environment, the folders
    /// that it sees and that of its `mcpServers` file. Its memories are bound to this, so that another app which takes
    /// its name is not told of them.
    ///
    /// It is a part of [`App::identity`] that outlives updates: another version of what the same command starts is the same
    /// app here, and so is one that may reach more or less. To lose a permission costs a question, to lose a memory costs
    /// what is in it.
    #[must_use]
    pub fn origin(&self) -> [u8; 32] {
        let url = self.remote.as_ref().map(|remote| remote.url.as_str());
        // A command that starts a file of a mount, `python3 /app/server.py`, says nothing of whose file it is.
        let mounts = self.mounts.iter();
        let mounts: Vec<_> = mounts.map(|mount| (&mount.source, &mount.target)).collect();
        let folder = self.folder_of_arguments();
        // As in `identity`: two different apps have two texts.
        Sha256::digest(format!(
            "{:?}",
            (url, &self.command, &self.env, mounts, folder)
        ))
        .into()
    }

    /// Who the app is, beyond its name: a digest of its manifest, of how it is started, and of what it
    /// may reach. What the user has allowed this app for good, another one does not inherit.
    #[must_use]
    pub fn identity(&self) -> [u8; 32] {
        let mounts = self.mounts.iter().map(|mount| {
            // Names every field: with a new one this does not compile until somebody decides whether it counts.
            let Mount {
                source,
                target,
                write,
                execute,
                // How much it may write is no part of what it may reach.
                size: _,
                label: _,
                place: _,
            } = mount;
            (source, target, write, execute)
        });
        let mounts: Vec<_> = mounts.collect();
        let all = (
            (&self.name, &self.manifest, &self.command),
            (&self.env, &self.env_from),
            (mounts, &self.egress),
        );
        // `Debug` quotes strings, so two different apps have two texts. That another compiler might
        // write it otherwise costs a question.
        let mut text = format!("{all:?}");
        // An app without names is who it was before there were any.
        if !self.domains.is_empty() || self.ask_domains {
            text = format!("{text}{:?}", (&self.domains, self.ask_domains));
        }
        if let Some(remote) = &self.remote {
            text.push_str(&remote.identity());
        }
        if let Some(folder) = self.folder_of_arguments() {
            text = format!("{text}{folder:?}");
        }
        Sha256::digest(text).into()
    }

    /// The folder of the `mcpServers` file that has it: `node server.js` there is a file of that folder. What `sluice.toml`
    /// has is found from its own folder on, the same for all of its apps.
    fn folder_of_arguments(&self) -> Option<&Path> {
        let server = self.server.as_ref().filter(|_| self.remote.is_none());
        server?.file.parent()
    }
}
