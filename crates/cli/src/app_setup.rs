//! From an app of a configuration to its spoke.

use std::collections::{BTreeMap, BTreeSet};
use std::env;

use anyhow::{Result, anyhow, bail};
use config::{App, Config, SpokeLimits, filled_in, from_environment};
use ifc::Labeled;
use remote::Settings;
use sandbox::{Access, Layer};
use server::{AppSetup, Domains, Egress, SpokeSetup, TokenPort, ToolCheck};
use store::Identity;
use wire::Offer;

use crate::terminal::message;
use crate::{paths, remote_app, review, secrets};

/// Where an app starts, inside its sandbox; the only writable place that every spoke has.
const WORKDIR: &str = "/tmp";
/// Looked up inside the sandbox.
const PATH: &str = "/usr/local/bin:/usr/bin:/bin";

/// How an app's spoke is run, with the port at which it asks for its token if the user has logged in.
pub(crate) fn of(
    app: &App,
    tokens: Option<TokenPort>,
    allow_degraded: &BTreeSet<Layer>,
) -> Result<AppSetup> {
    let env = environment(app, tokens.as_ref())?;
    // Without `found` the app mounts its program itself.
    let command = app.found.as_ref().map_or(&app.command, |it| &it.command);
    let mut sandbox = sandbox_of(app, allow_degraded);
    sandbox
        .listen
        .extend(tokens.iter().map(|tokens| tokens.port));
    let limits = &app.limits;
    let spoke = SpokeSetup {
        app: app.name.clone(),
        program: paths::binary("sluice-spoke")?,
        command: command.clone(),
        env,
        workdir: WORKDIR.to_owned(),
        sandbox,
        limits: app_limits(limits),
        egress: app
            .egress
            .iter()
            .map(|egress| Egress {
                listen: egress.listen,
                host: egress.host.clone(),
                port: egress.port,
                addresses: egress.addresses.clone(),
            })
            .collect(),
        domains: domains(app),
        tokens,
        call_timeout: limits.call_timeout,
        offer: Offer {
            resources: app.resources,
            prompts: app.prompts,
            exact: false,
            tools: app.filter.clone(),
        },
    };
    let description = app.description.clone().unwrap_or_else(|| app.name.clone());
    let rules = app.clone();
    // The review first: a rule that no longer fits is a consequence of tools that changed.
    let check = ToolCheck::new(move |tools| {
        review::unchanged(&rules, tools)?;
        let schemas = tools.iter();
        let schemas = schemas.map(|tool| (tool.name.as_str(), tool.input_schema.as_str()));
        let unlisted = rules.check_tools(&schemas.collect::<Vec<_>>());
        for line in unlisted.map_err(|errors| errors.to_string())? {
            message(&format!("warning: {line}"));
        }
        Ok(())
    });
    Ok(AppSetup {
        fresh: app.fresh,
        check,
        spoke,
        origin: Identity::from_digest(app.origin()),
        provider: app.provider.clone(),
        // From the manifest or the user. Descriptions by the running app have the label `descriptions`.
        description: Labeled::trusted_tcb(description),
        described_by_user: app.described_by_user,
        descriptions: app.descriptions.clone(),
        listed: app.rules.tools.keys().cloned().collect(),
        asks: app.asks.clone(),
        offers_others: app.rules.other_tools.is_some(),
    })
}

/// The environment of an app's program.
fn environment(app: &App, tokens: Option<&TokenPort>) -> Result<BTreeMap<String, String>> {
    let mut env = app.env.clone();
    if let Some(start) = &app.found {
        env.extend(start.env.clone());
    }
    env.entry("PATH".to_owned())
        .or_insert_with(|| PATH.to_owned());
    // The user's home is not in the sandbox; programs that need one get the scratch folder.
    env.entry("HOME".to_owned())
        .or_insert_with(|| WORKDIR.to_owned());
    // Otherwise Python writes sets in another order at each start, and a tool's description would count as changed.
    env.entry("PYTHONHASHSEED".to_owned())
        .or_insert_with(|| "0".to_owned());
    for entry in &app.env_from {
        let (name, text) = from_environment(entry);
        let value = filled_in(&text, |name| env::var(name).ok());
        let value = value.map_err(|missing| anyhow!("the app {} {missing}", app.name))?;
        env.insert(name.to_owned(), value);
    }
    // Headers with secrets go into the environment of our own program, since every process can read a command line.
    if let Some(remote) = &app.remote {
        let settings = Settings {
            tokens: tokens.map(|tokens| tokens.port),
            ..remote_app::settings(app, remote)?
        };
        env.extend([remote_app::variable(&settings)?]);
    }
    Ok(env)
}

