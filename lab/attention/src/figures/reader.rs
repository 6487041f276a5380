//! A feature model that reads recorded steps token by token.

use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result};
use saliency::gguf::Gguf;
use saliency::tokenizer::Tokenizer;
use saliency::{CacheLimits, Engine, Model};
use screen::attention::{
    Encode, EncodeError, Encoded, Role, Spoken, Transcript, Turn, Window, encode,
};

use crate::data::Step;

/// A feature model with its tokenizer.
pub struct Reader {
    engine: Engine,
    tokenizer: Box<dyn Encode + Send + Sync>,
    window: Window,
}

/// A step as the model reads it.
#[derive(Debug, Clone)]
pub struct Read {
    /// Its tokens.
    pub encoded: Encoded,
    /// The tokens of the user's messages; empty if none is in the window.
    pub user: Vec<Range<usize>>,
    /// The tokens of the tools' results.
    pub tools: Vec<Range<usize>>,
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
        Self::with(model, Box::new(tokenizer))
    }

    /// Reads with this model and its tokenizer.
    ///
    /// # Errors
    /// The engine gets no threads.
    pub fn with(model: Arc<Model>, tokenizer: Box<dyn Encode + Send + Sync>) -> Result<Self> {
        let mut window = Window::default();
        window.context = window.context.min(model.config().context);
        // A model with a short context must still have room for a history.
        window.output = window.output.min(window.context / 4);
        Ok(Self {
            engine: Engine::new(model, CacheLimits::default())?,
            tokenizer,
            window,
        })
    }

    /// The engine.
    #[must_use]
    pub fn engine(&self) -> &Engine {
        &self.engine
    }

    /// The tokens of a step; `None` if the draft is empty or too long, or the history is longer than
    /// the window, so that messages are missing.
    ///
    /// # Errors
    /// The model has another chat template.
    pub fn read(&self, step: &Step) -> Result<Option<Read>> {
        let transcript = Transcript::of(&step.history);
        let spoken = Spoken::of(&step.draft);
        let tokenizer = &*self.tokenizer;
        let encoded = match encode(&transcript, &spoken, tokenizer, self.window) {
            Ok(encoded) => encoded,
            Err(EncodeError::EmptyDraft | EncodeError::DraftTooLong { .. }) => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        let turns = transcript.turns();
        // Messages that did not fit are left out of the list, which then cannot be matched with the turns below.
        if encoded.messages.len() != turns.len() {
            return Ok(None);
        }
        let of = |wanted: &dyn Fn(&Turn) -> bool| {
            let both = turns.iter().zip(&encoded.messages);
            let found = both.filter(|(turn, message)| wanted(turn) && !message.tokens.is_empty());
            found.map(|(_, message)| message.tokens.clone()).collect()
        };
        Ok(Some(Read {
            user: of(&|turn| turn.role == Role::User && !turn.result),
            tools: of(&|turn| turn.result),
            encoded,
        }))
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
