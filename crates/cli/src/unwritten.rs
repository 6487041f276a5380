//! What an app says that it could not write or connect to.

use std::env;
use std::path::Path;

use hub::address::inert;
use hub::trace::{Text, escape};
use provision::Store;
use wire::Refusal;

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

/// A note on a file that ended with the sandbox, or that an app did not see, with what would change that.
pub(crate) fn file(app: &str, reason: &str, config: &str) -> Option<String> {
    let of = |why: Refusal| reason.strip_prefix(&format!("{why}: "));
    let (app, config) = (escape(app), escape(config));
    let inert = |path: &str| inert(&word(path), |_, _| false).0;
    if let Some(path) = of(Refusal::Scratch) {
        let file = inert(path);
        return Some(format!(
            "note: {app} names {file}, which is in its sandbox and ends with it. For files that stay, have these lines in \
             {config}, and name a path there:\n\
             [[app.{app}.mount]]\nsource = \"FOLDER\"\ntarget = \"FOLDER\"\nwrite = true\nlabel = \"any\"\n"
        ));
    }
    // A missing file may be missing here, too.
    let path = of(Refusal::Unseen).filter(|path| Path::new(path).exists())?;
    may_be_mounted(path)?;
    Some(format!(
        "note: {app} says that there is no {}, which it does not see. To show it, have these lines in {config}:\n\
         [[app.{app}.mount]]\nsource = {path:?}\ntarget = {path:?}\nlabel = \"any\"\n",
        inert(path)
    ))
}

/// Whether a place is one that an app may see: elsewhere it would be the system's, and a home holds too much.
fn may_be_mounted(place: &str) -> Option<()> {
    let home = env::var("HOME").ok()?;
    let below = place.strip_prefix(&home)?.strip_prefix('/')?;
    (!below.is_empty() && !paths::is_of_programs(place)).then_some(())
}

/// A note on a file that an app says it could not write, or a service that it says it could not connect to, with the lines of
/// its configuration that would let it. Nothing is proposed where no app should write.
pub(crate) fn note(app: &str, what: &str, config: &str) -> Option<String> {
    let config = escape(config);
    if port(what).is_some() {
        let app = escape(app);
        return Some(format!(
            "note: {app} says that it could not connect to {what}. To allow it, have this line in {config}:\n{}",
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
    let project = paths::code_in(folder).map_or(String::new(), |what| {
        format!(". Its folder has {what}: with write, the app can change code that you run")
    });
    let folder = folder.to_str()?;
    may_be_mounted(folder)?;
    Some(format!(
        "{note}{project}. To allow it, have these lines in {config}, in the place of others for that folder:\n\
         [[app.{app}.mount]]\nsource = {folder:?}\ntarget = {folder:?}\nwrite = true\nlabel = \"any\"\n"
    ))
}
