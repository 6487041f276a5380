//! The proxy and the gateway of a run, at one address of loopback.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use anyhow::{Context, Result, anyhow};
use config::Config;
use hub::Permits;
use ifc::{Dimension, Label};
use sandbox::Layer;
use server::desk::{Approver, Desk, DropCalls, fresh_token};
use server::gateway::Routes;
use server::proxy::{Behind, LabelledTexts, Proxy};
use server::{Rotation, Told, TraceFile};
use tokio::sync::Notify;
use tokio::task::JoinHandle;

use super::summary::Summary;
use super::workspace::Workspace;
use crate::commands::gateway::{self, Offered};
use crate::commands::proxy::{by_rules, upstream};
use crate::service::Known;
use crate::{compose, paths};

/// The agent's session at the gateway: there is one agent.
const SESSION: &str = "agent";

/// The tools of the agents that start programs, beside those that have no rule.
const SHELLS: [&str; 11] = [
    "Bash",
    "Monitor",
    "Workflow",
    // Its text can hold commands, which the agent runs.
    "Skill",
    "skill",
    "lsp",
    "exec_command",
    "write_stdin",
    "shell",
    "shell_command",
    "bash",
];

/// The tools of the agents that bring what another conversation of the agent has come to.
const SUBAGENTS: [&str; 8] = [
    "Agent",
    "Task",
    "TaskOutput",
    "Workflow",
    "task",
    "multi_agent_v1__resume_agent",
    "multi_agent_v1__close_agent",
    "multi_agent_v1__wait_agent",
];

/// Both fronts, serving.
pub(super) struct Fronts {
    pub(super) address: SocketAddr,
    pub(super) token: String,
    pub(super) has_servers: bool,
    traces: Vec<PathBuf>,
    stop: Arc<Notify>,
    serving: JoinHandle<()>,
}

/// What both fronts are made of.
pub(super) struct Parts<'a> {
    pub(super) config: &'a Config,
    pub(super) app: &'a str,
    pub(super) upstream: upstream::Upstream,
    pub(super) files: &'a Label,
    /// Texts of which it is known who wrote them; some come while the agent runs.
    pub(super) known: LabelledTexts,
    /// Whether its programs read files beside the workspace, which can be anyone's.
    pub(super) reads_more: bool,
    pub(super) workspace: &'a Workspace,
    /// The agent's home, where it saves results.
    pub(super) home: &'a Path,
    pub(super) layers: &'a BTreeSet<Layer>,
    /// Who answers questions; without one they are refused at once.
    pub(super) approver: Option<Arc<dyn Approver>>,
    /// Whether everything is only observed.
    pub(super) observe: bool,
    /// Where they wait. It is not served here: the sandbox reaches this address.
    pub(super) desk: Arc<Desk>,
    /// The name of the trace.
    pub(super) session: String,
    pub(super) summary: Arc<Summary>,
    /// Who learns what the agent is given.
    pub(super) told: Told,
}

