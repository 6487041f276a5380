//! The attention screener for the benches of AgentDojo.

use std::path::PathBuf;
use std::sync::Arc;

use agentdojo::tuning::{Tuned, Tuning};
use anyhow::Result;
use clap::Args;

use crate::small_model;

/// How the attention screener decides. Each row says it, and a report keeps settings apart.
#[derive(Debug, Clone, Args)]
pub(super) struct AttentionArgs {
    /// The part of the dependencies that the attention screener is to find, in per cent [default: what
    /// it was trained for].
    #[arg(long, value_name = "PERCENT", value_parser = clap::value_parser!(u8).range(50..=99))]
    recall: Option<u8>,
    /// The attention screener's weights, by `sluice-lab screener train` [default: those of this program].
    #[arg(long, value_name = "FILE")]
    weights: Option<PathBuf>,
}

/// The screener with what rows say of it, if it is needed; takes about a second.
///
/// # Errors
/// Its model was not pulled, or is not what it should be; or there are no such weights.
pub(super) async fn open(needed: bool, args: &AttentionArgs) -> Result<Option<Tuned>> {
    if !needed {
        return Ok(None);
    }
    let args = args.clone();
    // Reading and checking the model's file takes a second, in which the runtime must hear Ctrl-C.
    let open = move || {
        let file = args.weights.as_deref();
        let weights = small_model::weights(file)?;
        let screener = small_model::screener(&weights, args.recall)?;
        let tuning = Tuning::of(&weights, args.recall)?;
        Ok(Some(Tuned {
            screener: Arc::new(screener),
            tuning,
        }))
    };
    tokio::task::spawn_blocking(open).await?
}

#[cfg(test)]
mod tests {
    use screen::attention::{Classifier, WEIGHTS};

    use super::*;

    #[test]
    fn rows_say_the_weights_that_were_named() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("others.bin");
        let tuning = |recall, file: Option<&PathBuf>| -> Result<Tuning> {
            let weights = small_model::weights(file.map(PathBuf::as_path))?;
            Ok(Tuning::of(&weights, recall)?)
        };
        let shipped = tuning(None, None).unwrap();
        assert_eq!(tuning(Some(90), None).unwrap().recall, 90);
        let missing = tuning(None, Some(&path)).unwrap_err().to_string();
        assert!(missing.contains("others.bin"), "{missing}");
        let mut other = Classifier::from_bytes(WEIGHTS).unwrap();
        other.about.command = "sluice-lab screener train --without banking".to_owned();
        std::fs::write(&path, other.to_bytes().unwrap()).unwrap();
        let other = tuning(None, Some(&path)).unwrap();
        assert_eq!(other.recall, shipped.recall);
        assert_ne!(other.weights, shipped.weights);
    }
}
