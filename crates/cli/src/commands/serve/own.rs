//! What a service keeps under every configuration: the store, the audit log, the metrics, and who is admitted.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Result, anyhow};
use async_trait::async_trait;
use config::{Config, DEFAULT_TENANT};
use sandbox::Layer;
use server::access::{self, Agent};
use server::audit::{Audit, Note};
use server::limits::Limits;
use server::service::Stopping;
use server::telemetry::{Check, Endpoints, Logs, MeteredState, Metrics, PolicyNames, Spans};
use server::{EventSink, Rotation, Sinks, StateSetup, remove_old_traces};
use sha2::{Digest, Sha256};
use store::{NewToken, Role, SessionState};
use tokio::task::spawn_blocking;
use tokio::time::sleep;
use tracing::warn;

use crate::commands::token::LOCAL;
use crate::hex::hex;
use crate::permissions::{days_ago, now};
use crate::{deployment, os_user, paths};

const HOUR: Duration = Duration::from_secs(3_600);

/// What outlives a configuration.
pub(super) struct Own {
    pub(super) desk: Arc<store::Desk>,
    pub(super) agents: Arc<Agents>,
    pub(super) state: StateSetup,
    pub(super) sinks: Sinks,
    pub(super) limits: Limits,
    pub(super) names: Arc<PolicyNames>,
    pub(super) metrics: Arc<Metrics>,
    pub(super) audit: Arc<Audit>,
    /// Where the service listens.
    pub(super) address: SocketAddr,
    pub(super) layers: BTreeSet<Layer>,
    spans: Option<Arc<Spans>>,
}

impl Own {
    /// Opens the store. `new_secret` takes the secret of the configuration in the place of another that the store was used
    /// with.
    pub(super) async fn open(
        config: &Config,
        address: SocketAddr,
        layers: BTreeSet<Layer>,
        new_secret: bool,
    ) -> Result<Self> {
        let secret = deployment::secret(config)?;
        let store = deployment::store(config).await?;
        let digest = Sha256::digest(&secret).into();
        deployment::claim(&*store.state(), &digest, new_secret).await?;
        let audit = deployment::audit(&store, &secret)?;
        let names = Arc::new(PolicyNames::default());
        let metrics = Arc::new(Metrics::new(Arc::clone(&names)));
        let state = MeteredState::new(store.state(), Arc::clone(&metrics));
        let state: Arc<dyn SessionState> = Arc::new(state);
        let telemetry = &config.telemetry;
        let spans = telemetry.otlp.as_ref().map(|otlp| {
            let (names, metrics) = (Arc::clone(&names), Arc::clone(&metrics));
            let spans = Spans::new(otlp, names, metrics, telemetry.content);
            let spans = spans.map(|spans| Arc::new(spans.for_apps(telemetry.trace_apps)));
            spans.map_err(|reason| anyhow!(reason))
        });
        let spans = spans.transpose()?;
        let logs = Logs::new(Arc::clone(&names), telemetry.content);
        let mut sinks: Vec<Arc<dyn EventSink>> =
            vec![audit.clone(), metrics.clone(), Arc::new(logs)];
        sinks.extend(spans.iter().map(|it| Arc::clone(it) as Arc<dyn EventSink>));
        let desk = store.desk();
        Ok(Self {
            agents: Arc::new(Agents(Arc::clone(&desk), Arc::clone(&metrics))),
            desk,
            limits: Limits::new(DEFAULT_TENANT, Some(Arc::clone(&state))),
            state: StateSetup {
                store: state,
                secret: digest,
            },
            sinks: Sinks::new(sinks),
            names,
            metrics,
            audit,
            address,
            layers,
            spans,
        })
    }

    /// What is watched from outside.
    pub(super) fn endpoints(&self, stopping: &Stopping) -> Endpoints {
        let state = Arc::new(Answers(Arc::clone(&self.state.store)));
        let audit = Arc::new(Writes(Arc::clone(&self.audit)));
        Endpoints {
            metrics: Arc::clone(&self.metrics),
            checks: vec![
                ("draining", stopping.check()),
                ("state", state),
                ("audit log", audit),
            ],
            desk: Arc::clone(&self.desk),
        }
    }

