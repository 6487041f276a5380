//! The tree below `/usr`, of which the parts of a release are made.

use std::env;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};

use super::sbom;
use crate::phases::Phases;
use crate::{cargo, output, own_folder, run};

/// The programs of a release. The embedded model is a package of its own, which needs a C++ library.
pub(super) const PROGRAMS: [&str; 4] = ["sluice", "sluice-spoke", "sluice-remote", "sluice-build"];
/// The C library of the oldest supported Debian, bookworm.
pub(super) const OLDEST_GLIBC: (u32, u32) = (2, 36);
/// Where completions of a shell are looked for below `/usr`.
const COMPLETIONS: [(&str, &str); 3] = [
    ("bash", "share/bash-completion/completions/sluice"),
    ("zsh", "share/zsh/vendor-completions/_sluice"),
    ("fish", "share/fish/vendor_completions.d/sluice.fish"),
];

/// Pages and notices, below `/usr`.
const DOCS: &str = "share/doc/sluice";
/// The bill of materials among them.
const BILL: &str = "sbom.cdx.json";

/// What is made, and of what.
pub(crate) struct Options {
    pub(crate) only: Vec<String>,
    pub(crate) bins: Option<PathBuf>,
    pub(crate) release: Option<String>,
    pub(crate) out: PathBuf,
}

/// A release while it is made.
pub(super) struct Release {
    pub(super) version: String,
    /// The workspace.
    pub(super) root: PathBuf,
    /// Where the files go.
    pub(super) out: PathBuf,
    /// What goes below `/usr`.
    pub(super) usr: PathBuf,
    /// The newest version of the C library that the programs ask for.
    pub(super) glibc: (u32, u32),
    /// The time of the commit, in seconds.
    pub(super) epoch: String,
}

impl Release {
    pub(super) fn of(options: &Options, phases: &mut Phases) -> Result<Self> {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent();
        let root = root.context("xtask is in no workspace")?.to_owned();
        let version = match &options.release {
            Some(version) => version.clone(),
            None => sbom::version(&root)?,
        };
        let bins = match &options.bins {
            Some(folder) => folder.clone(),
            None => phases.time("build", || build(&root))?,
        };
        let git = |arguments: &[&str]| output("git", arguments).ok();
        let epoch = env::var("SOURCE_DATE_EPOCH").ok();
        let epoch = epoch.or_else(|| git(&["log", "-1", "--format=%ct"]));
        fs::create_dir_all(&options.out)?;
        let out = options.out.canonicalize()?;
        let usr = out.join("stage/usr");
        // What an earlier run has left would be packed too.
        for folder in ["stage", "work"].map(|name| out.join(name)) {
            if folder.exists() {
                fs::remove_dir_all(folder)?;
            }
        }
        let mut release = Self {
            version,
            root,
            usr,
            out,
            glibc: (0, 0),
            epoch: epoch.unwrap_or_else(|| "0".to_owned()),
        };
        phases.time("stage", || release.stage(&bins))?;
        Ok(release)
    }

    /// Puts together what goes below `/usr`.
    fn stage(&mut self, bins: &Path) -> Result<()> {
        let programs = self.usr.join("lib/sluice");
        for name in PROGRAMS {
            let to = programs.join(name);
            put(&bins.join(name), &to, 0o755)?;
            run(Command::new("strip").arg(&to))?;
            self.glibc = self.glibc.max(newest_glibc(&to)?);
        }
        let ((major, minor), (oldest, least)) = (self.glibc, OLDEST_GLIBC);
        ensure!(
            self.glibc <= OLDEST_GLIBC,
            "the programs need glibc {major}.{minor}, and the oldest supported Debian has {oldest}.{least}; build them there",
        );
        fs::create_dir_all(self.usr.join("bin"))?;
        symlink("../lib/sluice/sluice", self.usr.join("bin/sluice"))?;
        let sluice = programs.join("sluice").to_string_lossy().into_owned();
        for (shell, place) in COMPLETIONS {
            let script = output(&sluice, &["completions", shell])?;
            write(&self.usr.join(place), &(script + "\n"))?;
        }
        let pages = self.usr.join("share/man/man1");
        fs::create_dir_all(&pages)?;
        output(&sluice, &["man", &pages.to_string_lossy()])?;
        for page in fs::read_dir(&pages)? {
            run_quietly(Command::new("gzip").arg("-9n").arg(page?.path()))?;
        }
        let (docs, share) = (self.usr.join(DOCS), self.usr.join("share/sluice"));
        put(&self.root.join("LICENSE"), &docs.join("copyright"), 0o644)?;
        put(&self.root.join("README.md"), &docs.join("README.md"), 0o644)?;
        for page in fs::read_dir(self.root.join("docs"))? {
            let page = page?;
            if page.path().extension().is_some_and(|it| it == "md") {
                put(&page.path(), &docs.join(page.file_name()), 0o644)?;
            }
        }
        let bill = sbom::document(&self.root, &self.version)?;
        write(&docs.join(BILL), &bill)?;
        fs::create_dir_all(&share)?;
        for folder in ["dist/container", "dist/helm", "docs/grafana"] {
            let mut copy = Command::new("cp");
            run_quietly(copy.arg("-r").arg(self.root.join(folder)).arg(&share))?;
        }
        let profile = self.root.join("dist/container/seccomp.json");
        put(&profile, &share.join("seccomp.json"), 0o644)?;
        for kind in ["system", "user"] {
            let unit = self.root.join(format!("dist/systemd/{kind}.service"));
            let place = format!("lib/systemd/{kind}/sluice.service");
            put(&unit, &self.usr.join(place), 0o644)?;
        }
        Ok(())
    }

