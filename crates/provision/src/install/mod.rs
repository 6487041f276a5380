//! Installing: what `npx` or `uvx` would fetch and run is fetched once, in a build spoke, into the store.
//!
//! No program of a package runs for that unless the user says so, and then it runs without any network where the
//! package manager can tell the two apart (npm), and never where a secret of the user's is.

mod error;
mod foreign;
mod node;
mod requirement;
mod settings;
mod store;
mod tree;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Component, Path, PathBuf};

use serde_json::{Value, json};

pub use self::error::InstallError;
pub use self::store::{Record, Store, StoreError};
pub use self::tree::TreeError;

use self::node::Programs;
pub use self::requirement::Registry;
pub(crate) use self::requirement::{is_of_registry, npm_name, pip_name};
use self::settings::Settings;
use self::store::Staging;
use crate::build::{self, Built, SCRATCH, SETTINGS, Step, TREE};
use crate::{Host, Needs, Package, Wanted, find};

/// Most packages with install scripts that a message names.
const MAX_NAMED: usize = 8;
/// Most bytes of a file that a package describes itself with.
const MAX_DESCRIPTION: u64 = 4 << 20;
/// The file of npm's settings, in the folder of settings.
const NPMRC: &str = "npmrc";

/// pip as `-m pip` starts it.
const PIP: &str = "import runpy; runpy.run_module('pip', run_name='__main__', alter_sys=True)";
/// pip that can start no other program, whatever a package makes it do. What it installs that way is copied, and not run, so
/// nothing of a package is there to remove the hook, which Python lets nobody do anyway. An `OSError`, which pip expects
/// where a program is not there that tells it about the system.
const PIP_ALONE: &str = "import runpy, sys
def alone(event, arguments):
    if event == 'subprocess.Popen' or event.startswith(('os.exec', 'os.fork', 'os.posix_spawn', 'os.spawn', 'os.system')):
        raise PermissionError('what is no wheel is built by a program, and programs run with --scripts only')
sys.addaudithook(alone)
runpy.run_module('pip', run_name='__main__', alter_sys=True)";

/// What was installed.
#[derive(Debug)]
pub struct Installed {
    /// What is known of it; nothing is kept of it yet but the tree.
    pub record: Record,
    /// Packages whose install scripts were not run.
    pub unrun: Vec<String>,
    /// Programs of Node in packages of Python that have no modules, each with the reason.
    pub unsupplied: Vec<(PathBuf, String)>,
    /// A newer version, which has no wheel.
    pub newer: Option<String>,
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

/// What the installation of a package gave.
struct Come {
    version: String,
    entry: PathBuf,
    /// Packages whose install scripts did not run.
    unrun: Vec<String>,
    /// Programs of Node that have no modules, each with the reason.
    unsupplied: Vec<(PathBuf, String)>,
    newer: Option<String>,
    /// What stands in the `#!` lines that were written.
    interpreter: Option<PathBuf>,
    /// What parts of it start by name.
    programs: Vec<String>,
}

impl Installer<'_> {
    /// Installs what a launcher would fetch, for an app. The store has the tree then, and no record of it yet.
    ///
    /// # Errors
    /// [`InstallError`]; nothing is left behind.
    pub fn install(&self, app: &str, package: &Package) -> Result<Installed, InstallError> {
        for requirement in package.with.iter().chain([&package.requirement]) {
            if !is_of_registry(requirement, package.registry) {
                return Err(InstallError::Requirement(requirement.clone()));
            }
        }
        // In the store's own file system, so that the finished tree is moved there at once or not at all.
        let staging = self.store.staging(app)?;
        let come = match package.registry {
            Registry::Npm => self.npm(&staging, package)?,
            Registry::PyPi => self.pip(&staging, package)?,
        };
        let sha256 = staging.keep()?;
        let record = Record {
            app: app.to_owned(),
            registry: package.registry,
            requirement: package.requirement.clone(),
            with: package.with.clone(),
            python: package.python.clone(),
            program: package.program.clone(),
            version: come.version,
            sha256,
            entry: come.entry,
            interpreter: come.interpreter,
            programs: come.programs,
            scripts: self.scripts,
            tools: None,
            reviewed: false,
            tried: Vec::new(),
        };
        Ok(Installed {
            record,
            unrun: come.unrun,
            unsupplied: come.unsupplied,
            newer: come.newer,
        })
    }

