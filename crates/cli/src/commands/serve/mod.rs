//! `sluice serve`: the proxy, the gateway and the desk as one service.

mod args;
mod fronts;
mod manager;
mod reload;
mod shown;

use std::sync::Arc;

use anyhow::{Context, Result, anyhow};
use config::{Config, DEFAULT_TENANT};
use sd_notify::NotifyState;
use server::audit::{Audit, AuditKeys, AuditSetup, Note};
use server::desk::page::{Page, PageRoutes, PageSetup};
use server::limits::Limits;
use server::service::{Listener, Service, ServiceSetup, Stopping};
use server::telemetry::{Endpoints, Logs, MeteredState, Metrics, PolicyNames, Spans};
use server::{EventSink, Sinks, StateSetup};
use sha2::{Digest, Sha256};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::oneshot;
use tracing::{info, warn};

pub(crate) use self::args::Serve;
use self::fronts::{Agents, Built, Own};
use self::manager::{tell, watchdog};
use self::reload::Reloads;
use crate::commands::desk::overview;
use crate::exit::Exit;
use crate::terminal::message;
use crate::{deployment, logs, os_user, service};

/// Serves until SIGTERM or Ctrl-C. The exit code is 0 if all requests had their time.
pub(crate) async fn serve(args: Serve) -> Result<Exit> {
    let as_json = args.json;
    let config = args.config(!as_json)?;
    if args.check {
        shown::notes(&config);
        fronts::check(&config, &args.place.layers()).await?;
        return shown::checked(&config, as_json);
    }
    logs::start(config.telemetry.logs)?;
    shown::notes(&config);
    // Registered before anything is served, so that none is lost.
    let mut signals = Signals::new()?;
    let mut hangups = signal(SignalKind::hangup())?;
    let secret = deployment::secret(&config)?;
    let store = deployment::store(&config).await?;
    let digest = Sha256::digest(&secret).into();
    deployment::claim(&*store.state(), &digest, args.new_secret).await?;
    let listener = Listener::bind(config.service.listen).await;
    let listener = listener.with_context(|| {
        let listen = config.service.listen;
        format!("the service cannot listen on {listen}; choose another address with --listen")
    })?;
    let address = listener.address();
    let stopping = Stopping::default();
    let names = Arc::new(PolicyNames::default());
    let metrics = Arc::new(Metrics::new(Arc::clone(&names)));
    let keys = AuditKeys::new(&secret).map_err(|error| anyhow!("the secret: {error}"))?;
    let heads = deployment::heads()?;
    let audit = Audit::open(
        store.audit(),
        Arc::new(keys),
        AuditSetup {
            heads: Some(heads),
            ..AuditSetup::default()
        },
    );
    let state: Arc<dyn store::SessionState> =
        Arc::new(MeteredState::new(store.state(), Arc::clone(&metrics)));
    let limits = Limits::new(DEFAULT_TENANT, Some(Arc::clone(&state)));
    let telemetry = &config.telemetry;
    let logs = Logs::new(Arc::clone(&names), telemetry.content);
    let mut sinks: Vec<Arc<dyn EventSink>> = vec![audit.clone(), metrics.clone(), Arc::new(logs)];
    let spans = telemetry.otlp.as_ref().map(|otlp| {
        let (names, metrics) = (Arc::clone(&names), Arc::clone(&metrics));
        let spans = Spans::new(otlp, names, metrics, telemetry.content);
        let spans = spans.map(|spans| Arc::new(spans.for_apps(telemetry.trace_apps)));
        spans.map_err(|reason| anyhow!(reason))
    });
    let spans = spans.transpose()?;
    sinks.extend(
        spans
            .iter()
            .map(|spans| Arc::clone(spans) as Arc<dyn EventSink>),
    );
    let desk = store.desk();
    let own = Arc::new(Own {
        desk: Arc::clone(&desk),
        agents: Arc::new(Agents(Arc::clone(&desk), Arc::clone(&metrics))),
        state: StateSetup {
            store: state,
            secret: digest,
        },
        sinks: Sinks::new(sinks),
        limits: limits.clone(),
        names,
        metrics: Arc::clone(&metrics),
        audit: Arc::clone(&audit),
        address,
        layers: args.place.layers(),
    });
    let Built { fronts, about } = own.build(&config).await?;
    let (page, logins, page_url) = page(&args, &config, &own).await?;
    let endpoints = Endpoints {
        metrics,
        checks: vec![
            ("draining", stopping.check()),
            (
                "state",
                Arc::new(fronts::Answers(Arc::clone(&own.state.store))),
            ),
            ("audit log", Arc::new(fronts::Writes(Arc::clone(&audit)))),
        ],
        desk,
    };
    let mut metrics_at = None;
    if let Some(address) = config.service.metrics_listen {
        let metrics = Listener::bind(address).await;
        let metrics = metrics.with_context(|| format!("the metrics cannot listen on {address}"))?;
        metrics_at = Some(metrics.address());
        tokio::spawn(metrics.serve(endpoints.open_metrics()));
    }
    let setup = ServiceSetup {
        fronts,
        page,
        endpoints,
        drain: config.service.drain,
        stopping,
    };
    let running = Service::new(listener, setup);
    let note = Note::new("start", "done").with("address", address.to_string());
    audit.note(note.with("version", env!("CARGO_PKG_VERSION")));
    audit
        .written()
        .await
        .map_err(|reason| anyhow!("the audit log cannot be written: {reason}"))?;
    let reloads = Reloads::start(args, Arc::clone(&own), running.handle(), config.clone())?;
    let (stop, stopped) = oneshot::channel::<()>();
    let mut serving = tokio::spawn(running.serve(async { drop(stopped.await) }));
    let (keeper, kept) = (Arc::clone(&own), config.clone());
    let keeping = tokio::spawn(async move { tokio::join!(limits.keep(), keeper.prune(&kept)) });
    let at = shown::Addresses {
        service: address,
        metrics: metrics_at,
        page: page_url,
    };
    shown::serving(&config, &about, &at, &logins, as_json)?;
    // For `sluice gateway --service`, which `sluice init` writes. Without it clients name the service themselves.
    let registered = match own.local_token().await {
        Ok(token) => service::register(address, token, config.root.clone()),
        Err(error) => Err(error),
    };
    if let Err(error) = &registered {
        warn!("commands of this user do not find the service: {error:#}");
    }
    tell(&[NotifyState::Ready]);
    info!(%address, "serving");
    let mut watchdog = watchdog();
    loop {
        tokio::select! {
            _ = signals.stop() => break,
            _ = hangups.recv() => reloads.now(),
            _ = watchdog.tick() => tell(&[NotifyState::Watchdog]),
            _ = &mut serving => break,
        }
    }
    tell(&[NotifyState::Stopping]);
    info!(
        "stopping: running requests have {} s",
        config.service.drain.as_secs()
    );
    drop((reloads, registered, stop));
    loop {
        tokio::select! {
            _ = &mut serving => break,
            _ = watchdog.tick() => tell(&[NotifyState::Watchdog]),
            // A second signal ends at once. The kernel ends the spokes.
            code = signals.stop() => std::process::exit(code.number().into()),
        }
    }
    keeping.abort();
    own.limits.save_all().await;
    if let Err(reason) = own.revoke_local_token().await {
        warn!(%reason, "the token of this user's commands is not revoked");
    }
    if let Some(spans) = spans {
        // The collector has some seconds for the last of them.
        let _ = tokio::task::spawn_blocking(move || spans.flush()).await;
    }
    if let Err(reason) = audit.close(Note::new("stop", "done")).await {
        warn!(reason, "the audit log is not closed");
        return Ok(Exit::Failed);
    }
    Ok(Exit::Done)
}

