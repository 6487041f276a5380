//! Where things are: configuration, traces, the other binaries.

use std::env;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

/// The configuration to use, or `None` if there is none anywhere.
///
/// # Errors
/// A file that was named does not exist.
pub(crate) fn config(named: Option<&Path>) -> Result<Option<PathBuf>> {
    let named = named
        .map(Path::to_owned)
        .or_else(|| env::var_os("SLUICE_CONFIG").map(PathBuf::from));
    if let Some(file) = named {
        if !file.is_file() {
            bail!(
                "there is no configuration {}; name another with --config",
                file.display()
            );
        }
        return Ok(Some(file));
    }
    let user = xdg("XDG_CONFIG_HOME", ".config").map(|dir| dir.join("sluice/sluice.toml"));
    let places = [Some(PathBuf::from("sluice.toml")), user];
    Ok(places.into_iter().flatten().find(|file| file.is_file()))
}

/// The folder of traces.
pub(crate) fn traces() -> Result<PathBuf> {
    let state = xdg("XDG_STATE_HOME", ".local/state");
    Ok(state
        .context("no home directory; set XDG_STATE_HOME")?
        .join("sluice/traces"))
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
