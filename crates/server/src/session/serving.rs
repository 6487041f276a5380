//! Which of several apps serves what another one asks for (SecGPT §4.1.4, appendix A: app selection).

use std::collections::BTreeMap;

use hub::Opening;

use super::{ChosenFor, Selections};
use crate::user::{Selection, SelectionView, ServingView, User};

/// The choices of one session.
pub(super) struct Serving<'a> {
    /// By functionality, for this session: whichever app asks.
    pub(super) chosen: &'a mut BTreeMap<String, String>,
    /// For good.
    pub(super) selections: Option<&'a dyn Selections>,
}

impl Serving<'_> {
    /// The app that serves this request, and who says so. A kept choice comes first, so that one which
    /// was revoked or made anew counts at once; then what the user said earlier in the session.
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
        let kept = self
            .selections
            .and_then(|selections| selections.find(what, apps));
        if let Some((app, id)) = kept.filter(|(app, _)| apps.contains(app)) {
            return (Some(app), format!("permission {id}"));
        }
        let earlier = self.chosen.get(functionality);
        if let Some(app) = earlier.filter(|app| apps.contains(app)) {
            return (
                Some(app.clone()),
                "user, earlier in this session".to_owned(),
            );
        }
        let view = SelectionView {
            apps: apps.clone(),
            serving: Some(ServingView {
                asks: asks.clone(),
                functionality: functionality.clone(),
            }),
            can_keep: self.selections.is_some(),
        };
        match (user.select(&view).await, self.selections) {
            (Selection::App { app, keep: false }, _) if apps.contains(&app) => {
                self.chosen.insert(functionality.clone(), app.clone());
                (Some(app), "user".to_owned())
            }
            (Selection::App { app, keep: true }, Some(selections)) if apps.contains(&app) => {
                match selections.keep(what, apps, &app) {
                    Ok(id) => (Some(app), format!("user, kept as permission {id}")),
                    // Not the app for this once: the user has said it for good, and would believe that it holds.
                    Err(reason) => (None, format!("the choice cannot be kept: {reason}")),
                }
            }
            (Selection::Absent, _) => (None, "nobody is there to choose".to_owned()),
            // What was not offered is no choice.
            (Selection::App { .. } | Selection::Each | Selection::None, _) => {
                (None, "user".to_owned())
            }
        }
    }
}
