//! `sluice doctor`: what this machine offers, and what is missing.

use std::collections::BTreeSet;
use std::path::PathBuf;

use anyhow::Result;
use clap::Args;
use config::{Config, ProviderKind};
use llm::models::{QWEN_CODER_1_5B, SMOLLM2_135M};

use crate::exit::Exit;
use crate::finding::Finding;
use crate::json_lines::print_json;
use crate::terminal::print;
use crate::words::counted;
use crate::{app_setup, compose, configuration, embedded, needs, paths, screener, trial};

#[derive(Debug, Args)]
pub(crate) struct Doctor {
    /// Check this configuration too.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Start every app of the configuration once, and say what it lacks.
    #[arg(long)]
    start: bool,
    /// Start without these sandbox layers if the kernel lacks them.
    #[arg(long, value_name = "LAYER", value_delimiter = ',')]
    allow_degraded: Vec<String>,
    /// Print one finding per line, as JSON.
    #[arg(long)]
    json: bool,
}

/// Looks at everything that a session needs. Something missing is exit code 1.
pub(crate) async fn doctor(args: &Doctor) -> Result<Exit> {
    let mut findings = sandbox_findings();
    let mut config = configuration::open(args.config.as_deref(), false);
    let known = config.as_ref().ok();
    // What a configuration with mistakes needs is not known, so an embedded model is assumed.
    let embeds = known.is_none_or(|config| embedded_providers(config).next().is_some());
    findings.push(embedded::program_finding(embeds));
    findings.extend(embedded::findings(&needed(known)));
    match &config {
        Ok(config) => {
            findings.push(configuration(config));
            findings.extend(disk(config));
            findings.extend(screener(config));
        }
        Err(error) => findings.push(Finding::new("configuration", false, format!("{error:#}"))),
    }
    if let (true, Ok(config)) = (args.start, &mut config) {
        findings.extend(starts(config, &args.allow_degraded).await?);
    }
    for finding in &findings {
        if args.json {
            print_json(finding)?;
        } else {
            let mark = if finding.ok { "ok     " } else { "MISSING" };
            print(&format!(
                "{mark} {:<22} {}",
                finding.subject, finding.detail
            ))?;
        }
    }
    let healthy = findings.iter().all(|finding| finding.ok);
    Ok(if healthy { Exit::Done } else { Exit::Failed })
}

/// Starts every app once, one after the other, so that none is slow because of another.
async fn starts(config: &mut Config, allow_degraded: &[String]) -> Result<Vec<Finding>> {
    let layers = compose::layers(allow_degraded)?;
    let unready = needs::provide(config).into_iter();
    let missing =
        |(app, reason): (String, String)| Finding::new(&format!("app {app}"), false, reason);
    // `provide` takes out of the configuration what cannot be started; the rest is tried all the same.
    let mut findings: Vec<_> = unready.map(missing).collect();
    // A session with such a mount does not start, so no app of it is tried.
    if let Err(error) = app_setup::mounts(config) {
        let error = format!("{error:#}");
        let finding = |line: &str| Finding::new("mounts", false, line.to_owned());
        findings.extend(error.lines().map(finding));
        return Ok(findings);
    }
    for app in config.apps.values().filter(|app| !app.client) {
        let subject = format!("app {}", app.name);
        findings.push(match trial::start(config, app, &layers).await {
            Ok(trial) => {
                let tools: Vec<_> = trial.tools.iter().map(|tool| tool.name.as_str()).collect();
                let detail = format!(
                    "starts, with {}: {}",
                    counted(tools.len(), "tool", "tools"),
                    tools.join(", ")
                );
                Finding::new(&subject, true, detail)
            }
            Err(error) => Finding::new(&subject, false, format!("{error:#}")),
        });
    }
    Ok(findings)
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
    // Both are fit to run with; which one it is should be known.
    let control_group = sandbox::whole_spoke().to_string();
    findings.push(Finding::new("control-group", true, control_group));
    findings
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
    Finding::new(&status.layer.to_string(), ok, detail)
}

/// The embedded models without which this configuration does not start; for one with mistakes, those
/// of the built-in configuration.
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

fn embedded_providers(config: &Config) -> impl Iterator<Item = &config::Provider> {
    let providers = config.providers.iter();
    providers.filter(|provider| provider.kind == ProviderKind::Embedded)
}

fn configuration(config: &Config) -> Finding {
    let apps = counted(config.apps.len(), "app", "apps");
    let providers = counted(config.providers.len(), "provider", "providers");
    let detail = format!("{apps}, {providers}");
    Finding::new("configuration", true, detail)
}

/// What bounds the folders that apps may write. Fit to run with either way; which one it is should be known.
fn disk(config: &Config) -> Option<Finding> {
    let apps = config.apps.values();
    let mounts = apps.flat_map(|app| app.mounts.iter().map(move |mount| (app, mount)));
    let of = |(app, mount): (&config::App, &config::Mount)| {
        let (name, target) = (&app.name, mount.target.display());
        match mount.size {
            Some(bytes) => format!("{name} {target} at {} MiB", bytes >> 20),
            None => format!("{name} {target} by nothing but its disk (no size_mb)"),
        }
    };
    let bounded: Vec<_> = mounts.filter(|(_, mount)| mount.write).map(of).collect();
    (!bounded.is_empty()).then(|| {
        let detail = format!(
            "what apps write is bounded: {}; a size is held by measuring: an app that is over it is ended",
            bounded.join(", ")
        );
        Finding::new("disk", true, detail)
    })
}

/// Whether the attention screener starts, if it is configured.
fn screener(config: &Config) -> Option<Finding> {
    let settings = &config.screener;
    settings
        .kind
        .attends()
        .then(|| match screener::check(settings) {
            Ok(()) => Finding::new("screener", true, "the attention screener starts".to_owned()),
            Err(error) => Finding::new("screener", false, format!("{error:#}")),
        })
}
