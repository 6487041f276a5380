//! Which apps a query goes to (SecGPT §4.1): the planner finds what is needed, rules and the user choose. And which of several
//! apps serves a request of another one (SecGPT §4.1.4, appendix A: app selection).

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use hub::planner::{self, Candidate, Plan};
use hub::trace::Event;
use hub::{Apps, Completion, CompletionRequest, Opening};
use ifc::Labeled;
use llm::{NoDeltas, RequestOptions};
use tokio::time::timeout;

use super::{Session, SessionError};
use crate::user::{Selection, SelectionView, ServingView, User};

/// Which apps a query goes to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Choice {
    /// The planner decides.
    Planner,
    /// To these: isolated if it is one, in a joint conversation if there are several, and to a
    /// vanilla spoke if there is none.
    Apps(BTreeSet<String>),
    /// To each of these by itself. No word of one reaches another: their answers are put together in a
    /// conversation that has no tools.
    Each(BTreeSet<String>),
}

/// Where a query goes.
pub(super) enum Route {
    /// To one conversation.
    To(Apps),
    /// To each of these apps by itself.
    Each(BTreeSet<String>),
}

impl Route {
    /// The conversation in which it ends.
    pub(super) fn last(&self) -> Apps {
        match self {
            Self::To(apps) => apps.clone(),
            Self::Each(apps) => Apps::Each(apps.clone()),
        }
    }
}

/// What an app is chosen for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChosenFor<'a> {
    /// A query that may need all of these, which may not meet.
    Query,
    /// A functionality that other apps ask for, and that all of these serve.
    Functionality(&'a str),
}

/// Where the user's choices among apps are kept. A choice decides to which app a query or a request goes, and nothing else:
/// what the app then does is decided as ever.
pub trait Selections: Send + Sync {
    /// The app that was chosen for good among these, and the name of the permission. It is looked up each time: a revoked
    /// choice counts no more.
    fn find(&self, what: ChosenFor<'_>, among: &[String]) -> Option<(String, String)>;

    /// Keeps that this app is taken among these; the name of the permission.
    ///
    /// # Errors
    /// It cannot be kept, and why.
    fn keep(&self, what: ChosenFor<'_>, among: &[String], app: &str) -> Result<String, String>;
}

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
            Selection::Absent => (each(apps), "planner, nobody is there to choose".to_owned()),
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

/// The choice among these apps that was kept, and its permission. An app that is not among them is no choice.
fn kept(
    selections: Option<&dyn Selections>,
    what: ChosenFor<'_>,
    among: &[String],
) -> Option<(String, String)> {
    let (app, id) = selections?.find(what, among)?;
    among
        .contains(&app)
        .then(|| (app, format!("permission {id}")))
}

/// Accepts the user's choice of an app, and keeps it if the user wants that. Who chose, or why it cannot be kept; `None` if it
/// was not offered.
fn accept(
    selections: Option<&dyn Selections>,
    what: ChosenFor<'_>,
    among: &[String],
    app: &String,
    keep: bool,
) -> Option<Result<String, String>> {
    match (among.contains(app), keep, selections) {
        (true, false, _) => Some(Ok("user".to_owned())),
        (true, true, Some(selections)) => {
            let id = selections.keep(what, among, app);
            Some(id.map(|id| format!("user, kept as permission {id}")))
        }
        _ => None,
    }
}

/// Who serves the requests of one session's apps.
pub(super) struct Serving<'a> {
    /// The user's choices in this session, by functionality, whichever app asks.
    pub(super) chosen: &'a mut BTreeMap<String, String>,
    /// Those for good.
    pub(super) selections: Option<&'a dyn Selections>,
}

impl Serving<'_> {
    /// The app that serves this request, and who chose it. A kept choice comes first, so that a revoked or changed one counts
    /// at once; then what the user said earlier in the session.
    pub(super) async fn choose(
        &mut self,
        opening: &Opening,
        user: &mut dyn User,
    ) -> (Option<String>, String) {
        let Opening {
            asks,
            functionality,
            apps,
        } = opening;
        let what = ChosenFor::Functionality(functionality);
        if let Some((app, by)) = kept(self.selections, what, apps) {
            return (Some(app), by);
        }
        let earlier = self.chosen.get(functionality);
        if let Some(app) = earlier.filter(|app| apps.contains(app)) {
            let by = "user, earlier in this session".to_owned();
            return (Some(app.clone()), by);
        }
        let view = SelectionView {
            apps: apps.clone(),
            serving: Some(ServingView {
                asks: asks.clone(),
                functionality: functionality.clone(),
            }),
            can_keep: self.selections.is_some(),
        };
        match user.select(&view).await {
            Selection::App { app, keep } => match accept(self.selections, what, apps, &app, keep) {
                Some(Ok(by)) => {
                    if !keep {
                        self.chosen.insert(functionality.clone(), app.clone());
                    }
                    (Some(app), by)
                }
                // Not even for once: the user said it for good, and would believe that it holds.
                Some(Err(reason)) => (None, format!("the choice cannot be kept: {reason}")),
                None => (None, "user".to_owned()),
            },
            Selection::Absent => (None, "nobody is there to choose".to_owned()),
            Selection::Each | Selection::None => (None, "user".to_owned()),
        }
    }
}
