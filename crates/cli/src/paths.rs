//! Where things are: configuration, traces, the other binaries.

use std::env;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

/// The user's own configuration, whether it exists or not; `None` without a home.
pub(crate) fn user_config() -> Option<PathBuf> {
    xdg("XDG_CONFIG_HOME", ".config").map(|folder| folder.join("sluice/sluice.toml"))
}

/// The folder of what is kept between sessions.
pub(crate) fn state() -> Result<PathBuf> {
    let state = xdg("XDG_STATE_HOME", ".local/state");
    Ok(state
        .context("no home directory; set HOME or XDG_STATE_HOME to an absolute path")?
        .join("sluice"))
}

/// The folder of what was installed for the user.
pub(crate) fn data() -> Result<PathBuf> {
    let data = xdg("XDG_DATA_HOME", ".local/share");
    Ok(data
        .context("no home directory; set HOME or XDG_DATA_HOME to an absolute path")?
        .join("sluice"))
}

/// The folder of traces.
pub(crate) fn traces() -> Result<PathBuf> {
    Ok(state()?.join("traces"))
}

/// A path with the links on it resolved. Of what does not exist yet it is the nearest folder that does: whatever is made
/// later is made there.
pub(crate) fn resolved(path: &Path) -> PathBuf {
    let mut known = path.ancestors().filter_map(|folder| {
        let rest = path.strip_prefix(folder).ok()?;
        let folder = folder.canonicalize().ok()?;
        // By components, since to join an empty rest would end the path in a slash.
        Some(
            folder
                .components()
                .chain(rest.components())
                .collect::<PathBuf>(),
        )
    });
    known.next().unwrap_or_else(|| path.to_owned())
}

/// Another binary of this project: `$SLUICE_BIN_DIR`, or the folder of this one.
pub(crate) fn binary(name: &str) -> Result<PathBuf> {
    let own = env::current_exe().context("cannot find out where this program is")?;
    let beside = env::var_os("SLUICE_BIN_DIR")
        .map(PathBuf::from)
        .or_else(|| own.parent().map(Path::to_owned))
        .unwrap_or_default();
    let path = beside.join(name);
    if !path.is_file() {
        bail!(
            "{name} is not in {}; install it with `cargo install --path crates/cli --locked`, or set SLUICE_BIN_DIR",
            beside.display()
        );
    }
    Ok(path)
}

/// The program that runs embedded models. It is a package of its own, and may not be there.
pub(crate) const MODEL_PROGRAM: &str = "sluice-model";

/// What no app may write, besides what the configuration was read from: whoever writes these decides about the next
/// start, or about what is known of this one. Each with a word for messages.
pub(crate) fn kept() -> Result<Vec<(&'static str, PathBuf)>> {
    let own = env::current_exe().context("cannot find out where this program is")?;
    // Its folder and not only the file: who can write there can put another file in its place.
    let config = user_config().and_then(|file| file.parent().map(Path::to_owned));
    let models = llm::models::Cache::of_user().ok();
    let program = binary(MODEL_PROGRAM).ok();
    let optional = [
        config.map(|folder| ("the user's configuration", folder)),
        models.map(|cache| ("the language models", cache.folder().to_owned())),
        program.map(|path| ("the program of embedded models", path)),
    ];
    let mut kept = vec![
        ("traces and trust", state()?),
        ("what is installed", data()?),
        ("this program", own),
        ("the spoke binary", binary("sluice-spoke")?),
    ];
    kept.extend(optional.into_iter().flatten());
    Ok(kept)
}

fn xdg(variable: &str, under_home: &str) -> Option<PathBuf> {
    // The XDG rules: a relative path is to be ignored. So is a relative home, by which a stranger's working folder would
    // hold the user's own configuration, and what is trusted.
    let set = |variable| {
        let path = env::var_os(variable).map(PathBuf::from);
        path.filter(|path| path.is_absolute())
    };
    set(variable).or_else(|| Some(set("HOME")?.join(under_home)))
}
