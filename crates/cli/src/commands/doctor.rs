//! `sluice doctor`: what this machine offers, and what is missing.

use std::collections::BTreeSet;

use anyhow::Result;
use clap::Args;
use config::{Config, ProviderKind};
use llm::models::{Cache, KNOWN, Model, Presence, QWEN_CODER_1_5B, SMOLLM2_135M};
use sandbox::{Container, Layer};
use serde::Serialize;

use crate::exit::Exit;
use crate::json_lines::show;
use crate::place::Place;
use crate::words::counted;
use crate::{app_setup, embedded, needs, paths, screener, trial};

#[derive(Debug, Args)]
pub(crate) struct Doctor {
    #[command(flatten)]
    place: Place,
    /// Start every app of the configuration once, and report what it lacks.
    #[arg(long)]
    start: bool,
    /// Print JSON, one finding per line.
    #[arg(long)]
    json: bool,
}

/// One thing that was checked.
#[derive(Debug, Serialize)]
struct Finding {
    subject: String,
    ok: bool,
    detail: String,
}

impl Finding {
    fn new(subject: impl Into<String>, ok: bool, detail: impl Into<String>) -> Self {
        let (subject, detail) = (subject.into(), detail.into());
        Self {
            subject,
            ok,
            detail,
        }
    }
}

/// Checks everything that a session needs. The exit code is 1 if something is missing.
pub(crate) async fn doctor(args: &Doctor) -> Result<Exit> {
    let mut findings = sandbox_findings();
    // The report must not wait for a question, so an untrusted configuration is a finding.
    let mut config = args.place.file.open(true);
    let known = config.as_ref().ok();
    // A configuration with mistakes is assumed to need an embedded model.
    let embeds = known.is_none_or(|config| embedded_providers(config).next().is_some());
    findings.push(match embedded::program() {
        Some(path) => Finding::new(paths::MODEL_PROGRAM, true, path.display().to_string()),
        None => Finding::new(paths::MODEL_PROGRAM, !embeds, embedded::NOT_INSTALLED),
    });
    findings.extend(models(&needed(known)));
    match &config {
        Ok(config) => {
            findings.push(configuration(config));
            findings.extend(screener(config));
        }
        Err(error) => findings.push(Finding::new("configuration", false, format!("{error:#}"))),
    }
    if let (true, Ok(config)) = (args.start, &mut config) {
        findings.extend(starts(config, &args.place.layers()).await);
    }
    for finding in &findings {
        let mark = if finding.ok { "ok     " } else { "MISSING" };
        let text = format!("{mark} {:<22} {}", finding.subject, finding.detail);
        show(args.json, finding, &text)?;
    }
    let healthy = findings.iter().all(|finding| finding.ok);
    Ok(if healthy { Exit::Done } else { Exit::Failed })
}

/// Starts every app once, one after the other, so that none slows down another.
async fn starts(config: &mut Config, layers: &BTreeSet<Layer>) -> Vec<Finding> {
    // `provide` removes from the configuration what cannot be started.
    let unready = needs::provide(config, true).into_iter();
    let missing = |(app, reason)| Finding::new(format!("app {app}"), false, reason);
    let mut findings: Vec<_> = unready.map(missing).collect();
    // A session with such a mount does not start, so no app is tried.
    if let Err(error) = app_setup::mounts(config) {
        let error = format!("{error:#}");
        findings.extend(error.lines().map(|it| Finding::new("mounts", false, it)));
        return findings;
    }
    for app in config.apps.values().filter(|app| !app.client) {
        let (ok, detail) = match trial::start(config, app, layers).await {
            Ok(trial) => {
                let names = trial.names();
                let tools = counted(names.len(), "tool", "tools");
                (true, format!("starts, with {tools}: {}", names.join(", ")))
            }
            Err(error) => (false, format!("{error:#}")),
        };
        findings.push(Finding::new(format!("app {}", app.name), ok, detail));
    }
    findings
}