    fn npm(&self, staging: &Staging, package: &Package) -> Result<Come, InstallError> {
        let npm = settings::program(self.host, "npm")?;
        let settings = settings::of_npm(&npm)?;
        let mut command = npm_install(&npm);
        command.extend(named(package));
        self.step(staging, &staging.tree, &command, settings, npm_env())?;
        let mut unrun = with_scripts(&staging.tree);
        if self.scripts && !unrun.is_empty() {
            // One script after the other: npm 9 starts as many at a time as there are processors, and no spoke sees any, so
            // that it would start none and wait for good.
            let words = format!("rebuild --prefix {TREE} --foreground-scripts --loglevel=error");
            let rebuild = command_line(&npm, &words);
            // Programs of packages run in this step, so it has neither the settings with the secrets nor a network.
            let settings = Settings::default();
            self.step(staging, &staging.tree, &rebuild, settings, npm_env())?;
            unrun.clear();
        }
        let name = npm_name(&package.requirement);
        let folder = staging.tree.join("node_modules").join(name);
        let (version, entry) =
            npm_program(&staging.tree, &folder, name, package.program.as_deref())?;
        Ok(Come {
            version,
            entry,
            unrun,
            unsupplied: Vec::new(),
            newer: None,
            // Node's programs name `env`, and none is written here.
            interpreter: None,
            programs: Vec::new(),
        })
    }

    fn pip(&self, staging: &Staging, package: &Package) -> Result<Come, InstallError> {
        let python = settings::python(self.host, package.python.as_deref())?;
        let settings = settings::of_pip(&python)?;
        if self.scripts && settings.secret {
            return Err(InstallError::SecretBesideScripts);
        }
        // `-I`: no module comes from where a variable says, or from the working directory, which is the tree that strangers'
        // packages are written into.
        let mut command = command_line(&python, "-I -c");
        command.push(if self.scripts { PIP } else { PIP_ALONE }.to_owned());
        let install = format!(
            "install --target {TREE}/site --no-input --no-cache-dir --disable-pip-version-check --no-warn-script-location"
        );
        command.extend(words(&install));
        if !self.scripts {
            // A source is built by programs in it. That holds for what a registry lists, and not for a dependency that is an
            // address: such a one ends at what `PIP_ALONE` refuses.
            command.extend(words("--only-binary :all:"));
        }
        command.extend(named(package));
        let ran = self.step(staging, &staging.tree, &command, settings, Vec::new())?;
        // That one is found as the user means it, which need not be the one of the system.
        let (supplied, unsupplied) = self.modules_for(staging)?;
        let node = supplied.then(|| "node".to_owned());
        let name = pip_name(&package.requirement);
        let program = package.program.as_deref().unwrap_or(name);
        let entry = Path::new("site/bin").join(program);
        if !is_plain(program) || !is_file_inside(&staging.tree, &entry) {
            let what = format!("has no program '{}'", program.escape_debug());
            let package = name.to_owned();
            return Err(InstallError::NoProgram { package, what });
        }
        let version = pip_version(&staging.tree.join("site"), name);
        // A requirement with a version asks for no other.
        let newest = match !self.scripts && !package.requirement.contains(['=', '<', '>', '~']) {
            true => self.newest(staging, &python, name),
            false => None,
        };
        Ok(Come {
            newer: newest.filter(|newest| *newest != version),
            version,
            entry,
            unrun: Vec::new(),
            unsupplied,
            interpreter: Some(ran),
            programs: Vec::from_iter(node),
        })
    }

    /// The newest version of a package for this Python, with a wheel or as a source alone; `None` if pip does not say it.
    fn newest(&self, staging: &Staging, python: &Path, name: &str) -> Option<String> {
        let mut command = command_line(python, "-I -c");
        command.push(PIP_ALONE.to_owned());
        command.extend(words(
            "index versions --no-input --disable-pip-version-check --",
        ));
        command.push(name.to_owned());
        let folder = staging.fresh().ok()?;
        let settings = settings::of_pip(python).ok()?;
        let (_, said) = self
            .run(staging, folder.path(), &command, settings, Vec::new())
            .ok()?;
        let version = said.lines().find_map(|line| {
            line.strip_prefix(name)?
                .strip_prefix(" (")?
                .strip_suffix(')')
        });
        version.map(|version| shown_version(Some(version)))
    }

