//! A spoke of the product with an app in it that nothing is withheld from: what is measured is the spoke.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use agentdojo::baseline::Unprotected;
use anyhow::{Result, anyhow, bail};
use async_trait::async_trait;
use hub::CallOutcome;
use ifc::{Arguments, Call, Decision, History, Label, Monitor};
use sandbox::{Access, Mount, Spec};
use serde_json::Value;
use server::{Domains, Gate, Mediator, Spoke, SpokeSetup};
use wire::{AppLimits, Form, Refusal, Reply};

use crate::sluice::binary;

/// How long a call may take: longer than any here, on a machine that builds beside it.
const CALL_TIMEOUT: Duration = Duration::from_secs(120);

/// A gate that lets everything through.
pub(crate) fn gate() -> Gate {
    Gate::new(Monitor::new(), Arc::new(Unprotected))
}

/// A spoke for this program, which is built beside ours, with nothing of the user's.
pub(crate) fn setup(app: &str, program: &str) -> Result<SpokeSetup> {
    let target = format!("/app/{program}");
    Ok(SpokeSetup {
        app: app.to_owned(),
        program: binary("sluice-spoke")?,
        command: vec![target.clone()],
        env: BTreeMap::new(),
        workdir: "/tmp".to_owned(),
        sandbox: Spec {
            mounts: vec![read_only(&binary(program)?, &target, true)],
            ..Spec::default()
        },
        limits: AppLimits::default(),
        egress: Vec::new(),
        domains: Domains::default(),
        tokens: None,
        call_timeout: CALL_TIMEOUT,
        offer: wire::Offer::default(),
    })
}

/// A mount that the app can only read.
pub(crate) fn read_only(source: &Path, target: &str, executable: bool) -> Mount {
    Mount {
        source: source.to_owned(),
        target: target.into(),
        access: Access::ReadOnly,
        executable,
    }
}

/// What the app's tool returns.
pub(crate) async fn call(
    spoke: &Spoke,
    gate: &Gate,
    tool: &str,
    arguments: &Value,
) -> Result<String> {
    let label = Label::bottom();
    let arguments = Arguments::parse(&arguments.to_string(), &label);
    let call = Call {
        app: spoke.app().to_owned(),
        tool: tool.to_owned(),
        arguments: arguments.map_err(|error| anyhow!("{error}"))?,
        label,
    };
    let decided = gate
        .monitor
        .decide(&*gate.policy, &History::default(), call);
    let Decision::Allow(permit) = decided else {
        // Nothing can deny here, so this is a mistake of the bench.
        bail!("a policy without limits denies");
    };
    let mut refuses = Refuses;
    let outcome = spoke.execute(permit, &mut refuses, std::future::pending());
    match outcome.await.outcome {
        CallOutcome::Returned {
            text,
            is_error: false,
            ..
        } => Ok(text),
        other => bail!("`{tool}` did not answer: {other:?}"),
    }
}

/// An app that asks for something gets nothing.
struct Refuses;

#[async_trait]
impl Mediator for Refuses {
    async fn mediate(&mut self, _: &Call, _: Form) -> Reply {
        Reply::Refused(Refusal::NotOffered)
    }
}
