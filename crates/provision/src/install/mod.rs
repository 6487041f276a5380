//! Installs packages that `npx` or `uvx` would fetch and run: once, in a build spoke, into the store.
//!
//! No program of a package runs meanwhile unless the user allows it. Then it runs without a network where the package manager
//! has a separate step for it (npm), and never in a step that has a secret of the user's.

mod error;
mod foreign;
mod requirement;
mod settings;
mod store;
mod tree;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Component, Path, PathBuf};

use serde_json::Value;

pub use self::error::InstallError;
pub use self::store::{Record, Store, StoreError};
pub use self::tree::TreeError;

use self::requirement::{is_of_registry, npm_name, pip_name};
use self::settings::Settings;
use self::store::Staging;
use crate::build::{self, Built, SCRATCH, SETTINGS, Step, TREE};
use crate::{Host, Needs, Package, Registry, Wanted, find};

/// Most packages with install scripts that a message names.
const MAX_NAMED: usize = 8;
/// Most bytes of a `package.json`, and of npm's list of packages.
const MAX_DESCRIPTION: u64 = 4 << 20;
/// The name of npm's settings file in the folder of settings.
const NPMRC: &str = "npmrc";

/// pip as `-m pip` starts it.
const PIP: &str = "import runpy; runpy.run_module('pip', run_name='__main__', alter_sys=True)";
/// pip that can start no other program. Packages are copied and not run, and an audit hook cannot be removed. The error is an
/// `OSError`, which pip expects where a program that describes the system is missing.
const PIP_ALONE: &str = "import runpy, sys
def alone(event, arguments):
    if event == 'subprocess.Popen' or event.startswith(('os.exec', 'os.fork', 'os.posix_spawn', 'os.spawn', 'os.system')):
        raise PermissionError('a package that is not a wheel is built by a program, which needs --scripts')
sys.addaudithook(alone)
runpy.run_module('pip', run_name='__main__', alter_sys=True)";

/// An installed package.
#[derive(Debug)]
pub struct Installed {
    /// Its record, which is not saved yet.
    pub record: Record,
    /// Packages whose install scripts were not run.
    pub unrun: Vec<String>,
}

/// Installs packages.
#[derive(Debug)]
pub struct Installer<'a> {
    /// This machine.
    pub host: &'a Host,
    /// Where to.
    pub store: &'a Store,
    /// The binary `sluice-build`.
    pub program: &'a Path,
    /// Whether programs of packages may run.
    pub scripts: bool,
}

/// The result of a package manager.
struct Fetched {
    version: String,
    /// The program, relative to the tree.
    entry: PathBuf,
    /// Packages whose install scripts did not run.
    unrun: Vec<String>,
    /// The interpreter in the `#!` lines that the package manager wrote.
    interpreter: Option<PathBuf>,
}

