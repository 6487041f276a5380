//! Causal attention over the blocks of a sequence, forwards and backwards.
//!
//! Rows are taken a few at a time, and all query heads of one key head together, so that one
//! multiplication with a block of keys serves all of them and the scores stay in the cache next to the core.
#![expect(
    clippy::indexing_slicing,
    reason = "shapes are checked where matrices are made; an index beyond one is a bug that must stop here"
)]

use std::sync::Mutex;

use rayon::prelude::*;

use crate::{
    Observer, Row,
    config::{BLOCK, Config},
    kernels::{PANEL, Panels, Rows, multiply, softmax, softmax_backward, transpose_tile},
    state::Sequence,
};

/// Rows of a task. With the three query heads of a SmolLM2 group these are 60 rows, six tiles of the
/// multiplication; their scores over 4,000 tokens take 1 MB.
const TASK_ROWS: usize = 20;

/// Floats between two rows of scores: not a multiple of a large power of two, which would put all rows
/// into the same few lines of the first-level cache.
fn score_stride(blocks: usize) -> usize {
    blocks * BLOCK + 16
}

/// Rows of a task so that every thread has some.
fn task_rows(rows: usize) -> usize {
    rows.div_ceil(2 * rayon::current_num_threads())
        .clamp(1, TASK_ROWS)
}

/// The last `rows` rows of a sequence in one layer.
pub(crate) struct Attention<'a> {
    pub(crate) config: &'a Config,
    pub(crate) sequence: &'a Sequence,
    pub(crate) layer: usize,
}

#[derive(Default)]
struct Scratch {
    /// Queries (or their gradients) of one group of heads: head after head, row after row.
    queries: Vec<f32>,
    scores: Vec<f32>,
    gradient: Vec<f32>,
    result: Vec<f32>,
}

