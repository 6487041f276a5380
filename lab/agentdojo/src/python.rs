//! A Python with the pinned AgentDojo: made once, in the user's cache folder, and used again.

use std::{
    collections::BTreeMap,
    env, fs,
    io::Write,
    os::unix::process::CommandExt,
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
};

use anyhow::{Context, Result, ensure};
use sha2::{Digest, Sha256};

use crate::hex::hex;

/// The pinned packages, each with the hashes of its files.
const REQUIREMENTS: &str = include_str!("../python/requirements.txt");
const PROGRAMS: [(&str, &str); 3] = [
    ("attacks.py", include_str!("../python/attacks.py")),
    ("export.py", include_str!("../python/export.py")),
    ("runner.py", include_str!("../python/runner.py")),
];
/// Names of interpreters, in the order of preference: the first that is new enough is taken.
const INTERPRETERS: [&str; 6] = [
    "python3",
    "python3.13",
    "python3.12",
    "python3.11",
    "python3.10",
    "python",
];
/// AgentDojo needs this one.
const OLDEST: (u32, u32) = (3, 10);
/// The variable that names an interpreter.
const VARIABLE: &str = "SLUICE_PYTHON";
/// Written when an environment is complete.
const STAMP: &str = "complete";
/// Characters of a failed program's words that an error quotes: pip's last lines say what is wrong.
const QUOTED: usize = 1500;

/// An environment with AgentDojo and the programs of this crate.
#[derive(Debug, Clone)]
pub struct Python {
    interpreter: PathBuf,
    folder: PathBuf,
    /// Where `agentdojo` is imported from instead.
    package: Option<PathBuf>,
}

impl Python {
    /// The environment in the user's cache folder; made if it is not there, which takes a minute
    /// and the package index. `progress` gets a line for each thing that takes time.
    ///
    /// # Errors
    /// There is no Python, or AgentDojo cannot be installed; the error says what to do.
    pub fn ready(progress: &mut dyn FnMut(&str)) -> Result<Self> {
        Self::ready_in(&cache_folder()?, progress)
    }

    /// The environment of a test; `None`, which `progress` is told, where this machine cannot have one, unless
    /// `SLUICE_REQUIRE_AGENTDOJO=1`.
    pub fn of_test(progress: &mut dyn FnMut(&str)) -> Result<Option<Self>> {
        let required = std::env::var("SLUICE_REQUIRE_AGENTDOJO").is_ok_and(|value| value == "1");
        match Self::ready(progress) {
            Err(lacking) if !required => {
                progress(&format!(
                    "NOT TESTED: AgentDojo cannot run here: {lacking:#}"
                ));
                Ok(None)
            }
            ready => ready.map(Some),
        }
    }

    /// As [`Python::ready`], in a folder.
    pub fn ready_in(cache: &Path, progress: &mut dyn FnMut(&str)) -> Result<Self> {
        let (base, version) = interpreter()?;
        let pins = hex(&Sha256::digest(REQUIREMENTS.as_bytes()));
        let pins = pins.get(..12).unwrap_or_default();
        let name = format!("agentdojo-{pins}-py{}.{}", version.0, version.1);
        let folder = cache.join(name);
        fs::create_dir_all(&folder).with_context(at(&folder))?;
        let venv = folder.join("venv");
        let python = Self {
            interpreter: venv.join("bin/python"),
            folder: folder.clone(),
            package: None,
        };
        if !folder.join(STAMP).exists() {
            let _lock = Lock::take(&folder.join("lock"), progress)?;
            // Another process may have finished it under the lock.
            if !folder.join(STAMP).exists() {
                python.install(&base, &venv, progress)?;
            }
        }
        python.write_programs()?;
        Ok(python)
    }

