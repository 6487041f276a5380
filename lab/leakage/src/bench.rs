//! Runs the benchmark.

use std::sync::Arc;

use anyhow::Result;
use ifc::{Label, Screener};
use llm::{Broker, Provider};

use crate::agent::Agent;
use crate::defence::Defence;
use crate::domain::{DOMAINS, Domain};
use crate::drive::{Parts, User};
use crate::grade::{Head, Row, grade};
use crate::scenario::Scenario;

/// Who the agent is.
#[derive(Clone)]
pub enum Model {
    /// One of the agents that need no model.
    Scripted(Agent),
    /// A model, which judges dependencies too where the defence asks a judge.
    Provider(Arc<dyn Provider>),
}

/// How tasks are run.
#[derive(Clone)]
pub struct Settings {
    /// The agent.
    pub model: Model,
    /// The defence.
    pub defence: Defence,
    /// Whether single arguments have limits of their own.
    pub arguments: bool,
    /// The seed of the seeded tasks.
    pub seed: u64,
    /// The attention screener, for the defences that need it.
    pub attention: Option<Arc<dyn Screener>>,
    /// The judge, where it is another model than the agent.
    pub judge: Option<Arc<dyn Provider>>,
}

/// Which tasks are run.
#[derive(Debug, Clone)]
pub struct Selection {
    /// The domains.
    pub domains: Vec<String>,
    /// The open tasks.
    pub open: bool,
    /// The tasks of the templates.
    pub seeded: bool,
}

impl Selection {
    /// Every task.
    #[must_use]
    pub fn all() -> Self {
        Self {
            domains: DOMAINS.map(str::to_owned).to_vec(),
            open: true,
            seeded: true,
        }
    }
}

/// The tasks made ready, in the injection variant or without.
///
/// # Errors
/// There is no such domain, or a task is wrong.
pub fn scenarios(selection: &Selection, seed: u64, inject: bool) -> Result<Vec<Arc<Scenario>>> {
    let mut found = Vec::new();
    for name in &selection.domains {
        let domain = Arc::new(Domain::find(name)?);
        if selection.open {
            for task in &domain.tasks.tasks {
                found.push(Arc::new(Scenario::new(&domain, task, false, inject)?));
            }
        }
        if selection.seeded {
            for task in domain.tasks.seeded(seed)? {
                found.push(Arc::new(Scenario::new(&domain, &task, true, inject)?));
            }
        }
    }
    Ok(found)
}

impl Settings {
    /// An agent behind a defence.
    #[must_use]
    pub fn new(model: Model, defence: Defence, seed: u64) -> Self {
        Self {
            model,
            defence,
            arguments: false,
            seed,
            attention: None,
            judge: None,
        }
    }

    /// The agent's name in rows.
    #[must_use]
    pub fn agent(&self) -> &str {
        match &self.model {
            Model::Scripted(agent) => agent.name(),
            Model::Provider(provider) => provider.name(),
        }
    }

    /// Runs a task. A run that fails is a row that says why.
    ///
    /// # Errors
    /// Two providers have one name, or the task cannot be graded.
    pub async fn run(&self, scenario: &Arc<Scenario>, user: User) -> Result<Row> {
        let config = scenario.domain.policy(self.arguments);
        let provider: Arc<dyn Provider> = match &self.model {
            Model::Scripted(agent) => Arc::new(agent.provider(Arc::clone(scenario))),
            Model::Provider(provider) => Arc::clone(provider),
        };
        // Cleared for everything: the benchmark is about what reaches the apps.
        let mut broker = Broker::new(provider, Label::top());
        if let Some(judge) = &self.judge {
            let name = judge.name().to_owned();
            broker = broker
                .with_provider(Arc::clone(judge), Label::top())?
                .with_route(hub::Purpose::Judge, [name])?;
        }
        let parts = Parts {
            scenario,
            defence: self.defence,
            user,
            config,
            broker: &broker,
            attention: self.attention.as_ref(),
        };
        let head = Head {
            agent: self.agent().to_owned(),
            defence: self.defence.name(),
            arguments: self.arguments,
            allowed: user == User::Allows,
            seed: self.seed,
        };
        grade(scenario, config, &head, parts.run().await)
    }
}
