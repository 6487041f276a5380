//! The configuration: which file counts, by whose word, and what it says.
//!
//! Every command that acts on a configuration opens it here. A file that the user names with
//! `--config` or `$SLUICE_CONFIG`, or that lies in the user's configuration folder, is the user's
//! word. A `sluice.toml` that merely lies in the working folder may be a stranger's, and a
//! configuration starts programs, opens folders and spends keys: it counts only while the user trusts
//! exactly this content in exactly this place.

mod files;
mod summary;
pub(crate) mod trust;

use std::env;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow, bail};
use config::{Config, Diagnostics, ExampleOutcome, resolved};
use hub::trace::escape;

use self::files::Files;
use self::trust::{Standing, TrustStore};
use crate::terminal::{self, say};
use crate::{paths, shell};

/// The name under which a configuration is looked for.
pub(crate) const NAME: &str = "sluice.toml";

/// A configuration file, and whose word it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Found {
    /// As the user would write it, for messages.
    pub(crate) shown: PathBuf,
    /// With its folder resolved: what is trusted, and where the paths in it start.
    path: PathBuf,
    word: Word,
}

/// Whose word a configuration is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Word {
    /// The user named the file, or keeps it among their own settings.
    User,
    /// It was found where the user happens to be.
    WorkingFolder,
}

/// What a configuration says.
#[derive(Debug)]
pub(crate) struct Opened {
    pub(crate) config: Config,
    /// What became of its examples, where they may fail.
    pub(crate) examples: Vec<ExampleOutcome>,
}

/// Whether a configuration whose examples fail is one.
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
    /// It is not trusted, or it cannot be found out whether it is.
    Untrusted(anyhow::Error),
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

/// The configuration to act on, or the built-in one if there is no file: the embedded model, no apps.
/// `attended` says that somebody can be asked whether to trust it.
///
/// # Errors
/// There is no such file; it is not trusted; or every mistake of it at once.
pub(crate) fn open(named: Option<&Path>, attended: bool) -> Result<Config> {
    match find(named)? {
        Some(found) => Ok(found.open(Examples::MustPass, attended)?.config),
        None => Config::load_with(Path::new(NAME), &|_| Ok(String::new()))
            .map_err(|mistakes| anyhow!("the built-in configuration has mistakes\n\n{mistakes}")),
    }
}

/// The configuration file that counts: the named one, `$SLUICE_CONFIG`, the working folder's, the
/// user's own; `None` if there is none.
///
/// # Errors
/// A file that was named does not exist.
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
                "there is no configuration {}; name another with --config",
                file.display()
            );
        }
        // Wherever it lies: whoever names a file vouches for it.
        return Ok(Some(Found::new(&file, Word::User)));
    }
    let own = paths::user_config().filter(|file| file.is_file());
    let own = own.map(|file| Found::new(&file, Word::User));
    if Path::new(NAME).is_file() {
        let here = Found::in_folder(Path::new(NAME));
        // The user's own configuration may lie in the working folder.
        return Ok(Some(match own {
            Some(own) if own.path == here.path => own,
            _ => here,
        }));
    }
    Ok(own)
}

impl Found {
    fn new(file: &Path, word: Word) -> Self {
        Self {
            shown: file.to_owned(),
            path: resolved(file),
            word,
        }
    }

    /// A file that nobody named.
    pub(crate) fn in_folder(file: &Path) -> Self {
        Self::new(file, Word::WorkingFolder)
    }

    /// With its folder resolved.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Reads it and all files that it names, and makes sure that it counts. What is compared with the
    /// trusted content is what was parsed.
    ///
    /// # Errors
    /// It is not trusted, or it has mistakes.
    pub(crate) fn open(&self, examples: Examples, attended: bool) -> Result<Opened, Refusal> {
        if self.word == Word::User {
            return Ok(self.read(examples)?.0);
        }
        let store = TrustStore::of_user().map_err(Refusal::Untrusted)?;
        if !attended {
            // Before anything that it names is read: a mistake quotes the line where it is, and the
            // file may be one that should not be in anybody's log.
            let alone = Files::of(&self.path).map_err(Refusal::Untrusted)?;
            let standing = store.standing_of_root(&self.path, &alone);
            self.must_be_trusted(standing.map_err(Refusal::Untrusted)?)?;
        }
        let (opened, files) = self.read(examples)?;
        let standing = store.standing(&self.path, &files);
        let standing = standing.map_err(Refusal::Untrusted)?;
        if attended && standing != Standing::Trusted {
            let asked = self.ask(&opened.config, &files, &standing, &store);
            return match asked.map_err(Refusal::Untrusted)? {
                true => Ok(opened),
                // It is not trusted here, so this is an error in any case.
                false => Err(self.must_be_trusted(standing).err().unwrap_or_else(|| {
                    Refusal::Untrusted(anyhow!("the configuration is not trusted"))
                })),
            };
        }
        self.must_be_trusted(standing)?;
        Ok(opened)
    }

