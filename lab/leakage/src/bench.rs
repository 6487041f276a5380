//! Runs the benchmark.

use std::sync::Arc;

use anyhow::Result;
use ifc::{Label, Screener};
use llm::{Broker, Provider};

use crate::agent::Agent;
use crate::defence::Defence;
use crate::domain::{DOMAINS, Domain};
use crate::drive::{Parts, User};
use crate::grade::{Row, grade};
use crate::scenario::Scenario;

/// An agent behind a defence.
#[derive(Clone)]
pub struct Settings {
    /// The agent.
    pub agent: Agent,
    /// The defence.
    pub defence: Defence,
    /// The attention screener, for the defences that need it.
    pub attention: Option<Arc<dyn Screener>>,
}

/// Which tasks are run.
#[derive(Debug, Clone, Copy)]
pub struct Selection {
    /// The open tasks.
    pub open: bool,
    /// The tasks of the templates.
    pub seeded: bool,
}

impl Selection {
    /// Every task.
    pub const ALL: Self = Self {
        open: true,
        seeded: true,
    };
}

/// The prepared tasks of all domains.
pub fn scenarios(selection: Selection, seed: u64) -> Result<Vec<Arc<Scenario>>> {
    let mut found = Vec::new();
    for name in DOMAINS {
        let domain = Arc::new(Domain::find(name)?);
        let mut tasks = Vec::new();
        if selection.open {
            tasks.extend(domain.tasks.tasks.iter().cloned());
        }
        if selection.seeded {
            tasks.extend(domain.tasks.seeded(seed)?);
        }
        for task in &tasks {
            found.push(Arc::new(Scenario::new(&domain, task)?));
        }
    }
    Ok(found)
}

impl Settings {
    /// Runs a task. A run that fails is a row that says why.
    pub async fn run(&self, scenario: &Arc<Scenario>, user: User) -> Result<Row> {
        let provider = Arc::new(self.agent.provider(Arc::clone(scenario)));
        self.run_with(provider, scenario, user).await
    }

    /// The same with this provider as the agent's model.
    pub async fn run_with(
        &self,
        provider: Arc<dyn Provider>,
        scenario: &Arc<Scenario>,
        user: User,
    ) -> Result<Row> {
        // Cleared for everything: the benchmark is about what reaches the apps.
        let broker = Broker::new(provider, Label::top());
        let parts = Parts {
            scenario,
            defence: self.defence,
            user,
            broker: &broker,
            attention: self.attention.as_ref(),
        };
        let course = parts.run().await;
        grade(scenario, &self.agent, self.defence, user, course)
    }
}
