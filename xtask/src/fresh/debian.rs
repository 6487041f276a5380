//! A minimal Debian, from the sources that this machine's own packages come from.

use std::env;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::{output, run};

/// What somebody who has installed Rust has: certificates to fetch it with, and the linker and the
/// C library that it says it needs.
pub(super) const PACKAGES: &str = "ca-certificates,gcc,libc6-dev";

/// Variables that say where registries are and how they are reached, by name or beginning.
const REGISTRY_VARIABLES: [&str; 7] = [
    "CARGO_HTTP_",
    "CARGO_NET_",
    "CARGO_REGISTRIES_",
    "CARGO_SOURCE_",
    "NPM_CONFIG_REGISTRY",
    "PIP_INDEX_URL",
    "PIP_EXTRA_INDEX_URL",
];

/// The distribution of this machine.
pub(super) struct Debian {
    /// The code name of its release.
    pub(super) suite: String,
    /// The file that says where its packages are.
    sources: PathBuf,
}

impl Debian {
    /// # Errors
    /// This is no Debian and no Ubuntu, or its sources are not where theirs are.
    pub(super) fn of_host() -> Result<Self> {
        let release = fs::read_to_string("/etc/os-release").context("cannot tell the system")?;
        let (Some(id), Some(suite)) = (field(&release, "ID"), field(&release, "VERSION_CODENAME"))
        else {
            bail!("/etc/os-release names no ID and VERSION_CODENAME");
        };
        if !["debian", "ubuntu"].contains(&id) {
            bail!("this is {id}, but the packages of a Debian or Ubuntu are needed");
        }
        // The distribution's own sources, without those that were added by hand.
        let files = [
            format!("/etc/apt/sources.list.d/{id}.sources"),
            "/etc/apt/sources.list".to_owned(),
        ];
        let sources = files.iter().map(PathBuf::from).find(|file| file.is_file());
        Ok(Self {
            suite: suite.to_owned(),
            sources: sources.with_context(|| format!("there is no {}", files.join(" and no ")))?,
        })
    }

    /// Installs the required packages and these into a new folder, and what this machine knows about
    /// reaching registries.
    pub(super) fn install(&self, root: &Path, packages: &str) -> Result<()> {
        fs::create_dir_all(root)?;
        let mut command = Command::new("mmdebstrap");
        command.args(["--mode=root", "--variant=minbase", "--quiet"]);
        if !packages.is_empty() {
            command.arg(format!("--include={packages}"));
        }
        // Proxies and time-outs of this machine are handed on: mmdebstrap configures apt for the new root alone.
        let dump = output("apt-config", &["dump", "--no-empty", "Acquire"])?;
        command.args(acquire_options(&dump).map(|option| format!("--aptopt={option}")));
        run(command.arg(&self.suite).arg(root).arg(&self.sources))?;
        registries(root)
    }
}

/// How packages are fetched here (proxies, time-outs, checks), without what is said about indexes.
fn acquire_options(dump: &str) -> impl Iterator<Item = &str> {
    let kept = |line: &&str| {
        line.starts_with("Acquire::")
            && !["Acquire::IndexTargets", "Acquire::cdrom"]
                .iter()
                .any(|start| line.starts_with(start))
    };
    dump.lines().filter(kept)
}

/// Names, certificates and the configuration of cargo and pip. No credentials files.
fn registries(root: &Path) -> Result<()> {
    copy(Path::new("/etc/resolv.conf"), root, "etc/resolv.conf")?;
    copy(Path::new("/etc/hosts"), root, "etc/hosts")?;
    let bundle = "etc/ssl/certs/ca-certificates.crt";
    copy(&Path::new("/").join(bundle), root, bundle)?;
    copy(Path::new("/etc/pip.conf"), root, "etc/pip.conf")?;
    let Some(home) = env::var_os("HOME").map(PathBuf::from) else {
        return Ok(());
    };
    copy(
        &home.join(".config/pip/pip.conf"),
        root,
        "root/.config/pip/pip.conf",
    )?;
    let cargo = env::var_os("CARGO_HOME").map_or_else(|| home.join(".cargo"), PathBuf::from);
    copy(&cargo.join("config.toml"), root, "root/.cargo/config.toml")
}

/// Copies a file of this machine into the new root, if it is there.
fn copy(from: &Path, root: &Path, to: &str) -> Result<()> {
    if !from.is_file() {
        return Ok(());
    }
    let to = root.join(to);
    if let Some(folder) = to.parent() {
        fs::create_dir_all(folder)?;
    }
    fs::copy(from, &to).with_context(|| format!("cannot copy {}", from.display()))?;
    Ok(())
}

/// The variables of this process that lead to registries. Proxies are given in both cases.
pub(super) fn registry_variables() -> impl Iterator<Item = (OsString, OsString)> {
    env::vars_os().filter(|(name, _)| name.to_str().is_some_and(leads_to_registries))
}

fn leads_to_registries(name: &str) -> bool {
    let lower = name.to_ascii_lowercase();
    ["http_proxy", "https_proxy", "no_proxy", "all_proxy"].contains(&lower.as_str())
        || REGISTRY_VARIABLES
            .iter()
            .any(|start| name.starts_with(start))
}

/// The value of `NAME=value` or `NAME="value"` in an os-release file.
fn field<'a>(release: &'a str, name: &str) -> Option<&'a str> {
    let mut lines = release.lines().filter_map(|line| line.split_once('='));
    let (_, value) = lines.find(|(key, _)| *key == name)?;
    Some(value.trim_matches('"')).filter(|value| !value.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_release_is_read() {
        let release = "PRETTY_NAME=\"Debian 12\"\nVERSION_ID=\"12\"\nID=debian\nVERSION_CODENAME=bookworm\nEMPTY=\n";
        assert_eq!(field(release, "ID"), Some("debian"));
        assert_eq!(field(release, "VERSION_ID"), Some("12"));
        assert_eq!(field(release, "EMPTY"), None);
        assert_eq!(field(release, "NAME"), None);
    }

    #[test]
    fn apt_fetches_as_it_does_here() {
        let dump = "Acquire \"\";\nAcquire::http::Proxy \"http://proxy:3128\";\nAcquire::IndexTargets::deb::Packages::Optional \"0\";\nAcquire::cdrom::mount \"/media\";\n";
        let kept: Vec<&str> = acquire_options(dump).collect();
        assert_eq!(kept, ["Acquire::http::Proxy \"http://proxy:3128\";"]);
    }

    #[test]
    fn only_what_leads_to_registries_goes_inside() {
        for name in [
            "HTTPS_PROXY",
            "no_proxy",
            "PIP_INDEX_URL",
            "CARGO_NET_RETRY",
        ] {
            assert!(leads_to_registries(name), "{name}");
        }
        for name in [
            "PATH",
            "LIBCLANG_PATH",
            "PIP_FIND_LINKS",
            "CARGO_REGISTRY_TOKEN",
            "RUSTFLAGS",
        ] {
            assert!(!leads_to_registries(name), "{name}");
        }
    }
}
