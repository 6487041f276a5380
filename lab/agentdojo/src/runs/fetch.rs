//! Fetching the archive through pip, once, checked against its hash.

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, bail};
use sha2::{Digest, Sha256};

use crate::hex::hex;

/// The version of the package whose source distribution carries the recorded runs.
pub const PACKAGE: &str = "agentdojo==0.1.29";

/// The SHA-256 of that source distribution.
pub const SHA256: &str = "f072b82b1229b1ea966b7da3b486292e685efc2b1e936566a94c1728789ba3be";

pub(super) const FILE: &str = "agentdojo-0.1.29.tar.gz";

/// The archive in `cache`, fetched with `pip` of the Python at `python` if it is not there yet.
/// `progress` is told before anything slow.
pub fn archive(
    cache: &Path,
    python: &Path,
    progress: &mut dyn FnMut(&str),
) -> anyhow::Result<PathBuf> {
    let path = cache.join(FILE);
    if !path.exists() {
        progress("fetching AgentDojo's recorded runs (20 MB)");
        fs::create_dir_all(cache).with_context(|| format!("cannot make {}", cache.display()))?;
        fetch(cache, python)?;
    }
    // Checked every time: the cache may hold a file that pip did not put there.
    let found = digest(&path)?;
    if found != SHA256 {
        bail!(
            "{} is not the known archive (sha256 {found}); remove it and run again",
            path.display()
        );
    }
    Ok(path)
}

/// pip refuses another content before it looks into it, and moves the file into place at the end.
fn fetch(cache: &Path, python: &Path) -> anyhow::Result<()> {
    let pinned = cache.join("runs-requirements.txt");
    fs::write(&pinned, format!("{PACKAGE} --hash=sha256:{SHA256}\n"))?;
    let output = Command::new(python)
        .args([
            "-m",
            "pip",
            "download",
            "--quiet",
            "--disable-pip-version-check",
        ])
        .args([
            "--no-deps",
            "--no-binary",
            "agentdojo",
            "--require-hashes",
            "--dest",
        ])
        .arg(cache)
        .arg("--requirement")
        .arg(&pinned)
        .output()
        .with_context(|| format!("cannot start {}; install Python 3", python.display()))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        bail!("pip cannot fetch {PACKAGE}: {}", said.trim());
    }
    Ok(())
}

fn digest(path: &Path) -> anyhow::Result<String> {
    let mut file =
        fs::File::open(path).with_context(|| format!("cannot open {}", path.display()))?;
    let mut hasher = Sha256::new();
    let mut block = vec![0; 1 << 16];
    loop {
        let read = file.read(&mut block)?;
        if read == 0 {
            break;
        }
        hasher.update(block.get(..read).unwrap_or_default());
    }
    Ok(hex(&hasher.finalize()))
}
