//! Reading recorded runs straight from the package's source distribution.

use std::fs::File;
use std::io::{BufReader, Read};
use std::path::Path;

use anyhow::{Context, bail};
use flate2::read::GzDecoder;

use super::Recording;

/// Largest file of a recorded run; the largest known one has 300 kB.
const MAX_RUN_BYTES: u64 = 8 << 20;

/// Which runs to read.
#[derive(Debug, Clone, Default)]
pub struct Wanted {
    /// Models by their folder's name.
    pub models: Vec<String>,
    /// Attacks; `none` for the runs without one. Empty for all.
    pub attacks: Vec<String>,
}

impl Wanted {
    /// Whether the file at this path of the archive is wanted:
    /// `PACKAGE/runs/MODEL/SUITE/USER_TASK/ATTACK/INJECTION_TASK.json`.
    fn takes(&self, path: &str) -> bool {
        let fields: Vec<&str> = path.split('/').collect();
        let [_, "runs", model, _, _, attack, file] = fields.as_slice() else {
            return false;
        };
        let attacks = &self.attacks;
        file.ends_with(".json")
            && self.models.iter().any(|wanted| wanted == model)
            && (attacks.is_empty() || attacks.iter().any(|wanted| wanted == attack))
    }
}

/// The wanted runs of an archive, in the order of their names.
pub fn read(archive: &Path, wanted: &Wanted) -> anyhow::Result<Vec<Recording>> {
    let file = File::open(archive).with_context(|| format!("cannot open {}", archive.display()))?;
    let mut tar = tar::Archive::new(GzDecoder::new(BufReader::new(file)));
    let mut found = Vec::new();
    for entry in tar.entries()? {
        let mut entry = entry?;
        let path = entry.path()?.to_string_lossy().into_owned();
        if !wanted.takes(&path) {
            continue;
        }
        // Checked before the text is read into memory.
        if entry.size() > MAX_RUN_BYTES {
            bail!(
                "{path} has {} bytes; no recorded run is that large",
                entry.size()
            );
        }
        let mut text = String::new();
        entry.read_to_string(&mut text)?;
        let recording: Recording = serde_json::from_str(&text)
            .with_context(|| format!("{path} is not a recorded run as we know them"))?;
        found.push((path, recording));
    }
    // A fixed order: the quick sample takes every so many runs of it.
    found.sort_by(|(a, _), (b, _)| a.cmp(b));
    Ok(found.into_iter().map(|(_, recording)| recording).collect())
}
