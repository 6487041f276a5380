//! `sluice-lab screener train`.

use std::fs::Permissions;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use attention::extract::model_of;
use attention::train::classifier::{Training, train as fit};
use attention::train::model_spec::ModelSpec;
use clap::Args;
use screen::attention::{About, TARGET_RECALL};
use tempfile::NamedTempFile;

use super::kept::Kept;
use crate::exit::Exit;
use crate::progress::Progress;
use crate::terminal::print;

#[derive(Debug, Args)]
pub(super) struct TrainArgs {
    #[command(flatten)]
    kept: Kept,
    /// `paper` or `best`.
    #[arg(long, default_value = "best")]
    learner: ModelSpec,
    /// The same seed on the same machine gives the same weights.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// The target recall on the validation set, in per cent. The default was chosen by looking
    /// at AgentDojo's closed loop, so that loop's figures are in-sample for it.
    #[arg(long, default_value_t = TARGET_RECALL, value_parser = clap::value_parser!(u8).range(50..=99))]
    recall: u8,
    /// Suites to learn nothing of, to measure with: banking, slack, travel, workspace.
    #[arg(long, value_delimiter = ',', value_name = "SUITE")]
    without: Vec<String>,
    /// Where to write the weights.
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
}

pub(super) fn train(args: &TrainArgs, progress: &Progress) -> Result<Exit> {
    let (header, mut examples) = args.kept.read(progress)?;
    let reader = model_of(&header)
        .context("the file of features does not say which model made it; extract it anew")?
        .to_owned();
    // A folder that cannot be written is reported before the work, not after it. The file is not kept meanwhile: an
    // interruption would leave it there.
    drop(beside(&args.out)?);
    let mut without = String::new();
    for suite in &args.without {
        let before = examples.len();
        // Before the digest and the split: neither the weights nor what is said of them may know
        // the suite.
        examples.retain(|example| example.suite != *suite);
        if examples.len() == before {
            bail!(
                "no recorded step is of a suite {suite}; leave out banking, slack, travel or workspace"
            );
        }
        without += &format!(" --without {suite}");
    }
    let training = Training {
        model: args.learner,
        target_recall: args.recall,
        seed: args.seed,
    };
    let about = About {
        name: args.learner.to_string(),
        model: reader,
        data: attention::examples::digest(&examples),
        command: format!(
            "sluice-lab screener train --learner {} --seed {} --recall {}{without}",
            args.learner, args.seed, args.recall
        ),
    };
    let (classifier, outcome) = fit(&header, &examples, &training, about, &mut |line| {
        progress.say(line)
    })?;
    let bytes = classifier.to_bytes()?;
    progress.clear();
    save(&args.out, &bytes).with_context(|| format!("cannot write {}", args.out.display()))?;
    print(&serde_json::to_string_pretty(&outcome)?)?;
    Ok(Exit::Done)
}

/// A file that takes the place of another one when it is whole.
fn beside(out: &Path) -> Result<NamedTempFile> {
    let folder = out
        .parent()
        .filter(|folder| !folder.as_os_str().is_empty())
        .unwrap_or(Path::new("."));
    NamedTempFile::new_in(folder).with_context(|| format!("cannot write to {}", folder.display()))
}

fn save(out: &Path, bytes: &[u8]) -> Result<()> {
    let mut file = beside(out)?;
    file.write_all(bytes)?;
    // Readable as any other file; a temporary one is its owner's alone.
    file.as_file()
        .set_permissions(Permissions::from_mode(0o644))?;
    file.persist(out)?;
    Ok(())
}
