//! The backward pass of the output rows.
//!
//! Each row has a loss of its own, and reaches it through itself only: a row's gradients need no other
//! row, so all rows go back in one batch, as the rows of the matrices.

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
    pub(crate) saved: Vec<Saved>,
}

/// Shows the observer all attention rows of these outputs, from the last layer to the first.
pub(crate) fn backward(
    model: &Model,
    sequence: &Sequence,
    outputs: Outputs<'_>,
    observer: &mut dyn Observer,
) {
    let config = &model.config;
    let rows = outputs.x.len() / config.dim;
    let rotation = Rotation::new(config, sequence.length - rows, rows);
    let observer = Mutex::new(observer);

    let mut dnormal = vec![0.0; rows * config.dim];
    let mut dgated = vec![0.0; rows * config.ffn];
    let mut dattended = vec![0.0; rows * config.q()];
    let mut dqkv = vec![0.0; rows * config.qkv()];
    let mut dx = vec![0.0; rows * config.dim];
    let eps = config.norm_eps;

    model
        .output
        .apply_transposed(outputs.dlogits, rows, &mut dnormal);
    normalize_backward(outputs.x, &model.output_norm, eps, &dnormal, &mut dx);

    let layers = model.layers.iter().zip(outputs.saved).enumerate();
    for (at, (layer, mut saved)) in layers.rev() {
        layer.down.apply_transposed(&dx, rows, &mut dgated);
        swiglu_backward(&mut saved.gate_up, config.ffn, &dgated);
        layer
            .gate_up
            .apply_transposed(&saved.gate_up, rows, &mut dnormal);
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
        if at == 0 {
            break;
        }
        rotation.turn(&mut dqkv, true);
        layer.qkv.apply_transposed(&dqkv, rows, &mut dnormal);
        normalize_backward(&saved.input, &layer.attention_norm, eps, &dnormal, &mut dx);
    }
}
