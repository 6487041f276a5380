//! Where things are: configuration, traces, the other binaries.

use std::env;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

/// The user's own configuration, whether it exists or not; `None` without a home.
pub(crate) fn user_config() -> Option<PathBuf> {
    xdg("XDG_CONFIG_HOME", ".config").map(|folder| folder.join("sluice/sluice.toml"))
}

/// The folder of traces, trust, memory and permissions.
pub(crate) fn state() -> Result<PathBuf> {
    folder("XDG_STATE_HOME", ".local/state")
}

/// The folder of what is installed, secrets and logins.
pub(crate) fn data() -> Result<PathBuf> {
    folder("XDG_DATA_HOME", ".local/share")
}

/// The folder of installed apps.
pub(crate) fn apps() -> Result<PathBuf> {
    Ok(data()?.join("apps"))
}

fn folder(variable: &str, under_home: &str) -> Result<PathBuf> {
    let missing = || format!("no home directory; set HOME or {variable} to an absolute path");
    let folder = xdg(variable, under_home).with_context(missing)?;
    Ok(folder.join("sluice"))
}

/// The file of questions that wait, and of tokens.
pub(crate) fn desk() -> Result<PathBuf> {
    Ok(state()?.join("desk.db"))
}

/// The folder of traces.
pub(crate) fn traces() -> Result<PathBuf> {
    Ok(state()?.join("traces"))
}

/// A path with its links resolved, as far as it exists.
pub(crate) fn resolved(path: &Path) -> PathBuf {
    let mut known = path.ancestors().filter_map(|folder| {
        let rest = path.strip_prefix(folder).ok()?;
        let folder = folder.canonicalize().ok()?;
        // By components, since to join an empty rest would end the path in a slash.
        Some(folder.components().chain(rest.components()).collect())
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

/// The program that runs embedded models: a package of its own, which may be missing.
pub(crate) const MODEL_PROGRAM: &str = "sluice-model";

/// What no app may write, besides the files of the configuration, with names for messages: it decides about the next
/// start, or records this one.
pub(crate) fn kept() -> Result<Vec<(&'static str, PathBuf)>> {
    let own = env::current_exe().context("cannot find out where this program is")?;
    // The folder, since the file could be replaced there.
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

/// Whether programs of the user's run what is in a folder, or read it as settings, outside of any sandbox.
pub(crate) fn is_of_programs(folder: &str) -> bool {
    let home = env::var("HOME").unwrap_or_default();
    let below = folder.strip_prefix(&home).unwrap_or_default();
    let is_hidden = below.contains("/.") || format!("{folder}/").contains("/.git/");
    let programs = env::var_os("PATH").unwrap_or_default();
    is_hidden || env::split_paths(&programs).any(|one| one.starts_with(folder))
}

/// What makes a project of a folder: programs of the user's run what it says.
const PROJECT: &str = ".git .hg .envrc Makefile makefile GNUmakefile CMakeLists.txt meson.build justfile Dockerfile \
    package.json deno.json Cargo.toml pyproject.toml setup.py go.mod pom.xml build.gradle build.gradle.kts Gemfile Rakefile \
    composer.json mix.exs";
/// Most folders in a folder that are looked at.
const MOST_PROJECTS: usize = 256;

/// What makes this folder, one above it in the user's home or one in it a project, whose code the user runs.
pub(crate) fn code_in(folder: &Path) -> Option<&'static str> {
    let home = env::var_os("HOME").map(PathBuf::from);
    let above = folder.ancestors();
    let above = above.take_while(|it| {
        *it == folder
            || home
                .as_ref()
                .is_some_and(|home| it.starts_with(home) && it != home)
    });
    let inside = folder.read_dir().into_iter().flatten().take(MOST_PROJECTS);
    let inside = inside.filter_map(|entry| Some(entry.ok()?.path()));
    let mut all = above.map(Path::to_owned).chain(inside);
    all.find_map(|one| {
        PROJECT
            .split_whitespace()
            .find(|name| one.join(name).exists())
    })
}

fn xdg(variable: &str, under_home: &str) -> Option<PathBuf> {
    // The XDG rules ignore relative paths. A relative HOME is ignored too: the working folder, which may be a stranger's,
    // would hold the user's configuration and trust.
    let set = |variable| {
        let path = env::var_os(variable).map(PathBuf::from);
        path.filter(|path| path.is_absolute())
    };
    set(variable).or_else(|| Some(set("HOME")?.join(under_home)))
}
