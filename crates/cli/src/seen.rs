//! The reviewed tools of remote servers. An installed app has them in its record.

use anyhow::Result;
use config::App;
use hub::trace::escape;
use serde::{Deserialize, Serialize};
use server::ToolCheck;
use wire::ToolDescription;

use crate::login::address;
use crate::private_file::PrivateFile;
use crate::review::{self, Seen};
use crate::secrets;
use crate::terminal::say;

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

/// The file. It is beside the secrets, where no app can write it.
pub(crate) struct RemoteTools(PrivateFile);

impl RemoteTools {
    /// The user's.
    pub(crate) fn of_user() -> Result<Self> {
        Ok(Self(PrivateFile::new(secrets::folder()?, "tools.json")))
    }

    /// The recorded tools of an app at its server.
    pub(crate) fn find(&self, app: &str, server: &str) -> Result<Option<Seen>> {
        let all: Vec<Reviewed> = self.0.read()?;
        let found = all.into_iter().find(|one| one.is_of(app, server));
        Ok(found.map(|one| one.tools))
    }

    /// Records these tools unless there are some already, which are returned.
    fn note_first(&self, app: &str, server: &str, tools: &Seen) -> Result<Option<Seen>> {
        // First without the lock: most starts have nothing to record.
        let mut before = self.find(app, server)?;
        if before.is_none() {
            self.0.change(|all: &mut Vec<Reviewed>| {
                let known = all.iter().find(|one| one.is_of(app, server));
                before = known.map(|one| one.tools.clone());
                if before.is_none() {
                    all.push(Reviewed {
                        app: app.to_owned(),
                        server: server.to_owned(),
                        tools: tools.clone(),
                    });
                }
            })?;
        }
        Ok(before)
    }

    /// Records these tools in place of others.
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

    /// Whether there are tools of an app at any server.
    pub(crate) fn knows(&self, app: &str) -> Result<bool> {
        let all: Vec<Reviewed> = self.0.read()?;
        Ok(all.iter().any(|one| one.app == app))
    }

    /// Forgets the tools of an app at any server.
    pub(crate) fn forget(&self, app: &str) -> Result<()> {
        let forget = |all: &mut Vec<Reviewed>| all.retain(|one| one.app != app);
        self.0.change(forget)
    }
}

/// The check of an app in a session. A remote server without reviewed tools, whose configuration was written by hand, keeps
/// the tools of its first session, since it can change them at any time.
pub(crate) fn kept_from_first_use(app: &App, check: ToolCheck) -> ToolCheck {
    let Some(remote) = &app.remote else {
        return check;
    };
    if app.found.as_ref().is_some_and(|it| it.reviewed.is_some()) {
        return check;
    }
    let (app, server) = (app.name.clone(), address(&remote.url));
    check.and(move |tools| note(&app, &server, tools))
}

/// Records the tools of a first use, or compares them with those that another program has recorded meanwhile.
fn note(app: &str, server: &str, tools: &[ToolDescription]) -> Result<(), String> {
    let now = review::seen(tools);
    let before = RemoteTools::of_user().and_then(|kept| kept.note_first(app, server, &now));
    match before {
        Ok(Some(before)) => review::same(app, &before, &now),
        Ok(None) => {
            let names: Vec<&str> = now.keys().map(String::as_str).collect();
            say(&format!(
                "note: you have not reviewed the tools of {app} ({}); the list is saved, and the app does not start if it changes\n",
                escape(&names.join(", "))
            ));
            Ok(())
        }
        // Otherwise the tools could be others the next time.
        Err(error) => Err(format!("the list of its tools cannot be saved: {error:#}")),
    }
}
