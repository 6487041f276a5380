//! `cargo xtask fresh`: the commands of the README, and real servers, on a minimal Debian.
//!
//! What works here may work only because of something that was installed by hand. So this makes a
//! root folder with nothing but what the distribution calls required, a linker (without which a
//! Rust toolchain is none) and this machine's Rust toolchain, and runs a clone of HEAD in it, in
//! namespaces of its own. Models, crates and servers are fetched anew. The Debian package is
//! installed on another one, which has no linker and no Rust.

mod debian;
mod install;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

use crate::phases::Phases;
use crate::{is_root, output, run, usage};
use debian::Debian;

const HELP: &str = "\
cargo xtask fresh [--only install|build|demo|test|servers] [--bins FOLDER] [--keep]

On a minimal Debian without Rust: installs the package of `cargo xtask dist`, gets a first answer, starts the service,
upgrades, removes and purges it (install).
On a minimal Debian, from a clone of HEAD: runs `cargo install --path crates/cli --locked` (build), `cargo xtask demo`,
`cargo xtask test` and `cargo xtask servers`.
Needs root, mmdebstrap, git, util-linux (unshare, pivot_root), a rustup toolchain, 15 GB of disk,
and a Debian or Ubuntu whose package sources and registries it may use.

  --only COMMAND             one of the five alone
  --bins FOLDER              for install: programs that are built already
  --keep                     leave the folder there (target/fresh/debian)
";

/// Below `target`, so that git ignores it.
const FOLDER: &str = "target/fresh/debian";
/// The same of the machine without Rust.
const PLAIN: &str = "target/fresh/plain";
/// Where the clone lies in the new root.
const CLONE: &str = "root/sluice";
/// The only places with programs in the new root; the toolchain is bound to the first one.
const PATH: &str = "/opt/rust/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// Runs in new mount, pid, ipc and uts namespaces: `sh -euc ENTER sh ROOT TOOLCHAIN COMMAND…`.
///
/// `pivot_root` and not `chroot`: the kernel lets nobody make user namespaces in a chroot, and
/// spokes live in user namespaces. For the same reason `/proc` is a new one that nothing covers.
///
/// The shell stays as process 1 and reaps what lost its parent, as the first process of a machine does.
const ENTER: &str = r#"
mount --make-rprivate /
mount --bind "$1" "$1"
cd "$1"
mkdir -p old
if [ -n "$2" ]; then
    mkdir -p opt/rust
    mount --bind "$2" opt/rust
    mount -o remount,bind,ro opt/rust
fi
mount -t proc proc proc
mount --rbind /sys sys
mount --rbind /dev dev
pivot_root . old
cd /
umount -l old
shift 2
code=0
"$@" || code=$?
exit "$code"
"#;

/// The package, the commands of the README, and what these leave out because it is fetched from registries. `build` runs
/// before the others install packages: it shows that the product needs a Rust toolchain and a linker alone.
const COMMANDS: [&str; 5] = [INSTALL, BUILD, "demo", "test", "servers"];
const INSTALL: &str = "install";
const BUILD: &str = "build";
/// Builds and installs the product, and looks at what came.
const BUILD_SCRIPT: &str = r#"
cargo install --path crates/cli --locked
for program in sluice sluice-spoke sluice-remote sluice-build; do test -x "$HOME/.cargo/bin/$program"; done
"$HOME/.cargo/bin/sluice" --version
"#;

#[derive(Default)]
struct Options {
    only: Option<&'static str>,
    bins: Option<PathBuf>,
    keep: bool,
}

impl Options {
    fn parse(arguments: &[String]) -> Result<Self> {
        let mut options = Self::default();
        let mut words = arguments.iter().map(String::as_str);
        while let Some(word) = words.next() {
            match word {
                "--keep" => options.keep = true,
                "--bins" => {
                    let folder = words.next().ok_or_else(|| usage(HELP))?;
                    options.bins = Some(folder.into());
                }
                "--only" => {
                    let named = words.next().unwrap_or_default();
                    let known = COMMANDS.into_iter().find(|command| *command == named);
                    options.only = Some(known.ok_or_else(|| usage(HELP))?);
                }
                _ => return Err(usage(HELP)),
            }
        }
        Ok(options)
    }
}

/// Makes the machine and runs the commands; the phases go to the table.
pub(crate) fn fresh(arguments: &[String], phases: &mut Phases) -> Result<()> {
    if arguments.iter().any(|word| word == "--help") {
        eprint!("{HELP}");
        return Ok(());
    }
    let options = Options::parse(arguments)?;
    let machine = Machine::of_host()?;
    let result = machine.run(&options, phases);
    for root in [&machine.root, &machine.plain] {
        match options.keep {
            true => eprintln!("xtask: the machine is in {}", root.display()),
            false => remove(root)?,
        }
    }
    result
}

/// A fresh machine: a root folder, and what it gets from this one.
struct Machine {
    debian: Debian,
    root: PathBuf,
    /// The one without Rust.
    plain: PathBuf,
    toolchain: PathBuf,
    repository: PathBuf,
    commit: String,
}

