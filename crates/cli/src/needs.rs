//! The files of this machine that the apps of a configuration need, found before any app starts.

use std::env;
use std::path::{Path, PathBuf};

use anyhow::Result;
use config::{App, Config, Mount, Remote, Start, filled_in, from_environment};
use hub::trace::escape;
use ifc::Label;
use policy::Place;
use provision::{Found, Host, Purpose, Record, Wanted};

use crate::login::{Logins, address};
use crate::review::Seen;
use crate::seen::RemoteTools;
use crate::terminal::say;
use crate::{installed, remote_app};

/// Why apps cannot be started, by their names.
pub(crate) type Unready = Vec<(String, String)>;

/// Gives each app the mounts that its command needs beside its own. `verbose` says in a line what they are, except for
/// installed packages. An app that cannot be started is removed from the configuration, and returned with the reason.
pub(crate) fn provide(config: &mut Config, verbose: bool) -> Unready {
    let here = Here::of(config);
    let mut unready = Unready::new();
    config.apps.retain(|name, app| {
        if app.client {
            return true;
        }
        match here.find_for(app, None) {
            Ok(mut found) => {
                // The user has seen and agreed to what `app add` installed.
                let start = app.found.as_ref();
                if start.is_some_and(|start| start.reviewed.is_some()) {
                    found.retain(|found| found.purpose == Purpose::Data);
                }
                if verbose && !found.is_empty() {
                    say(&format!("{}\n", line(name, &found)));
                }
                true
            }
            Err(reason) => {
                unready.push((name.clone(), reason));
                false
            }
        }
    });
    // A group may still name an app that was removed.
    for apps in config.groups.values_mut() {
        apps.retain(|app| config.apps.contains_key(app));
    }
    unready
}

/// The machine and the configuration for which needs are found.
pub(crate) struct Here {
    host: Host,
    /// The file of the configuration.
    file: PathBuf,
    /// The folders and files that its apps may write.
    writable: Vec<PathBuf>,
}

impl Here {
    pub(crate) fn of(config: &Config) -> Self {
        let mounts = config.apps.values().flat_map(|app| &app.mounts);
        let writable = mounts.filter(|mount| mount.write);
        Self {
            host: Host::of_user(),
            file: config.files.first().cloned().unwrap_or_default(),
            writable: writable.map(|mount| mount.source.clone()).collect(),
        }
    }

    /// Gives an app the mounts that its command needs, and returns them. `new` is the record of files that are tried
    /// before they are kept.
    pub(crate) fn find_for(
        &self,
        app: &mut App,
        new: Option<&Record>,
    ) -> Result<Vec<Found>, String> {
        let file = &self.file;
        if let Some(reason) = unset(&app.env_from) {
            return Err(reason);
        }
        if let Some(remote) = &app.remote {
            let start = remote_app::start(app, remote, file)?;
            let reviewed = seen_of(app, remote).map_err(|error| format!("{error:#}"))?;
            app.found = Some(Start { reviewed, ..start });
            return Ok(Vec::new());
        }
        // An app with executable mounts brings its program itself, so nothing is looked for. A single file among them may be
        // one that its program starts.
        let program = app.command.first().map(Path::new);
        let is_other = |it: &Mount| it.source.is_file() && program != Some(&*it.target);
        if (app.mounts.iter()).any(|mount| mount.execute && !is_other(mount)) {
            return Ok(Vec::new());
        }
        let installed = installed::of(app, new)?;
        let known = installed.as_ref();
        let folders: Vec<PathBuf> = known.iter().map(|it| it.tree.clone()).collect();
        let given: Vec<PathBuf> = app.mounts.iter().map(|it| it.target.clone()).collect();
        let file_of_app = app.server.as_ref().map_or(file, |place| &place.file);
        let wanted = Wanted {
            command: known.map_or(&app.command, |it| &it.command),
            env: &app.env,
            given: &given,
            writable: &self.writable,
            folders: &folders,
            interpreter: known.and_then(|it| it.record.interpreter.as_deref()),
            programs: known.map_or(&[], |it| &it.record.programs),
            folder: file_of_app.parent().unwrap_or(Path::new("/")),
            data: app.server.is_some(),
        };
        let needs = provision::find(&self.host, &wanted).map_err(|error| error.to_string())?;
        let place = app.server.clone().unwrap_or_else(|| Place {
            file: file.clone(),
            line: 1,
        });
        let mount = |found: &Found| Mount {
            source: found.source.clone(),
            target: found.target.clone(),
            write: false,
            size: None,
            execute: found.purpose == Purpose::Program,
            label: match found.purpose {
                Purpose::Program => Label::bottom(),
                Purpose::Data if provision::holds_certificates(&found.source) => Label::bottom(),
                // An `mcpServers` file cannot label it, so it has the label of the app's results; a mount in
                // `sluice.toml` can say less.
                Purpose::Data => app.worst_result(),
            },
            place: place.clone(),
        };
        let mut start = Start {
            command: needs.command,
            env: needs.env,
            mounts: needs.found.iter().map(mount).collect(),
            reviewed: None,
        };
        if let Some(installed) = installed {
            start.env.extend(installed.env);
            let patience = installed::IMPATIENT.iter();
            let unsaid = patience.filter(|(name, _)| !app.env.contains_key(*name));
            let unsaid = unsaid.map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
            start.env.extend(unsaid);
            // Without tools in the record every tool counts as new.
            start.reviewed = Some(installed.record.tools.unwrap_or_default());
        }
        app.found = Some(start);
        Ok(needs.found)
    }
}

