//! The tools of servers elsewhere that the user has seen. What is installed has them in its own record.

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

/// The file. It lies beside the secrets, where no app can read or write: whoever writes it decides what is asked about.
pub(crate) struct RemoteTools(PrivateFile);

impl RemoteTools {
    /// The user's.
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

    /// Notes these tools unless there are some already, which are returned. Of two programs at once one is the first.
    fn note_first(&self, app: &str, server: &str, tools: &Seen) -> Result<Option<Seen>> {
        // Looked at without the lock first: a change writes the file anew, and most starts have nothing to note.
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

    /// From now on these are the tools that were seen.
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

/// The check of an app in a session. A server elsewhere of which nobody has seen any tools, as its lines were written by
/// hand, keeps those of its first session: it can change them whenever it likes, and a program on this machine cannot.
pub(crate) fn kept_from_first_use(app: &App, check: ToolCheck) -> ToolCheck {
    let Some(remote) = &app.remote else {
        return check;
    };
    if app
        .found
        .as_ref()
        .is_some_and(|start| start.reviewed.is_some())
    {
        return check;
    }
    let (app, server) = (app.name.clone(), address(&remote.url));
    check.and(move |tools| note(&app, &server, tools))
}

/// Notes the tools of a first use, or compares them with those that another program has noted meanwhile.
fn note(app: &str, server: &str, tools: &[ToolDescription]) -> Result<(), String> {
    let now = review::seen(tools);
    let before = RemoteTools::of_user().and_then(|kept| kept.note_first(app, server, &now));
    match before {
        Ok(Some(before)) => review::same(app, &before, &now),
        Ok(None) => {
            let names: Vec<&str> = now.keys().map(String::as_str).collect();
            say(&format!(
                "note: nobody has looked at the tools of {app} yet ({}); they are noted, and with others it does not start\n",
                escape(&names.join(", "))
            ));
            Ok(())
        }
        // What cannot be noted could be anything the next time.
        Err(error) => Err(format!("its tools cannot be noted: {error:#}")),
    }
}
