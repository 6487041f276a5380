//! What the user has allowed for good (SecGPT appendix A.1), as the monitor asks for it.

use std::time::SystemTime;

use anyhow::{Context, Result, anyhow};
use config::Config;
use ifc::{Label, Lattice, Permissible};
use server::ChosenFor;
use store::{
    Action, App, Apps, Domain, Grant, Identity, Name, PermissionId, Permissions, ReversibleTool,
    Time,
};

use crate::installed;
use crate::keep_for::KeepFor;
use crate::paths;
use crate::terminal::say;

/// Between the names of apps. No app and no functionality has it in its name.
pub(crate) const AND: &str = ", ";

/// The permissions of the user, as one session asks for them.
pub(crate) struct Permitted {
    permissions: Permissions,
    /// The apps as the configuration has them now: another app of the same name inherits nothing.
    apps: Apps,
    keep_for: KeepFor,
}

impl Permitted {
    /// The user's permissions, which lie where no spoke can write.
    ///
    /// # Errors
    /// The file cannot be used, or an app has a name that cannot be written there.
    pub(crate) fn open(config: &Config, keep_for: KeepFor) -> Result<Self> {
        Ok(Self {
            permissions: open(config)?,
            apps: apps(config)?,
            keep_for,
        })
    }

    fn action(&self, what: Permissible<'_>) -> Result<Action> {
        Ok(match what {
            Permissible::Tool { app, tool, effect } => Action::Tool {
                app: self.app(app)?,
                tool: ReversibleTool::new(Name::new(tool)?, effect)?,
            },
            Permissible::Collaboration(it) => Action::Collaboration {
                from: self.app(&it.asks)?,
                to: self.app(&it.serves)?,
                functionality: Name::new(it.functionality.as_str())?,
                direction: it.direction,
            },
            Permissible::Domain { app, domain } => Action::Egress {
                app: self.app(app)?,
                domain: Domain::new(domain)?,
            },
        })
    }

    /// The choice of an app among these, for a functionality or for queries. Queries have no name,
    /// so their choice is kept under the names of all the apps, joined by [`AND`], which is in no
    /// functionality's name.
    fn selection(&self, what: ChosenFor<'_>, among: &[String], app: &str) -> Result<Action> {
        let mut among: Vec<&str> = among.iter().map(String::as_str).collect();
        // The planner names them in any order, and a choice is among the same apps all the same.
        among.sort_unstable();
        let functionality = match what {
            ChosenFor::Query => Name::new(among.join(AND))?,
            ChosenFor::Functionality(name) => Name::new(name)?,
        };
        Ok(Action::Selection {
            functionality,
            app: self.app(app)?,
        })
    }

    fn app(&self, name: &str) -> Result<App> {
        let name = Name::new(name)?;
        let identity = self.apps.get(&name).copied();
        let identity = identity.ok_or_else(|| anyhow!("there is no app '{name}'"))?;
        Ok(App { name, identity })
    }

    fn covering(&self, what: Permissible<'_>, taints: &Label) -> Result<Option<PermissionId>> {
        let action = self.action(what)?;
        Ok(self.permissions.find(&action, taints, now())?)
    }

    fn grant(&self, what: Permissible<'_>, taints: &Label) -> Result<PermissionId> {
        self.always(self.action(what)?, taints.clone())
    }

    fn always(&self, action: Action, limit: Label) -> Result<PermissionId> {
        let grant = Grant {
            action,
            limit,
            expires: self.keep_for.end()?,
        };
        Ok(self.permissions.grant(&grant, now())?)
    }

    /// The app that was chosen among these. No label stands behind a choice.
    fn selected(
        &self,
        what: ChosenFor<'_>,
        among: &[String],
    ) -> Result<Option<(String, PermissionId)>> {
        let mut found = None;
        for app in among {
            let action = self.selection(what, among, app)?;
            let label = Label::bottom();
            let id = self.permissions.find(&action, &label, now())?;
            match (id, &found) {
                (Some(id), None) => found = Some((app.clone(), id)),
                // Two choices are none: the user is asked.
                (Some(_), Some(_)) => return Ok(None),
                (None, _) => {}
            }
        }
        Ok(found)
    }

