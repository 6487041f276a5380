//! The tools of servers elsewhere that the user has seen. What is installed has them in its own record.

use anyhow::Result;
use serde::{Deserialize, Serialize};

use crate::private_file::PrivateFile;
use crate::review::Seen;
use crate::secrets;

/// The tools of one app at its server.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Reviewed {
    app: String,
    /// The server's address without its query, as for logins.
    server: String,
    tools: Seen,
}

impl Reviewed {
    fn is_of(&self, app: &str, server: &str) -> bool {
        self.app == app && self.server == server
    }
}

/// The file. It lies beside the secrets, where no app can read or write: whoever writes it decides what is asked about.
pub(crate) struct RemoteTools(PrivateFile);

impl RemoteTools {
    /// The user's.
    ///
    /// # Errors
    /// There is no home.
    pub(crate) fn of_user() -> Result<Self> {
        Ok(Self(PrivateFile::new(secrets::folder()?, "tools.json")))
    }

    /// The tools that were seen of an app at its server; `None` if nobody has looked.
    ///
    /// # Errors
    /// The file is damaged, or others than the user could read or have written it.
    pub(crate) fn find(&self, app: &str, server: &str) -> Result<Option<Seen>> {
        let all: Vec<Reviewed> = self.0.read()?;
        let found = all.into_iter().find(|one| one.is_of(app, server));
        Ok(found.map(|one| one.tools))
    }

    /// From now on these are the tools that were seen.
    ///
    /// # Errors
    /// It cannot be written.
    pub(crate) fn keep(&self, app: &str, server: &str, tools: Seen) -> Result<()> {
        self.0.change(|all: &mut Vec<Reviewed>| {
            all.retain(|one| !one.is_of(app, server));
            all.push(Reviewed {
                app: app.to_owned(),
                server: server.to_owned(),
                tools,
            });
        })
    }

    /// Forgets the tools of an app, wherever it is. Whether there were any.
    ///
    /// # Errors
    /// It cannot be written.
    pub(crate) fn forget(&self, app: &str) -> Result<bool> {
        let all: Vec<Reviewed> = self.0.read()?;
        if all.iter().all(|one| one.app != app) {
            return Ok(false);
        }
        self.0
            .change(|all: &mut Vec<Reviewed>| all.retain(|one| one.app != app))?;
        Ok(true)
    }
}
