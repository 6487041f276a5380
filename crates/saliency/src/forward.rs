//! The forward pass.

use crate::{
    attention::Attention,
    kernels::{normalize, swiglu},
    state::{Rotation, Saved, Sequence},
    weights::Model,
};

/// How far a forward pass has to go.
pub(crate) enum Goal<'a> {
    /// Keys and values only: the last layer ends with them.
    Keys,
    /// The last layer's result, keeping what the backward pass needs.
    Gradient(&'a mut Vec<Saved>),
}

/// Runs tokens that follow a sequence through the model and appends their keys and values to it.
/// Returns the residual stream of their rows after the last layer; it is nothing for [`Goal::Keys`].
pub(crate) fn forward(
    model: &Model,
    sequence: &mut Sequence,
    tokens: &[u32],
    mut goal: Goal<'_>,
) -> Vec<f32> {
    let config = &model.config;
    let rows = tokens.len();
    let rotation = Rotation::new(config, sequence.length, rows);
    sequence.grow(rows, config);

    let mut x = vec![0.0; rows * config.dim];
    for (row, token) in x.chunks_exact_mut(config.dim).zip(tokens) {
        model.embedding.row(*token as usize, row);
    }
    // Made once and overwritten by each layer.
    let mut normal = vec![0.0; rows * config.dim];
    let mut qkv = vec![0.0; rows * config.qkv()];
    let mut attended = vec![0.0; rows * config.q()];
    let mut gate_up = vec![0.0; rows * 2 * config.ffn];
    let mut gated = vec![0.0; rows * config.ffn];

    for (at, layer) in model.layers.iter().enumerate() {
        // `x` is the residual stream that both halves of the layer add to; the backward pass needs
        // it as it was before each.
        let input = matches!(goal, Goal::Gradient(_)).then(|| x.clone());

        normalize(&x, &layer.attention_norm, config.norm_eps, &mut normal);
        layer.qkv.apply(&normal, rows, &mut qkv, false);
        rotation.turn(&mut qkv, false);
        // Before the attention, since a row attends to itself too.
        sequence.store(at, config, &qkv);
        // Nothing reads what the last layer makes of these rows: the next rows need its keys and
        // values alone.
        if matches!(goal, Goal::Keys) && at + 1 == config.layers {
            return Vec::new();
        }
        let attention = Attention {
            config,
            sequence,
            layer: at,
        };
        attention.forward(&qkv, &mut attended);
        layer.attention_output.apply(&attended, rows, &mut x, true);
        let middle = matches!(goal, Goal::Gradient(_)).then(|| x.clone());

        normalize(&x, &layer.ffn_norm, config.norm_eps, &mut normal);
        layer.gate_up.apply(&normal, rows, &mut gate_up, false);
        swiglu(&gate_up, config.ffn, &mut gated);
        layer.down.apply(&gated, rows, &mut x, true);

        if let Goal::Gradient(saved) = &mut goal {
            saved.push(Saved {
                input: input.unwrap_or_default(),
                qkv: qkv.clone(),
                middle: middle.unwrap_or_default(),
                gate_up: gate_up.clone(),
            });
        }
    }
    x
}

/// The loss of each row's own next token, in nats, and the gradient of that loss with respect to the
/// row's logits.
pub(crate) fn losses(model: &Model, x: &[f32], targets: &[u32]) -> (Vec<f32>, Vec<f32>) {
    let config = &model.config;
    let mut normal = vec![0.0; x.len()];
    normalize(x, &model.output_norm, config.norm_eps, &mut normal);
    let rows = x.len() / config.dim;
    let mut logits = vec![0.0; rows * config.vocab];
    model.output.apply(&normal, rows, &mut logits, false);
    let losses = crate::kernels::losses(&mut logits, config.vocab, targets);
    (losses, logits)
}
