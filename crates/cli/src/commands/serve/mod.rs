//! `sluice serve`: the proxy, the gateway and the desk as one service.

mod args;
mod fronts;
mod manager;
mod own;
mod reload;
mod shown;

use std::net::SocketAddr;
use std::sync::Arc;

use anyhow::{Context, Result, anyhow};
use config::Config;
use sd_notify::NotifyState;
use server::audit::Note;
use server::desk::page::{Page, PageRoutes, PageSetup};
use server::service::{Listener, Service, ServiceSetup, Stopping};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::oneshot;
use tracing::{info, warn};

pub(crate) use self::args::Serve;
use self::manager::{tell, watchdog};
use self::own::Own;
use self::reload::Reloads;
use self::shown::{Addresses, DeskAddresses};
use crate::commands::desk::overview;
use crate::exit::Exit;
use crate::terminal::message;
use crate::{logs, os_user, service};

/// Serves until SIGTERM or Ctrl-C. The exit code is 0 if all requests had their time.
pub(crate) async fn serve(args: Serve) -> Result<Exit> {
    let as_json = args.json;
    let config = args.config(!as_json)?;
    if args.check {
        shown::notes(&config);
        fronts::check(&config, &args.place.layers(), args.new_secret).await?;
        return shown::checked(&config, as_json);
    }
    logs::start(config.telemetry.logs)?;
    shown::notes(&config);
    // Registered before anything is served, so that none is lost.
    let [mut interrupts, mut terminations, mut hangups] = [
        signal(SignalKind::interrupt())?,
        signal(SignalKind::terminate())?,
        signal(SignalKind::hangup())?,
    ];
    let listener = listen("service", config.service.listen, "--listen").await?;
    let address = listener.address();
    let own = Own::open(&config, address, args.place.layers(), args.new_secret).await?;
    let own = Arc::new(own);
    let (fronts, about) = own.build(&config).await?;
    let (page, desk) = page(&args, &config, &own).await?;
    let stopping = Stopping::default();
    let endpoints = own.endpoints(&stopping);
    let mut metrics = None;
    if let Some(address) = config.service.metrics_listen {
        let listener = listen("endpoint of the metrics", address, "metrics_listen").await?;
        metrics = Some(listener.address());
        tokio::spawn(listener.serve(endpoints.open_metrics()));
    }
    let setup = ServiceSetup {
        fronts,
        page,
        desk: desk.page().to_owned(),
        endpoints,
        drain: config.service.drain,
        stopping,
    };
    let running = Service::new(listener, setup);
    let note = Note::new("start", "done").with("address", address.to_string());
    own.audit
        .note(note.with("version", env!("CARGO_PKG_VERSION")));
    let noted = own.audit.written().await;
    noted.map_err(|reason| anyhow!("the audit log cannot be written: {reason}"))?;
    let reloads = Reloads::start(args, Arc::clone(&own), running.handle(), config.clone())?;
    let (stop, stopped) = oneshot::channel::<()>();
    let mut serving = tokio::spawn(running.serve(async { drop(stopped.await) }));
    let (keeper, kept) = (Arc::clone(&own), config.clone());
    let keeping = tokio::spawn(async move {
        tokio::join!(keeper.limits.keep(), keeper.prune(&kept));
    });
    // For `sluice gateway --service`, which `sluice init` writes. Without it clients name the service themselves.
    let registered = match own.local_token().await {
        Ok(token) => service::register(address, token, config.root.clone()),
        Err(error) => Err(error),
    };
    if let Err(error) = &registered {
        warn!("commands of this user do not find the service: {error:#}");
    }
    let at = Addresses {
        service: address,
        metrics,
        desk,
    };
    shown::serving(&config, &about, &at, as_json)?;
    tell(&[NotifyState::Ready]);
    info!(%address, "serving");
    let mut watchdog = watchdog();
    loop {
        tokio::select! {
            _ = interrupts.recv() => break,
            _ = terminations.recv() => break,
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
            _ = interrupts.recv() => std::process::exit(Exit::Interrupted.number().into()),
            _ = terminations.recv() => std::process::exit(Exit::Terminated.number().into()),
        }
    }
    keeping.abort();
    own.close().await?;
    info!("stopped");
    Ok(Exit::Done)
}

async fn listen(what: &str, address: SocketAddr, option: &str) -> Result<Listener> {
    let listener = Listener::bind(address).await;
    listener.with_context(|| {
        format!("the {what} cannot listen on {address}; choose another address with {option}")
    })
}

/// The page of the desk, if it is among the fronts, and its addresses. At an address of its own it is served from now on.
async fn page(
    args: &Serve,
    config: &Config,
    own: &Own,
) -> Result<(Option<PageRoutes>, DeskAddresses)> {
    let setup = PageSetup {
        store: Arc::clone(&own.desk),
        address: config.service.desk_listen.unwrap_or(own.address),
        hosts: config.service.desk_hosts.clone(),
        user: os_user::name(),
        overview: Some(overview(args.place.file.clone())),
        audit: Some(Arc::clone(&own.audit)),
        report: message,
    };
    match config.service.desk_listen {
        Some(_) => {
            let page = Page::bind(setup).await;
            let page = page.context("desk_listen of [service] cannot be used")?;
            let addresses = DeskAddresses::of(&page.routes)?;
            tokio::spawn(page.serve(std::future::pending()));
            Ok((None, addresses))
        }
        None => {
            let page = PageRoutes::new(setup)?;
            let addresses = DeskAddresses::of(&page)?;
            Ok((Some(page), addresses))
        }
    }
}