impl Installer<'_> {
    /// Installs a package for an app into the store. Its record is not saved yet.
    ///
    /// # Errors
    /// [`InstallError`]; nothing is left behind.
    pub fn install(&self, app: &str, package: &Package) -> Result<Installed, InstallError> {
        for requirement in package.with.iter().chain([&package.requirement]) {
            if !is_of_registry(requirement, package.registry) {
                return Err(InstallError::Requirement {
                    requirement: requirement.clone(),
                });
            }
        }
        // In the store's own file system, so that the finished tree is moved there atomically.
        let staging = self.store.staging(app)?;
        let fetched = match package.registry {
            Registry::Npm => self.npm(&staging, package)?,
            Registry::PyPi => self.pip(&staging, package)?,
        };
        let sha256 = staging.keep()?;
        let record = Record {
            app: app.to_owned(),
            registry: package.registry,
            requirement: package.requirement.clone(),
            with: package.with.clone(),
            program: package.program.clone(),
            version: fetched.version,
            sha256,
            entry: fetched.entry,
            interpreter: fetched.interpreter,
            scripts: self.scripts,
            tools: None,
            reviewed: false,
            tried: Vec::new(),
        };
        Ok(Installed {
            record,
            unrun: fetched.unrun,
        })
    }

    fn npm(&self, staging: &Staging, package: &Package) -> Result<Fetched, InstallError> {
        let npm = settings::program(self.host, "npm")?;
        let settings = settings::of_npm(&npm)?;
        // `--allow-git=none`: a dependency in a repository is prepared by that repository's own settings. Older versions do
        // not know the option, and are given a git that does not start.
        let options = format!(
            "install --prefix {TREE} --ignore-scripts --allow-git=none --git=/dev/null --no-audit --no-fund --omit=dev \
             --loglevel=error --"
        );
        let mut command = words(&npm, &options);
        command.extend(package.with.iter().chain([&package.requirement]).cloned());
        self.step(staging, &command, settings, npm_env())?;
        let mut unrun = with_scripts(&staging.tree);
        if self.scripts && !unrun.is_empty() {
            // In the foreground, one after the other: npm 9 starts as many at once as it sees processors, and a spoke shows
            // none, so it would wait forever.
            let options = format!("rebuild --prefix {TREE} --foreground-scripts --loglevel=error");
            // Programs of packages run in this step, so it has neither the settings with the secrets nor a network.
            let settings = Settings::default();
            self.step(staging, &words(&npm, &options), settings, npm_env())?;
            unrun.clear();
        }
        let name = npm_name(&package.requirement);
        let folder = staging.tree.join("node_modules").join(name);
        let (version, entry) =
            npm_program(&staging.tree, &folder, name, package.program.as_deref())?;
        Ok(Fetched {
            version,
            entry,
            unrun,
            // Node's programs name `env`.
            interpreter: None,
        })
    }

    fn pip(&self, staging: &Staging, package: &Package) -> Result<Fetched, InstallError> {
        let python = settings::program(self.host, "python3")?;
        let settings = settings::of_pip(&python)?;
        if self.scripts && settings.secret {
            return Err(InstallError::SecretBesideScripts);
        }
        let mut command = vec![python.to_string_lossy().into_owned()];
        // `-I`: no module comes from a variable, or from the working directory, into which packages are written.
        let pip = if self.scripts { PIP } else { PIP_ALONE };
        command.extend(["-I", "-c", pip].map(str::to_owned));
        let options = format!(
            "install --target {TREE}/site --no-input --no-cache-dir --disable-pip-version-check --no-warn-script-location"
        );
        command.extend(options.split_ascii_whitespace().map(str::to_owned));
        if !self.scripts {
            // A source package runs programs when it is built. A dependency that is an address gets past this option, and
            // ends at `PIP_ALONE`.
            command.extend(["--only-binary", ":all:"].map(str::to_owned));
        }
        command.push("--".to_owned());
        command.extend(package.with.iter().chain([&package.requirement]).cloned());
        let ran = self.step(staging, &command, settings, Vec::new())?;
        let name = pip_name(&package.requirement);
        let program = package.program.as_deref().unwrap_or(name);
        let entry = Path::new("site/bin").join(program);
        if !is_plain(program) || !is_file_inside(&staging.tree, &entry) {
            let what = format!("has no program '{}'", program.escape_debug());
            let package = name.to_owned();
            return Err(InstallError::NoProgram { package, what });
        }
        Ok(Fetched {
            version: pip_version(&staging.tree.join("site"), name),
            entry,
            unrun: Vec::new(),
            interpreter: Some(ran),
        })
    }

    /// Runs a step of the package manager with the user's settings for its registries, and returns the program that ran.
    ///
    /// A step shares only the tree with an earlier one: programs of packages may have run in that, and files of theirs in the
    /// scratch folder would be settings, a cache or links for this step and this process.
    fn step(
        &self,
        staging: &Staging,
        command: &[String],
        settings: Settings,
        env: Vec<(String, String)>,
    ) -> Result<PathBuf, InstallError> {
        let wanted = Wanted {
            command,
            env: &BTreeMap::new(),
            // Mounts of the build hide these places of the host.
            given: &[TREE, SCRATCH, SETTINGS].map(PathBuf::from),
            writable: &[],
            folders: &[],
            interpreter: None,
            folder: Path::new("/"),
            data: false,
        };
        let needs: Needs = find(self.host, &wanted)?;
        let ran = needs.command.first().map(PathBuf::from);
        let mut all = vec![("PATH".to_owned(), "/usr/local/bin:/usr/bin:/bin".to_owned())];
        all.extend(settings.env);
        all.extend(env);
        let scratch = staging.fresh()?;
        // In a folder of its own, into which no step can write.
        let own = staging.fresh()?;
        if !settings.file.is_empty() {
            fs::write(own.path().join(NPMRC), &settings.file)
                .map_err(|error| InstallError::Spoke(error.to_string()))?;
        }
        let step = Step {
            program: self.program,
            needs,
            env: all,
            tree: &staging.tree,
            scratch: scratch.path(),
            settings: own.path(),
            hosts: settings.hosts,
        };
        let Built {
            done,
            said,
            refused,
        } = build::run(step).map_err(InstallError::Spoke)?;
        match done {
            true => Ok(ran.unwrap_or_default()),
            false => Err(InstallError::Failed { said, refused }),
        }
    }
}

/// A command with options, which have no spaces in them.
fn words(program: &Path, options: &str) -> Vec<String> {
    let program = program.to_string_lossy().into_owned();
    let options = options.split_ascii_whitespace().map(str::to_owned);
    std::iter::once(program).chain(options).collect()
}