impl Attention<'_> {
    /// Each row's values weighted by its attention: `heads · head_dim` floats a row.
    pub(crate) fn forward(&self, qkv: &[f32], out: &mut [f32]) {
        let config = self.config;
        let rows = qkv.len() / config.qkv();
        let start = self.sequence.length - rows;
        let part = task_rows(rows);
        out.par_chunks_mut(part * config.q())
            .zip(qkv.par_chunks(part * config.qkv()))
            .enumerate()
            .for_each_init(Scratch::default, |scratch, (task, (out, qkv))| {
                let first = start + task * part;
                // All query heads of a key head together: their rows share the block of keys that is in the
                // cache.
                for head in 0..config.kv_heads {
                    self.attend(scratch, head, first, qkv);
                    self.weigh(scratch, head, first, out);
                }
            });
    }

    /// Attention of the rows from position `first`, into `scratch.scores`.
    fn attend(&self, scratch: &mut Scratch, head: usize, first: usize, qkv: &[f32]) {
        let config = self.config;
        let rows = qkv.len() / config.qkv();
        // On the queries, which are fewer numbers than the scores.
        let scale = 1.0 / (config.head_dim as f32).sqrt();
        gather(config, head, qkv, config.qkv(), scale, &mut scratch.queries);
        // Blocks after the last row of the task are masked for all of its rows, so they are not multiplied
        // at all.
        let blocks = (first + rows).div_ceil(BLOCK);
        let stride = score_stride(blocks);
        let count = config.group() * rows;
        // What is left of an earlier task is overwritten below.
        scratch.scores.resize(count * stride, 0.0);
        let queries = Rows {
            data: &scratch.queries,
            stride: config.head_dim,
            count,
        };
        for (at, block) in self.sequence.blocks[..blocks].iter().enumerate() {
            let keys = Panels {
                pieces: &[block.head(self.layer, head).0],
                used: config.head_dim,
                tall: config.head_dim.next_multiple_of(PANEL),
            };
            let into = &mut scratch.scores[at * BLOCK..];
            multiply(queries, keys, BLOCK, into, stride, false);
        }
        for (at, row) in scratch.scores.chunks_exact_mut(stride).enumerate() {
            // A row sees the positions before it and its own.
            softmax(row, first + at % rows + 1);
        }
    }

    /// `out = attention · values`.
    fn weigh(&self, scratch: &mut Scratch, head: usize, first: usize, out: &mut [f32]) {
        let config = self.config;
        let rows = out.len() / config.q();
        let blocks = (first + rows).div_ceil(BLOCK);
        let count = config.group() * rows;
        scratch.result.resize(count * config.head_dim, 0.0);
        let values = self.sequence.blocks[..blocks].iter();
        let values = values.map(|block| block.head(self.layer, head).1);
        let attention = Rows {
            data: &scratch.scores,
            stride: score_stride(blocks),
            count,
        };
        let values = Panels {
            pieces: &values.collect::<Vec<_>>(),
            used: BLOCK,
            tall: BLOCK,
        };
        let width = config.head_dim;
        multiply(attention, values, width, &mut scratch.result, width, false);
        scatter(config, head, &scratch.result, out, config.q());
    }

    /// From the gradient of [`Attention::forward`]'s result, that of queries, keys and values of the
    /// same rows. Keys and values of rows before are constants. `outputs` is the first row's number.
    pub(crate) fn backward(
        &self,
        qkv: &[f32],
        dout: &[f32],
        dqkv: &mut [f32],
        outputs: usize,
        observer: &Mutex<&mut dyn Observer>,
    ) {
        let config = self.config;
        let rows = qkv.len() / config.qkv();
        let start = self.sequence.length - rows;
        let transposed = self.transposed();
        let part = task_rows(rows);
        dqkv.par_chunks_mut(part * config.qkv())
            .zip(qkv.par_chunks(part * config.qkv()))
            .zip(dout.par_chunks(part * config.q()))
            .enumerate()
            .for_each_init(Scratch::default, |scratch, (task, ((dqkv, qkv), dout))| {
                let task = Task {
                    first: start + task * part,
                    output: outputs + task * part,
                    qkv,
                    dout,
                };
                for head in 0..config.kv_heads {
                    // Recomputed, not kept from the forward pass: the attention of all layers would take
                    // more memory than all other activations. Then the gradients of attention, value,
                    // scores, queries and key, as the chain rule goes.
                    self.attend(scratch, head, task.first, qkv);
                    self.attention_gradient(scratch, head, &task, &transposed);
                    // Before `score_gradient`, which overwrites the gradient of the attention with that of
                    // the scores.
                    self.show(scratch, head, &task, observer);
                    self.own_value(scratch, head, &task, dqkv);
                    self.score_gradient(scratch, head, &task, &transposed);
                    scatter(config, head, &scratch.result, dqkv, config.qkv());
                    self.own_key(scratch, head, &task, dqkv);
                }
            });
    }

    /// Per key head and block: keys as `32 tokens × head width`, values as `head width × 32 tokens`.
    fn transposed(&self) -> Vec<f32> {
        let width = self.config.head_dim.next_multiple_of(PANEL);
        let (size, blocks) = (2 * width * BLOCK, &self.sequence.blocks);
        let mut all = vec![0.0; self.config.kv_heads * blocks.len() * size];
        all.par_chunks_exact_mut(size)
            .enumerate()
            .for_each(|(at, into)| {
                let (head, block) = (at / blocks.len(), at % blocks.len());
                let (keys, values) = blocks[block].head(self.layer, head);
                let from = keys.chunks_exact(BLOCK * PANEL);
                let from = from.chain(values.chunks_exact(BLOCK * PANEL));
                for (from, into) in from.zip(into.chunks_exact_mut(BLOCK * PANEL)) {
                    transpose_tile(from, into);
                }
            });
        all
    }

    /// `dA = dout · valuesᵀ`, into `scratch.gradient`.
    fn attention_gradient(
        &self,
        scratch: &mut Scratch,
        head: usize,
        task: &Task<'_>,
        transposed: &[f32],
    ) {
        let config = self.config;
        gather(
            config,
            head,
            task.dout,
            config.q(),
            1.0,
            &mut scratch.queries,
        );
        let blocks = task.blocks(config);
        let stride = score_stride(blocks);
        let count = config.group() * task.rows(config);
        scratch.gradient.resize(count * stride, 0.0);
        let dout = Rows {
            data: &scratch.queries,
            stride: config.head_dim,
            count,
        };
        // All positions get a gradient, the masked ones too; there the attention is 0, and so becomes the
        // score's gradient.
        for at in 0..blocks {
            let values = Panels {
                pieces: &[self.of_block(transposed, head, at).1],
                used: config.head_dim,
                tall: config.head_dim.next_multiple_of(PANEL),
            };
            let into = &mut scratch.gradient[at * BLOCK..];
            multiply(dout, values, BLOCK, into, stride, false);
        }
    }

    fn of_block<'b>(
        &self,
        transposed: &'b [f32],
        head: usize,
        block: usize,
    ) -> (&'b [f32], &'b [f32]) {
        let half = self.config.head_dim.next_multiple_of(PANEL) * BLOCK;
        let at = head * self.sequence.blocks.len() + block;
        transposed[at * 2 * half..][..2 * half].split_at(half)
    }

    fn show(
        &self,
        scratch: &Scratch,
        head: usize,
        task: &Task<'_>,
        observer: &Mutex<&mut dyn Observer>,
    ) {
        let (rows, group) = (task.rows(self.config), self.config.group());
        let stride = score_stride(task.blocks(self.config));
        // A panic of the observer itself ends the whole call; there is nothing to protect after it.
        let mut observer = observer.lock().unwrap_or_else(|broken| broken.into_inner());
        for row in 0..rows {
            for query in 0..group {
                let from = (query * rows + row) * stride;
                let seen = task.first + row + 1;
                observer.row(Row {
                    output: task.output + row,
                    layer: self.layer,
                    head: head * group + query,
                    attention: &scratch.scores[from..][..seen],
                    gradient: &scratch.gradient[from..][..seen],
                });
            }
        }
    }

    /// The gradient of each row's own value, which only the row itself sees.
    fn own_value(&self, scratch: &Scratch, head: usize, task: &Task<'_>, dqkv: &mut [f32]) {
        let config = self.config;
        let (rows, width) = (task.rows(config), config.head_dim);
        let stride = score_stride(task.blocks(config));
        // A row of `dqkv` is all queries, then all keys, then all values.
        let at = config.q() + (config.kv_heads + head) * width;
        for (row, line) in dqkv.chunks_exact_mut(config.qkv()).enumerate() {
            let into = &mut line[at..][..width];
            into.fill(0.0);
            for query in 0..config.group() {
                let from = query * rows + row;
                let weight = scratch.scores[from * stride + task.first + row];
                let dout = &scratch.queries[from * width..][..width];
                for (cell, value) in into.iter_mut().zip(dout) {
                    *cell += weight * value;
                }
            }
        }
    }

    /// Through the softmax to the scores, and from them to the queries, into `scratch.result`.
    fn score_gradient(
        &self,
        scratch: &mut Scratch,
        head: usize,
        task: &Task<'_>,
        transposed: &[f32],
    ) {
        let config = self.config;
        let (rows, width) = (task.rows(config), config.head_dim);
        let (blocks, group) = (task.blocks(config), config.group());
        let stride = score_stride(blocks);
        let scale = 1.0 / (width as f32).sqrt();
        let lines = scratch.gradient.chunks_exact_mut(stride);
        for (gradient, attention) in lines.zip(scratch.scores.chunks_exact(stride)) {
            // The scale of the queries is applied here, since `attend` put it on the queries that the scores
            // were made of.
            softmax_backward(gradient, attention, scale);
        }
        let keys = (0..blocks).map(|at| self.of_block(transposed, head, at).0);
        let keys = Panels {
            pieces: &keys.collect::<Vec<_>>(),
            used: BLOCK,
            tall: BLOCK,
        };
        let scores = Rows {
            data: &scratch.gradient,
            stride,
            count: group * rows,
        };
        scratch.result.resize(group * rows * width, 0.0);
        multiply(scores, keys, width, &mut scratch.result, width, false);
    }

    /// The gradient of each row's own key, from that of the scores.
    fn own_key(&self, scratch: &Scratch, head: usize, task: &Task<'_>, dqkv: &mut [f32]) {
        let config = self.config;
        let (rows, width, group) = (task.rows(config), config.head_dim, config.group());
        let stride = score_stride(task.blocks(config));
        let own = config.q() + head * width;
        for (row, line) in dqkv.chunks_exact_mut(config.qkv()).enumerate() {
            let into = &mut line[own..][..width];
            into.fill(0.0);
            for query in 0..group {
                let weight = scratch.gradient[(query * rows + row) * stride + task.first + row];
                // The queries as they are in `qkv`, unscaled: the gradient of the scores has the scale
                // already.
                let from = row * config.qkv() + (head * group + query) * width;
                for (cell, value) in into.iter_mut().zip(&task.qkv[from..][..width]) {
                    *cell += weight * value;
                }
            }
        }
    }
}

