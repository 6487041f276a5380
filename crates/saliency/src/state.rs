//! What a run over some tokens keeps: the sequence's keys and values, the rotary tables, the activations.

use std::sync::Arc;

use rayon::prelude::*;

use crate::{
    cache::Block,
    config::{BLOCK, Config},
};

/// The keys and values of a sequence. Blocks may be shared with the cache; a shared one is copied
/// before it is written to.
#[derive(Clone, Default)]
pub(crate) struct Sequence {
    pub(crate) blocks: Vec<Arc<Block>>,
    pub(crate) length: usize,
}

impl Sequence {
    /// Makes room for more tokens, which `store` then fills.
    pub(crate) fn grow(&mut self, rows: usize, config: &Config) {
        self.length += rows;
        while self.blocks.len() < self.length.div_ceil(BLOCK) {
            self.blocks.push(Arc::new(Block::new(config)));
        }
    }

    /// Stores the keys and values of the last rows in one layer. A row of `qkv` holds queries, keys
    /// and values.
    pub(crate) fn store(&mut self, layer: usize, config: &Config, qkv: &[f32]) {
        let rows = qkv.len() / config.qkv();
        // `grow` has counted these rows already.
        let start = self.length - rows;
        let first = start / BLOCK;
        let last = self.length.div_ceil(BLOCK);
        let Some(blocks) = self.blocks.get_mut(first..last) else {
            return;
        };
        blocks.par_iter_mut().enumerate().for_each(|(at, block)| {
            // The cache, or another call, may hold this block too: it keeps its content, and this
            // sequence gets a copy.
            let block = Arc::make_mut(block);
            let begin = (first + at) * BLOCK;
            let rows = qkv.chunks_exact(config.qkv()).zip(start..);
            // The first block may begin before the new rows, and later blocks begin after some of them.
            let rows = rows.skip(begin.saturating_sub(start));
            for (row, position) in rows.take_while(|(_, position)| *position < begin + BLOCK) {
                let (keys, values) = row
                    .split_at(config.q())
                    .1
                    .split_at(config.kv_heads * config.head_dim);
                let keys = keys.chunks_exact(config.head_dim);
                let values = values.chunks_exact(config.head_dim);
                for (head, (key, value)) in keys.zip(values).enumerate() {
                    block.put(layer, head, position % BLOCK, key, value);
                }
            }
        });
    }
}

/// The rotary embedding's cosines and sines of some positions in a row.
#[derive(Debug)]
pub(crate) struct Rotation {
    /// Per position: `head_dim / 2` pairs.
    table: Vec<(f32, f32)>,
    half: usize,
    /// Floats of a row that are turned: queries and keys.
    turned: usize,
    width: usize,
}

impl Rotation {
    pub(crate) fn new(config: &Config, start: usize, rows: usize) -> Self {
        let half = config.head_dim / 2;
        // In f64: at position 8,000 an angle in f32 is off by half a thousandth.
        let speeds = (0..half).map(|pair| {
            f64::from(config.rope_base).powf(-2.0 * pair as f64 / config.head_dim as f64)
        });
        let speeds = speeds.collect::<Vec<_>>();
        let table = (start..start + rows).flat_map(|position| {
            speeds.iter().map(move |speed| {
                let (sin, cos) = (position as f64 * speed).sin_cos();
                (cos as f32, sin as f32)
            })
        });
        Self {
            table: table.collect(),
            half,
            turned: config.q() + config.kv_heads * config.head_dim,
            width: config.qkv(),
        }
    }

    /// Turns queries and keys to their positions; backwards for their gradients.
    pub(crate) fn turn(&self, qkv: &mut [f32], backwards: bool) {
        // A gradient goes back through the transpose of a rotation, which is the rotation by the negative
        // angle.
        let sign = if backwards { -1.0 } else { 1.0 };
        let rows = qkv.par_chunks_exact_mut(self.width);
        let tables = self.table.par_chunks_exact(self.half);
        rows.zip(tables).with_min_len(8).for_each(|(row, table)| {
            let (turned, _) = row.split_at_mut(self.turned);
            for head in turned.chunks_exact_mut(2 * self.half) {
                // GGUF's `llama` layout turns neighbours (2i, 2i + 1), not the two halves of a head, as
                // the layout of Hugging Face's files does.
                let (pairs, _) = head.as_chunks_mut::<2>();
                for ([even, odd], (cos, sin)) in pairs.iter_mut().zip(table) {
                    let (a, b, sin) = (*even, *odd, sin * sign);
                    *even = a * cos - b * sin;
                    *odd = a * sin + b * cos;
                }
            }
        });
    }
}

/// What the backward pass needs of one layer's forward pass, of all output rows.
#[derive(Default)]
pub(crate) struct Saved {
    /// The layer's input.
    pub(crate) input: Vec<f32>,
    /// Queries, keys and values after the rotary embedding.
    pub(crate) qkv: Vec<f32>,
    /// The residual stream between attention and feed-forward network.
    pub(crate) middle: Vec<f32>,
    /// Gates and what they scale.
    pub(crate) gate_up: Vec<f32>,
}
