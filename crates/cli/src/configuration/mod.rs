//! Which configuration counts, and whether it is trusted. Every command opens its configuration here.
//!
//! A file that the user names with `--config` or `$SLUICE_CONFIG`, or that is in the user's configuration
//! folder, needs no trust. A `sluice.toml` in the working folder may be a stranger's, and a configuration
//! starts programs, opens folders and uses keys: it counts only while the user trusts this content in this
//! place.

mod files;
mod summary;
pub(crate) mod trust;

use std::collections::BTreeSet;
use std::env;
use std::fs;
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow, bail};
use config::{Config, Diagnostics, ExampleOutcome, resolved};
use hub::trace::escape;
use sha2::{Digest, Sha256};

pub(crate) use self::files::Files;
use self::trust::{Standing, TrustStore};
use crate::terminal::{is_agreed, say, say_in_pages};
use crate::{paths, shell};

/// The name of a configuration in the working folder.
pub(crate) const NAME: &str = "sluice.toml";

/// A configuration file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Found {
    /// As the user would write it, for messages.
    pub(crate) shown: PathBuf,
    /// With its folder resolved. Trust is bound to this path, and relative paths start there.
    path: PathBuf,
    /// It was found in the working folder, so it needs the user's trust.
    needs_trust: bool,
}

/// A configuration that was read.
#[derive(Debug)]
pub(crate) struct Opened {
    pub(crate) config: Config,
    /// The outcomes of its examples, where they may fail.
    pub(crate) examples: Vec<ExampleOutcome>,
}

/// Whether examples of the configuration may fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Examples {
    /// For running anything.
    MustPass,
    /// For showing what fails.
    MayFail,
}

/// Why a configuration does not count.
#[derive(Debug)]
pub(crate) enum Refusal {
    /// Every mistake in it.
    Mistakes(Diagnostics),
    /// It is not trusted, or its trust cannot be checked.
    Untrusted(anyhow::Error),
}

impl From<anyhow::Error> for Refusal {
    fn from(error: anyhow::Error) -> Self {
        Self::Untrusted(error)
    }
}

impl From<Refusal> for anyhow::Error {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::Mistakes(mistakes) => {
                anyhow!("the configuration has mistakes\n\n{mistakes}")
            }
            Refusal::Untrusted(error) => error,
        }
    }
}

/// The digest of all files of a configuration. One that cannot be read counts as such, and so does one that is no regular file.
pub(crate) fn digest(files: &BTreeSet<PathBuf>) -> [u8; 32] {
    let mut digest = Sha256::new();
    for file in files {
        let text = Files::of(file).ok();
        let text = text.and_then(|text| text.digests().remove(file));
        digest.update(text.unwrap_or_default());
        digest.update("\n");
    }
    digest.finalize().into()
}

/// The configuration to act on, or the built-in one if there is no file: the embedded model, no apps.
/// If `attended`, the user can be asked whether to trust it.
pub(crate) fn open(named: Option<&Path>, attended: bool) -> Result<Config> {
    open_with(named, attended, "")
}

/// The same with these lines of the program's own at its end, for one run.
pub(crate) fn open_with(named: Option<&Path>, attended: bool, lines: &str) -> Result<Config> {
    match find(named)? {
        Some(found) if found.is_of_another_program() && !lines.is_empty() => bail!(
            "{} belongs to another program; name a sluice.toml with --config",
            found.shown.display()
        ),
        Some(found) => Ok(found.open_with(Examples::MustPass, attended, lines)?.config),
        None => {
            // Paths in the lines are relative to no folder that an app may write.
            let folder = if lines.is_empty() { "" } else { "/" };
            Config::load_with(&Path::new(folder).join(NAME), &|_| Ok(lines.to_owned())).map_err(
                |mistakes| anyhow!("the built-in configuration has mistakes\n\n{mistakes}"),
            )
        }
    }
}

/// The configuration file that counts: the named one, `$SLUICE_CONFIG`, the working folder's, the
/// user's own; `None` if there is none. A named file that does not exist is an error.
pub(crate) fn find(file: Option<&Path>) -> Result<Option<Found>> {
    let file = file.map(Path::to_owned).or_else(|| {
        // An empty variable counts as none, as usual.
        let set = env::var_os("SLUICE_CONFIG").filter(|file| !file.is_empty());
        set.map(PathBuf::from)
    });
    if let Some(file) = file {
        if file.is_dir() {
            bail!(
                "{0} is a folder; name the file in it, like {1}",
                file.display(),
                file.join(NAME).display()
            );
        }
        if !file.is_file() {
            bail!(
                "there is no configuration {}; name one that is there",
                file.display()
            );
        }
        return Ok(Some(Found::new(&file, false)));
    }
    let own = Found::own().filter(|own| own.path.is_file());
    if Path::new(NAME).is_file() {
        let here = Found::in_folder(Path::new(NAME));
        // The working folder may be the user's configuration folder.
        return Ok(Some(match own {
            Some(own) if own.path == here.path => own,
            _ => here,
        }));
    }
    Ok(own)
}

