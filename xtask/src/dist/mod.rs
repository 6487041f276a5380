//! `cargo xtask dist`: the files of a release, made on this machine without a daemon.
//!
//! One tree below `/usr` is in the tarball and in the Debian package; the image has its programs. Archives have the time
//! of the commit and no names of this machine, so that the same programs give the same bytes.

mod image;
mod package;
mod release;
mod sbom;

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result};

pub(crate) use self::release::Options;
use self::release::{Release, put};
use crate::phases::Phases;
use crate::usage;

const HELP: &str = "\
cargo xtask dist [--only PART,…] [--bins FOLDER] [--release VERSION] [--out FOLDER]

Builds the product and makes the files of a release in target/dist, with SHA256SUMS and install.sh:

  tar    sluice-VERSION-ARCH-linux.tar.gz: programs, manual pages, completions, units, compose file, Helm chart
  deb    sluice_VERSION_ARCH.deb
  oci    sluice-VERSION-ARCH.oci.tar: an image for `podman load` or `docker load`, without a shell, for user 65532
  sbom   sluice-VERSION.cdx.json: CycloneDX, what is compiled in

Packages are for the processor of this machine. Needs git, tar, gzip, strip, readelf, sha256sum, ldd and dpkg-deb (binutils,
dpkg-dev), and no C library newer than that of the oldest supported Debian (glibc 2.36).

  --only PART,…        these parts alone
  --bins FOLDER        programs that are built already; nothing is compiled
  --release VERSION    another version than that of Cargo.toml
  --out FOLDER         another folder than target/dist
";

const PARTS: [&str; 4] = ["tar", "deb", "oci", "sbom"];

fn parse(arguments: &[String]) -> Result<Options> {
    let mut options = Options {
        only: PARTS.map(str::to_owned).into(),
        bins: None,
        release: None,
        out: PathBuf::from("target/dist"),
    };
    let mut words = arguments.iter();
    while let Some(word) = words.next() {
        let value = words.next().cloned().ok_or_else(|| usage(HELP))?;
        match word.as_str() {
            "--only" => options.only = value.split(',').map(str::to_owned).collect(),
            "--bins" => options.bins = Some(value.into()),
            "--release" => options.release = Some(value),
            "--out" => options.out = value.into(),
            _ => return Err(usage(HELP)),
        }
    }
    let known = |part: &String| PARTS.contains(&part.as_str());
    match options.only.iter().all(known) {
        true => Ok(options),
        false => Err(usage(HELP)),
    }
}

pub(crate) fn dist(arguments: &[String], phases: &mut Phases) -> Result<()> {
    if arguments.iter().any(|word| word == "--help") {
        eprint!("{HELP}");
        return Ok(());
    }
    for file in make(&parse(arguments)?, phases)? {
        eprintln!("xtask: {}", file.display());
    }
    Ok(())
}

/// Makes the parts, and returns their files.
pub(crate) fn make(options: &Options, phases: &mut Phases) -> Result<Vec<PathBuf>> {
    let release = Release::of(options, phases)?;
    let mut made = Vec::new();
    for part in &options.only {
        let file = phases.time(part, || match part.as_str() {
            "tar" => release.tarball(),
            "deb" => package::debian(&release),
            "oci" => image::oci(&release),
            _ => release.written_sbom(),
        });
        made.push(file.with_context(|| part.clone())?);
    }
    let script = release.out.join("install.sh");
    put(&release.root.join("dist/install.sh"), &script, 0o755)?;
    made.push(script);
    let mut sums = Command::new("sha256sum");
    sums.current_dir(&release.out);
    sums.args(made.iter().filter_map(|file| file.file_name()));
    let sums = sums.output().context("cannot run sha256sum")?;
    fs::write(release.out.join("SHA256SUMS"), sums.stdout)?;
    made.push(release.out.join("SHA256SUMS"));
    Ok(made)
}

#[cfg(test)]
mod tests;
