//! What an app says that it could not write.

use std::env;
use std::path::Path;

use hub::trace::escape;
use provision::Store;

use crate::paths;

/// A note on a file that an app says it could not write, with what would let it. Nothing is proposed where no app should
/// write.
pub(crate) fn unwritten(app: &str, path: &str) -> Option<String> {
    let folder = Path::new(path).parent().filter(|it| it.is_dir())?;
    let store = Store::new(paths::apps().ok()?);
    let (app, file) = (escape(app), escape(path));
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
