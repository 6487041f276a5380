//! Which apps a query goes to: the planner finds what is needed, rules decide (SecGPT §4.1).

use hub::planner::{self, Candidate, Plan};
use hub::trace::Event;
use hub::{Apps, Completion, CompletionRequest};
use ifc::Labeled;
use llm::NoDeltas;
use tokio::time::timeout;

use super::choice::{Choice, Route};
use super::{ChosenFor, Session, SessionError};
use crate::user::{Selection, SelectionView, User};

impl Session {
    /// Where the query goes.
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
        // Kept for this very set of apps. One that is not configured any more is no choice.
        let kept = selections.and_then(|selections| selections.find(ChosenFor::Query, &apps));
        if let Some((app, id)) = kept.filter(|(app, _)| apps.contains(app)) {
            return Ok((to(app), format!("permission {id}")));
        }
        let view = SelectionView {
            can_keep: selections.is_some(),
            serving: None,
            apps,
        };
        let selection = user.select(&view).await;
        let apps = view.apps;
        match (selection, selections) {
            (Selection::App { app, keep: false }, _) if apps.contains(&app) => {
                Ok((to(app), "user".to_owned()))
            }
            (Selection::App { app, keep: true }, Some(selections)) if apps.contains(&app) => {
                let id = selections
                    .keep(ChosenFor::Query, &apps, &app)
                    .map_err(SessionError::NotKept)?;
                Ok((to(app), format!("user, kept as permission {id}")))
            }
            (Selection::Each, _) => {
                Ok((Route::Each(apps.into_iter().collect()), "user".to_owned()))
            }
            (Selection::Absent, _) => {
                let by = "planner, nobody is there to choose".to_owned();
                Ok((Route::Each(apps.into_iter().collect()), by))
            }
            // What was not offered is no choice.
            (Selection::App { .. } | Selection::None, _) => Err(SessionError::NoChoice(apps)),
        }
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
            let answer = self.consult(question.request(), purpose, user).await?;
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

    /// One question to the planner's model, within the time of a turn.
    async fn consult(
        &mut self,
        request: &CompletionRequest,
        purpose: String,
        user: &mut dyn User,
    ) -> Result<Result<Completion, String>, SessionError> {
        let parts = &self.setup.parts;
        // No word of the planner's model reaches the user.
        let mut unheard = NoDeltas;
        let answer = parts.broker.complete(request, &mut unheard);
        let answer = match timeout(parts.turn_timeout, answer).await {
            Ok(Ok(answer)) => answer,
            Ok(Err(error)) => return Ok(Err(error.to_string())),
            Err(_) => return Ok(Err("the planner's model did not answer in time".to_owned())),
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
