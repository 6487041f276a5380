//! The choice among apps: for a query, and for a request of another app (SecGPT §4.1.4, appendix A: app selection).

use std::collections::{BTreeMap, BTreeSet};

use hub::{Apps, Opening};

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

pub(super) enum Route {
    To(Apps),
    Each(BTreeSet<String>),
}

impl Route {
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

/// The choice among these apps that was kept, and its permission. An app that is not among them is no choice.
pub(super) fn kept(
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
pub(super) fn accept(
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
            Selection::Absent => (None, "no one can answer: there is no terminal".to_owned()),
            Selection::Each | Selection::None => (None, "user".to_owned()),
        }
    }
}
