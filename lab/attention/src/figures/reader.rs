//! A feature model with its tokenizer, and the texts of recorded steps as tokens.

use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result};
use saliency::Model;
use saliency::gguf::Gguf;
use saliency::tokenizer::Tokenizer;
use screen::attention::{Encode, Transcript};

use crate::data::Step;

/// A feature model with its tokenizer.
pub struct Reader {
    model: Arc<Model>,
    tokenizer: Box<dyn Encode + Send + Sync>,
}

impl Reader {
    /// Reads with the model of this file.
    ///
    /// # Errors
    /// The file is no model that can be read.
    pub fn open(model: &Path) -> Result<Self> {
        let shown = model.display();
        let gguf = Gguf::open(model).with_context(|| format!("cannot read {shown}"))?;
        let tokenizer = Tokenizer::from_gguf(&gguf)?;
        let model = Arc::new(Model::from_gguf(&gguf)?);
        Ok(Self {
            model,
            tokenizer: Box::new(tokenizer),
        })
    }

    /// The model.
    #[must_use]
    pub fn model(&self) -> &Arc<Model> {
        &self.model
    }

    /// The first `count` tokens of the texts of these steps, one after the other; fewer if there are
    /// no more. Each run counts once, by its last step.
    #[must_use]
    pub fn text(&self, steps: &[Step], count: usize) -> Vec<u32> {
        let run = |step: &Step| step.id.rsplit_once('/').map(|(run, _)| run.to_owned());
        let runs = steps.chunk_by(|a, b| run(a) == run(b));
        let mut tokens = Vec::new();
        // The last step of a run has the longest history, and the histories of the others are its beginnings.
        for step in runs.filter_map(<[Step]>::last) {
            for turn in Transcript::of(&step.history).turns() {
                let new = self.tokenizer.encode(&turn.text).into_iter();
                tokens.extend(new.map(|token| token.id));
            }
            if tokens.len() >= count {
                break;
            }
        }
        tokens.truncate(count);
        tokens
    }
}
