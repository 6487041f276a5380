//! An app of the configuration: its command, grants and rules.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use hub::isc::ServedBy;
use ifc::Label;
use names::Pattern;
use policy::{AppRules, Place};
use sha2::{Digest, Sha256};
use wire::ToolFilter;

use crate::accepts::AmongSource;
use crate::examples::Example;
use crate::limits::SpokeLimits;
use crate::remote::Remote;

/// The names of this machine's loopback.
pub(crate) const LOOPBACK: [&str; 3] = ["127.0.0.1", "[::1]", "localhost"];

/// An app: its command, grants and rules.
#[derive(Debug, Clone)]
pub struct App {
    /// Its name.
    pub name: String,
    /// What it is for, by its manifest or the user; `None` for a bare MCP server.
    pub description: Option<String>,
    /// Whether the description, or its absence, is the user's.
    pub described_by_user: bool,
    /// The SHA-256 of its manifest, if it has one.
    pub manifest: Option<[u8; 32]>,
    /// Whether its tools run at a client of the guard proxy. It has no command and no spoke then.
    pub client: bool,
    /// Program and arguments. A program with a `/` is an absolute path.
    pub command: Vec<String>,
    /// The remote server that it is, if any. It has no command then; `sluice-remote` runs in its spoke.
    pub remote: Option<Remote>,
    /// Its place in an `mcpServers` file; `None` for an app of `sluice.toml` alone. Such a file has no mounts, so files that
    /// its arguments name are shown to it.
    pub server: Option<Place>,
    /// How it is started on this machine, when that has been found.
    pub found: Option<Start>,
    /// Its environment, literally.
    pub env: BTreeMap<String, String>,
    /// Variables that it gets with values of the hub's environment, as `NAME` or `NAME=${OTHER}` (see
    /// [`from_environment`](crate::from_environment)). A missing one is an error at start.
    pub env_from: Vec<String>,
    /// Variables of the hub whose values are in its command or address, because an `mcpServers` file refers to them.
    pub filled_in: BTreeSet<String>,
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
    /// Which of its tools are used: `only_tools` and `hidden_tools`.
    pub filter: ToolFilter,
    /// Resource limits.
    pub limits: SpokeLimits,
    /// The provider of its conversations, if it has its own. Its results go to no other model then.
    pub provider: Option<String>,
    /// The label of the app's own descriptions of its tools. The default is `untrusted:descriptions`, and trusted with `client = true`,
    /// where the agent that the user runs describes them.
    pub descriptions: Label,
    /// The functionalities that it serves, and how.
    pub offers: BTreeMap<String, ServedBy>,
    /// The functionalities that its conversation may ask for; `None` is all of them.
    pub asks: Option<BTreeSet<String>>,
    /// The rules of its tools and of its answers.
    pub rules: AppRules,
    /// Example calls, by tool.
    pub examples: BTreeMap<String, Vec<Example>>,
    /// The sources of values that its arguments accept by `among`.
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
    /// Largest size in bytes, for a folder that the app may write. Each file and folder counts for at least 4 KiB, and each
    /// name for up to 1 KiB more.
    pub size: Option<u64>,
    /// Whether files in it may be executed.
    pub execute: bool,
    /// The label of the files in it, which the app has from its start on and may send wherever it connects. The default is
    /// untrusted and secret (⊤).
    pub label: Label,
    /// Where it is configured.
    pub place: Place,
}

/// How an app is started on this machine. It is no part of the app's identity.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Start {
    /// Program and arguments.
    pub command: Vec<String>,
    /// Variables that it needs.
    pub env: BTreeMap<String, String>,
    /// Further mounts that it needs, read-only: its program, which may be executed, and files that the command names.
    pub mounts: Vec<Mount>,
    /// For an installed app, the tools that the user has reviewed, each with a digest.
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

impl Egress {
    /// Whether it leads to a service on this machine's loopback.
    #[must_use]
    pub fn is_here(&self) -> bool {
        LOOPBACK.contains(&&*self.host)
    }
}

/// A domain that an app may connect to, with everything below it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Domain {
    /// The domain.
    pub pattern: Pattern,
    /// The ports.
    pub ports: Vec<u16>,
    /// The label of data that the app may hold when it connects there without a question; `None` is any that is not secret.
    pub limit: Option<Label>,
    /// Addresses that names of it may stand for although they are not public.
    pub addresses: Vec<IpAddr>,
}

impl Domain {
    /// The default ports.
    pub const PORTS: [u16; 2] = [443, 80];

    /// Whether the app connects there without a question, whatever data it holds.
    pub(crate) fn takes_everything(&self) -> bool {
        self.limit.as_ref().is_some_and(Label::is_top)
    }
}

impl App {
    /// Grants a remote server's spoke the connection to the server. There is no limit on it: each call sends its arguments
    /// there, so the limits of the tools apply.
    pub(crate) fn open_remote(&mut self) {
        let Some(remote) = &self.remote else {
            return;
        };
        let port = remote.url.port();
        match remote.url.place() {
            // The spoke has its own loopback, so a relay on the same port leads to the server.
            names::Place::ThisMachine => self.egress.push(Egress {
                listen: port,
                host: "127.0.0.1".to_owned(),
                port,
                addresses: Vec::new(),
            }),
            names::Place::Named(name) => {
                // Not reached: a registrable name is always a pattern.
                let Ok(pattern) = Pattern::new(name.as_str()) else {
                    return;
                };
                let same =
                    |domain: &Domain| domain.pattern == pattern && domain.ports.contains(&port);
                // The user's own entry has precedence.
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

    /// The label of the data that it holds from its start on.
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

    /// The app's origin: a digest of its server, or of its command, environment, mounts and the folder of its `mcpServers`
    /// file. Its memories are bound to this, so that another app of the same name does not get them.
    ///
    /// Unlike [`App::identity`], it stays the same over updates and changes of grants: a lost permission costs a question, a
    /// lost memory is gone.
    #[must_use]
    pub fn origin(&self) -> [u8; 32] {
        let url = self.remote.as_ref().map(|remote| remote.url.as_str());
        // The mounts count, since a command may start a file of one (`python3 /app/server.py`).
        let mounts = self.mounts.iter();
        let mounts: Vec<_> = mounts.map(|mount| (&mount.source, &mount.target)).collect();
        let folder = self.folder_of_arguments();
        // `Debug` quotes strings, so two different apps have two texts.
        Sha256::digest(format!(
            "{:?}",
            (url, &self.command, &self.env, mounts, folder)
        ))
        .into()
    }

    /// The app's identity: a digest of its name, manifest, command and grants. Permanent permissions are bound to it.
    #[must_use]
    pub fn identity(&self) -> [u8; 32] {
        let mounts = self.mounts.iter().map(|mount| {
            // Names every field, so that a new one cannot be forgotten.
            let Mount {
                source,
                target,
                write,
                execute,
                // Not a grant of access.
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
        // `Debug` quotes strings, so two different apps have two texts.
        let mut text = format!("{all:?}");
        // Only if set: identities from before these keys existed stay valid.
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

    /// The folder of its `mcpServers` file, from which relative arguments (`node server.js`) start.
    fn folder_of_arguments(&self) -> Option<&Path> {
        let server = self.server.as_ref().filter(|_| self.remote.is_none());
        server?.file.parent()
    }
}