type Logins = Box<dyn Fn() -> Result<String> + Send + Sync>;

/// The page of the desk: among the fronts, or at an address of its own, where it is served from now on.
async fn page(
    args: &Serve,
    config: &Config,
    own: &Own,
) -> Result<(Option<PageRoutes>, Logins, String)> {
    let setup = PageSetup {
        store: Arc::clone(&own.desk),
        address: config.service.desk_listen.unwrap_or(own.address),
        hosts: config.service.desk_hosts.clone(),
        user: os_user::name(),
        overview: Some(overview(args.place.file.clone())),
        audit: Some(Arc::clone(&own.audit)),
        report: message,
    };
    if config.service.desk_listen.is_some() {
        let page = Page::bind(setup).await?;
        let (url, logins) = (page.routes.url(), page.routes.logins());
        tokio::spawn(page.serve(std::future::pending()));
        return Ok((None, Box::new(move || Ok(logins()?)), url));
    }
    let page = PageRoutes::new(setup)?;
    let (url, logins) = (page.url(), page.logins());
    Ok((Some(page), Box::new(move || Ok(logins()?)), url))
}

struct Signals {
    interrupt: Signal,
    terminate: Signal,
}

impl Signals {
    fn new() -> Result<Self> {
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
        })
    }

    /// Waits for SIGTERM or Ctrl-C. Returns how a process ends by it.
    async fn stop(&mut self) -> Exit {
        tokio::select! {
            _ = self.interrupt.recv() => Exit::Interrupted,
            _ = self.terminate.recv() => Exit::Terminated,
        }
    }
}
