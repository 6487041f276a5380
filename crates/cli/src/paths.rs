//! Where things are: configuration, traces, the other binaries.

use std::env;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

/// The user's own configuration, whether it exists or not; `None` without a home.
pub(crate) fn user_config() -> Option<PathBuf> {
    xdg("XDG_CONFIG_HOME", ".config").map(|folder| folder.join("sluice/sluice.toml"))
}

/// The folder of what is kept between sessions.
///
/// # Errors
/// There is no home.
pub(crate) fn state() -> Result<PathBuf> {
    let state = xdg("XDG_STATE_HOME", ".local/state");
    Ok(state
        .context("no home directory; set XDG_STATE_HOME")?
        .join("sluice"))
}

/// The folder of traces.
///
/// # Errors
/// There is no home.
pub(crate) fn traces() -> Result<PathBuf> {
    Ok(state()?.join("traces"))
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
            "{name} is not in {}; build it with `cargo build --workspace --bins`, or set SLUICE_BIN_DIR",
            beside.display()
        );
    }
    Ok(path)
}

fn xdg(variable: &str, under_home: &str) -> Option<PathBuf> {
    let set = env::var_os(variable)
        .map(PathBuf::from)
        .filter(|dir| dir.is_absolute());
    set.or_else(|| Some(PathBuf::from(env::var_os("HOME")?).join(under_home)))
}