    fn install(&self, base: &Path, venv: &Path, progress: &mut dyn FnMut(&str)) -> Result<()> {
        // Without the stamp it may be half installed.
        if venv.exists() {
            fs::remove_dir_all(venv).with_context(at(venv))?;
        }
        progress("making a Python environment");
        let created = run(Command::new(base).args(["-m", "venv"]).arg(venv))?;
        ensure!(
            created.status.success(),
            "{} cannot make virtual environments; install its venv package (apt install python3-venv)",
            base.display()
        );
        let pins = self.folder.join("requirements.txt");
        fs::write(&pins, REQUIREMENTS).with_context(at(&pins))?;
        progress("installing AgentDojo and what it needs, pinned by hash (about a minute)");
        let mut pip = Command::new(&self.interpreter);
        pip.args([
            "-m",
            "pip",
            "install",
            "--quiet",
            "--disable-pip-version-check",
        ]);
        // Nothing is built: a source distribution would run its own set-up.
        // The file names all of it. An older pip asks for what was released since, of which the file has no hash.
        pip.args(["--only-binary", ":all:", "--require-hashes", "--no-deps"])
            .arg("-r")
            .arg(&pins);
        let installed = run(&mut pip)?;
        ensure!(
            installed.status.success(),
            "AgentDojo could not be installed; check the network and run again: {}",
            last_words(&installed)
        );
        let stamp = self.folder.join(STAMP);
        fs::write(&stamp, "").with_context(at(&stamp))
    }

    /// The programs are small and may have changed since.
    fn write_programs(&self) -> Result<()> {
        for (name, text) in PROGRAMS {
            let path = self.folder.join(name);
            if fs::read_to_string(&path).is_ok_and(|there| there == text) {
                continue;
            }
            // Each thread has a part of its own: several may come out of the wait for the environment at once.
            let written = tempfile::NamedTempFile::new_in(&self.folder).and_then(|mut part| {
                part.write_all(text.as_bytes())?;
                part.persist(&path).map_err(|error| error.error)
            });
            written.with_context(at(&path))?;
        }
        Ok(())
    }

    /// With the package `agentdojo` that lies in this folder, a fork's `src` for example, instead of the pinned one.
    /// What it imports beside itself is still the environment's.
    #[must_use]
    pub fn with_package(self, folder: PathBuf) -> Self {
        Self {
            package: Some(folder),
            ..self
        }
    }

    /// The export of one version of the benchmark, as JSON text; that of the pinned package is computed once.
    /// `placeholders` are those of [`Dependencies`](crate::suite::Dependencies::placeholders).
    pub fn export(
        &self,
        version: &str,
        placeholders: &BTreeMap<String, String>,
        progress: &mut dyn FnMut(&str),
    ) -> Result<String> {
        let program = PROGRAMS.iter().find(|(name, _)| *name == "export.py");
        let text = program.map_or("", |(_, text)| text);
        let mark = hex(&Sha256::digest(text.as_bytes()));
        let mark = mark.get(..8).unwrap_or_default();
        // Another package is not known by its version, and may be edited between two runs.
        let keep = self.package.is_none() && placeholders.is_empty();
        let name = if keep {
            format!("suites-{version}-{mark}.json")
        } else {
            format!("suites-{}.json", std::process::id())
        };
        let path = self.folder.join(name);
        // `export.py` writes aside and renames, so a file that exists is whole.
        if !keep || !path.exists() {
            progress(&format!("reading AgentDojo's suites, {version}"));
            let mut export = self.program("export.py");
            let placeholders = serde_json::json!(placeholders).to_string();
            export.arg(version).arg(&path).arg(placeholders);
            let done = run(&mut export)?;
            ensure!(
                done.status.success(),
                "export.py failed; delete {} and run again: {}",
                self.folder.display(),
                last_words(&done)
            );
        }
        let text = fs::read_to_string(&path).with_context(at(&path));
        if !keep {
            fs::remove_file(&path).with_context(at(&path))?;
        }
        text
    }

    /// The command that runs one of the programs.
    fn program(&self, name: &str) -> Command {
        let mut program = Command::new(&self.interpreter);
        program.arg(self.folder.join(name));
        // What the user's own Python settings say must not change a measurement.
        program.env_remove("PYTHONPATH").env("PYTHONHASHSEED", "0");
        if let Some(package) = &self.package {
            program.env("PYTHONPATH", package);
        }
        program
    }

    /// The environment's own interpreter, which has AgentDojo and pip.
    pub fn interpreter(&self) -> &Path {
        &self.interpreter
    }

