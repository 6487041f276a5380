//! The agent and its defence, served over loopback while a cell runs.

use std::{
    collections::BTreeMap,
    net::{Ipv4Addr, SocketAddr},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use ifc::Label;
use llm::Broker;
use server::openai_server::{ModelServer, ModelServerConfig};
use tokio::{sync::oneshot, task::JoinHandle};

use super::{Cell, LoopError};
use crate::{
    oracle::Asked,
    worst_case::{Judge, Knowledge, WorstCase},
};

/// What is noted of one conversation.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Note {
    /// Questions, in order.
    pub(super) questions: Vec<Asked>,
    /// Answers of the agent's model.
    pub(super) llm_calls: u32,
    /// Answers of the judge's model.
    pub(super) judge_calls: u32,
    /// Of all answers.
    pub(super) prompt_tokens: u64,
    /// Of all answers.
    pub(super) completion_tokens: u64,
    /// Calls that ran: tool, and who or what allowed it.
    pub(super) allowed: Vec<(String, String)>,
}

/// Notes by conversation, shared with the server.
#[derive(Debug, Clone, Default)]
pub(super) struct Notes(Arc<Mutex<BTreeMap<String, Note>>>);

impl Notes {
    pub(super) fn with(&self, conversation: &str, change: impl FnOnce(&mut Note)) {
        change(self.lock().entry(conversation.to_owned()).or_default());
    }

    pub(super) fn take(&self, conversation: &str) -> Note {
        self.lock().remove(conversation).unwrap_or_default()
    }

    /// A note is whole after each change, so a thread that panicked left none torn.
    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Note>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A server that runs until it is dropped.
#[derive(Debug)]
pub(super) struct Served {
    pub(super) base_url: String,
    pub(super) notes: Notes,
    stop: Option<oneshot::Sender<()>>,
    task: JoinHandle<()>,
}

impl Served {
    /// Serves the worst-case agent behind a cell's defence.
    pub(super) async fn start(
        cell: &Cell,
        knowledge: &Arc<Knowledge>,
        judge: Judge,
    ) -> Result<Self, LoopError> {
        let agent = Arc::new(WorstCase::new(knowledge.clone(), judge));
        let broker = Arc::new(Broker::new(agent, Label::top()));
        let (stop, stopped) = oneshot::channel::<()>();
        let until = async move {
            // An error means that the sender is gone, which is a stop as well.
            let _ = stopped.await;
        };
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let _ = cell;
        let config = ModelServerConfig {
            address,
            allow_remote: false,
        };
        let server = ModelServer::bind(broker, config).await?;
        let base_url = server.base_url();
        let task = tokio::spawn(async move {
            // The network failing shows in every task of the cell.
            let _ = server.serve(until).await;
        });
        Ok(Self {
            base_url,
            notes: Notes::default(),
            stop: Some(stop),
            task,
        })
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        drop(self.stop.take());
        self.task.abort();
    }
}