struct Task<'a> {
    first: usize,
    /// The output token that the first predicts.
    output: usize,
    qkv: &'a [f32],
    dout: &'a [f32],
}

impl Task<'_> {
    fn rows(&self, config: &Config) -> usize {
        self.qkv.len() / config.qkv()
    }

    fn blocks(&self, config: &Config) -> usize {
        (self.first + self.rows(config)).div_ceil(BLOCK)
    }
}

/// The query heads of one key head, head after head, of rows that begin with all query heads.
fn gather(
    config: &Config,
    head: usize,
    from: &[f32],
    stride: usize,
    scale: f32,
    into: &mut Vec<f32>,
) {
    let (width, group) = (config.head_dim, config.group());
    into.clear();
    for query in head * group..(head + 1) * group {
        for row in from.chunks_exact(stride) {
            let head = &row[query * width..][..width];
            into.extend(head.iter().map(|value| value * scale));
        }
    }
}

/// The way back from [`gather`].
fn scatter(config: &Config, head: usize, from: &[f32], into: &mut [f32], stride: usize) {
    let (width, group) = (config.head_dim, config.group());
    let rows = into.len() / stride;
    for (query, lines) in from.chunks_exact(rows * width).enumerate() {
        let at = (head * group + query) * width;
        for (row, line) in into.chunks_exact_mut(stride).zip(lines.chunks_exact(width)) {
            row[at..][..width].copy_from_slice(line);
        }
    }
}
