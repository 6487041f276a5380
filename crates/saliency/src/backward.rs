//! The backward pass.
//!
//! Each output row has a loss of its own, and reaches it through itself only: a row's gradients need no other row, so all
//! rows go back in one batch, as the rows of the matrices.

use std::sync::Mutex;

use crate::{
    Observer,
    attention::Attention,
    kernels::{normalize_backward, swiglu_backward},
    state::{Rotation, Saved, Sequence},
    weights::Model,
};

/// The rows whose gradients are computed: the last ones of the sequence.
pub(crate) struct Outputs<'a> {
    /// The number of the first one's output token.
    pub(crate) first: usize,
    /// The residual stream after the last layer.
    pub(crate) x: &'a [f32],
    /// The gradient of each row's loss with respect to its logits.
    pub(crate) dlogits: &'a [f32],
    /// What the forward pass kept, by layer.
    pub(crate) saved: &'a [Saved],
}

/// Shows the observer all attention rows of these outputs, from the last layer to the first.
pub(crate) fn backward(
    model: &Model,
    sequence: &Sequence,
    outputs: &Outputs<'_>,
    observer: &mut dyn Observer,
) {
    let config = &model.config;
    let eps = config.norm_eps;
    // Heads and rows are computed by several threads, and the observer is called by one at a time.
    let observer = Mutex::new(observer);
    let rows = outputs.x.len() / config.dim;
    let mut dnormal = vec![0.0; rows * config.dim];
    // The gradient of the residual stream, from behind the last layer to before the first.
    let mut dx = vec![0.0; rows * config.dim];
    model
        .output
        .apply_transposed(outputs.dlogits, rows, &mut dnormal);
    normalize_backward(outputs.x, &model.output_norm, eps, &dnormal, &mut dx);
    let rotation = Rotation::new(config, sequence.length - rows, rows);
    let mut dgated = vec![0.0; rows * config.ffn];
    let mut dgate_up = vec![0.0; rows * 2 * config.ffn];
    let mut dattended = vec![0.0; rows * config.q()];
    let mut dqkv = vec![0.0; rows * config.qkv()];

    let layers = model.layers.iter().zip(outputs.saved).enumerate();
    // The residual stream passes `dx` on unchanged; each half of a layer adds its own part of the
    // gradient to it, in `normalize_backward`. First the feed-forward network, then the attention.
    for (at, (layer, saved)) in layers.rev() {
        layer.down.apply_transposed(&dx, rows, &mut dgated);
        // Overwritten in place: it holds the activations, then their gradients.
        dgate_up.copy_from_slice(&saved.gate_up);
        swiglu_backward(&mut dgate_up, config.ffn, &dgated);
        layer
            .gate_up
            .apply_transposed(&dgate_up, rows, &mut dnormal);
        normalize_backward(&saved.middle, &layer.ffn_norm, eps, &dnormal, &mut dx);

        layer
            .attention_output
            .apply_transposed(&dx, rows, &mut dattended);
        let attention = Attention {
            config,
            sequence,
            layer: at,
        };
        attention.backward(&saved.qkv, &dattended, &mut dqkv, outputs.first, &observer);
        // These are the gradients of the turned queries and keys.
        rotation.turn(&mut dqkv, true);
        layer.qkv.apply_transposed(&dqkv, rows, &mut dnormal);
        normalize_backward(&saved.input, &layer.attention_norm, eps, &dnormal, &mut dx);
    }
}
