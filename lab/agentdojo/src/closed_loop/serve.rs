//! The agent and its defence, served over loopback while a cell runs.

use std::{
    net::{Ipv4Addr, SocketAddr},
    sync::Arc,
};

use anyhow::{Context, Result};
use config::Config;
use hub::{Drafter, Screening};
use ifc::{History, Label, Policy};
use llm::Broker;
use screen::{NaiveTainting, attention::AttentionScreener};
use server::{
    Parts,
    openai_server::{ModelServer, ModelServerConfig},
    proxy::{Proxy, ProxySetup},
};
use tokio::task::JoinHandle;

use super::{
    Cell, Defence, Settings,
    watch::{Notes, Watch},
};
use crate::{baseline::ConfirmEveryCall, oracle::GroundTruth, worst_case::Knowledge};

/// A server that runs until it is dropped.
#[derive(Debug)]
pub(super) struct Served {
    pub(super) base_url: String,
    pub(super) notes: Notes,
    task: JoinHandle<()>,
}

impl Served {
    pub(super) async fn start(
        cell: &Cell,
        knowledge: &Arc<Knowledge>,
        settings: &Settings,
    ) -> Result<Self> {
        let agent = settings.model.provider(knowledge)?;
        // Cleared for everything: what the policies label is about integrity.
        let broker = Arc::new(Broker::new(agent, Label::top()));
        let notes = Notes::default();
        let (base_url, task) = match guard(cell, knowledge, settings.attention.as_ref())? {
            None => plain(broker).await?,
            Some(guard) => {
                let config = settings.policies.of(&cell.suite, cell.answers)?;
                guarded(cell, knowledge, &config, guard, broker, notes.clone()).await?
            }
        };
        Ok(Self {
            base_url,
            notes,
            task,
        })
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// A defence, and when it screens.
type Guard = (screen::Defence, Screening);

/// The defence of a cell; `None` without a proxy.
fn guard(
    cell: &Cell,
    knowledge: &Arc<Knowledge>,
    attention: Option<&Arc<AttentionScreener>>,
) -> Result<Option<Guard>> {
    let attention = || {
        attention.map(Arc::clone).with_context(|| {
            let name = cell.defence.name();
            format!("the defence {name} needs the attention screener's model; run `sluice model pull smollm2-135m` first")
        })
    };
    Ok(match cell.defence {
        Defence::None | Defence::Prompted(_) => None,
        // Nothing has a label, so nothing is there to screen.
        Defence::ConfirmEveryCall => Some((
            screen::Defence::new(Arc::new(NaiveTainting)),
            Screening::LAZY,
        )),
        Defence::Guarded(name, screening) => {
            // It must never run unguarded under the name of a guard.
            let screener = screen::defence(name);
            Some((
                screener.with_context(|| format!("there is no screener {name}"))?,
                screening,
            ))
        }
        Defence::Attention(screening) => {
            let defence = screen::Defence::by_draft(attention()?, Drafter::Own);
            Some((defence, screening))
        }
        Defence::Oracle(screening) => {
            let truth = GroundTruth::new(knowledge.clone());
            let oracle = screen::Oracle::new(move |history: &History| truth.of(history));
            Some((screen::Defence::new(Arc::new(oracle)), screening))
        }
    })
}

async fn plain(broker: Arc<Broker>) -> Result<(String, JoinHandle<()>)> {
    let config = ModelServerConfig {
        address: SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
        allow_remote: false,
    };
    let server = ModelServer::bind(broker, config).await?;
    let base_url = server.base_url();
    let task = tokio::spawn(async move {
        // The network failing shows in every task of the cell.
        server.serve(std::future::pending()).await;
    });
    Ok((base_url, task))
}

async fn guarded(
    cell: &Cell,
    knowledge: &Arc<Knowledge>,
    config: &Config,
    (defence, screening): Guard,
    broker: Arc<Broker>,
    notes: Notes,
) -> Result<(String, JoinHandle<()>)> {
    let policy: Arc<dyn Policy> = match cell.defence {
        Defence::ConfirmEveryCall => Arc::new(ConfirmEveryCall),
        _ => Arc::new(config.policy()),
    };
    let rules = config.apps.get(&cell.suite).map(|app| app.rules.clone());
    let watch = Arc::new(Watch {
        user: cell.user,
        knowledge: knowledge.clone(),
        rules: rules.with_context(|| format!("the policy has no app {}", cell.suite))?,
        notes,
    });
    let screener = defence.screener();
    let lattice = Arc::new(config.lattice.clone());
    let parts = Parts::new(broker, policy, lattice, screener);
    let mut setup = ProxySetup::new(parts, &cell.suite);
    setup.parts.settings.screening = defence.screening(screening);
    setup.approver = watch.clone();
    setup.observer = watch;
    let proxy = Proxy::bind(setup).await?;
    let base_url = proxy.base_url();
    let task = tokio::spawn(async move {
        // The network failing shows in every task of the cell.
        proxy.serve(std::future::pending()).await;
    });
    Ok((base_url, task))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::closed_loop::UserModel;
    use crate::copying::copying;
    use crate::policies::Answers;
    use crate::suite::{Dependencies, Suite};

    fn of(defence: Defence, attention: Option<&Arc<AttentionScreener>>) -> Result<Option<Guard>> {
        let cell = Cell {
            defence,
            version: "v1".to_owned(),
            suite: "banking".to_owned(),
            attack: None,
            user: UserModel::ABSENT,
            answers: Answers::Policy,
        };
        let knowledge = Knowledge {
            version: "v1".to_owned(),
            suite_name: "banking".to_owned(),
            suite: Suite {
                user_tasks: Vec::new(),
                injection_tasks: Vec::new(),
                injection_vectors: BTreeMap::new(),
                tools: Vec::new(),
            },
            dependencies: Dependencies::builtin().unwrap(),
            carriers: BTreeMap::new(),
        };
        guard(&cell, &Arc::new(knowledge), attention)
    }

    #[test]
    fn every_defence_is_the_one_of_its_name() {
        let attention = copying();
        for (_, defence) in Defence::ALL {
            let Some((guard, screening)) = of(defence, Some(&attention)).unwrap() else {
                assert!(!defence.is_guarded(), "{defence:?}");
                continue;
            };
            if defence != Defence::ConfirmEveryCall {
                assert!(defence.name().starts_with(guard.name()), "{defence:?}");
            }
            if defence.needs_attention() {
                // A screener that errs is checked before a question.
                let expected = match screening {
                    Screening::LAZY => Screening::CHECKED,
                    other => other,
                };
                assert_eq!(guard.screening(screening), expected);
            }
        }
    }

    #[test]
    fn what_needs_the_attention_screener_does_not_run_without() {
        for (_, defence) in Defence::ALL {
            match of(defence, None) {
                Ok(_) => assert!(!defence.needs_attention(), "{defence:?}"),
                Err(error) => {
                    assert!(defence.needs_attention(), "{defence:?}");
                    let error = error.to_string();
                    assert!(error.contains("sluice model pull smollm2-135m"), "{error}");
                }
            }
        }
    }
}
