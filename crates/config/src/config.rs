//! The configuration, checked and complete.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use hub::Filling;
use hub::isc::Functionality;
use ifc::{Dimension, Label, Lattice};
use names::{Place, WebUrl};
use policy::{AppPolicy, Destinations, DomainRule, MessageRules, OtherDomains, UserLabels};

use crate::app::{App, Domain};
use crate::desk::DeskSettings;
use crate::diagnostics::Diagnostic;
use crate::limits::Limits;
use crate::service::{
    AuditSettings, ServiceSettings, StateSettings, TelemetrySettings, TenantLimits,
};

/// The contents of `sluice.toml` and of the files that it names. See [`Config::load`].
#[derive(Debug, Clone)]
pub struct Config {
    /// The names of labels.
    pub lattice: Lattice,
    /// Whether the configuration names them. If not, there are four points.
    pub names_lattice: bool,
    /// Language models; at least one, the first is the default.
    pub providers: Vec<Provider>,
    /// Whether the configuration names a provider. If not, the only one is the embedded model.
    pub names_provider: bool,
    /// The provider of conversations without an app (SecGPT §4.2.5), if it is not the default.
    pub vanilla: Option<String>,
    /// The dependency screener.
    pub screener: Screener,
    /// Limits of turns, and the default limits of spokes.
    pub limits: Limits,
    /// Apps by name.
    pub apps: BTreeMap<String, App>,
    /// Apps that may share a conversation, by group name. Others share one only if the user names them for a session.
    pub groups: BTreeMap<String, BTreeSet<String>>,
    /// The functionalities that apps can ask for, by name.
    pub functionalities: BTreeMap<String, Functionality>,
    /// The rules for messages between apps.
    pub messages: MessageRules,
    /// The guard proxy.
    pub proxy: ProxySettings,
    /// What is sent when a question waits.
    pub desk: DeskSettings,
    /// Long-term memory.
    pub memory: Memory,
    /// Where `sluice serve` listens.
    pub service: ServiceSettings,
    /// Where the state of its conversations is kept.
    pub state: StateSettings,
    /// How long its audit log is kept.
    pub audit: AuditSettings,
    /// What is seen of it from outside.
    pub telemetry: TelemetrySettings,
    /// What its tenants may use, by name.
    pub tenants: BTreeMap<String, TenantLimits>,
    /// The name of the user, for rules that depend on it.
    pub user_name: Option<Arc<str>>,
    /// The parts of the user's messages that the user did not write.
    pub user: UserLabels,
    /// The file that names all others.
    pub root: PathBuf,
    /// The files of the configuration.
    pub files: BTreeSet<PathBuf>,
    /// Remarks about keys of an `mcpServers` file that have no meaning here, one line each.
    pub notes: Vec<String>,
    /// Things that are allowed, but probably a mistake.
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
    /// The label of text that may be sent to it. It always includes the whole integrity dimension, which does not matter for
    /// disclosure. Unknown text (⊤) goes only to `any`.
    pub clearance: Label,
    /// Whether the user may be asked about text above the clearance: none is written, or each app has a secret of its own.
    pub open: bool,
}

impl Provider {
    /// Its port on this machine, if its address names one.
    pub(crate) fn port_here(&self) -> Option<u16> {
        let ProviderKind::Api { base_url, .. } = &self.kind else {
            return None;
        };
        let url = WebUrl::new(base_url.as_deref()?).ok()?;
        (url.place() == Place::ThisMachine).then_some(url.port())
    }
}

/// How to reach a language model.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum ProviderKind {
    /// On this machine. Its default clearance is `any`.
    Embedded,
    /// A server with an API. Its default clearance has no secret.
    Api {
        /// The API that it speaks.
        dialect: Dialect,
        /// The API's address; the default is a variable, such as `OPENAI_BASE_URL`.
        base_url: Option<String>,
        /// The variable of the hub with the key. The provider's client has the default.
        api_key_env: Option<String>,
        /// Whether its server must be the user's own or the system's, at an address of this machine.
        local: bool,
        /// Whether the model takes images.
        images: bool,
        /// How the server is asked for JSON of a schema; the default depends on the dialect.
        json: Option<JsonForm>,
        /// Whether the limit on generated tokens is called `max_completion_tokens`; the default depends on the address.
        max_completion_tokens: Option<bool>,
        /// Most tokens of one answer, if less than in `[limits]`.
        completion_tokens: Option<u32>,
    },
}

