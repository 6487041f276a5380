//! Weights: a matrix packed once for the multiplication.
#![expect(
    clippy::indexing_slicing,
    reason = "shapes are checked where matrices are made; an index beyond one is a bug that must stop here"
)]

use rayon::prelude::*;

use super::gemm::{PANEL, Panels, Rows, multiply, transpose_tile};

/// Outputs whose weights are transposed together on the way back: 2.3 MB at SmolLM2's width.
const TRANSPOSED_OUTPUTS: usize = 1024;

/// A matrix that maps `inputs` numbers to `outputs` numbers.
pub(crate) struct Matrix {
    outputs: usize,
    inputs: usize,
    /// `ceil(inputs / 32) · 32`: whole squares can be transposed.
    height: usize,
    /// `ceil(outputs / 32)` panels of `height × 32`; the rest is zeros.
    panels: Vec<f32>,
}

impl Matrix {
    /// Packs matrices with `inputs` columns, row-major, one below the other.
    pub(crate) fn pack(parts: &[&[f32]], inputs: usize) -> Self {
        let outputs = parts.iter().map(|part| part.len() / inputs).sum::<usize>();
        let height = inputs.next_multiple_of(PANEL);
        let mut panels = vec![0.0; outputs.div_ceil(PANEL) * PANEL * height];
        let rows = parts.iter().flat_map(|part| part.chunks_exact(inputs));
        // A panel holds 32 outputs side by side, one line per input, as `multiply` streams them.
        // What is beyond the last output or input stays 0, which adds nothing to a product.
        for (output, row) in rows.enumerate() {
            let panel = &mut panels[output / PANEL * PANEL * height..][..PANEL * height];
            for (line, value) in panel.chunks_exact_mut(PANEL).zip(row) {
                line[output % PANEL] = *value;
            }
        }
        Self {
            outputs,
            inputs,
            height,
            panels,
        }
    }

    /// The weights of one output, as an embedding.
    pub(crate) fn row(&self, output: usize, into: &mut [f32]) {
        let panel = &self.panels[output / PANEL * PANEL * self.height..][..PANEL * self.height];
        for (cell, line) in into.iter_mut().zip(panel.chunks_exact(PANEL)) {
            *cell = line[output % PANEL];
        }
    }

    /// `y = x·Wᵀ` of `rows` rows, or `y += x·Wᵀ` where `add` is set.
    pub(crate) fn apply(&self, x: &[f32], rows: usize, y: &mut [f32], add: bool) {
        let panels = Panels {
            pieces: &[&self.panels],
            used: self.inputs,
            tall: self.height,
        };
        let part = rows_per_thread(rows);
        y[..rows * self.outputs]
            .par_chunks_mut(part * self.outputs)
            .zip(x[..rows * self.inputs].par_chunks(part * self.inputs))
            .for_each(|(y, x)| {
                let x = Rows {
                    data: x,
                    stride: self.inputs,
                    count: x.len() / self.inputs,
                };
                multiply(x, panels, self.outputs, y, self.outputs, add);
            });
    }

    /// `x = y·W` of `rows` rows: the gradient with respect to the inputs.
    pub(crate) fn apply_transposed(&self, y: &[f32], rows: usize, x: &mut [f32]) {
        // Only one packing is kept, since a second one would double the memory of the weights. So
        // the way back transposes a slice of them at a time and multiplies with that.
        let mut first = 0;
        let squares = self.height / PANEL;
        let mut scratch =
            vec![
                0.0;
                squares * TRANSPOSED_OUTPUTS.min(self.outputs.next_multiple_of(PANEL)) * PANEL
            ];
        while first < self.outputs {
            let count = TRANSPOSED_OUTPUTS.min(self.outputs - first);
            let tall = count.next_multiple_of(PANEL);
            scratch[..squares * tall * PANEL]
                .par_chunks_mut(tall * PANEL)
                .enumerate()
                .for_each(|(square, into)| {
                    for (at, into) in into.chunks_exact_mut(PANEL * PANEL).enumerate() {
                        let panel = first / PANEL + at;
                        let from = panel * PANEL * self.height + square * PANEL * PANEL;
                        transpose_tile(&self.panels[from..], into);
                    }
                });
            let panels = Panels {
                pieces: &[&scratch],
                used: count,
                tall,
            };
            let part = rows_per_thread(rows);
            x[..rows * self.inputs]
                .par_chunks_mut(part * self.inputs)
                .zip(y[..rows * self.outputs].par_chunks(part * self.outputs))
                .for_each(|(x, y)| {
                    let y = Rows {
                        data: &y[first..],
                        stride: self.outputs,
                        count: y.len() / self.outputs,
                    };
                    // The first slice overwrites what `x` held, the others add to it.
                    multiply(y, panels, self.inputs, x, self.inputs, first > 0);
                });
            first += count;
        }
    }
}

/// One part per thread: each streams the weights once.
fn rows_per_thread(rows: usize) -> usize {
    rows.div_ceil(rayon::current_num_threads()).max(1)
}
