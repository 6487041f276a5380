//! The screener with its model from a file and the weights that come with the program.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use saliency::gguf::{Gguf, GgufError};
use saliency::tokenizer::{Tokenizer, TokenizerError};
use saliency::{CACHE_BYTES, Engine, Model, ModelError, SaliencyError};

use super::{AttentionScreener, Classifier, ClassifierError, WeightsError};

/// The classifier that screens best, trained by `sluice-lab screener train`.
pub const WEIGHTS: &[u8] = include_bytes!("../../weights/attention.bin");

/// Why there is no screener.
#[derive(Debug, thiserror::Error)]
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
    /// The weights were trained with another model.
    #[error("the weights were trained with the model {trained_with}, this one is {sha256}")]
    OtherModel {
        /// SHA-256 of the model of the weights, in hex.
        trained_with: String,
        /// SHA-256 of the model's file, in hex.
        sha256: String,
    },
}

/// The screener with the model of this file and these weights, such as [`WEIGHTS`]. `sha256` is the
/// file's digest in hex, which the caller has checked: weights are of use only with the model that
/// they were trained with.
///
/// Takes about a second, and half a gigabyte of memory. Made to be shared by all sessions.
///
/// # Errors
/// [`OpenError`]; without the screener nothing may be called irrelevant.
pub fn open(model: &Path, sha256: &str, weights: &[u8]) -> Result<AttentionScreener, OpenError> {
    let classifier = Classifier::from_bytes(weights)?;
    // Before the model is read, which takes a second: attention of another model is noise to these
    // weights, and would be scored without an error.
    if classifier.about.model != sha256 {
        return Err(OpenError::OtherModel {
            trained_with: classifier.about.model,
            sha256: sha256.to_owned(),
        });
    }
    let file = |source| OpenError::File {
        path: model.to_owned(),
        source,
    };
    let gguf = Gguf::open(model).map_err(file)?;
    let tokenizer = Tokenizer::from_gguf(&gguf)?;
    let engine = Engine::new(Arc::new(Model::from_gguf(&gguf)?), CACHE_BYTES)?;
    let screener =
        AttentionScreener::new(Arc::new(engine), Arc::new(tokenizer), Arc::new(classifier))?;
    Ok(screener)
}
