//! What a configuration says, checked and complete.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::time::Duration;

use hub::Filling;
use hub::isc::Functionality;
use ifc::{Dimension, Label, Lattice};
use policy::{AppPolicy, Destinations, DomainRule, MessageRules, OtherDomains, UserLabels};

use crate::app::{App, Domain};
use crate::diagnostics::Diagnostic;
use crate::limits::Limits;

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
    pub files: BTreeSet<PathBuf>,
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
        /// Whether the model takes images.
        images: bool,
        /// How the server is asked for JSON of a schema.
        json: JsonForm,
        /// Whether the limit on generated tokens is called `max_completion_tokens`; by the address if not given.
        max_completion_tokens: Option<bool>,
        /// Most tokens of one answer, where that is less than `[limits]` says.
        completion_tokens: Option<u32>,
    },
}

/// How a server is asked for JSON of a schema.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum JsonForm {
    /// By `response_format`.
    #[default]
    Schema,
    /// By the call of a tool.
    Call,
    /// In words.
    Words,
}

/// The dependency screener.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Screener {
    /// Which one.
    pub kind: ScreenerKind,
    /// Screen only when the coarse label would violate the policy.
    pub lazy: bool,
    /// Before a question, whatever the screener, the agent's model takes the step once more without
    /// what stands in its way; the same calls need no question. If not given, all are checked but a judge and
    /// `redact-all`. Only if `lazy`.
    pub check: Option<bool>,
    /// How the arguments of calls come about. Only if `lazy`.
    pub arguments: Filling,
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
    /// The label of images in what a client's user says. Without one, images are refused.
    pub images: Option<Label>,
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
            // The user is asked about these domains in any case. Above this limit the question also names the
            // secrets.
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
