//! What the backward pass lets others see.

use crate::kernels::add_absolute_products;

/// The attention of one head in one output row, and the gradient of that output token's own loss
/// with respect to it.
#[derive(Debug, Clone, Copy)]
pub struct Row<'a> {
    /// The output token, from 0.
    pub output: usize,
    /// The layer, from 0 at the embeddings.
    pub layer: usize,
    /// The query head within the layer.
    pub head: usize,
    /// Attention after the softmax, one value per position before and at the row: first the
    /// history's tokens, then the output tokens before this one. Sums to 1.
    pub attention: &'a [f32],
    /// `∂L_o/∂A` of the same positions, `L_o` in nats.
    pub gradient: &'a [f32],
}

impl Row<'_> {
    /// Adds `|A · ∂L/∂A|` to `sums`, position by position, up to the shorter of both.
    pub fn add_to(&self, sums: &mut [f32]) {
        add_absolute_products(sums, self.attention, self.gradient);
    }
}

/// Sees every attention row of every output token once; output tokens come in no particular order.
///
/// Rows of one output token come layer after layer from the last to the first, and by head within a
/// layer, for any number of threads: sums over them are repeatable. Calls come from threads of the
/// engine, one at a time for each call.
pub trait Observer: Send {
    /// One row.
    fn row(&mut self, row: Row<'_>);
}
