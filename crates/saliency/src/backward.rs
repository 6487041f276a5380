//! The backward pass.
//!
//! For saliency each output row has a loss of its own, and reaches it through itself only: a row's
//! gradients need no other row, so all rows go back in one batch, as the rows of the matrices.
//! [`through_layers`] leaves the attention, where rows meet, to its caller.

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
    // Heads and rows are computed by several threads, and the observer is called by one at a time.
    let observer = Mutex::new(observer);
    let mut dx = from_logits(model, outputs.x, outputs.dlogits);
    let attend = |attention: &Attention<'_>, qkv: &[f32], dout: &[f32], dqkv: &mut [f32]| {
        attention.backward(qkv, dout, dqkv, outputs.first, &observer);
    };
    through_layers(model, sequence, outputs.saved, &mut dx, attend);
}

/// The gradient of the residual stream `x` after the last layer, from that of the logits of its rows.
pub(crate) fn from_logits(model: &Model, x: &[f32], dlogits: &[f32]) -> Vec<f32> {
    let config = &model.config;
    let mut dnormal = vec![0.0; x.len()];
    let mut dx = vec![0.0; x.len()];
    let rows = x.len() / config.dim;
    model.output.apply_transposed(dlogits, rows, &mut dnormal);
    let eps = config.norm_eps;
    normalize_backward(x, &model.output_norm, eps, &dnormal, &mut dx);
    dx
}

/// Takes the gradient `dx` of the residual stream of the last rows of a sequence from behind the last
/// layer to before the first. In each layer `attend` gets the attention, its queries, keys and
/// values, and the gradient of its result, and writes that of the queries, keys and values.
pub(crate) fn through_layers(
    model: &Model,
    sequence: &Sequence,
    saved: &[Saved],
    dx: &mut [f32],
    attend: impl Fn(&Attention<'_>, &[f32], &[f32], &mut [f32]),
) {
    let config = &model.config;
    let rows = dx.len() / config.dim;
    let rotation = Rotation::new(config, sequence.length - rows, rows);
    let mut dnormal = vec![0.0; rows * config.dim];
    let mut dgated = vec![0.0; rows * config.ffn];
    let mut dgate_up = vec![0.0; rows * 2 * config.ffn];
    let mut dattended = vec![0.0; rows * config.q()];
    let mut dqkv = vec![0.0; rows * config.qkv()];
    let eps = config.norm_eps;

    let layers = model.layers.iter().zip(saved).enumerate();
    // The residual stream passes `dx` on unchanged; each half of a layer adds its own part of the
    // gradient to it, in `normalize_backward`. First the feed-forward network, then the attention.
    for (at, (layer, saved)) in layers.rev() {
        layer.down.apply_transposed(dx, rows, &mut dgated);
        // Overwritten in place: it holds the activations, then their gradients.
        dgate_up.copy_from_slice(&saved.gate_up);
        swiglu_backward(&mut dgate_up, config.ffn, &dgated);
        layer
            .gate_up
            .apply_transposed(&dgate_up, rows, &mut dnormal);
        normalize_backward(&saved.middle, &layer.ffn_norm, eps, &dnormal, dx);

        layer
            .attention_output
            .apply_transposed(dx, rows, &mut dattended);
        let attention = Attention {
            config,
            sequence,
            layer: at,
        };
        attend(&attention, &saved.qkv, &dattended, &mut dqkv);
        // `attend` wrote the gradients of the turned queries and keys.
        rotation.turn(&mut dqkv, true);
        layer.qkv.apply_transposed(&dqkv, rows, &mut dnormal);
        normalize_backward(&saved.input, &layer.attention_norm, eps, &dnormal, dx);
    }
}