    /// Writes what is not written yet. Call it when nothing is served any more.
    pub(super) async fn close(&self) -> Result<()> {
        self.limits.save_all().await;
        if let Err(reason) = self.revoke_local_token().await {
            warn!(%reason, "the token of this user's commands is not revoked");
        }
        if let Some(spans) = self.spans.clone() {
            // The collector has some seconds for the last of them.
            let _ = spawn_blocking(move || spans.flush()).await;
        }
        let closed = self.audit.close(Note::new("stop", "done")).await;
        closed.map_err(|reason| anyhow!("the audit log is not closed: {reason}"))
    }

    /// Removes what is older than the configuration keeps, every hour. What the store keeps of the secret stays.
    pub(super) async fn prune(&self, config: &Config) {
        loop {
            let removed = async {
                let store = &*self.state.store;
                deployment::claim(store, &self.state.secret, false).await?;
                store.prune(days_ago(config.state.keep_days)).await?;
                let kept = days_ago(config.audit.keep_days);
                self.audit.remove_before(kept).await?;
                remove_old_traces(&paths::traces()?, Rotation::default().keep)?;
                anyhow::Ok(())
            };
            // The next hour comes.
            if let Err(error) = removed.await {
                warn!("what is too old is not removed: {error:#}");
            }
            sleep(HOUR).await;
        }
    }

    /// A new token for the agents of this user on this machine. The one before, of a service at the same address with the same
    /// folder, is revoked.
    ///
    /// # Errors
    /// The store fails.
    pub(super) async fn local_token(&self) -> Result<String> {
        let name = self.local_name()?;
        self.revoke_local_token().await?;
        let token = NewToken {
            name,
            role: Role::Agent,
            tenant: None,
            apps: Vec::new(),
            effects: Vec::new(),
            expires: None,
        };
        let note = Note::new("token", "new").with("name", token.name.as_str());
        self.audit.note(note.with("role", token.role.name()));
        Ok(self.desk.new_token(&token, now()).await?)
    }

    /// Revokes the token of [`Own::local_token`].
    async fn revoke_local_token(&self) -> Result<()> {
        self.desk.revoke(&self.local_name()?).await?;
        Ok(())
    }

    /// `local-HOST-DIGEST`. Services that share a database or a folder have names of their own.
    fn local_name(&self) -> Result<String> {
        let host = rustix::system::uname();
        let host = host.nodename().to_string_lossy();
        let host = host.chars().filter(char::is_ascii_alphanumeric);
        let host: String = host.take(32).collect();
        let place = format!("{}\n{}", paths::state()?.display(), self.address);
        let digest: String = hex(&Sha256::digest(place)).chars().take(8).collect();
        Ok(format!("{LOCAL}{host}-{digest}"))
    }
}

/// The tokens of the desk.
pub(super) struct Agents(Arc<store::Desk>, Arc<Metrics>);

#[async_trait]
impl access::Agents for Agents {
    async fn admit(&self, secret: &str) -> Result<Option<Agent>, String> {
        let token = self.1.stored("token", self.0.admit(secret, now())).await;
        let token = token.map_err(|error| error.to_string())?;
        Ok(token.map(|token| Agent {
            // The user of this machine asks by such a token, and allows no own question as an approver.
            name: match token.name.starts_with(LOCAL) {
                true => os_user::name(),
                false => token.name,
            },
            role: token.role,
            tenant: token.tenant,
        }))
    }
}

/// Whether the store answers, for `/readyz`.
struct Answers(Arc<dyn SessionState>);

#[async_trait]
impl Check for Answers {
    async fn check(&self) -> Result<(), String> {
        let store = Arc::clone(&self.0);
        // It goes on where the one who asks waits no longer, so that it is counted.
        let ping = tokio::spawn(async move { store.ping().await.map_err(|it| it.to_string()) });
        let answers = ping.await.map_err(|error| error.to_string());
        // The reason is in the log: anyone may ask, and it may name a path.
        answers.flatten().map_err(|reason| {
            warn!(reason, "the state cannot be used");
            "it cannot be used".to_owned()
        })
    }
}

/// Whether the audit log can be written, for `/readyz`. What it could not write before is tried again.
struct Writes(Arc<Audit>);

#[async_trait]
impl Check for Writes {
    async fn check(&self) -> Result<(), String> {
        let written = self.0.written().await;
        written.map_err(|_| "it cannot be written".to_owned())
    }
}
