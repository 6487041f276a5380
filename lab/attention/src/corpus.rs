//! The recorded steps that the screener learns from and is measured with.

use std::path::Path;

use agentdojo::replay::{MAIN_ATTACK, MODELS};
use agentdojo::runs::{self, Wanted};
use anyhow::Result;

use crate::data::{Kind, Step, steps};

/// The steps with calls of the three recorded models of [`MODELS`], with the attack of the paper's
/// figures and without, in a fixed order. `cache` holds the archive of runs; `python` fetches it if it
/// is not there yet.
pub fn call_steps(
    cache: &Path,
    python: &Path,
    progress: &mut dyn FnMut(&str),
) -> Result<Vec<Step>> {
    let archive = runs::archive(cache, python, progress)?;
    progress("reading the recorded runs");
    let wanted = Wanted {
        models: MODELS.map(str::to_owned).to_vec(),
        attacks: vec!["none".to_owned(), MAIN_ATTACK.to_owned()],
    };
    let recordings = runs::read(&archive, &wanted)?;
    let mut all = steps(&recordings)?;
    all.retain(|step| step.kind() == Kind::Call);
    Ok(all)
}
