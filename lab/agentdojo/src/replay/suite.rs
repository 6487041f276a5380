//! The shipped policies, as the replay needs them.

use std::sync::Arc;

use anyhow::Context;
use ifc::{Label, Labeled, Tool};

use super::drive::Suite;
use crate::policies::{self, Answers};

/// The shipped policy of a suite.
pub(super) fn shipped(name: &str) -> anyhow::Result<Suite> {
    let config = policies::of(name, Answers::Policy)?;
    let app = config.apps.values().next();
    let app = app.with_context(|| format!("the policy {name}.toml has no app"))?;
    let tools = app.rules.tools.keys().map(|tool| Tool {
        // The policy names them.
        label: Label::bottom(),
        name: tool.clone(),
        // The suites' own developers wrote these; no screener of the replay reads them.
        description: Labeled::trusted_tcb(""),
        parameters: Labeled::trusted_tcb(""),
    });
    let rules = app.rules.tools.iter();
    let reads = rules.filter(|(_, rule)| rule.effect.reads());
    Ok(Suite {
        app: app.name.clone(),
        tools: tools.collect(),
        reads: reads.map(|(tool, _)| tool.clone()).collect(),
        carriers: policies::carriers(&config),
        policy: Arc::new(config.policy()),
        lattice: Arc::new(config.lattice),
    })
}