fn sandbox_findings() -> Vec<Finding> {
    let missing = |detail: String| vec![Finding::new("sandbox", false, detail)];
    let program = match paths::binary("sluice-spoke") {
        Ok(program) => program,
        Err(error) => return missing(error.to_string()),
    };
    // Every layer is really taken, in a process of its own that ends at once.
    let mut findings: Vec<_> = match sandbox::probe(&program) {
        Err(error) => return missing(error.to_string()),
        Ok(layers) => layers.into_iter().map(layer).collect(),
    };
    let all = findings.iter().all(|finding| finding.ok);
    findings.extend(Container::here().map(|it| container(it, all)));
    // A spoke runs with and without a control group; the finding says which.
    let control_group = sandbox::whole_spoke().to_string();
    findings.push(Finding::new("control-group", true, control_group));
    findings
}

/// What the container takes from a sandbox, and the setting that gives it back. `all` layers are there or not.
fn container(container: Container, all: bool) -> Finding {
    let Container { engine, masked, .. } = container;
    let name = engine.name();
    let lacks = match (all, masked) {
        (true, false) => {
            return Finding::new(
                "container",
                true,
                format!("{name}; spokes have every layer"),
            );
        }
        (true, true) => "it masks /proc, so servers have none, which some need",
        (false, true) => "it refuses layers (above), and masks /proc",
        (false, false) => "it refuses layers (above)",
    };
    let detail = format!(
        "{name}: {lacks}; {}; an agent by `sluice proxy` alone needs no sandbox",
        engine.setting()
    );
    Finding::new("container", all, detail)
}

fn layer(status: sandbox::LayerStatus) -> Finding {
    let ok = status.available.is_ok();
    let detail = match status.available {
        Ok(()) => status.detail,
        Err(reason) => format!(
            "{reason}; without it: {}; spokes start only with --allow-degraded {}",
            status.detail, status.layer
        ),
    };
    Finding::new(status.layer.to_string(), ok, detail)
}

/// Which models are here. Those that are `needed` have to be.
fn models(needed: &BTreeSet<&str>) -> Vec<Finding> {
    let cache = match Cache::of_user() {
        Ok(cache) => cache,
        Err(error) => return vec![Finding::new("model cache", false, error.to_string())],
    };
    let finding = |model: &Model| {
        let name = model.name;
        let found = match cache.presence(model) {
            Presence::Ready => Ok(cache.path(model)),
            // As a session would: the file counts if its hash is right.
            Presence::Unverified => cache.open(model).map_err(|error| error.to_string()),
            Presence::Missing => Err(format!(
                "not downloaded; fetch it with `sluice model pull {name}`"
            )),
        };
        let (ok, detail) = match found {
            Ok(path) => (true, path.display().to_string()),
            Err(reason) => (!needed.contains(name), reason),
        };
        Finding::new(format!("model {name}"), ok, detail)
    };
    KNOWN.iter().map(finding).collect()
}

/// The embedded models that this configuration needs; for one with mistakes, those of the built-in configuration.
fn needed(config: Option<&Config>) -> BTreeSet<&str> {
    let Some(config) = config else {
        return [QWEN_CODER_1_5B, SMOLLM2_135M].into();
    };
    let mut needed: BTreeSet<&str> = embedded_providers(config)
        .map(|provider| provider.model.as_str())
        .collect();
    if config.screener.kind.attends() {
        needed.insert(SMOLLM2_135M);
    }
    needed
}

/// Those that the configuration names: without a provider the embedded one is a choice among others.
fn embedded_providers(config: &Config) -> impl Iterator<Item = &config::Provider> {
    let named = config.names_provider.then_some(&config.providers);
    let providers = named.into_iter().flatten();
    providers.filter(|provider| provider.kind == ProviderKind::Embedded)
}

fn configuration(config: &Config) -> Finding {
    let apps = counted(config.apps.len(), "app", "apps");
    let providers = match config.names_provider {
        true => counted(config.providers.len(), "provider", "providers"),
        false => "no provider; `sluice run` offers the models that it finds".to_owned(),
    };
    Finding::new("configuration", true, format!("{apps}, {providers}"))
}

/// Whether the attention screener starts, if it is configured.
fn screener(config: &Config) -> Option<Finding> {
    let settings = &config.screener;
    let checked = settings.kind.attends().then(|| screener::check(settings))?;
    Some(match checked {
        Ok(()) => Finding::new("screener", true, "the attention screener starts"),
        Err(error) => Finding::new("screener", false, format!("{error:#}")),
    })
}
