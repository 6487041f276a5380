//! The permissions that the answer "always" gives (SecGPT appendix A.1), as the monitor asks for them.

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

/// The user's permissions in one session.
pub(crate) struct Permitted {
    permissions: Permissions,
    /// The apps of the configuration now: another app of the same name inherits nothing.
    apps: Apps,
    keep_for: KeepFor,
}

impl Permitted {
    /// The user's permissions, for the apps of this configuration.
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

    /// The choice of an app among these, for a functionality or for queries. A choice for queries is kept
    /// under the names of all the apps, joined by [`AND`], which is in no functionality's name.
    fn selection(&self, what: ChosenFor<'_>, among: &[String], app: &str) -> Result<Action> {
        let mut among: Vec<&str> = among.iter().map(String::as_str).collect();
        // The planner names them in any order.
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

    /// Keeps a permission, for as long as an "always" lasts.
    fn grant(&self, action: Action, limit: Label) -> Result<PermissionId> {
        let grant = Grant {
            action,
            limit,
            expires: self.keep_for.end()?,
        };
        Ok(self.permissions.grant(&grant, now())?)
    }

    /// The app that was chosen among these. A choice has no label.
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
                // With two choices the user is asked.
                (Some(_), Some(_)) => return Ok(None),
                (None, _) => {}
            }
        }
        Ok(found)
    }

    /// Keeps the choice of an app among these, and then revokes another one.
    fn select(&self, what: ChosenFor<'_>, among: &[String], app: &str) -> Result<PermissionId> {
        let id = self.grant(self.selection(what, among, app)?, Label::bottom())?;
        for other in among.iter().filter(|other| *other != app) {
            // Only this action: a choice among other apps stays.
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
        let find =
            || -> Result<_> { Ok(self.permissions.find(&self.action(what)?, taints, now())?) };
        counted(find()).flatten().map(|id| id.to_string())
    }

    fn keep(&self, what: Permissible<'_>, taints: &Label) -> Result<String, String> {
        let id = self
            .action(what)
            .and_then(|action| self.grant(action, taints.clone()));
        kept(id)
    }
}

impl server::Selections for Permitted {
    fn find(&self, what: ChosenFor<'_>, among: &[String]) -> Option<(String, String)> {
        let found = counted(self.selected(what, among)).flatten();
        found.map(|(app, id)| (app, id.to_string()))
    }

    fn keep(&self, what: ChosenFor<'_>, among: &[String], app: &str) -> Result<String, String> {
        kept(self.select(what, among, app))
    }
}

fn kept(id: Result<PermissionId>) -> Result<String, String> {
    match id {
        Ok(id) => Ok(id.to_string()),
        Err(error) => Err(format!("{error:#}")),
    }
}

/// A permission that cannot be read allows nothing. The note says why the user is asked again.
fn counted<T>(found: Result<T>) -> Option<T> {
    let say_so = |error: &anyhow::Error| {
        say(&format!(
            "note: your permissions cannot be read, so you are asked again: {error:#}\n"
        ));
    };
    found.inspect_err(say_so).ok()
}

/// The user's permissions.
pub(crate) fn open(config: &Config) -> Result<Permissions> {
    open_in(config.lattice.clone())
}

/// The user's permissions, which all configurations share, in a lattice.
pub(crate) fn open_in(lattice: Lattice) -> Result<Permissions> {
    let path = paths::state()?.join("permissions.sqlite");
    Permissions::open(&path, lattice).context("the permissions cannot be read")
}

/// The identity of each app now.
pub(crate) fn apps(config: &Config) -> Result<Apps> {
    let apps = config.apps.values().map(|app| {
        let identity = Identity::from_digest(installed::identity(app)?);
        Ok((Name::new(app.name.as_str())?, identity))
    });
    apps.collect()
}

/// The time now.
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
        // The store creates the folder with mode 0700.
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
        // In later sessions too, in any order of the names.
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
        for other in [QUERY, ChosenFor::Functionality("fares")] {
            assert_eq!(permitted.find(other, &both), None);
        }
        // Another app that serves it changes nothing; without the chosen app there is no choice.
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
        let keep = |label| ifc::Permissions::keep(&first, Permissible::Collaboration(&it), label);
        let id = keep(&untrusted).unwrap();
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
        // An unknown label is never kept.
        assert!(keep(&Label::top()).is_err());
    }
}