fn domains(app: &App) -> Domains {
    let addresses = app.domains.iter();
    let addresses = addresses.map(|domain| (domain.pattern.clone(), domain.addresses.clone()));
    Domains {
        addresses: addresses.collect(),
        holds: app.holds(),
    }
}

/// The ports on which names lead to the hub. An app that may reach no name has one too: its lookups fail at once, and the
/// user sees them.
fn name_ports(app: &App, allow_degraded: &BTreeSet<Layer>) -> Vec<u16> {
    let ports = app.name_ports();
    if !ports.is_empty() {
        return ports.into_iter().collect();
    }
    let free = |port: &u16| app.egress.iter().all(|egress| egress.listen != *port);
    // On the host's network there is no resolver of our own.
    let own = !allow_degraded.contains(&Layer::NetNamespace);
    let ports = config::Domain::PORTS.into_iter().filter(free);
    ports.take(usize::from(own)).collect()
}

/// Refuses a session in which an app could read the user's secrets, or write what decides about the next session.
pub(crate) fn mounts(config: &Config) -> Result<()> {
    let none =
        |app: &App| app.mounts.is_empty() && app.found.iter().all(|start| start.mounts.is_empty());
    if config.apps.values().all(none) {
        return Ok(());
    }
    // Secrets may not even be read. `check_mounts` refuses to write the other places.
    let kept = paths::resolved(&secrets::folder()?);
    for app in config.apps.values() {
        let found = app.found.iter().flat_map(|start| &start.mounts);
        for mount in app.mounts.iter().chain(found) {
            // Links are resolved on both sides. A mount above the folder shows all of it, one inside a part.
            let source = paths::resolved(&mount.source);
            if kept.starts_with(&source) || source.starts_with(&kept) {
                bail!(
                    "{}: the app '{}' would see your secrets in '{}'; mount another folder",
                    mount.place,
                    app.name,
                    kept.display()
                );
            }
        }
    }
    config.check_mounts(&paths::kept()?).map_err(|errors| {
        let errors: Vec<_> = errors.iter().map(ToString::to_string).collect();
        anyhow!(errors.join("\n"))
    })
}

fn sandbox_of(app: &App, allow_degraded: &BTreeSet<Layer>) -> sandbox::Spec {
    let limits = &app.limits;
    let found = app.found.iter().flat_map(|start| &start.mounts);
    let mount = |mount: &config::Mount| sandbox::Mount {
        source: mount.source.clone(),
        target: mount.target.clone(),
        access: match mount.write {
            true => Access::ReadWrite,
            false => Access::ReadOnly,
        },
        executable: mount.execute,
    };
    let quota = |mount: &config::Mount| {
        let folder = mount.source.clone();
        mount.size.map(|bytes| sandbox::Quota { folder, bytes })
    };
    sandbox::Spec {
        mounts: app.mounts.iter().chain(found).map(mount).collect(),
        // The app gets its environment by the first frame.
        env: Vec::new(),
        listen: app.egress.iter().map(|egress| egress.listen).collect(),
        names: name_ports(app, allow_degraded),
        workdir: WORKDIR.into(),
        limits: sandbox::Limits {
            memory_bytes: limits.memory_bytes,
            processes: limits.processes,
            open_files: limits
                .open_files
                .unwrap_or_else(|| sandbox::whole_spoke().open_files()),
            file_bytes: limits.file_bytes,
            tmp_bytes: limits.tmp_bytes,
            ..sandbox::Limits::default()
        },
        // Found mounts are read-only.
        quotas: app.mounts.iter().filter_map(quota).collect(),
        allow_degraded: allow_degraded.clone(),
    }
}

fn app_limits(limits: &SpokeLimits) -> wire::AppLimits {
    let default = wire::AppLimits::default();
    wire::AppLimits {
        start_timeout_ms: u64::try_from(limits.start_timeout.as_millis())
            .unwrap_or(default.start_timeout_ms),
        // The default is also the limit of the protocol, which no configuration raises.
        max_result_bytes: u32::try_from(limits.result_bytes)
            .map_or(default.max_result_bytes, |bytes| {
                bytes.min(default.max_result_bytes)
            }),
        ..default
    }
}
