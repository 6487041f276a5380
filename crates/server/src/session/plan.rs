//! Which apps a query goes to: the planner finds what is needed, rules decide (SecGPT §4.1).

use std::time::Duration;

use hub::planner::{self, Candidate, Plan};
use hub::trace::Event;
use hub::{Apps, Completion, CompletionRequest};
use ifc::Labeled;
use llm::{NoDeltas, RequestOptions};
use tokio::time::timeout;

use super::choosing::{Choice, ChosenFor, Route, accept, kept};
use super::{Session, SessionError};
use crate::user::{Selection, SelectionView, User};

impl Session {
    pub(super) async fn plan(
        &mut self,
        query: &Labeled,
        choice: Choice,
        user: &mut dyn User,
    ) -> Result<Route, SessionError> {
        let command_line = "command line".to_owned();
        let by_user = choice != Choice::Planner;
        let (needed, route, by) = match choice {
            Choice::Apps(apps) => (
                apps.iter().cloned().collect(),
                Route::To(Apps::of(apps)),
                command_line,
            ),
            Choice::Each(apps) => (
                apps.iter().cloned().collect(),
                Route::Each(apps),
                command_line,
            ),
            Choice::Planner => {
                let needed = self.needed(query, user).await?;
                let (route, by) = self.chosen(&needed, user).await?;
                (needed, route, by)
            }
        };
        self.last = route.last();
        let by_planner = (!by_user).then_some(needed.as_slice());
        self.assessor.planned(by_planner);
        let planned = Event::Planned {
            needed,
            apps: self.last.names(),
            each: matches!(route, Route::Each(_)),
            by,
        };
        self.record(planned, user)?;
        Ok(route)
    }

    /// The operator's choice, and who or what made it.
    async fn chosen(
        &self,
        needed: &[String],
        user: &mut dyn User,
    ) -> Result<(Route, String), SessionError> {
        let by = "planner".to_owned();
        let to = |apps| Route::To(Apps::of(apps));
        // A conversation may be gone with its spoke, which died or was there for one query. To follow up on it would start
        // its app anew for a query that needs none, and nothing of what was said would be there.
        let last = match self.conversations.contains_key(&self.last) {
            true => &self.last,
            false => &Apps::None,
        };
        Ok(match planner::plan(needed, last, &self.setup.groups) {
            Plan::Vanilla => (Route::To(Apps::None), by),
            Plan::Isolated(app) => (Route::To(Apps::One(app)), by),
            Plan::Joint { group, apps } => (to(apps), format!("planner, group {group}")),
            Plan::FollowUp => (Route::To(last.clone()), format!("{by}, follow-up")),
            Plan::Choose(apps) => self.select(apps, user).await?,
        })
    }

    /// Several apps are needed, and nothing lets them meet. The user's kept choice decides, or the user. If
    /// nobody is there, each is asked by itself: no word of one reaches another, what they say goes to the
    /// user alone, and every call is decided as ever.
    async fn select(
        &self,
        apps: Vec<String>,
        user: &mut dyn User,
    ) -> Result<(Route, String), SessionError> {
        let to = |app| Route::To(Apps::One(app));
        let selections = self.setup.selections();
        if let Some((app, by)) = kept(selections, ChosenFor::Query, &apps) {
            return Ok((to(app), by));
        }
        let view = SelectionView {
            can_keep: selections.is_some(),
            serving: None,
            apps,
        };
        let selection = user.select(&view).await;
        let apps = view.apps;
        let each = |apps: Vec<String>| Route::Each(apps.into_iter().collect());
        Ok(match selection {
            Selection::App { app, keep } => {
                let accepted = accept(selections, ChosenFor::Query, &apps, &app, keep);
                match accepted {
                    Some(by) => (to(app), by.map_err(SessionError::NotKept)?),
                    None => return Err(SessionError::NoChoice(apps)),
                }
            }
            Selection::Each => (each(apps), "user".to_owned()),
            Selection::Absent => (
                each(apps),
                "planner, no one can answer: there is no terminal".to_owned(),
            ),
            Selection::None => return Err(SessionError::NoChoice(apps)),
        })
    }

    /// The apps that the planner finds to be needed.
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
                by_user: app.described_by_user,
            })
            .collect();
        let mut needed = Vec::new();
        for question in planner::questions(query, &candidates) {
            let about = question.apps().join(", ");
            let purpose = format!("plan {about}");
            let within = self.setup.parts.turn_timeout;
            let answer = self.consult(None, question.request(), purpose, within, user);
            let answer = answer.await?;
            let verdict = answer.and_then(|answer| question.read(&answer));
            match verdict {
                Ok(apps) => needed.extend(apps),
                // A no: an app that is not opened can do nothing, and the user can name it.
                Err(reason) => {
                    let (app, reason) = (about, reason.into());
                    self.record(Event::PlanUnclear { app, reason }, user)?;
                }
            }
        }
        // In the order of their names, whatever they were asked about with.
        needed.sort();
        Ok(needed)
    }

    /// One request of the hub's own to a model, and what it cost on record. No word of the answer reaches the user. `own` is
    /// the provider to ask; without one, the route of the request's purpose is.
    pub(super) async fn consult(
        &mut self,
        own: Option<&String>,
        request: &CompletionRequest,
        purpose: String,
        within: Duration,
        user: &mut dyn User,
    ) -> Result<Result<Completion, String>, SessionError> {
        let broker = &self.setup.parts.broker;
        let route = match own {
            Some(own) => std::slice::from_ref(own),
            None => broker.route(request.purpose),
        };
        let (options, mut unheard) = (RequestOptions::default(), NoDeltas);
        let asked = broker.complete_over(route, request, &options, &mut unheard);
        let answer = match timeout(within, asked).await {
            Ok(Ok(answer)) => answer,
            Ok(Err(error)) => return Ok(Err(error.to_string())),
            Err(_) => return Ok(Err(format!("no answer within {} s", within.as_secs()))),
        };
        let consulted = Event::Consulted {
            purpose,
            provider: answer.provider,
            usage: answer.completion.usage.into(),
        };
        self.record(consulted, user)?;
        Ok(Ok(answer.completion))
    }
}