    /// Shows what the configuration may do, and asks whether to trust it from now on.
    ///
    /// # Errors
    /// Nobody can be asked, it has mistakes, or the answer cannot be kept.
    pub(crate) fn ask_for_trust(&self, attended: bool) -> Result<bool> {
        if !attended {
            bail!(
                "there is no terminal to ask at; where nobody can answer, name the file with --config or $SLUICE_CONFIG"
            );
        }
        let store = TrustStore::of_user()?;
        let (opened, files) = self.read(Examples::MayFail)?;
        let standing = store.standing(&self.path, &files)?;
        if standing == Standing::Trusted {
            say(&format!("{} is trusted already\n", self.name()));
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
        let head = match standing {
            Standing::Changed(which) => {
                format!(
                    "{} changed since you trusted it ({}).",
                    self.name(),
                    list(which)
                )
            }
            _ => format!("{} is not trusted.", self.name()),
        };
        say(&format!("{head} If you trust it as it is now, it may\n\n"));
        say(&summary::of(config, files, &self.path)?);
        say("\n");
        let trusted = terminal::ask_word("Type trust and Enter [no]: ", &["trust"]).is_some();
        if trusted {
            // The digests of what was read and shown, whatever the files hold by now.
            store.trust(&self.path, files)?;
        }
        Ok(trusted)
    }

    fn read(&self, examples: Examples) -> Result<(Opened, Files), Refusal> {
        let files = Files::default();
        let read = |path: &Path| files.read(path);
        let loaded = match examples {
            Examples::MustPass => Config::load_with(&self.path, &read).map(|config| Opened {
                config,
                examples: Vec::new(),
            }),
            Examples::MayFail => Config::test_with(&self.path, &read)
                .map(|(config, examples)| Opened { config, examples }),
        };
        let opened = loaded.map_err(Refusal::Mistakes)?;
        // The loader notes where the weights and the certificates are, and does not read them. Both
        // are part of what is trusted.
        let weights = opened.config.screener.weights.iter();
        let remotes = opened.config.apps.values().flat_map(|app| &app.remote);
        let certificates = remotes.flat_map(|remote| &remote.ca_file);
        for file in weights.chain(certificates) {
            files.remember(file).map_err(Refusal::Untrusted)?;
        }
        Ok((opened, files))
    }

    fn must_be_trusted(&self, standing: Standing) -> Result<(), Refusal> {
        let name = self.name();
        let word = shell::word(&self.path.to_string_lossy());
        let remedy =
            format!("look at it and run `sluice trust`, or name it yourself with --config {word}");
        Err(Refusal::Untrusted(match standing {
            Standing::Trusted => return Ok(()),
            Standing::Changed(which) => anyhow!(
                "{name} changed since you trusted it ({}); {remedy}",
                list(&which)
            ),
            Standing::Unknown => anyhow!(
                "{name} was found in the working folder and is not trusted: it could start programs, open folders and use keys; {remedy}"
            ),
        }))
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
///
/// # Errors
/// No configuration is ever found under this name, or there is no such file.
pub(crate) fn meant(path: Option<&Path>) -> Result<Found> {
    let path = path.unwrap_or(Path::new("."));
    let file = match path.is_dir() {
        true => path.join(NAME),
        false => path.to_owned(),
    };
    let name = file.file_name().context("this path names no file")?;
    if name != NAME {
        bail!(
            "only a {NAME} is found by itself and needs trust; use {} with --config",
            file.display()
        );
    }
    Ok(Found::in_folder(&file))
}