    /// Keeps the choice of an app among these, in the place of another. Between the two steps there are
    /// two choices, which are none.
    fn select(&self, what: ChosenFor<'_>, among: &[String], app: &str) -> Result<PermissionId> {
        let id = self.always(self.selection(what, among, app)?, Label::bottom())?;
        for other in among.iter().filter(|other| *other != app) {
            // By the very action, so that a choice among other apps stays.
            let action = self.selection(what, among, other)?;
            let all = self.permissions.list(&self.apps, now())?;
            for kept in all.iter().filter(|kept| kept.action == action) {
                self.permissions.revoke(kept.id)?;
            }
        }
        Ok(id)
    }
}

impl ifc::Permissions for Permitted {
    fn find(&self, what: Permissible<'_>, taints: &Label) -> Option<String> {
        match self.covering(what, taints) {
            Ok(id) => id.map(|id| id.to_string()),
            Err(error) => uncounted(&error),
        }
    }

    fn keep(&self, what: Permissible<'_>, taints: &Label) -> Result<String, String> {
        let id = self.grant(what, taints);
        id.map(|id| id.to_string())
            .map_err(|error| format!("{error:#}"))
    }
}

impl server::Selections for Permitted {
    fn find(&self, what: ChosenFor<'_>, among: &[String]) -> Option<(String, String)> {
        match self.selected(what, among) {
            Ok(found) => found.map(|(app, id)| (app, id.to_string())),
            Err(error) => uncounted(&error),
        }
    }

    fn keep(&self, what: ChosenFor<'_>, among: &[String], app: &str) -> Result<String, String> {
        let id = self.select(what, among, app);
        id.map(|id| id.to_string())
            .map_err(|error| format!("{error:#}"))
    }
}

/// What cannot be read allows nothing. Then the user is asked, and should know why it is asked again.
fn uncounted<T>(error: &anyhow::Error) -> Option<T> {
    say(&format!(
        "note: permissions count for nothing now: {error:#}\n"
    ));
    None
}

/// The user's permissions.
pub(crate) fn open(config: &Config) -> Result<Permissions> {
    open_in(config.lattice.clone())
}

/// The user's permissions, which are the same for every configuration, in a lattice.
pub(crate) fn open_in(lattice: Lattice) -> Result<Permissions> {
    let path = paths::state()?.join("permissions.sqlite");
    Permissions::open(&path, lattice).context("the permissions cannot be read")
}

/// Who each app is now.
///
/// # Errors
/// An app has a name that cannot be written, or the store of apps cannot be read.
pub(crate) fn apps(config: &Config) -> Result<Apps> {
    let apps = config.apps.values().map(|app| {
        let identity = Identity::from_digest(installed::identity(app)?);
        Ok((Name::new(app.name.as_str())?, identity))
    });
    apps.collect()
}

/// Now, by the clock.
pub(crate) fn now() -> Time {
    SystemTime::now().into()
}

#[cfg(test)]
mod tests {
    use ifc::Direction;
    use server::Selections;

    use super::*;

    const QUERY: ChosenFor<'_> = ChosenFor::Query;

    /// The permissions of one file, for apps of which `metro` has this identity.
    fn permitted(folder: &std::path::Path, metro: u8, keep_for: KeepFor) -> Permitted {
        // The store makes the folder, so that nobody else can look into it.
        let path = folder.join("state/permissions.sqlite");
        let identity = |digest| Identity::from_digest([digest; 32]);
        let name = |name: &str| Name::new(name).unwrap();
        Permitted {
            permissions: Permissions::open(&path, Lattice::four_point()).unwrap(),
            apps: Apps::from([
                (name("metro"), identity(metro)),
                (name("quick"), identity(2)),
                (name("night"), identity(3)),
            ]),
            keep_for,
        }
    }

    fn among<const N: usize>(apps: [&str; N]) -> Vec<String> {
        apps.map(str::to_owned).to_vec()
    }