fn npm_env() -> Vec<(String, String)> {
    let env = [
        ("npm_config_userconfig", format!("{SETTINGS}/{NPMRC}")),
        // A missing file: the settings that a build needs are in the one above.
        ("npm_config_globalconfig", format!("{SETTINGS}/none")),
        ("npm_config_cache", format!("{SCRATCH}/cache")),
        ("npm_config_update_notifier", "false".to_owned()),
    ];
    env.map(|(name, value)| (name.to_owned(), value)).into()
}

/// Version and program of an installed package, by its own `package.json`, which is a stranger's.
fn npm_program(
    tree: &Path,
    folder: &Path,
    name: &str,
    wanted: Option<&str>,
) -> Result<(String, PathBuf), InstallError> {
    let refuse = |what: String| {
        Err(InstallError::NoProgram {
            package: name.to_owned(),
            what,
        })
    };
    let within = folder.strip_prefix(tree).unwrap_or(folder);
    let Some(description) = description(tree, &within.join("package.json")) else {
        return refuse("does not describe itself".to_owned());
    };
    let unscoped = name.rsplit('/').next().unwrap_or(name);
    let program = match description.get("bin") {
        Some(Value::Object(all)) => match (all.get(wanted.unwrap_or(unscoped)), wanted) {
            (None, None) if all.len() == 1 => all.values().next(),
            (named, _) => named,
        },
        path => path,
    };
    let program = program.and_then(Value::as_str);
    let Some(program) = program else {
        return refuse(
            "has no program, or several and none of its own name; name one: npx -p PACKAGE PROGRAM"
                .to_owned(),
        );
    };
    let program = Path::new(program);
    // By its text first; `is_file_inside` checks where links lead.
    let plain = |part| matches!(part, Component::Normal(_) | Component::CurDir);
    if !program.components().all(plain) {
        let shown = program.display();
        return refuse(format!("names a program outside of it, '{shown}'"));
    }
    let entry: PathBuf = within
        .join(program)
        .components()
        .filter(|part| *part != Component::CurDir)
        .collect();
    if !is_file_inside(tree, &entry) {
        let shown = program.display();
        return refuse(format!(
            "has no file '{shown}', which it names as its program"
        ));
    }
    let version = description.get("version").and_then(Value::as_str);
    Ok((shown_version(version), entry))
}

/// A version as a package writes it, without characters that versions do not have.
fn shown_version(version: Option<&str>) -> String {
    let fits = |c: &char| c.is_ascii_alphanumeric() || ".-+".contains(*c);
    version
        .unwrap_or("unknown")
        .chars()
        .filter(fits)
        .take(64)
        .collect()
}

/// The version in the name of a package's metadata folder, `NAME-VERSION.dist-info`.
fn pip_version(site: &Path, name: &str) -> String {
    let plain = |name: &str| name.to_ascii_lowercase().replace(['-', '.'], "_");
    let entries = fs::read_dir(site).into_iter().flatten().flatten();
    let found = entries.filter_map(|entry| {
        let folder = entry.file_name().into_string().ok()?;
        let (own, version) = folder.strip_suffix(".dist-info")?.rsplit_once('-')?;
        (plain(own) == plain(name)).then(|| version.to_owned())
    });
    shown_version(found.min().as_deref())
}

/// Whether a path of the tree is a file there, over links too.
fn is_file_inside(tree: &Path, path: &Path) -> bool {
    let end = tree.join(path).canonicalize();
    end.is_ok_and(|end| {
        end.is_file() && tree.canonicalize().is_ok_and(|tree| end.starts_with(tree))
    })
}

fn is_plain(name: &str) -> bool {
    !name.is_empty() && !name.contains(['/', '\0']) && name != "." && name != ".."
}

/// The packages that have install scripts, by npm's own list.
fn with_scripts(tree: &Path) -> Vec<String> {
    let list = description(tree, Path::new("node_modules/.package-lock.json")).unwrap_or_default();
    let packages = list
        .get("packages")
        .and_then(Value::as_object)
        .into_iter()
        .flatten();
    let scripted =
        packages.filter(|(_, package)| package.get("hasInstallScript") == Some(&Value::Bool(true)));
    scripted
        .map(|(path, _)| path.trim_start_matches("node_modules/").to_owned())
        .take(MAX_NAMED)
        .collect()
}

/// A JSON file of the tree.
fn description(tree: &Path, inside: &Path) -> Option<Value> {
    let text = foreign::read(tree, inside, MAX_DESCRIPTION).ok()?;
    serde_json::from_slice(&text).ok()
}
