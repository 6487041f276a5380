//! The backward pass where later rows see earlier ones, so that keys and values have gradients from
//! all rows after them.
#![expect(
    clippy::indexing_slicing,
    reason = "shapes are checked where matrices are made; an index beyond one is a bug that must stop here"
)]

use rayon::prelude::*;

use super::{Attention, Scratch, TASK_ROWS, Task, gather, scatter, score_stride};
use crate::{
    config::BLOCK,
    kernels::{Panels, Rows, multiply},
};

/// The gradients of one key head, its values and its query heads.
struct Head {
    /// Query heads side by side, row after row.
    queries: Vec<f32>,
    /// By block of the sequence, from the one with the first row: `head width × 32 tokens`.
    keys: Vec<f32>,
    /// The same.
    values: Vec<f32>,
}

impl Attention<'_> {
    /// From the gradient of [`Attention::forward`]'s result, that of queries, keys and values of the
    /// same rows. Keys and values of rows before are constants.
    pub(crate) fn backward_jointly(&self, qkv: &[f32], dout: &[f32], dqkv: &mut [f32]) {
        let config = self.config;
        let start = self.sequence.length - qkv.len() / config.qkv();
        let transposed = self.transposed();
        // A thread for each key head: rows of different threads would add to the same keys.
        let heads: Vec<Head> = (0..config.kv_heads)
            .into_par_iter()
            .map(|head| self.head_gradients(head, start, qkv, dout, &transposed))
            .collect();
        let (width, wide) = (config.head_dim, config.group() * config.head_dim);
        for (row, line) in dqkv.chunks_exact_mut(config.qkv()).enumerate() {
            let position = start + row;
            let (block, slot) = (position / BLOCK - start / BLOCK, position % BLOCK);
            let (queries, rest) = line.split_at_mut(config.q());
            let (keys, values) = rest.split_at_mut(config.kv_heads * width);
            for (at, head) in heads.iter().enumerate() {
                queries[at * wide..][..wide].copy_from_slice(&head.queries[row * wide..][..wide]);
                for column in 0..width {
                    let from = (block * width + column) * BLOCK + slot;
                    keys[at * width + column] = head.keys[from];
                    values[at * width + column] = head.values[from];
                }
            }
        }
    }

    fn head_gradients(
        &self,
        head: usize,
        start: usize,
        qkv: &[f32],
        dout: &[f32],
        transposed: &[f32],
    ) -> Head {
        let config = self.config;
        let (width, wide) = (config.head_dim, config.group() * config.head_dim);
        // Keys and values before the first row are constants. The first row's block may hold some of
        // them; the gradients that they get there are not read.
        let first_block = start / BLOCK;
        let size = (self.sequence.length.div_ceil(BLOCK) - first_block) * width * BLOCK;
        let mut all = Head {
            queries: vec![0.0; qkv.len() / config.qkv() * wide],
            keys: vec![0.0; size],
            values: vec![0.0; size],
        };
        // One task after the other, because they add to the same keys and values.
        let mut scratch = Scratch::default();
        let mut turned = Turned::default();
        let tasks = qkv
            .chunks(TASK_ROWS * config.qkv())
            .zip(dout.chunks(TASK_ROWS * config.q()))
            .zip(all.queries.chunks_mut(TASK_ROWS * wide));
        for (at, ((qkv, dout), queries)) in tasks.enumerate() {
            let task = Task {
                first: start + at * TASK_ROWS,
                output: 0,
                qkv,
                dout,
            };
            let blocks = first_block..task.blocks(config);
            let stride = score_stride(blocks.end);
            self.attend(&mut scratch, head, task.first, qkv);
            self.attention_gradient(&mut scratch, head, &task, transposed);
            // `scratch.queries` holds the gradient of the result now.
            turned.set(&scratch.queries, width);
            turned.add_product(&scratch.scores, stride, blocks.clone(), &mut all.values);
            self.score_gradient(&mut scratch, head, &task, transposed);
            // `queries` holds the heads of this group alone, so they begin at head 0.
            scatter(config, 0, &scratch.result, queries, wide);
            // Unscaled, as in `own_key`: the gradient of the scores has the scale already.
            gather(config, head, qkv, config.qkv(), 1.0, &mut scratch.queries);
            turned.set(&scratch.queries, width);
            turned.add_product(&scratch.gradient, stride, blocks, &mut all.keys);
        }
        all
    }
}

/// A matrix whose transpose is multiplied with scores.
#[derive(Default)]
struct Turned {
    /// `width × count`.
    columns: Vec<f32>,
    width: usize,
    count: usize,
    /// Scores of one block: `count × 32`.
    panel: Vec<f32>,
}

impl Turned {
    /// Of rows of `width` numbers.
    fn set(&mut self, rows: &[f32], width: usize) {
        (self.width, self.count) = (width, rows.len() / width);
        self.columns.resize(rows.len(), 0.0);
        for (at, row) in rows.chunks_exact(width).enumerate() {
            for (column, value) in row.iter().enumerate() {
                self.columns[column * self.count + at] = *value;
            }
        }
        self.panel.resize(self.count * BLOCK, 0.0);
    }

    /// For each of these blocks, adds the product with the block's scores to its part of `into`. The
    /// first part belongs to the first block.
    fn add_product(
        &mut self,
        scores: &[f32],
        stride: usize,
        blocks: std::ops::Range<usize>,
        into: &mut [f32],
    ) {
        for (block, into) in blocks.zip(into.chunks_exact_mut(self.width * BLOCK)) {
            // Scores of one block lie `stride` apart; the multiplication wants its right side as one
            // panel.
            let lines = self.panel.chunks_exact_mut(BLOCK);
            for (line, row) in lines.zip(scores.chunks_exact(stride)) {
                line.copy_from_slice(&row[block * BLOCK..][..BLOCK]);
            }
            let left = Rows {
                data: &self.columns,
                stride: self.count,
                count: self.width,
            };
            let right = Panels {
                pieces: &[&self.panel],
                used: self.count,
                tall: self.count,
            };
            multiply(left, right, BLOCK, into, BLOCK, true);
        }
    }
}
