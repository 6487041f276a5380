//! The spokes of a session: one per app, started when a conversation or another app first needs it.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use hub::trace::Event;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use super::setup::AppSetup;
use crate::egress::Gate;
use crate::spoke::{Spoke, SpokeError};

/// Apps whose spokes could not be started, and why.
pub(super) type Failed = BTreeMap<String, SpokeError>;

/// The running spokes, by app. All conversations of the session share them; dropping them kills them.
pub(super) struct Spokes {
    running: BTreeMap<String, Arc<Spoke>>,
    /// Spokes that have ended and whose place another one has taken.
    replaced: Vec<Arc<Spoke>>,
    /// Decides on the connections of all of them.
    gate: Gate,
    /// Where their relays report.
    events: mpsc::Sender<Event>,
}

impl Spokes {
    pub(super) fn new(gate: Gate, events: mpsc::Sender<Event>) -> Self {
        Self {
            running: BTreeMap::new(),
            replaced: Vec::new(),
            gate,
            events,
        }
    }

    pub(super) fn get(&self, app: &str) -> Option<&Arc<Spoke>> {
        self.running.get(app).filter(|spoke| !spoke.is_gone())
    }

    /// Starts the spokes of those of these apps that do not run, side by side. What is to be recorded
    /// of that, and which of them do not run.
    pub(super) async fn start(
        &mut self,
        apps: impl IntoIterator<Item = AppSetup>,
    ) -> (Vec<Event>, Failed) {
        let (mut starting, mut apps_of) = (JoinSet::new(), HashMap::new());
        for setup in apps {
            if self.get(&setup.spoke.app).is_some() {
                continue;
            }
            let (gate, events) = (self.gate.clone(), self.events.clone());
            let app = setup.spoke.app.clone();
            let task = starting.spawn(async move { setup.open(&gate, events).await });
            apps_of.insert(task.id(), app);
        }
        let (mut happened, mut failed) = (Vec::new(), Failed::new());
        while let Some(ended) = starting.join_next_with_id().await {
            let id = match &ended {
                Ok((id, _)) => *id,
                Err(panicked) => panicked.id(),
            };
            let Some(app) = apps_of.remove(&id) else {
                continue;
            };
            // A start that panicked has failed like any other: what needs this app is refused, and the rest go on.
            let opened = match ended {
                Ok((_, opened)) => opened,
                Err(panicked) => Err(SpokeError::system(&app, panicked)),
            };
            match opened {
                Ok(spoke) => {
                    happened.push(spoke.started());
                    // The one that ended is kept until its end is recorded (`take_gone`).
                    let before = self.running.insert(app, Arc::new(spoke));
                    self.replaced.extend(before);
                }
                Err(error) => {
                    let (ended, reason) = (app.clone(), error.to_string().into());
                    happened.push(Event::SpokeEnded { app: ended, reason });
                    failed.insert(app, error);
                }
            }
        }
        (happened, failed)
    }

    pub(super) fn take_gone(&mut self) -> Vec<Arc<Spoke>> {
        let gone = self.running.extract_if(.., |_, spoke| spoke.is_gone());
        let gone = gone.map(|(_, spoke)| spoke);
        self.replaced.drain(..).chain(gone).collect()
    }

    /// Takes out the running spokes of the apps for which `is_over` holds.
    pub(super) fn take(&mut self, is_over: impl Fn(&str) -> bool) -> Vec<Arc<Spoke>> {
        let taken = self.running.extract_if(.., |app, _| is_over(app));
        taken.map(|(_, spoke)| spoke).collect()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Spoke> {
        self.running.values().map(Arc::as_ref)
    }
}