impl Machine {
    /// # Errors
    /// This user or this machine lacks something that is needed; the error says what.
    fn of_host() -> Result<Self> {
        if !is_root() {
            bail!("it makes a root folder with mounts of its own, and that needs root\n\n{HELP}");
        }
        for program in ["mmdebstrap", "git", "unshare", "pivot_root", "mount"] {
            if !in_path(program) {
                bail!("there is no `{program}` here\n\n{HELP}");
            }
        }
        let repository = PathBuf::from(output("git", &["rev-parse", "--show-toplevel"])?);
        let commit = output("git", &["rev-parse", "HEAD"])?;
        if !output("git", &["status", "--porcelain"])?.is_empty() {
            eprintln!("xtask: what is not committed is not in the clone");
        }
        let toolchain = PathBuf::from(output("rustc", &["--print", "sysroot"])?);
        // A toolchain in /usr would bring everything else in /usr with it.
        if toolchain.starts_with("/usr") || !toolchain.join("bin/cargo").is_file() {
            bail!(
                "{} is no toolchain of rustup\n\n{HELP}",
                toolchain.display()
            );
        }
        Ok(Self {
            debian: Debian::of_host()?,
            root: repository.join(FOLDER),
            plain: repository.join(PLAIN),
            toolchain,
            repository,
            commit,
        })
    }

    fn run(&self, options: &Options, phases: &mut Phases) -> Result<()> {
        let wanted = |command: &&str| options.only.is_none_or(|only| only == *command);
        let fails = |name: &str| format!("`{name}` fails on a fresh {}", self.debian.suite);
        let mut commands = COMMANDS.into_iter().filter(wanted).peekable();
        if commands.next_if_eq(&INSTALL).is_some() {
            let installed = self.install(options, phases);
            installed.with_context(|| fails("the package"))?;
        }
        if commands.peek().is_none() {
            return Ok(());
        }
        remove(&self.root)?;
        phases.time("Debian", || {
            self.debian.install(&self.root, debian::PACKAGES)
        })?;
        phases.time("clone", || self.clone_repository())?;
        for command in commands {
            let (name, words) = match command {
                BUILD => ("cargo install".to_owned(), vec!["sh", "-euc", BUILD_SCRIPT]),
                _ => (
                    format!("cargo xtask {command}"),
                    vec!["cargo", "xtask", command],
                ),
            };
            let folder = format!("/{CLONE}");
            let ran = phases.time(&name, || self.command(&self.root, &folder, &words));
            ran.with_context(|| fails(&name))?;
        }
        Ok(())
    }

    /// The life of the package on the machine without Rust.
    fn install(&self, options: &Options, phases: &mut Phases) -> Result<()> {
        let folder = self.repository.join("target/fresh/packages");
        let packages = install::packages(options.bins.as_deref(), &folder, phases)?;
        remove(&self.plain)?;
        phases.time("Debian", || self.debian.install(&self.plain, ""))?;
        let mut words = vec![
            "sh".to_owned(),
            "-euc".to_owned(),
            install::script(),
            "sh".to_owned(),
        ];
        for package in packages {
            let name = package.file_name().unwrap_or_default();
            fs::copy(&package, self.plain.join("root").join(name))?;
            words.push(format!("/root/{}", name.to_string_lossy()));
        }
        words.push(install::model()?);
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        phases.time("package", || self.command(&self.plain, "/root", &words))
    }

    fn clone_repository(&self) -> Result<()> {
        let clone = self.root.join(CLONE);
        let mut git = Command::new("git");
        // Without hard links, so that nothing in the machine can change this repository's objects.
        git.args(["clone", "--quiet", "--no-hardlinks", "--no-checkout"]);
        run(git.arg(&self.repository).arg(&clone))?;
        let mut checkout = Command::new("git");
        checkout.arg("-C").arg(&clone);
        run(checkout.args(["checkout", "--quiet", "--detach", &self.commit]))
    }

    /// Runs a command in a folder inside, with nothing of this environment but what reaches the
    /// registries.
    fn command(&self, root: &Path, folder: &str, words: &[&str]) -> Result<()> {
        let mut command = Command::new("unshare");
        command.args([
            "--mount",
            "--pid",
            "--ipc",
            "--uts",
            "--fork",
            "--kill-child",
        ]);
        command.args(["sh", "-euc", ENTER, "sh"]);
        let toolchain = match root == self.plain {
            true => Path::new(""),
            false => &self.toolchain,
        };
        command.arg(root).arg(toolchain);
        command.args(["env", "-C", folder]).args(words);
        command.env_clear().envs(debian::registry_variables());
        command
            .env("PATH", PATH)
            .env("HOME", "/root")
            .env("LANG", "C.UTF-8");
        command.stdin(Stdio::null());
        let shown = words.join(" ");
        let shown = shown.lines().next().filter(|it| !it.ends_with("-euc "));
        let shown = shown.unwrap_or("a script");
        eprintln!("xtask: in the fresh machine: {shown}");
        let status = command.status().context("cannot run unshare")?;
        if !status.success() {
            bail!("it ended with {status}");
        }
        Ok(())
    }
}

/// Removes a machine. Mounts are gone with the namespaces that they were made in, so only files are left.
fn remove(root: &Path) -> Result<()> {
    if !root.exists() {
        return Ok(());
    }
    let mut remove = Command::new("rm");
    // One file system only: were a mount left after all, what is mounted would stay.
    remove.args(["--recursive", "--force", "--one-file-system"]);
    run(remove.arg(root))
}

fn in_path(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(program).is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(words: &[&str]) -> Result<Options> {
        let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        Options::parse(&words)
    }

    #[test]
    fn options_are_understood_or_refused() {
        let options = parse(&["--only", "test"]).unwrap();
        assert_eq!(options.only, Some("test"));
        assert!(!options.keep && parse(&["--keep"]).unwrap().keep);
        assert!(parse(&["--only"]).is_err());
        assert!(parse(&["--only", "ci"]).is_err());
        assert!(parse(&["--kep"]).is_err());
    }
}
