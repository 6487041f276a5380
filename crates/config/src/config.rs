//! What a configuration says, checked and complete.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use hub::isc::{Functionality, ServedBy};
use ifc::{Dimension, Label, Lattice};
use names::Pattern;
use policy::{
    AppPolicy, AppRules, Destinations, DomainRule, MessageRules, OtherDomains, Place, UserLabels,
};
use sha2::{Digest, Sha256};

use crate::accepts::AmongSource;
use crate::diagnostics::Diagnostic;
use crate::examples::Example;
use crate::remote::Remote;

/// Everything that `sluice.toml` and the files it names say. See [`Config::load`].
#[derive(Debug, Clone)]
pub struct Config {
    /// The names of labels.
    pub lattice: Lattice,
    /// Language models; at least one, the first is the default.
    pub providers: Vec<Provider>,
    /// The provider of conversations without an app (SecGPT §4.2.5), if they have one of their own.
    pub vanilla: Option<String>,
    /// Who judges which regions a step depends on.
    pub screener: Screener,
    /// Limits of turns, and of spokes where an app has none of its own.
    pub limits: Limits,
    /// Apps by name.
    pub apps: BTreeMap<String, App>,
    /// Apps that may share a conversation, by the name of their group. Other apps meet only where the
    /// user names them for a session.
    pub groups: BTreeMap<String, BTreeSet<String>>,
    /// What apps can ask of each other, by name.
    pub functionalities: BTreeMap<String, Functionality>,
    /// The rules for messages between apps.
    pub messages: MessageRules,
    /// The guard proxy.
    pub proxy: ProxySettings,
    /// What is remembered of conversations.
    pub memory: Memory,
    /// The parts of the user's messages that the user did not write.
    pub user: UserLabels,
    /// The files that all of this was read from.
    pub files: Vec<PathBuf>,
    /// What the user should know although it is no error: parts of an `mcpServers` file that have
    /// no meaning here. One line each.
    pub notes: Vec<String>,
    /// What is allowed, and probably not meant.
    pub warnings: Vec<Diagnostic>,
}

/// A language model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Provider {
    /// Its name in the configuration.
    pub name: String,
    /// How to reach it.
    pub kind: ProviderKind,
    /// The model's name.
    pub model: String,
    /// What may be sent to it. It always includes the whole integrity dimension: who influenced a
    /// text does not matter for whom it is disclosed to. Unknown text (⊤) goes only to `any`.
    pub clearance: Label,
}

/// How to reach a language model.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum ProviderKind {
    /// In this process. Its default clearance is `any`: nothing leaves the machine.
    Embedded,
    /// Over an OpenAI-compatible API. Its default clearance has no secret at all.
    OpenAi {
        /// The API's address; without one, the variable `OPENAI_BASE_URL` says it.
        base_url: Option<String>,
        /// The variable of the hub that holds the key for `base_url`, or for the default address
        /// if there is none. Which key goes where if it is not given, the provider's client says.
        api_key_env: Option<String>,
    },
}

/// The dependency screener.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Screener {
    /// Which one.
    pub kind: ScreenerKind,
    /// Screen only when the coarse label would violate the policy.
    pub lazy: bool,
    /// Before a question, whatever the screener, the agent's model takes the step once more without
    /// what stands in its way; the same calls need no question. If not given, all are checked but a judge.
    /// Only if `lazy`.
    pub check: Option<bool>,
    /// The provider that judges; the default provider if not given.
    pub provider: Option<String>,
    /// The provider that drafts steps for a screener that looks at a draft (RTBAS §8.3.3); the
    /// agent's own if not given. Only if not `lazy`: lazily the draft is the step.
    pub draft: Option<String>,
    /// The part of all dependencies that the attention screener is to find, in percent; what it was
    /// trained for if not given. More recall masks less. Only without a judge beside it.
    pub recall: Option<u8>,
    /// The attention screener's weights, absolute (relative paths start from the folder of
    /// `sluice.toml`); those that come with the program if not given.
    pub weights: Option<PathBuf>,
}

/// Which dependency screener.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ScreenerKind {
    /// A language model says which regions matter (RTBAS §7.1).
    Judge,
    /// The attention of a small local model to the regions says which matter (RTBAS §7.2).
    Attention,
    /// The attention screener, and the judge for the regions that it is unsure of.
    Combined,
    /// Every region matters: naive tainting.
    Naive,
    /// No region matters: everything labelled is masked.
    RedactAll,
}

impl ScreenerKind {
    /// Whether the attention screener is in it, with its model.
    #[must_use]
    pub fn attends(self) -> bool {
        matches!(self, Self::Attention | Self::Combined)
    }

    /// Whether the judge is in it, who asks a provider.
    #[must_use]
    pub fn judges(self) -> bool {
        matches!(self, Self::Judge | Self::Combined)
    }
}

/// Long-term memory: `[memory]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Memory {
    /// Whether sessions remember. If not given, conversations do and single queries do not.
    pub enabled: Option<bool>,
    /// What may be remembered. What exceeds it is not, and nobody is asked.
    pub limit: Label,
    /// Memories of one label that one conversation's namespace holds; the oldest make room.
    pub entries: usize,
    /// The Redis server on this machine that holds the memory; a file of the user's if not given.
    pub redis: Option<String>,
    /// Whether facts are looked for in each turn that is remembered.
    pub facts: bool,
    /// After how many days a memory is forgotten; `None` is never.
    pub days: Option<u32>,
}