impl Found {
    pub(crate) fn new(file: &Path, needs_trust: bool) -> Self {
        Self {
            shown: file.to_owned(),
            path: resolved(file),
            needs_trust,
        }
    }

    /// The user's own, whether it exists or not; `None` without a home.
    pub(crate) fn own() -> Option<Self> {
        paths::user_config().map(|file| Self::new(&file, false))
    }

    /// Whether it is an `mcpServers` file, which other programs write.
    pub(crate) fn is_of_another_program(&self) -> bool {
        config::is_of_another_program(&self.path)
    }

    /// Whether only contents count that the user has trusted.
    pub(crate) fn needs_trust(&self) -> bool {
        self.needs_trust
    }

    /// A file that needs trust.
    pub(crate) fn in_folder(file: &Path) -> Self {
        Self::new(file, true)
    }

    /// With its folder resolved.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Reads it and all files that it names, and checks the trust. The parsed content is compared with the
    /// trusted content.
    pub(crate) fn open(&self, examples: Examples, attended: bool) -> Result<Opened, Refusal> {
        self.open_with(examples, attended, "")
    }

    fn open_with(
        &self,
        examples: Examples,
        attended: bool,
        lines: &str,
    ) -> Result<Opened, Refusal> {
        if !self.needs_trust {
            return Ok(self.read(examples, lines)?.0);
        }
        let store = TrustStore::of_user()?;
        if !attended {
            // Before the files that it names are read: a mistake quotes a line of them.
            let alone = Files::of(&self.path)?;
            self.must_be_trusted(store.standing_of_root(&self.path, &alone)?)?;
        }
        let (mut opened, files) = self.read(examples, lines)?;
        let standing = store.standing(&self.path, &files)?;
        let must_ask = attended && standing != Standing::Trusted;
        if !(must_ask && self.ask(&opened.config, &files, &standing, &store)?) {
            self.must_be_trusted(standing)?;
        }
        // Both are opened again when they are used, and must be what was trusted then.
        let folder = paths::state()?.join("trust").join("files");
        let weights = opened.config.screener.weights.iter_mut();
        let remotes = opened.config.apps.values_mut();
        let certificates = remotes.flat_map(|app| app.remote.as_mut()?.ca_file.as_mut());
        for file in weights.chain(certificates) {
            *file = files.copy(file, &folder)?;
        }
        Ok(opened)
    }

    /// Shows what the configuration may do, and asks whether to trust it.
    pub(crate) fn ask_for_trust(&self, attended: bool) -> Result<bool> {
        if !attended {
            bail!(
                "there is no terminal to ask at; name the file with --config or $SLUICE_CONFIG instead"
            );
        }
        let store = TrustStore::of_user()?;
        let (opened, files) = self.read(Examples::MayFail, "")?;
        let standing = store.standing(&self.path, &files)?;
        if standing == Standing::Trusted {
            say(&format!("{} is already trusted\n", self.name()));
            return Ok(true);
        }
        self.ask(&opened.config, &files, &standing, &store)
    }

    fn ask(
        &self,
        config: &Config,
        files: &Files,
        standing: &Standing,
        store: &TrustStore,
    ) -> Result<bool> {
        let (name, state) = (
            self.name(),
            match standing {
                Standing::Changed(which) => {
                    format!("changed since you trusted it ({})", list(which))
                }
                _ => "is not trusted".to_owned(),
            },
        );
        let summary = summary::of(config, files, &self.path)?;
        let shown = say_in_pages(&format!(
            "{name} {state}. If you trust it, it may:\n\n{summary}\n"
        ));
        let trusted = shown && is_agreed("Type trust to trust it [no]: ", "trust");
        if trusted {
            // The digests of the contents that were shown, in case the files have changed since.
            store.trust(&self.path, files)?;
        }
        Ok(trusted)
    }