fn lock(permits: &Mutex<Permits>) -> MutexGuard<'_, Permits> {
    permits.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Fronts {
    /// Those of a running service on this machine, where the sandbox reaches one port of it.
    pub(super) fn of_service(service: &Known) -> Result<Self> {
        let address = service.url.strip_prefix("http://");
        let address = address.and_then(|it| {
            it.replace("localhost", "127.0.0.1")
                .parse::<SocketAddr>()
                .ok()
        });
        let address = address.filter(|it| it.ip().is_loopback());
        let address = address.with_context(|| {
            format!(
                "{} is not on this machine; a guarded agent reaches a service at http://127.0.0.1:PORT alone",
                service.url
            )
        })?;
        Ok(Self {
            address,
            token: service.token.clone(),
            has_servers: true,
            traces: Vec::new(),
            stop: Arc::default(),
            serving: tokio::spawn(async {}),
        })
    }

    pub(super) async fn start(parts: Parts<'_>) -> Result<Self> {
        let config = parts.config;
        let token = fresh_token().map_err(|reason| anyhow!(reason))?;
        let asks = parts.approver.is_some();
        let permits: Arc<Mutex<Permits>> = Arc::default();
        let fronts = gateway::Fronts {
            name: format!("{}-gateway", compose::session_name()?),
            approver: parts.approver.clone(),
            observe: parts.observe,
            permits: Arc::clone(&permits),
            told: Some(Arc::clone(&parts.told)),
            ..gateway::Fronts::default()
        };
        let offered = Offered {
            unattended: !asks,
            // Each tool by its own name, so that the proxy knows which one is called.
            search: Some(false),
            ..Offered::default()
        };
        let mut own = config.clone();
        // There is one user.
        own.proxy.user_header = None;
        let mut setup = by_rules(&own, parts.app, parts.upstream, asks, false)?;
        own.apps.retain(|_, app| !app.client);
        let has_servers = !own.apps.is_empty();
        let gateway = gateway::start(own, true, &offered, fronts, parts.layers).await?;
        let mut traces = vec![gateway.trace()];
        setup.observe = parts.observe;
        // The workspace's text, and what the agent's program itself says. The servers' instructions are not passed on.
        setup.labels.inserted = parts
            .files
            .meet(&config.lattice.whole(Dimension::Integrity));
        // The agent's settings say which models there are, and its server gets all that it is given.
        setup.any_model = true;
        setup.omits_tools = true;
        setup.tokens = vec![token.clone()];
        setup.approver = parts.approver.unwrap_or_else(|| Arc::new(DropCalls));
        setup.observer = parts.summary;
        setup.known = parts.known;
        for text in parts.workspace.rules() {
            setup.known.add(&text, parts.files.clone());
        }
        let ruled = setup.labels.listed.clone();
        let home = parts.home.to_string_lossy().into_owned();
        let homes = ["~/", "cd ~", "HOME", &home].map(str::to_owned);
        // Of an agent without a profile nothing is known.
        let knows_programs = !ruled.is_empty();
        setup.behind = Some(Behind {
            permits: Arc::clone(&permits),
            session: SESSION.to_owned(),
            files: parts.files.clone(),
            gathers: Arc::new(move |call| {
                let said = call.arguments.to_json();
                let saved = homes.iter().any(|home| said.contains(home));
                SUBAGENTS.contains(&call.tool.as_str()) || saved
            }),
            starts: Arc::new(move |tool| SHELLS.contains(&tool) || !ruled.contains(tool)),
            ..gateway::behind(&gateway, config)
        });
        setup.told = Some(parts.told);
        setup.beside = Some(Routes::new(gateway, &token, Some(SESSION.to_owned())));
        let trace = TraceFile::rotating(&paths::traces()?, &parts.session, Rotation::default())?;
        traces.push(trace.path().to_owned());
        setup.trace = Some(trace);
        let proxy = Proxy::bind(setup)
            .await
            .context("the guard does not start")?;
        // A program of the agent's reads the workspace by itself, and may call the gateway without the model.
        lock(&permits).give(SESSION, parts.files);
        if parts.reads_more {
            for dimension in [Dimension::Confidentiality, Dimension::Integrity] {
                lock(&permits).give(SESSION, &config.lattice.whole(dimension));
            }
        }
        if !knows_programs {
            lock(&permits).starts_program(SESSION);
        }
        let address = proxy.address();
        let stop = Arc::new(Notify::new());
        let (ending, closing) = (Arc::clone(&stop), parts.desk);
        let serving = tokio::spawn(proxy.serve(async move {
            ending.notified().await;
            // An open question becomes a no.
            closing.close().await;
        }));
        Ok(Self {
            address,
            token,
            has_servers,
            traces,
            stop,
            serving,
        })
    }

    /// Ends both, and the servers. Returns the traces.
    pub(super) async fn end(self) -> Vec<PathBuf> {
        self.stop.notify_one();
        // A panic of a front has been reported.
        let _ = self.serving.await;
        self.traces
    }
}
