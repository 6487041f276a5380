//! Which language model the agent is.

use std::sync::Arc;

use llm::{HttpConfig, HttpConfigError, HttpProvider, Provider};

use crate::worst_case::{Judge, Knowledge, WorstCase};

/// The agent's model; it judges dependencies too, where the defence asks a judge.
#[derive(Debug, Clone)]
pub enum Model {
    /// The worst-case agent, and what it answers as a judge.
    WorstCase(Judge),
    /// A model behind an OpenAI-compatible API, an embedded one included (`sluice model serve`).
    Http(Box<HttpConfig>),
}

impl Model {
    /// Its name in rows and reports.
    pub fn name(&self) -> &str {
        match self {
            Self::WorstCase(_) => WorstCase::NAME,
            Self::Http(config) => &config.model,
        }
    }

    /// The provider, for the tasks of one suite.
    pub(super) fn provider(
        &self,
        knowledge: &Arc<Knowledge>,
    ) -> Result<Arc<dyn Provider>, HttpConfigError> {
        Ok(match self {
            Self::WorstCase(judge) => Arc::new(WorstCase::new(knowledge.clone(), *judge)),
            Self::Http(config) => Arc::new(HttpProvider::new(HttpConfig {
                // The harness asks for the model under this name.
                name: config.model.clone(),
                ..HttpConfig::clone(config)
            })?),
        })
    }
}