    fn read(&self, examples: Examples, lines: &str) -> Result<(Opened, Files), Refusal> {
        let files = Files::default();
        // The digests are those of the files.
        let read = |path: &Path| {
            let text = files.read(path)?;
            Ok(match path == self.path {
                true => text + lines,
                false => text,
            })
        };
        let loaded = match examples {
            Examples::MustPass => Config::load_with(&self.path, &read).map(|config| Opened {
                config,
                examples: Vec::new(),
            }),
            Examples::MayFail => Config::test_with(&self.path, &read)
                .map(|(config, examples)| Opened { config, examples }),
        };
        let opened = loaded.map_err(Refusal::Mistakes)?;
        // The loader does not read weights and certificates, and both are part of what is trusted.
        let weights = opened.config.screener.weights.iter();
        let remotes = opened.config.apps.values().flat_map(|app| &app.remote);
        let certificates = remotes.flat_map(|remote| &remote.ca_file);
        for file in weights.chain(certificates) {
            files.remember(file)?;
        }
        Ok((opened, files))
    }

    /// Its text; empty if it is not there.
    pub(crate) fn text(&self) -> Result<String> {
        match fs::read_to_string(&self.path) {
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(String::new()),
            text => text.with_context(|| format!("{} cannot be read", self.name())),
        }
    }

    /// Writes `after` in the place of `before`. If `before` was trusted, `after` is.
    ///
    /// # Errors
    /// The file does not have the text `before` any more, or cannot be written.
    pub(crate) fn rewrite(&self, before: &str, after: &str) -> Result<()> {
        let trusted = self.trusted_with(before)?;
        // Minutes may have passed, and the new lines were not checked together with other ones.
        if self.text()? != before {
            bail!(
                "{} changed meanwhile, and nothing was written; try again",
                self.name()
            );
        }
        // A link stays one.
        let path = self.path.canonicalize().unwrap_or(self.path.clone());
        let folder = path.parent().context("the configuration has no folder")?;
        fs::create_dir_all(folder)?;
        let mut file = tempfile::NamedTempFile::new_in(folder)?;
        file.write_all(after.as_bytes())?;
        if let Ok(old) = path.metadata() {
            file.as_file().set_permissions(old.permissions())?;
        }
        file.as_file().sync_all()?;
        file.persist(&path).map_err(|error| error.error)?;
        let Some(trusted) = trusted else {
            return Ok(());
        };
        let (_, files) = self.read(Examples::MayFail, "")?;
        // What others wrote meanwhile has to be reviewed.
        match files.are_among(&trusted, &self.path, after) {
            true => TrustStore::of_user()?.trust(&self.path, &files),
            false => Ok(()),
        }
    }

    /// Its files, if they are trusted with this text.
    fn trusted_with(&self, text: &str) -> Result<Option<Files>> {
        if !self.needs_trust {
            return Ok(None);
        }
        let (_, files) = self.read(Examples::MayFail, "")?;
        let standing = TrustStore::of_user()?.standing(&self.path, &files)?;
        let is_trusted = standing == Standing::Trusted && files.are_among(&files, &self.path, text);
        Ok(is_trusted.then_some(files))
    }

    fn must_be_trusted(&self, standing: Standing) -> Result<()> {
        let name = self.name();
        let word = shell::word(&self.path.to_string_lossy());
        let remedy = format!("review it with `sluice trust`, or name it with --config {word}");
        match standing {
            Standing::Trusted => Ok(()),
            Standing::Changed(which) => bail!(
                "{name} changed since you trusted it ({}); {remedy}",
                list(&which)
            ),
            Standing::Unknown => bail!(
                "{name} was found in the working folder and is not trusted: it could start programs, open folders and use keys; {remedy}"
            ),
        }
    }

    fn name(&self) -> String {
        escape(&self.path.to_string_lossy())
    }
}

fn list(files: &[PathBuf]) -> String {
    let names = files
        .iter()
        .map(|file| escape(&file.to_string_lossy()))
        .collect::<Vec<_>>();
    names.join(", ")
}

/// The file that `sluice trust PATH` means: a folder's configuration, or the file itself.
pub(crate) fn meant(path: Option<&Path>) -> Result<Found> {
    let path = path.unwrap_or(Path::new("."));
    let file = match path.is_dir() {
        true => path.join(NAME),
        false => path.to_owned(),
    };
    let name = file.file_name().context("this path names no file")?;
    if name != NAME {
        bail!(
            "only a {NAME} needs trust; use {} with --config",
            file.display()
        );
    }
    Ok(Found::in_folder(&file))
}
