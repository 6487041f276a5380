//! What an app says that it could not write or connect to.

use std::env;
use std::path::Path;

use hub::address::inert;
use hub::trace::{Text, escape};
use provision::Store;

use crate::paths;
use crate::question::word;

/// The port of a text that is a service on loopback and nothing else, as [`Text::service`] writes it.
pub(crate) fn port(service: &str) -> Option<u16> {
    let is_one = Text::service(service).as_deref() == Some(service);
    let (_, port) = service.rsplit_once(':').filter(|_| is_one)?;
    port.parse().ok()
}

/// The lines that let an app connect to a service on loopback.
pub(crate) fn connect(app: &str, service: &str) -> String {
    format!("[app.{app}]\nconnect = [\"{service}\"]\n")
}

/// A note on a file that an app says it could not write, or a service that it says it could not connect to, with what would
/// let it. Nothing is proposed where no app should write.
pub(crate) fn note(app: &str, what: &str) -> Option<String> {
    if port(what).is_some() {
        let app = escape(app);
        return Some(format!(
            "note: {app} says that it could not connect to {what}. To allow it, have this line in `sluice.toml`:\n{}",
            connect(&app, what)
        ));
    }
    let folder = Path::new(what).parent().filter(|it| it.is_dir())?;
    let store = Store::new(paths::apps().ok()?);
    // No name of a file is a link.
    let (app, file) = (escape(app), inert(&word(what), |_, _| false).0);
    let note = format!("note: {app} says that it could not write {file}");
    if folder.starts_with(store.folder()) {
        return Some(format!(
            "{note}: what is installed stays read-only. If it has a variable for the place, as the memory server has\n\
             MEMORY_FILE_PATH, add it again: `sluice app add {app} --replace --write FOLDER --env MEMORY_FILE_PATH=FOLDER/FILE -- …`\n"
        ));
    }
    // Elsewhere it would be a folder of the system's, and a home holds too much.
    let home = env::var("HOME").ok()?;
    let folder = folder.to_str().filter(|it| !paths::is_of_programs(it))?;
    folder.strip_prefix(&home)?.strip_prefix('/')?;
    Some(format!(
        "{note}. To allow it, have these lines in `sluice.toml`, in the place of others for that folder:\n\
         [[app.{app}.mount]]\nsource = {folder:?}\ntarget = {folder:?}\nwrite = true\n"
    ))
}
