//! The Debian package.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use anyhow::Result;

use super::release::{Release, architecture, put, run_quietly, write};

/// What dpkg runs, in `dist/debian`.
const SCRIPTS: [&str; 3] = ["postinst", "prerm", "postrm"];
/// Files that the user may change, and that an upgrade does not replace.
const CONFFILES: &str = "/etc/sluice/sluice.toml\n";

/// Makes the package with `dpkg-deb`.
pub(super) fn debian(release: &Release) -> Result<PathBuf> {
    let architecture = architecture()?;
    let Release { version, .. } = release;
    let tree = release.out.join("stage");
    let sources = release.root.join("dist/debian");
    let config = tree.join("etc/sluice/sluice.toml");
    put(&sources.join("sluice.toml"), &config, 0o644)?;
    for script in SCRIPTS {
        let place = tree.join("DEBIAN").join(script);
        put(&sources.join(script), &place, 0o755)?;
    }
    write(&tree.join("DEBIAN/conffiles"), CONFFILES)?;
    let (major, minor) = release.glibc;
    let control = format!(
        "Package: sluice\nVersion: {version}\nArchitecture: {architecture}\nSection: net\nPriority: optional\n\
         Maintainer: the Sluice maintainers <maintainers@sluice.invalid>\n\
         Depends: libc6 (>= {major}.{minor}), libgcc-s1, passwd\nRecommends: ca-certificates\n\
         Description: secure runtime for LLM agents and the MCP servers that they use\n \
         Runs each app in a sandbox, labels each piece of text, and checks each tool call\n \
         against a policy. It sends no telemetry.\n"
    );
    write(&tree.join("DEBIAN/control"), &control)?;
    let file = format!("sluice_{version}_{architecture}.deb");
    let file = release.out.join(file);
    let mut build = Command::new("dpkg-deb");
    build.env("SOURCE_DATE_EPOCH", &release.epoch);
    // A tenth larger than with xz, and made in seconds. Every supported Debian reads it.
    build.args(["--root-owner-group", "-Zzstd", "-z9", "--build"]);
    run_quietly(build.arg(&tree).arg(&file))?;
    // They are no part of the image, which is made of the same tree.
    fs::remove_dir_all(tree.join("DEBIAN"))?;
    fs::remove_dir_all(tree.join("etc"))?;
    Ok(file)
}
