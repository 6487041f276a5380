//! What the user has allowed for good (SecGPT appendix A.1), as the monitor asks for it.

use std::time::SystemTime;

use anyhow::{Context, Result, anyhow};
use config::Config;
use ifc::{Label, PermittedTool};
use store::{
    Action, App, Apps, Grant, Identity, Lasting, Name, PermissionId, Permissions, ReversibleTool,
    Time,
};

use crate::paths;
use crate::terminal::say;

/// The permissions of the user, for one session.
pub(crate) struct Permitted {
    permissions: Permissions,
    /// The apps as the configuration has them now: another app of the same name inherits nothing.
    apps: Apps,
    session: Name,
}

impl Permitted {
    /// The user's permissions, which lie where no spoke can write.
    ///
    /// # Errors
    /// The file cannot be used, or an app has a name that cannot be written there.
    pub(crate) fn open(config: &Config, session: &str) -> Result<Self> {
        Ok(Self {
            permissions: open(config)?,
            apps: apps(config)?,
            session: Name::new(session)?,
        })
    }

    fn action(&self, tool: PermittedTool<'_>) -> Result<Action> {
        let name = Name::new(tool.app)?;
        let identity = self.apps.get(&name).copied();
        let identity = identity.ok_or_else(|| anyhow!("there is no app '{name}'"))?;
        Ok(Action::Tool {
            app: App { name, identity },
            tool: ReversibleTool::new(Name::new(tool.tool)?, tool.effect)?,
        })
    }

    fn covering(&self, tool: PermittedTool<'_>, excess: &Label) -> Result<Option<PermissionId>> {
        let action = self.action(tool)?;
        Ok(self
            .permissions
            .find(&action, excess, &self.session, now())?)
    }

    fn grant(&self, tool: PermittedTool<'_>, excess: &Label) -> Result<PermissionId> {
        let grant = Grant {
            action: self.action(tool)?,
            limit: excess.clone(),
            lasting: Lasting::Always,
            expires: None,
        };
        Ok(self.permissions.grant(&grant, now())?)
    }
}

impl ifc::Permissions for Permitted {
    fn find(&self, tool: PermittedTool<'_>, excess: &Label) -> Option<String> {
        match self.covering(tool, excess) {
            Ok(id) => id.map(|id| id.to_string()),
            // Then it is asked about, and the user should know why it is asked about again.
            Err(error) => {
                say(&format!(
                    "note: permissions count for nothing now: {error:#}\n"
                ));
                None
            }
        }
    }

    fn keep(&self, tool: PermittedTool<'_>, excess: &Label) -> Result<String, String> {
        let id = self.grant(tool, excess);
        id.map(|id| id.to_string())
            .map_err(|error| format!("{error:#}"))
    }
}

/// The user's permissions.
///
/// # Errors
/// The file cannot be used.
pub(crate) fn open(config: &Config) -> Result<Permissions> {
    let path = paths::state()?.join("permissions.sqlite");
    Permissions::open(&path, config.lattice.clone()).context("the permissions cannot be read")
}

/// Who each app is now.
///
/// # Errors
/// An app has a name that cannot be written.
pub(crate) fn apps(config: &Config) -> Result<Apps> {
    let apps = config.apps.values().map(|app| {
        let identity = Identity::from_digest(app.identity());
        Ok((Name::new(app.name.as_str())?, identity))
    });
    apps.collect()
}

/// Now, by the clock.
pub(crate) fn now() -> Time {
    SystemTime::now().into()
}