    pub(super) fn tarball(&self) -> Result<PathBuf> {
        let name = format!("sluice-{}-{}-linux", self.version, env::consts::ARCH);
        let file = self.out.join(format!("{name}.tar"));
        let mut tar = self.tar(&file, &self.usr);
        run_quietly(tar.arg(format!("--transform=s,^\\.,{name},S")).arg("."))?;
        gzip(&file)
    }

    pub(super) fn written_sbom(&self) -> Result<PathBuf> {
        let file = self.out.join(format!("sluice-{}.cdx.json", self.version));
        put(&self.usr.join(DOCS).join(BILL), &file, 0o644)?;
        Ok(file)
    }

    /// A `tar` that writes a new archive of a folder; what of it is added by the caller.
    pub(super) fn tar(&self, file: &Path, folder: &Path) -> Command {
        let mut tar = self.tar_of("0", file, folder);
        tar.args(["--create", "--sort=name"]);
        tar
    }

    /// A `tar` of files that are this user's; whether it makes or continues an archive is added by the caller.
    pub(super) fn tar_of(&self, owner: &str, file: &Path, folder: &Path) -> Command {
        let mut tar = Command::new("tar");
        let [owner, group] = ["owner", "group"].map(|whose| format!("--{whose}={owner}"));
        tar.args(["--numeric-owner", &owner, &group]);
        tar.arg(format!("--mtime=@{}", self.epoch));
        tar.arg("--directory").arg(folder).arg("--file").arg(file);
        tar
    }
}

/// Builds the programs, without their symbols, and returns their folder.
fn build(root: &Path) -> Result<PathBuf> {
    let mut build = cargo(["build", "--release", "--locked", "--package", "sluice"]);
    build.current_dir(root);
    // Panics name files of crates without the folders of this machine.
    let home = env::var("HOME").map(|home| home + "/.cargo");
    let cargo = env::var("CARGO_HOME").or(home)?;
    let folders = [(&*cargo, "cargo"), (&*root.to_string_lossy(), "sluice")];
    let flags = folders.map(|(from, to)| format!(" --remap-path-prefix={from}={to}"));
    let given = env::var("RUSTFLAGS").unwrap_or_default();
    build.env("RUSTFLAGS", given + &flags.concat());
    if env::var_os("SLUICE_COMMIT").is_none()
        && let Ok(commit) = output("git", &["rev-parse", "--short=12", "HEAD"])
    {
        build.env("SLUICE_COMMIT", commit);
    }
    run(&mut build)?;
    let debug = own_folder()?;
    let target = debug.parent().context("xtask is in no target folder")?;
    Ok(target.join("release"))
}

/// The processor of this machine, as packages and images name it.
pub(super) fn architecture() -> Result<&'static str> {
    match env::consts::ARCH {
        "x86_64" => Ok("amd64"),
        "aarch64" => Ok("arm64"),
        other => bail!("no package is made for {other}"),
    }
}

/// The newest version of the C library that a program asks for.
pub(super) fn newest_glibc(program: &Path) -> Result<(u32, u32)> {
    let path = program.to_string_lossy();
    let text = output("readelf", &["--version-info", "--wide", &path])?;
    let versions = text.split_whitespace().filter_map(|word| {
        let (major, rest) = word.strip_prefix("GLIBC_")?.split_once('.')?;
        let minor = rest.split('.').next()?;
        Some((major.parse().ok()?, minor.parse().ok()?))
    });
    versions
        .max()
        .with_context(|| format!("{path} asks for no version of glibc"))
}

pub(super) fn put(from: &Path, to: &Path, mode: u32) -> Result<()> {
    if let Some(folder) = to.parent() {
        fs::create_dir_all(folder)?;
    }
    fs::copy(from, to).with_context(|| format!("cannot copy {}", from.display()))?;
    fs::set_permissions(to, fs::Permissions::from_mode(mode))?;
    Ok(())
}

pub(super) fn write(file: &Path, text: &str) -> Result<()> {
    if let Some(folder) = file.parent() {
        fs::create_dir_all(folder)?;
    }
    fs::write(file, text).with_context(|| format!("cannot write {}", file.display()))
}

/// Replaces a file by its compressed form, and returns that.
pub(super) fn gzip(file: &Path) -> Result<PathBuf> {
    run_quietly(Command::new("gzip").args(["-9n", "--force"]).arg(file))?;
    let mut name = file.as_os_str().to_owned();
    name.push(".gz");
    Ok(name.into())
}

/// Runs a command, which is shown only if it fails.
pub(super) fn run_quietly(command: &mut Command) -> Result<()> {
    let ended = command.output().context("cannot run it")?;
    if !ended.status.success() {
        let words = String::from_utf8_lossy(&ended.stderr).into_owned();
        bail!("{}: {}", crate::shown(command), words.trim());
    }
    Ok(())
}