    /// The command that runs tasks, in `workers` processes.
    pub fn runner(&self, workers: usize) -> Command {
        let mut runner = self.program("runner.py");
        runner.arg(workers.to_string());
        // Ctrl-C is for us; we end it, and its workers end with it.
        runner.process_group(0);
        // Loopback only: no proxy of the machine may get in between.
        for name in [
            "http_proxy",
            "https_proxy",
            "all_proxy",
            "HTTP_PROXY",
            "HTTPS_PROXY",
            "ALL_PROXY",
        ] {
            runner.env_remove(name);
        }
        runner
    }
}

/// The first interpreter that is new enough, with its version.
fn interpreter() -> Result<(PathBuf, (u32, u32))> {
    // A named interpreter is the only candidate: falling back to another would measure with one that
    // nobody asked for.
    let chosen = env::var_os(VARIABLE).map(PathBuf::from);
    let known = INTERPRETERS.iter().map(PathBuf::from);
    let mut candidates: Vec<PathBuf> = chosen.iter().cloned().collect();
    if chosen.is_none() {
        candidates.extend(known);
    }
    let found = candidates.into_iter().find_map(|path| {
        let version = version_of(&path)?;
        (version >= OLDEST).then_some((path, version))
    });
    found.with_context(|| {
        let (major, minor) = OLDEST;
        format!(
            "no Python of version {major}.{minor} or newer was found; install python3 or set {VARIABLE} to one"
        )
    })
}

fn version_of(path: &Path) -> Option<(u32, u32)> {
    let program = "import sys; print(sys.version_info[0], sys.version_info[1])";
    let output = Command::new(path)
        .args(["-I", "-c", program])
        .output()
        .ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    let (major, minor) = text.trim().split_once(' ')?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}

/// The folder that this program keeps what it fetched in: `$XDG_CACHE_HOME/sluice`, or
/// `~/.cache/sluice`.
pub fn cache_folder() -> Result<PathBuf> {
    let var = |name: &str| env::var_os(name).map(PathBuf::from);
    // The XDG rules: a relative path is to be ignored.
    let base = var("XDG_CACHE_HOME").filter(|path| path.is_absolute());
    let base = base.or_else(|| Some(var("HOME")?.join(".cache")));
    base.map(|base| base.join("sluice"))
        .context("there is no folder for AgentDojo; set XDG_CACHE_HOME or HOME")
}

fn run(command: &mut Command) -> Result<Output> {
    let path = PathBuf::from(command.get_program());
    command
        .stdin(Stdio::null())
        .output()
        .with_context(at(&path))
}

fn last_words(output: &Output) -> String {
    let said = String::from_utf8_lossy(&output.stderr);
    // The end, since that is where pip and Python name the error.
    let skipped = said.chars().count().saturating_sub(QUOTED);
    let tail: String = said.chars().skip(skipped).collect();
    tail.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn at(path: &Path) -> impl FnOnce() -> String {
    move || path.display().to_string()
}

/// Keeps two processes from making one environment. The system lets go of it when its owner ends,
/// however that went.
struct Lock {
    _held: fs::File,
}

impl Lock {
    /// Waits for whoever has it.
    fn take(path: &Path, progress: &mut dyn FnMut(&str)) -> Result<Self> {
        let file = fs::File::create(path).with_context(at(path))?;
        match file.try_lock() {
            Ok(()) => {}
            Err(fs::TryLockError::WouldBlock) => {
                progress("waiting for another process that installs AgentDojo");
                file.lock().with_context(at(path))?;
            }
            Err(fs::TryLockError::Error(error)) => return Err(error).with_context(at(path)),
        }
        Ok(Self { _held: file })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_may_write_the_programs_at_once() {
        for _ in 0..20 {
            let folder = tempfile::tempdir().unwrap();
            let python = Python {
                interpreter: PathBuf::new(),
                folder: folder.path().to_owned(),
                package: None,
            };
            std::thread::scope(|scope| {
                for _ in 0..8 {
                    scope.spawn(|| python.write_programs().unwrap());
                }
            });
            // And nothing beside them.
            assert_eq!(fs::read_dir(folder.path()).unwrap().count(), PROGRAMS.len());
        }
    }
}