/// The guard proxy: `[proxy]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProxySettings {
    /// The app whose rules the tools of the proxy's clients have: the only app with `client = true`
    /// if none is named, and `None` if there is no such app, or several.
    pub app: Option<String>,
    /// What becomes of a call that would violate the policy.
    pub on_violation: OnViolation,
    /// How long a question waits. No answer is no.
    pub approval_timeout: Duration,
}

/// What the guard proxy does with a call that would violate the policy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum OnViolation {
    /// It asks the user.
    Ask,
    /// It drops the call and tells the model why.
    Drop,
}

/// Limits. Each has a default and a largest value, see the constants of this crate's settings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// Most steps (answers of a model) in one turn.
    pub steps: u32,
    /// Longest time of one turn.
    pub turn_timeout: Duration,
    /// Most bytes of the messages in one prompt; what is older becomes a summary. If not given, by the
    /// context of the providers.
    pub prompt_bytes: Option<usize>,
    /// Most bytes of one conversation.
    pub history_bytes: usize,
    /// Most apps that may wait for each other.
    pub hops: u32,
    /// Most steps of a conversation that serves an app's request.
    pub serving_steps: u32,
    /// Longest time of such a conversation.
    pub serving_timeout: Duration,
    /// Limits of each spoke.
    pub spoke: SpokeLimits,
}

/// Limits of one spoke.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SpokeLimits {
    /// Longest time from the start to the list of tools.
    pub start_timeout: Duration,
    /// Longest time of one tool call.
    pub call_timeout: Duration,
    /// Most bytes of one result.
    pub result_bytes: usize,
    /// Bytes of writable private memory per process.
    pub memory_bytes: u64,
    /// Processes and threads.
    pub processes: u32,
    /// Open files per process.
    pub open_files: u64,
    /// Bytes of one file that it writes.
    pub file_bytes: u64,
    /// Bytes of its `/tmp`.
    pub tmp_bytes: u64,
}

/// An app: how to start it, what it may have, what is said of its tools.
#[derive(Debug, Clone)]
pub struct App {
    /// Its name.
    pub name: String,
    /// What it is for, in words of its manifest or of the user; `None` for a bare MCP server.
    pub description: Option<String>,
    /// Whether these words, or the lack of any, are the user's: whoever wrote a manifest is believed as
    /// to this app alone.
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
    /// The completions that it may ask for. Only the user can say so, no manifest.
    pub sampling: Option<Sampling>,
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
    /// Whether files in it may be executed.
    pub execute: bool,
    /// The label of what lies in it: the app has that from its start on, and may send it wherever it connects to.
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

/// Completions that an app may ask for (MCP sampling).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sampling {
    /// The provider that answers. It is cleared for everything, since an app's prompt may hold everything
    /// that the app was given.
    pub provider: String,
    /// The most tokens of one completion.
    pub max_tokens: u32,
    /// How many in one session.
    pub per_session: u32,
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
}

impl App {
    /// The label of what it has from its start on.
    #[must_use]
    pub fn holds(&self) -> Label {
        self.mounts.iter().map(|mount| &mount.label).collect()
    }

    /// The ports on which it may reach names.
    #[must_use]
    pub fn name_ports(&self) -> BTreeSet<u16> {
        let asked = self.ask_domains.then_some(Domain::PORTS);
        let named = self.domains.iter().flat_map(|domain| &domain.ports);
        named.copied().chain(asked.into_iter().flatten()).collect()
    }

    /// Who the app is, beyond its name: a digest of its manifest, of how it is started, and of what it
    /// may reach. What the user has allowed this app for good, another one does not inherit.
    #[must_use]
    pub fn identity(&self) -> [u8; 32] {
        let mounts = self.mounts.iter().map(|mount| {
            let Mount {
                source,
                target,
                write,
                execute,
                label: _,
                place: _,
            } = mount;
            (source, target, write, execute)
        });
        let mounts: Vec<_> = mounts.collect();
        let all = (
            (&self.name, &self.manifest, &self.command),
            (&self.env, &self.env_from),
            (mounts, &self.egress, &self.sampling),
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
        Sha256::digest(text).into()
    }
}

impl Config {
    /// Where an app may connect to.
    fn destinations(&self, app: &App) -> Destinations {
        // Who influenced what the app sends is not what a server learns from it.
        let no_secret = self.lattice.whole(Dimension::Integrity);
        let relays = app.egress.iter();
        let relays = relays.map(|egress| (egress.host.clone(), egress.port));
        let domains = app.domains.iter().map(|domain| DomainRule {
            pattern: domain.pattern.clone(),
            ports: domain.ports.clone(),
            limit: domain.limit.clone().unwrap_or_else(|| no_secret.clone()),
        });
        Destinations {
            relays: relays.collect(),
            domains: domains.collect(),
            others: app.ask_domains.then(|| OtherDomains {
                ports: Domain::PORTS.to_vec(),
                limit: no_secret.clone(),
            }),
        }
    }

    /// The policy that it describes, for a session of which nothing is known.
    #[must_use]
    pub fn policy(&self) -> AppPolicy {
        let rules = |(name, app): (&String, &App)| (name.clone(), app.rules.clone());
        let destinations = |(name, app): (&String, &App)| (name.clone(), self.destinations(app));
        AppPolicy::new(self.apps.iter().map(rules).collect())
            .with_destinations(self.apps.iter().map(destinations).collect())
            .with_memory(self.memory.limit.clone())
            .with_messages(self.messages.clone())
    }
}