    /// Installs the modules of programs of Node that lie in packages of Python. A few such packages have npm
    /// fetch them beside the program when they are first used; installed here, they are found there. Without
    /// npm on this machine nothing is done, since such a package cannot use it either. Returns whether there is
    /// such a package, and the programs whose modules cannot be installed.
    fn modules_for(
        &self,
        staging: &Staging,
    ) -> Result<(bool, Vec<(PathBuf, String)>), InstallError> {
        let site = staging.tree.join("site");
        let Programs {
            unsupplied,
            mut refused,
        } = node::programs(&site);
        let Ok(npm) = settings::program(self.host, "npm") else {
            return Ok((false, Vec::new()));
        };
        for (_, why) in &mut refused {
            *why = format!("its dependency '{why}' is not a registry package");
        }
        for program in &unsupplied {
            // npm reads settings of the folder that it installs into (`.npmrc`), which name programs that it starts. So it
            // does not see the package's folder, and works in one that has names and versions alone.
            let fresh = staging.fresh()?;
            let fresh = fresh.path();
            let failed = |error: std::io::Error| InstallError::Spoke(error.to_string());
            let description = json!({ "dependencies": program.dependencies });
            fs::write(fresh.join("package.json"), description.to_string()).map_err(failed)?;
            let settings = settings::of_npm(&npm)?;
            let command = npm_install(&npm);
            match self.step(staging, fresh, &command, settings, npm_env()) {
                // The package may do without that program.
                Err(InstallError::Failed { said, .. }) => {
                    let last = said.lines().rfind(|line| !line.trim().is_empty());
                    let why = format!("npm failed: {}", last.unwrap_or("it says nothing"));
                    refused.push((program.folder.clone(), why));
                    continue;
                }
                done => done?,
            };
            // Nothing of the package runs any more, so that the folder is still the one that was found.
            let modules = program.folder.join("node_modules");
            fs::rename(fresh.join("node_modules"), modules).map_err(failed)?;
        }
        for (folder, _) in &mut refused {
            *folder = folder.strip_prefix(&site).unwrap_or(folder).to_owned();
        }
        Ok((!unsupplied.is_empty(), refused))
    }

    /// Runs a step of the package manager, with the user's settings for its registries. Returns the program
    /// that ran.
    ///
    /// A step gets nothing of an earlier one but the tree. Programs of packages may have run in that, and what they left
    /// in its scratch folder would be settings, a cache or links for this one, and for this process.
    fn step(
        &self,
        staging: &Staging,
        tree: &Path,
        command: &[String],
        settings: Settings,
        env: Vec<(String, String)>,
    ) -> Result<PathBuf, InstallError> {
        let (ran, _) = self.run(staging, tree, command, settings, env)?;
        Ok(ran)
    }

    /// The same, with what the program said at its end.
    fn run(
        &self,
        staging: &Staging,
        tree: &Path,
        command: &[String],
        settings: Settings,
        env: Vec<(String, String)>,
    ) -> Result<(PathBuf, String), InstallError> {
        let wanted = Wanted {
            command,
            env: &BTreeMap::new(),
            // Mounts of the build: what the host has under the same names is of no interest.
            given: &[TREE, SCRATCH, SETTINGS].map(PathBuf::from),
            writable: &[],
            folders: &[],
            interpreter: None,
            programs: &[],
            folder: Path::new("/"),
            data: false,
        };
        let needs: Needs = find(self.host, &wanted)?;
        let ran = needs.command.first().map(PathBuf::from);
        let mut all = vec![("PATH".to_owned(), "/usr/local/bin:/usr/bin:/bin".to_owned())];
        all.extend(settings.env);
        all.extend(env);
        let scratch = staging.fresh()?;
        // In a folder of its own, into which no step can write: nobody else decides what lies under the name.
        let own = staging.fresh()?;
        if !settings.file.is_empty() {
            fs::write(own.path().join(NPMRC), &settings.file)
                .map_err(|error| InstallError::Spoke(error.to_string()))?;
        }
        let step = Step {
            program: self.program,
            needs,
            env: all,
            tree,
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
            true => Ok((ran.unwrap_or_default(), said)),
            false => Err(InstallError::Failed { said, refused }),
        }
    }
}

fn words(text: &str) -> impl Iterator<Item = String> {
    text.split(' ').map(str::to_owned)
}

