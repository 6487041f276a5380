//! The screener with its model from a file and the weights that come with the program.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use saliency::gguf::{Gguf, GgufError};
use saliency::tokenizer::{Tokenizer, TokenizerError};
use saliency::{CacheLimits, Engine, Model, ModelError, SaliencyError};

use super::{AttentionScreener, Classifier, ClassifierError, WeightsError};

/// The classifier that screens best, trained by `sluice screener train`.
pub const WEIGHTS: &[u8] = include_bytes!("../../weights/attention.bin");

/// Why there is no screener.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// The file is no model file.
    #[error("{path}: {source}")]
    File {
        /// The file.
        path: PathBuf,
        /// Why.
        source: GgufError,
    },
    /// The model is of another kind.
    #[error(transparent)]
    Model(#[from] ModelError),
    /// Its vocabulary cannot be used.
    #[error(transparent)]
    Tokenizer(#[from] TokenizerError),
    /// The engine does not start.
    #[error(transparent)]
    Engine(#[from] SaliencyError),
    /// The weights are damaged.
    #[error(transparent)]
    Weights(#[from] WeightsError),
    /// The weights are of no use.
    #[error(transparent)]
    Classifier(#[from] ClassifierError),
}

/// The screener with the model of this file and these weights, such as [`WEIGHTS`]. The model must be
/// the one that they were trained with ([`AttentionScreener::model`]); the caller has checked the
/// file's digest.
///
/// Takes about a second, and half a gigabyte of memory. Made to be shared by all sessions.
///
/// # Errors
/// [`OpenError`]; without the screener nothing may be called irrelevant.
pub fn open(model: &Path, weights: &[u8]) -> Result<AttentionScreener, OpenError> {
    let classifier = Classifier::from_bytes(weights)?;
    let file = |source| OpenError::File {
        path: model.to_owned(),
        source,
    };
    let gguf = Gguf::open(model).map_err(file)?;
    let tokenizer = Tokenizer::from_gguf(&gguf)?;
    let engine = Engine::new(Arc::new(Model::from_gguf(&gguf)?), CacheLimits::default())?;
    let screener =
        AttentionScreener::new(Arc::new(engine), Arc::new(tokenizer), Arc::new(classifier))?;
    Ok(screener)
}
