//! The permissions that the answer "always" gives (SecGPT appendix A.1), as the monitor asks for them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, PoisonError};
use std::time::SystemTime;

use anyhow::{Context, Result, anyhow};
use config::Config;
use ifc::{Effect, Label, Lattice, Permissible, speaks_of_code};
use serde_json::Value;
use server::ChosenFor;
use sha2::{Digest, Sha256};
use store::{
    Action, App, Apps, Domain, Grant, Identity, Name, PermissionId, Permissions, ReversibleTool,
    Time,
};
use wire::ToolDescription;

use crate::keep_for::KeepFor;
use crate::terminal::message;
use crate::{installed, paths};

/// Between the names of apps. No app and no functionality has it in its name.
pub(crate) const AND: &str = ", ";

pub(crate) struct Permitted {
    permissions: Permissions,
    /// The apps of the configuration now: another app of the same name inherits nothing.
    apps: Apps,
    keep_for: KeepFor,
    /// Whether a user is at a terminal. Without one, only permissions for scripts count.
    attended: bool,
    /// The tools of each app as they are in this session, by app and tool. `None` where two starts of an app differed.
    tools: Mutex<BTreeMap<(String, String), Option<Listed>>>,
}

/// Of a tool, the digest of its description and schema, and the arguments that the schema describes as code.
type Listed = (Identity, BTreeSet<String>);

impl Permitted {
    /// The user's permissions, for the apps of this configuration.
    pub(crate) fn open(config: &Config, keep_for: KeepFor, attended: bool) -> Result<Self> {
        Ok(Self {
            permissions: open(config)?,
            apps: apps(config)?,
            keep_for,
            attended,
            tools: Mutex::default(),
        })
    }

    /// Notes the tools that an app has listed at its start.
    pub(crate) fn note(&self, app: &str, tools: &[ToolDescription]) {
        let mut known = self.tools.lock().unwrap_or_else(PoisonError::into_inner);
        for tool in tools {
            let digest = Sha256::digest(format!("{:?}", tool.without_orders()));
            let code = described_as_code(&tool.input_schema);
            let listed = Some((Identity::from_digest(digest.into()), code));
            let before = known.entry((app.to_owned(), tool.name.clone()));
            let before = before.or_insert_with(|| listed.clone());
            // Permissions would not know which of the two a call means.
            if *before != listed {
                *before = None;
            }
        }
    }

    /// The action of a permission; `None` if there can be none.
    fn action(&self, what: Permissible<'_>) -> Result<Option<Action>> {
        Ok(Some(match what {
            Permissible::Tool {
                app,
                tool,
                effect,
                arguments,
            } => {
                let known = self.tools.lock().unwrap_or_else(PoisonError::into_inner);
                let listed = known.get(&(app.to_owned(), tool.to_owned()));
                let Some(Some((digest, code))) = listed else {
                    return Ok(None);
                };
                let reads = matches!(effect, Effect::Read | Effect::ReadOnce);
                if !reads && arguments.iter().any(|bound| code.contains(&bound.name)) {
                    return Ok(None);
                }
                Action::Tool {
                    app: self.app(app)?,
                    tool: ReversibleTool::new(Name::new(tool)?, effect)?,
                    definition: *digest,
                    arguments,
                }
            }
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
        }))
    }

    /// The permission that counts here.
    fn found(&self, what: Permissible<'_>, taints: &Label) -> Result<Option<PermissionId>> {
        let Some(action) = self.action(what)? else {
            return Ok(None);
        };
        let scripts = self.keep_for.scripts || !self.attended;
        Ok(self.permissions.find(&action, taints, now(), scripts)?)
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
            scripts: self.keep_for.scripts,
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
            let id = self.permissions.find(&action, &label, now(), false)?;
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
    fn can_keep(&self, what: Permissible<'_>) -> bool {
        self.action(what).is_ok_and(|action| action.is_some())
    }

    fn find(&self, what: Permissible<'_>, taints: &Label) -> Option<String> {
        let found = counted(self.found(what, taints)).flatten();
        found.map(|id| id.to_string())
    }

    fn keep(&self, what: Permissible<'_>, taints: &Label) -> Result<String, String> {
        let id = self.action(what).and_then(|action| {
            let action = action.context("this call can be allowed once only")?;
            self.grant(action, taints.clone())
        });
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
        message(&format!(
            "note: your permissions cannot be read, so you are asked again: {error:#}"
        ));
    };
    found.inspect_err(say_so).ok()
}

/// The arguments whose schemas speak of code, in any of their texts.
fn described_as_code(schema: &str) -> BTreeSet<String> {
    let schema: Value = serde_json::from_str(schema).unwrap_or_default();
    let arguments = schema.get("properties").and_then(Value::as_object);
    let arguments = arguments.into_iter().flatten();
    let arguments = arguments.filter(|(_, schema)| speaks_of_code(&schema.to_string()));
    arguments.map(|(name, _)| name.clone()).collect()
}

pub(crate) fn open(config: &Config) -> Result<Permissions> {
    open_in(config.lattice.clone())
}

/// Revokes what an app of this identity may do without a question, in any lattice. Gives their number.
pub(crate) fn end(app: &config::App) -> Result<usize> {
    let permissions = open_in(Lattice::four_point())?;
    let identity = Identity::from_digest(installed::identity(app)?);
    let app = App {
        name: Name::new(app.name.as_str())?,
        identity,
    };
    let mut count = 0;
    for kept in permissions.list(&Apps::new(), now())? {
        // A choice of an app allows nothing.
        let is_choice = matches!(kept.action, Action::Selection { .. });
        if !is_choice && kept.action.apps().contains(&&app) {
            permissions.revoke(kept.id)?;
            count += 1;
        }
    }
    Ok(count)
}

/// The user's permissions, which all configurations share, in a lattice.
pub(crate) fn open_in(lattice: Lattice) -> Result<Permissions> {
    let path = paths::state()?.join("permissions.sqlite");
    Permissions::open(&path, lattice).context("the permissions cannot be read")
}

pub(crate) fn apps(config: &Config) -> Result<Apps> {
    let apps = config.apps.values().map(|app| {
        let identity = Identity::from_digest(installed::identity(app)?);
        Ok((Name::new(app.name.as_str())?, identity))
    });
    apps.collect()
}

pub(crate) fn now() -> Time {
    SystemTime::now().into()
}

/// The time so many days ago.
pub(crate) fn days_ago(days: u32) -> Time {
    let ago = i64::from(days).saturating_mul(24 * 3_600 * 1_000);
    Time::from_millis(now().millis().saturating_sub(ago))
}

#[cfg(test)]
mod tests;
