//! Gradients with respect to the embeddings of the input: vector–Jacobian products.

use std::fmt;

use crate::{
    Engine, SaliencyError,
    backward::{from_logits, through_layers},
    forward::{Goal, forward, logits},
    state::{Saved, Sequence},
};

/// A forward pass that was kept, to go back through as often as there are vectors.
///
/// Unlike saliency, whose gradients end at the attention of the output rows, these go through all rows
/// of the history: one product costs about as much as reading the history anew, and the tape takes
/// 620 KB a token for SmolLM2.
pub struct Tape<'a> {
    engine: &'a Engine,
    sequence: Sequence,
    saved: Vec<Saved>,
    /// The residual stream of the output rows after the last layer.
    x: Vec<f32>,
    logits: Vec<f32>,
    rows: usize,
}

impl Engine {
    /// Reads a history and an output, and keeps what a way back to the embeddings of the history's
    /// tokens from number `from` on needs. Those before are constants.
    ///
    /// # Errors
    /// See [`SaliencyError`].
    pub fn record(
        &self,
        history: &[u32],
        output: &[u32],
        from: usize,
    ) -> Result<Tape<'_>, SaliencyError> {
        self.check(history, output)?;
        // The last token of the history predicts the first output token, so it has a row in any case.
        let from = from.min(history.len() - 1);
        let (_, free) = history.split_at(from);
        // The last token predicts nothing that is asked about.
        let inputs = free.iter().chain(output).copied();
        let inputs: Vec<u32> = inputs.take(free.len() + output.len() - 1).collect();
        let model = self.model();
        self.run(|| {
            // `prefix` leaves out the last token of what it gets, so the sequence ends right before
            // `from`.
            let mut sequence = self.prefix(history.get(..=from).unwrap_or_default());
            let mut saved = Vec::new();
            let mut x = forward(model, &mut sequence, &inputs, Goal::Gradient(&mut saved));
            // The rows before only feed the attention of these; they have no loss of their own.
            let x = x.split_off(x.len() - output.len() * model.config.dim);
            let logits = logits(model, &x);
            let mut each = logits.chunks_exact(model.config.vocab);
            if let Some(output) = each.position(|row| row.iter().any(|logit| !logit.is_finite())) {
                return Err(SaliencyError::NotFinite { output });
            }
            Ok(Tape {
                engine: self,
                sequence,
                saved,
                x,
                logits,
                rows: inputs.len(),
            })
        })
    }
}

impl Tape<'_> {
    /// The logits that predict each output token, row after row.
    pub fn logits(&self) -> &[f32] {
        &self.logits
    }

    /// The product of a vector, one number for each of [`Tape::logits`], with their Jacobian: for each
    /// token from the first free one on, the gradient of its embedding.
    ///
    /// The rows of the output tokens follow those of the history, without that of the last.
    ///
    /// # Errors
    /// It is called by a rayon thread, or the vector has another length.
    pub fn pull_back(&self, vector: &[f32]) -> Result<Vec<f32>, SaliencyError> {
        let model = self.engine.model();
        if vector.len() != self.logits.len() {
            return Err(SaliencyError::OtherLength {
                found: vector.len(),
                wanted: self.logits.len(),
            });
        }
        self.engine.run(|| {
            let last = from_logits(model, &self.x, vector);
            // The vector says nothing of the history's rows: their gradients begin at 0 and come from
            // the attention of later rows.
            let mut dx = vec![0.0; self.rows * model.config.dim - last.len()];
            dx.extend(last);
            through_layers(
                model,
                &self.sequence,
                &self.saved,
                &mut dx,
                |attention, qkv, dout, dqkv| {
                    attention.backward_jointly(qkv, dout, dqkv);
                },
            );
            Ok(dx)
        })
    }
}

/// Sizes only: it holds a conversation.
impl fmt::Debug for Tape<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tape")
            .field("rows", &self.rows)
            .finish_non_exhaustive()
    }
}
