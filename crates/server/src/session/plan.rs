//! Which apps a query goes to: the planner finds what is needed, rules decide (SecGPT §4.1).

use std::collections::BTreeSet;

use hub::planner::{self, Candidate, Plan};
use hub::trace::Event;
use hub::{Apps, CompletionRequest};
use ifc::Labeled;
use llm::NoDeltas;

use super::{Choice, Session, SessionError};
use crate::user::User;

impl Session {
    /// The apps of the conversation that the query goes to.
    pub(super) async fn plan(
        &mut self,
        query: &Labeled,
        choice: Choice,
        user: &mut dyn User,
    ) -> Result<Apps, SessionError> {
        let (needed, apps, by) = match choice {
            Choice::Apps(apps) => (
                apps.iter().cloned().collect(),
                apps,
                "command line".to_owned(),
            ),
            Choice::Planner => {
                let needed = self.needed(query, user).await?;
                let (apps, by) = self.chosen(&needed, user).await?;
                (needed, apps, by)
            }
        };
        self.last.clone_from(&apps);
        self.record(
            Event::Planned {
                needed,
                apps: apps.clone(),
                by,
            },
            user,
        )?;
        Ok(Apps::of(apps))
    }

    /// The operator's choice, and who or what made it.
    async fn chosen(
        &self,
        needed: &[String],
        user: &mut dyn User,
    ) -> Result<(BTreeSet<String>, String), SessionError> {
        let by = "planner".to_owned();
        Ok(
            match planner::plan(needed, &self.last, &self.setup.groups) {
                Plan::Vanilla => (BTreeSet::new(), by),
                Plan::Isolated(app) => (BTreeSet::from([app]), by),
                Plan::Joint { group, apps } => (apps, format!("planner, group {group}")),
                Plan::FollowUp => (self.last.clone(), "planner, follow-up".to_owned()),
                Plan::Choose(apps) => match user.choose(&apps).await {
                    Some(app) if apps.contains(&app) => (BTreeSet::from([app]), "user".to_owned()),
                    _ => return Err(SessionError::NoChoice(apps)),
                },
            },
        )
    }

    /// The apps that the planner finds to be needed, each asked about alone.
    async fn needed(
        &mut self,
        query: &Labeled,
        user: &mut dyn User,
    ) -> Result<Vec<String>, SessionError> {
        let candidates: Vec<Candidate> = self
            .setup
            .apps
            .iter()
            .map(|app| Candidate {
                app: app.spoke.app.clone(),
                description: app.description.clone(),
            })
            .collect();
        let mut needed = Vec::new();
        for candidate in candidates {
            let request: CompletionRequest = planner::question(query, &candidate);
            let answer = self
                .setup
                .parts
                .broker
                .complete(&request, &mut NoDeltas)
                .await;
            let verdict = match answer {
                Ok(answer) => {
                    let usage = answer.completion.usage.into();
                    let purpose = format!("plan {}", candidate.app);
                    let provider = answer.provider;
                    self.record(
                        Event::Consulted {
                            purpose,
                            provider,
                            usage,
                        },
                        user,
                    )?;
                    planner::read(&answer.completion)
                }
                Err(error) => Err(error.to_string()),
            };
            match verdict {
                Ok(true) => needed.push(candidate.app),
                Ok(false) => {}
                Err(reason) => {
                    self.record(
                        Event::PlanUnclear {
                            app: candidate.app,
                            reason: reason.into(),
                        },
                        user,
                    )?;
                }
            }
        }
        Ok(needed)
    }
}