    #[test]
    fn a_choice_is_for_these_apps_and_this_identity() {
        let folder = tempfile::tempdir().unwrap();
        let first = permitted(folder.path(), 1, KeepFor::default());
        let both = among(["quick", "metro"]);
        assert_eq!(first.find(QUERY, &both), None);
        let id = first.keep(QUERY, &both, "metro").unwrap();
        let found = Some(("metro".to_owned(), id));
        // In later sessions too, in whatever order they are named.
        let later = permitted(folder.path(), 1, KeepFor::default());
        assert_eq!(later.find(QUERY, &among(["metro", "quick"])), found);
        for others in [among(["metro"]), among(["metro", "quick", "mail"])] {
            assert_eq!(later.find(QUERY, &others), None, "{others:?}");
        }
        let changed = permitted(folder.path(), 9, KeepFor::default());
        assert_eq!(changed.find(QUERY, &both), None);
        assert!(later.keep(QUERY, &both, "mail").is_err());
        assert_eq!(later.find(QUERY, &both), found);
    }

    #[test]
    fn another_choice_takes_the_place_of_the_first_and_can_be_revoked() {
        let folder = tempfile::tempdir().unwrap();
        let permitted = permitted(folder.path(), 1, "7d".parse().unwrap());
        let both = among(["metro", "quick"]);
        permitted.keep(QUERY, &both, "metro").unwrap();
        permitted.keep(QUERY, &both, "quick").unwrap();
        let all = permitted.permissions.list(&permitted.apps, now()).unwrap();
        let [kept] = all.as_slice() else {
            panic!("{all:?}");
        };
        let days = (kept.expires.unwrap().millis() - kept.granted.millis()) / 86_400_000;
        assert!((6..=7).contains(&days), "{days} days");
        assert_eq!(permitted.find(QUERY, &both).unwrap().0, "quick");
        permitted.permissions.revoke(kept.id).unwrap();
        assert_eq!(permitted.find(QUERY, &both), None);
    }

    #[test]
    fn a_choice_for_a_functionality_is_for_no_other_and_for_no_query() {
        let folder = tempfile::tempdir().unwrap();
        let permitted = permitted(folder.path(), 1, KeepFor::default());
        let (both, rides) = (among(["metro", "quick"]), ChosenFor::Functionality("rides"));
        let id = permitted.keep(rides, &both, "quick").unwrap();
        assert_eq!(permitted.find(rides, &both), Some(("quick".to_owned(), id)));
        assert_eq!(permitted.find(QUERY, &both), None);
        let fares = ChosenFor::Functionality("fares");
        assert_eq!(permitted.find(fares, &both), None);
        // Another app that serves it too changes nothing, and one that went away takes its choice along.
        let three = among(["metro", "quick", "night"]);
        assert_eq!(permitted.find(rides, &three).unwrap().0, "quick");
        assert_eq!(permitted.find(rides, &among(["metro", "night"])), None);
    }

    #[test]
    fn a_collaboration_is_of_these_apps_as_they_were() {
        let folder = tempfile::tempdir().unwrap();
        let first = permitted(folder.path(), 1, KeepFor::default());
        let collaboration = |asks: &str, serves: &str, direction| ifc::Collaboration {
            asks: asks.to_owned(),
            serves: serves.to_owned(),
            functionality: "rides".to_owned(),
            direction,
        };
        let it = collaboration("metro", "quick", Direction::Answering);
        let untrusted = Lattice::four_point().label("untrusted").unwrap();
        let keep = |permitted: &Permitted, label: &Label| {
            ifc::Permissions::keep(permitted, Permissible::Collaboration(&it), label)
        };
        let id = keep(&first, &untrusted).unwrap();
        let found = |permitted: &Permitted, it: &ifc::Collaboration, label: &Label| {
            ifc::Permissions::find(permitted, Permissible::Collaboration(it), label)
        };
        let later = super::tests::permitted(folder.path(), 1, KeepFor::default());
        assert_eq!(found(&later, &it, &untrusted), Some(id));
        assert_eq!(found(&later, &it, &Label::top()), None);
        for other in [
            collaboration("metro", "quick", Direction::Asking),
            collaboration("quick", "metro", Direction::Answering),
        ] {
            assert_eq!(found(&later, &other, &untrusted), None, "{other:?}");
        }
        let changed = super::tests::permitted(folder.path(), 9, KeepFor::default());
        assert_eq!(found(&changed, &it, &untrusted), None);
        // What nobody has named is never kept.
        assert!(keep(&later, &Label::top()).is_err());
    }
}
