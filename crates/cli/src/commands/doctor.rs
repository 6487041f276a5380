//! `sluice doctor`: what this machine offers, and what is missing.

use anyhow::Result;
use serde::Serialize;

use crate::args::Doctor;
use crate::exit::Exit;
use crate::terminal::print;
use crate::{compose, embedded, paths};

/// One thing that was looked at.
#[derive(Debug, Serialize)]
pub(crate) struct Finding {
    subject: String,
    ok: bool,
    detail: String,
}

/// Looks at everything that a session needs. Something missing is exit code 1.
pub(crate) fn doctor(args: &Doctor) -> Result<Exit> {
    let mut findings = sandbox_findings();
    findings.extend(embedded::findings());
    findings.push(configuration(args));
    for finding in &findings {
        if args.json {
            print(&serde_json::to_string(finding)?)?;
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

fn sandbox_findings() -> Vec<Finding> {
    let missing = |detail: String| {
        vec![Finding {
            subject: "sandbox".to_owned(),
            ok: false,
            detail,
        }]
    };
    let program = match paths::binary("sluice-spoke") {
        Ok(program) => program,
        Err(error) => return missing(error.to_string()),
    };
    // Every layer is really taken, in a process of its own that ends at once.
    match sandbox::probe(&program) {
        Err(error) => missing(error.to_string()),
        Ok(layers) => layers
            .into_iter()
            .map(|status| Finding {
                subject: status.layer.to_string(),
                ok: status.available.is_ok(),
                detail: match status.available {
                    Ok(()) => status.detail,
                    Err(reason) => format!(
                        "{reason}; without it: {}; spokes start only with --allow-degraded {}",
                        status.detail, status.layer
                    ),
                },
            })
            .collect(),
    }
}

fn configuration(args: &Doctor) -> Finding {
    let subject = "configuration".to_owned();
    match compose::config(args.config.as_deref()) {
        Ok(config) => Finding {
            subject,
            ok: true,
            detail: format!(
                "{} apps, {} providers",
                config.apps.len(),
                config.providers.len()
            ),
        },
        Err(error) => Finding {
            subject,
            ok: false,
            detail: error.to_string(),
        },
    }
}

impl Finding {
    /// About an embedded model.
    pub(crate) fn model(name: &str, ok: bool, detail: String) -> Self {
        Self {
            subject: format!("model {name}"),
            ok,
            detail,
        }
    }
}