/// Why an app that reads these variables of the user's cannot be started, if one of them is not set.
pub(crate) fn unset(variables: &[String]) -> Option<String> {
    let look = |name: &str| env::var(name).ok();
    let mut values = variables
        .iter()
        .map(|entry| filled_in(&from_environment(entry).1, look));
    let missing = values.find_map(Result::err)?;
    Some(format!("it {missing} and try again"))
}

/// The reviewed tools of a remote server. The login is read too, so that an unreadable file of logins leaves out this app
/// and does not end the session.
fn seen_of(app: &App, remote: &Remote) -> Result<Option<Seen>> {
    let server = address(&remote.url);
    Logins::of_user()?.find(&app.name, &server)?;
    RemoteTools::of_user()?.find(&app.name, &server)
}

/// One line with the mounts of an app beside its own.
fn line(app: &str, found: &[Found]) -> String {
    let mut parts = Vec::new();
    for (purpose, word) in [(Purpose::Program, "runs"), (Purpose::Data, "reads")] {
        let places = found.iter().filter(|found| found.purpose == purpose);
        let places = places.map(|found| escape(&found.source.to_string_lossy()));
        let mut places: Vec<String> = places.collect();
        // A place may be seen under two names.
        places.dedup();
        if !places.is_empty() {
            parts.push(format!("{word} {}", places.join(", ")));
        }
    }
    format!("{app}: {}", parts.join("; "))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use ifc::{Dimension, Lattice};

    use super::*;

    /// The label of the data that an app of an `mcpServers` file can read, with a folder that its arguments name. `{}` is
    /// the folder in what else `sluice.toml` says.
    fn holds(more: &str) -> Label {
        let folder = tempfile::tempdir().unwrap();
        let home = folder.path().canonicalize().unwrap();
        let papers = home.join("papers");
        fs::create_dir(&papers).unwrap();
        let servers = format!(
            r#"{{"mcpServers": {{"files": {{"command": "/bin/cat", "args": ["{}"]}}}}}}"#,
            papers.display()
        );
        fs::write(home.join("mcp.json"), servers).unwrap();
        let own = more.replace("{}", &papers.display().to_string());
        let own = format!("[mcp_servers]\nfile = \"mcp.json\"\n{own}");
        fs::write(home.join("sluice.toml"), own).unwrap();
        let mut config = Config::load(&home.join("sluice.toml")).unwrap();
        assert_eq!(provide(&mut config, true), Unready::new());
        config.apps.get("files").unwrap().holds()
    }

    #[test]
    fn what_nobody_has_labelled_is_untrusted_and_secret() {
        let lattice = Lattice::four_point();
        let (influence, secrets) = (Dimension::Integrity, Dimension::Confidentiality);
        let whole = lattice.whole(influence).join(&lattice.whole(secrets));
        assert_eq!(holds(""), whole);
        // The label of the app's results.
        let tools =
            "[app.files.other_tools]\neffect = \"read\"\nlimit = \"any\"\nrest = [\"secret\"]\n";
        assert_eq!(holds(tools), lattice.whole(secrets));
        // As the user says.
        let mount = "[[app.files.mount]]\nsource = \"{}\"\ntarget = \"{}\"\nlabel = []\n";
        assert_eq!(holds(mount), Label::bottom());
    }
}