/// A program with these words as its arguments.
fn command_line(program: &Path, arguments: &str) -> Vec<String> {
    let program = program.to_string_lossy().into_owned();
    std::iter::once(program).chain(words(arguments)).collect()
}

/// The requested packages as the last arguments of a command.
fn named(package: &Package) -> impl Iterator<Item = String> {
    let packages = package.with.iter().chain([&package.requirement]);
    std::iter::once("--".to_owned()).chain(packages.cloned())
}

/// npm's command to install into the tree.
fn npm_install(npm: &Path) -> Vec<String> {
    // A dependency that is a repository is prepared by what its own folder says, its settings included. Older versions have
    // no word for that (`--allow-git`), and are given a git that does not start.
    let words = format!(
        "install --prefix {TREE} --ignore-scripts --allow-git=none --git=/dev/null --no-audit --no-fund --omit=dev \
         --loglevel=error"
    );
    command_line(npm, &words)
}

fn npm_env() -> Vec<(String, String)> {
    let env = [
        ("npm_config_userconfig", format!("{SETTINGS}/{NPMRC}")),
        // A file that is not there: what a build needs of the machine's settings was copied into the one above.
        ("npm_config_globalconfig", format!("{SETTINGS}/none")),
        ("npm_config_cache", format!("{SCRATCH}/cache")),
        ("npm_config_update_notifier", "false".to_owned()),
    ];
    env.map(|(name, value)| (name.to_owned(), value)).into()
}

/// Version and program of an installed package. What the package says of itself is a stranger's.
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
        Some(Value::String(path)) => Some(path.as_str()),
        Some(Value::Object(all)) => {
            let named = all.get(wanted.unwrap_or(unscoped));
            let mut only = all.values().filter(|_| all.len() == 1 && wanted.is_none());
            named.or(only.next()).and_then(Value::as_str)
        }
        _ => None,
    };
    let Some(program) = program.map(Path::new) else {
        let what =
            "has no program, or several and none of its own name; name one: npx -p PACKAGE PROGRAM";
        return refuse(what.to_owned());
    };
    // By its text first, and by what its links lead to afterwards.
    let plain = |part| matches!(part, Component::Normal(_) | Component::CurDir);
    let shown = program.display();
    if !program.components().all(plain) {
        return refuse(format!("names a program outside of it, '{shown}'"));
    }
    let entry = within.join(program);
    let parts = entry.components().filter(|part| *part != Component::CurDir);
    let entry: PathBuf = parts.collect();
    if !is_file_inside(tree, &entry) {
        let what = format!("has no file '{shown}' of its own, which it names as its program");
        return refuse(what);
    }
    let version = description.get("version").and_then(Value::as_str);
    Ok((shown_version(version), entry))
}

/// A version as a package writes it, as far as it is one.
fn shown_version(version: Option<&str>) -> String {
    let fits = |c: &char| c.is_ascii_alphanumeric() || ".-+".contains(*c);
    let version = version.unwrap_or("unknown").chars();
    version.filter(fits).take(64).collect()
}

/// The version in the name of a package's folder of facts, `NAME-VERSION.dist-info`.
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
    let (end, tree) = (tree.join(path).canonicalize(), tree.canonicalize());
    end.is_ok_and(|end| end.is_file() && tree.is_ok_and(|tree| end.starts_with(tree)))
}

fn is_plain(name: &str) -> bool {
    !name.is_empty() && !name.contains(['/', '\0']) && name != "." && name != ".."
}

/// The packages that have install scripts, by npm's own list.
fn with_scripts(tree: &Path) -> Vec<String> {
    let list = description(tree, Path::new("node_modules/.package-lock.json")).unwrap_or_default();
    let packages = list.get("packages").and_then(Value::as_object);
    let has_script = |package: &Value| package.get("hasInstallScript") == Some(&Value::Bool(true));
    let scripted = packages.into_iter().flatten();
    let scripted = scripted.filter(|(_, package)| has_script(package));
    let names = scripted.map(|(path, _)| path.trim_start_matches("node_modules/").to_owned());
    names.take(MAX_NAMED).collect()
}

/// What a file of the tree says, if it is one.
fn description(tree: &Path, inside: &Path) -> Option<Value> {
    let text = foreign::read(tree, inside, MAX_DESCRIPTION).ok()?;
    serde_json::from_slice(&text).ok()
}
