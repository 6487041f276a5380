//! System packages that the build needs: found, installed where we may, or named.

use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Result, bail};

use crate::{is_root, libclang};

/// Something the build or the set-up uses, and the Debian package that has it.
struct Need {
    what: &'static str,
    package: &'static str,
    found: fn() -> bool,
}

const NEEDS: [Need; 1] = [
    // SQLite and ring have C in them. A Rust toolchain needs a linker, and the package of one has the other.
    Need {
        what: "a C compiler",
        package: "gcc libc6-dev",
        found: || runs("cc", "--version"),
    },
];

const PIP: Need = Need {
    what: "python3 with pip",
    package: "python3-pip",
    found: || runs("python3", "-m pip --version"),
};

/// What the embedded model uses: llama.cpp is C++ that is built by cmake.
const MODEL_NEEDS: [Need; 4] = [
    Need {
        what: "cmake",
        package: "cmake",
        found: || runs("cmake", "--version"),
    },
    Need {
        what: "a C++ compiler",
        package: "g++",
        found: || runs("c++", "--version"),
    },
    // bindgen reads llama.cpp's headers with it.
    Need {
        what: "libclang",
        package: "libclang-dev",
        found: libclang::found,
    },
    // Model files come as Python wheels where no model hub is in reach.
    PIP,
];

/// What only tests use.
const TEST_NEEDS: [Need; 7] = [
    // AgentDojo, the benchmark, has an environment of its own.
    Need {
        what: "python3 with venv",
        package: "python3-venv",
        found: || runs("python3", "-m ensurepip --version"),
    },
    // Processes are ended with it.
    Need {
        what: "kill",
        package: "procps",
        found: || runs("kill", "--version"),
    },
    // Apps are installed with these, by the tests from a registry of this machine.
    PIP,
    Need {
        what: "npm",
        package: "npm",
        found: || runs("npm", "--version"),
    },
    // One of the programs that reach names from a spoke as they are.
    Need {
        what: "curl",
        package: "curl",
        found: || runs("curl", "--version"),
    },
    // A network of a test's own gets its addresses by it.
    Need {
        what: "ip",
        package: "iproute2",
        found: || runs("ip", "-Version"),
    },
    // The state of a service: a test starts a server of its own.
    Need {
        what: "PostgreSQL",
        package: "postgresql",
        found: || Path::new("/usr/lib/postgresql").exists(),
    },
];

/// What only real servers use.
const SERVER_NEEDS: [Need; 2] = [
    // Services and programs that some of them are for.
    Need {
        what: "Redis, Chromium or pandoc",
        package: "redis-server chromium pandoc",
        found: || {
            let bin = ["redis-server", "chromium", "pandoc"];
            (bin.iter()).all(|it| Path::new("/usr/bin").join(it).exists())
        },
    },
    // One of them reads repositories with it.
    Need {
        what: "git",
        package: "git",
        found: || runs("git", "--version"),
    },
];

/// Makes sure that everything is there: installs what is missing where this user may, else says
/// the one command that does.
///
/// # Errors
/// Something is missing and cannot be installed here.
pub(crate) fn ensure() -> Result<()> {
    ensure_all(&NEEDS)
}

/// As [`ensure`], for the embedded model.
///
/// # Errors
/// As [`ensure`].
pub(crate) fn ensure_for_model() -> Result<()> {
    ensure_all(&MODEL_NEEDS)
}

/// As [`ensure`], for what only tests use.
///
/// # Errors
/// As [`ensure`].
pub(crate) fn ensure_for_tests() -> Result<()> {
    ensure_all(&TEST_NEEDS)
}

/// As [`ensure_for_tests`], and what the real servers use.
///
/// # Errors
/// As [`ensure`].
pub(crate) fn ensure_for_servers() -> Result<()> {
    ensure_for_tests()?;
    ensure_all(&SERVER_NEEDS)
}

fn ensure_all(needs: &[Need]) -> Result<()> {
    let missing = || needs.iter().filter(|need| !(need.found)());
    let packages: Vec<&str> = missing().map(|need| need.package).collect();
    if packages.is_empty() {
        return Ok(());
    }
    let names: Vec<&str> = missing().map(|need| need.what).collect();
    let install = format!(
        "apt-get update && apt-get install -y {}",
        packages.join(" ")
    );
    eprintln!("xtask: missing: {}", names.join(", "));
    if !(is_root() && runs("apt-get", "--version")) {
        bail!("install them and start again; on Debian and Ubuntu: sudo sh -c '{install}'");
    }
    eprintln!("xtask: {install}");
    let ended = Command::new("sh")
        .args(["-c", &install])
        .env("DEBIAN_FRONTEND", "noninteractive")
        .stdin(Stdio::null())
        .status()?;
    // Asked again, and not how apt-get ended: a package may be installed and its program still not run, and another one of
    // the system may be broken while all that is needed is there.
    let still: Vec<&str> = missing().map(|need| need.what).collect();
    if still.is_empty() && !ended.success() {
        eprintln!("xtask: apt-get ended with {ended}, and all that was missing is there");
    }
    if !still.is_empty() {
        bail!(
            "`{install}` did not bring {}; install it by hand",
            still.join(", ")
        );
    }
    Ok(())
}

fn runs(program: &str, arguments: &str) -> bool {
    let mut command = Command::new(program);
    command.args(arguments.split(' ')).stdin(Stdio::null());
    let status = command.stdout(Stdio::null()).stderr(Stdio::null()).status();
    status.is_ok_and(|status| status.success())
}