/// The API that a server speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dialect {
    /// OpenAI's chat completions (`openai`).
    Chat,
    /// Anthropic's messages (`anthropic`).
    Messages,
    /// OpenAI's responses (`responses`).
    Responses,
}

/// How a server is asked for JSON of a schema.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JsonForm {
    /// By the API's own member, such as `response_format`.
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
    /// Screen only if the history's label would violate the policy.
    pub lazy: bool,
    /// Before a question, the agent's model repeats the step with the offending text redacted; the same calls need no
    /// question. The default is yes, except for a judge and `redact-all`. Only if `lazy`.
    pub check: Option<bool>,
    /// How the arguments of calls are filled in. Only if `lazy`.
    pub arguments: Filling,
    /// The judge's provider; `None` is the default provider.
    pub provider: Option<String>,
    /// The provider that drafts steps for the attention screener (RTBAS §8.3.3); `None` is the agent's own. Only if not
    /// `lazy`.
    pub draft: Option<String>,
    /// The part of all dependencies that the attention screener should find, in percent; `None` is as trained. More recall
    /// masks less. Only without a judge.
    pub recall: Option<u8>,
    /// The attention screener's weights, an absolute path; `None` is those of the program.
    pub weights: Option<PathBuf>,
}

/// The kind of dependency screener.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ScreenerKind {
    /// A language model judges which regions matter (RTBAS §7.1).
    Judge,
    /// The attention of a small local model decides (RTBAS §7.2).
    Attention,
    /// The attention screener, and the judge where it is unsure.
    Combined,
    /// Every region matters: naive tainting.
    Naive,
    /// No region matters: everything labelled is masked.
    RedactAll,
}

impl ScreenerKind {
    /// Whether it uses the attention screener.
    #[must_use]
    pub fn attends(self) -> bool {
        matches!(self, Self::Attention | Self::Combined)
    }

    /// Whether it uses the judge.
    #[must_use]
    pub fn judges(self) -> bool {
        matches!(self, Self::Judge | Self::Combined)
    }
}

/// Long-term memory: `[memory]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Memory {
    /// Whether sessions remember. The default is yes for conversations and no for single queries.
    pub enabled: Option<bool>,
    /// The label of text that may be remembered. Other text is not, without a question.
    pub limit: Label,
    /// Most memories of one label in one namespace; the oldest are removed.
    pub entries: usize,
    /// Whether facts are extracted from each remembered turn.
    pub facts: bool,
    /// After how many days a memory is forgotten; `None` is never.
    pub days: Option<u32>,
}

/// The guard proxy: `[proxy]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProxySettings {
    /// The app with the rules for the tools of the proxy's clients. The default is the only app with `client = true`.
    pub app: Option<String>,
    /// What the proxy does with a call that would violate the policy.
    pub on_violation: OnViolation,
    /// How long a question waits. Without an answer the call is denied.
    pub approval_timeout: Duration,
    /// The label of images in what a client's user says. Without one, images are refused.
    pub images: Option<Label>,
    /// The label of what the agent's program puts between the messages: files, instructions of servers, reminders. Without
    /// one it is as untrusted as any text.
    pub inserted: Option<Label>,
    /// Whether members of requests that the API does not have go to the upstream. Otherwise they are refused.
    pub unknown_members: bool,
    /// Whether tools that are no functions of the client's are left out. Otherwise a request with one is refused.
    pub omits_tools: bool,
    /// Whether clients may name a model that the upstream does not list.
    pub any_model: bool,
    /// The header in which the operator's gateway names the user of a request.
    pub user_header: Option<String>,
}

/// What the proxy does with a call that would violate the policy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum OnViolation {
    /// It asks the user.
    Ask,
    /// It drops the call and tells the model why.
    Drop,
}

impl Config {
    /// The destinations that an app may connect to.
    fn destinations(&self, app: &App) -> Destinations {
        // Integrity does not matter for what a server learns.
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
            // The user is always asked about these. Above this limit the question also names the secrets.
            others: app.ask_domains.then(|| OtherDomains {
                ports: Domain::PORTS.to_vec(),
                limit: no_secret.clone(),
            }),
        }
    }

    /// The policy of the configuration, with default session facts.
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
