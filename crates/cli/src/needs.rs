//! What the apps of a configuration need of this machine to run, found before any of them starts.

use std::path::{Path, PathBuf};

use anyhow::Result;
use config::{App, Config, Mount, Remote, Start};
use hub::trace::escape;
use ifc::Label;
use policy::Place;
use provision::{FindError, Found, Host, Purpose, Record, Wanted};

use crate::login::{Logins, address};
use crate::review::Seen;
use crate::seen::RemoteTools;
use crate::terminal::say;
use crate::{installed, remote_app};

/// Why an app cannot be started, by its name.
pub(crate) type Unready = Vec<(String, String)>;

/// Gives each app the mounts that its command needs beside its own, and says in a line what they are. An app that cannot
/// be started is left out of the configuration, and returned with the reason.
pub(crate) fn provide(config: &mut Config) -> Unready {
    let host = Host::of_user();
    let file = config.files.first().cloned().unwrap_or_default();
    let writable = writable(config);
    let mut unready = Unready::new();
    config.apps.retain(|name, app| {
        if app.client {
            return true;
        }
        match of_app(&host, app, &file, &writable, None) {
            Ok(found) => {
                if !found.is_empty() {
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
    // A group may still name an app that was left out.
    for apps in config.groups.values_mut() {
        apps.retain(|app| config.apps.contains_key(app));
    }
    unready
}

/// The folders and files that an app of this configuration may write.
pub(crate) fn writable(config: &Config) -> Vec<PathBuf> {
    let mounts = config.apps.values().flat_map(|app| &app.mounts);
    let writable = mounts.filter(|mount| mount.write);
    writable.map(|mount| mount.source.clone()).collect()
}

/// What one app needs, found for it, where apps may write these places. What was found, with what each is for. `new` is the
/// record of what is tried before it is kept.
pub(crate) fn provide_one(
    app: &mut App,
    file: &Path,
    writable: &[PathBuf],
    new: Option<&Record>,
) -> Result<Vec<Found>, String> {
    of_app(&Host::of_user(), app, file, writable, new)
}

fn of_app(
    host: &Host,
    app: &mut App,
    file: &Path,
    writable: &[PathBuf],
    new: Option<&Record>,
) -> Result<Vec<Found>, String> {
    if let Some(remote) = &app.remote {
        let start = remote_app::start(app, remote, file)?;
        let reviewed = seen_of(app, remote).map_err(|error| format!("{error:#}"))?;
        app.found = Some(Start { reviewed, ..start });
        return Ok(Vec::new());
    }
    // An app with executable mounts brings its program itself, so nothing is looked for.
    if app.mounts.iter().any(|mount| mount.execute) {
        return Ok(Vec::new());
    }
    let installed = installed::of(app, new)?;
    let command = installed
        .as_ref()
        .map_or(&app.command, |installed| &installed.command);
    let folders: Vec<PathBuf> = installed
        .iter()
        .map(|installed| installed.tree.clone())
        .collect();
    let given: Vec<PathBuf> = app
        .mounts
        .iter()
        .map(|mount| mount.target.clone())
        .collect();
    let folder = app
        .server
        .as_ref()
        .map_or(file, |place| &place.file)
        .parent();
    let wanted = Wanted {
        command,
        env: &app.env,
        given: &given,
        writable,
        folders: &folders,
        interpreter: installed
            .as_ref()
            .and_then(|installed| installed.record.interpreter.as_deref()),
        programs: installed
            .as_ref()
            .map_or(&[], |installed| &installed.record.programs),
        folder: folder.unwrap_or(Path::new("/")),
        data: app.server.is_some(),
    };
    let needs = provision::find(host, &wanted).map_err(|error: FindError| error.to_string())?;
    let place = app.server.clone().unwrap_or_else(|| Place {
        file: file.to_owned(),
        line: 1,
    });
    let mount = |found: &Found| Mount {
        source: found.source.clone(),
        target: found.target.clone(),
        write: false,
        size: None,
        execute: found.purpose == Purpose::Program,
        label: match found.purpose {
            // Programs and their parts, and nothing of the user's.
            Purpose::Program => Label::bottom(),
            // An `mcpServers` file cannot say what lies there. It counts as what the app makes of it; a mount in
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
        // What the configuration sets for the app wins.
        let unsaid = patience.filter(|(name, _)| !app.env.contains_key(*name));
        let unsaid = unsaid.map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        start.env.extend(unsaid);
        // A record without tools is of an app that did not start when it was installed: nobody has seen any of them.
        start.reviewed = Some(installed.record.tools.unwrap_or_default());
    }
    app.found = Some(start);
    Ok(needs.found)
}

/// The tools that the user has seen of a server elsewhere. It also reads the login there, so that a file of logins that
/// cannot be read leaves out this app and does not end the session.
fn seen_of(app: &App, remote: &Remote) -> Result<Option<Seen>> {
    let server = address(&remote.url);
    Logins::of_user()?.find(&app.name, &server)?;
    RemoteTools::of_user()?.find(&app.name, &server)
}

/// What an app sees beside its own mounts.
fn line(app: &str, found: &[Found]) -> String {
    let of = |purpose| {
        let places = found.iter().filter(move |found| found.purpose == purpose);
        places
            .map(|found| escape(&found.source.to_string_lossy()))
            .collect::<Vec<_>>()
    };
    let mut parts = Vec::new();
    for (purpose, word) in [(Purpose::Program, "runs"), (Purpose::Data, "reads")] {
        let mut places = of(purpose);
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

    /// The label of what an app of an `mcpServers` file has from its start on, with a folder that its arguments name. `{}` is
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
        assert_eq!(provide(&mut config), Unready::new());
        config.apps.get("files").unwrap().holds()
    }

    #[test]
    fn what_nobody_has_labelled_is_untrusted_and_secret() {
        let lattice = Lattice::four_point();
        let (influence, secrets) = (Dimension::Integrity, Dimension::Confidentiality);
        let whole = lattice.whole(influence).join(&lattice.whole(secrets));
        assert_eq!(holds(""), whole);
        // As what the app returns.
        let tools =
            "[app.files.other_tools]\neffect = \"read\"\nlimit = \"any\"\nrest = [\"secret\"]\n";
        assert_eq!(holds(tools), lattice.whole(secrets));
        // As the user says.
        let mount = "[[app.files.mount]]\nsource = \"{}\"\ntarget = \"{}\"\nlabel = []\n";
        assert_eq!(holds(mount), Label::bottom());
    }
}
