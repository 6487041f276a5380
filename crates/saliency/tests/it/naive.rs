//! The model as plain loops in f64, with attention that can be changed in one place.

use saliency::{Config, LayerWeights, Weights};

pub(crate) fn config() -> Config {
    Config {
        layers: 2,
        dim: 12,
        heads: 4,
        kv_heads: 2,
        head_dim: 6,
        ffn: 20,
        vocab: 40,
        context: 256,
        rope_base: 100.0,
        norm_eps: 1e-5,
    }
}

/// Weights from a seed: a linear congruential generator.
pub(crate) fn random(seed: u64) -> Weights {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut numbers = |count: usize, around: f32, scale: f32| -> Vec<f32> {
        let next = || {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            let unit = (state >> 40) as f32 / (1_u64 << 24) as f32;
            around + (unit - 0.5) * 2.0 * scale
        };
        std::iter::repeat_with(next).take(count).collect()
    };
    let c = config();
    let (q, kv) = (c.heads * c.head_dim, c.kv_heads * c.head_dim);
    Weights {
        embedding: numbers(c.vocab * c.dim, 0.0, 1.0),
        layers: (0..c.layers)
            .map(|_| LayerWeights {
                attention_norm: numbers(c.dim, 1.0, 0.3),
                query: numbers(q * c.dim, 0.0, 0.7),
                key: numbers(kv * c.dim, 0.0, 0.7),
                value: numbers(kv * c.dim, 0.0, 0.7),
                attention_output: numbers(c.dim * q, 0.0, 0.5),
                ffn_norm: numbers(c.dim, 1.0, 0.3),
                gate: numbers(c.ffn * c.dim, 0.0, 0.5),
                up: numbers(c.ffn * c.dim, 0.0, 0.5),
                down: numbers(c.dim * c.ffn, 0.0, 0.5),
            })
            .collect(),
        output_norm: numbers(c.dim, 1.0, 0.3),
        output: seed
            .is_multiple_of(2)
            .then(|| numbers(c.vocab * c.dim, 0.0, 0.5)),
    }
}

/// One number of the attention, and what is added to it.
#[derive(Clone, Copy)]
pub(crate) struct Change {
    pub(crate) layer: usize,
    pub(crate) head: usize,
    pub(crate) row: usize,
    pub(crate) at: usize,
    pub(crate) by: f64,
}

pub(crate) struct Naive(Weights);

/// By layer, head, row and position.
type Maps = Vec<Vec<Vec<Vec<f64>>>>;

fn matvec(matrix: &[f32], x: &[f64]) -> Vec<f64> {
    let dot = |row: &[f32]| row.iter().zip(x).map(|(w, x)| f64::from(*w) * x).sum();
    matrix.chunks(x.len()).map(dot).collect()
}

fn norm(x: &[f64], weight: &[f32]) -> Vec<f64> {
    let mean = x.iter().map(|x| x * x).sum::<f64>() / x.len() as f64;
    let scale = 1.0 / (mean + f64::from(config().norm_eps)).sqrt();
    x.iter()
        .zip(weight)
        .map(|(x, w)| x * scale * f64::from(*w))
        .collect()
}

fn turn(x: &mut [f64], position: usize) {
    let c = config();
    for head in x.chunks_mut(c.head_dim) {
        for pair in 0..c.head_dim / 2 {
            let power = -2.0 * pair as f64 / c.head_dim as f64;
            let angle = position as f64 * f64::from(c.rope_base).powf(power);
            let (a, b) = (head[2 * pair], head[2 * pair + 1]);
            head[2 * pair] = a * angle.cos() - b * angle.sin();
            head[2 * pair + 1] = a * angle.sin() + b * angle.cos();
        }
    }
}

fn softmax(scores: &[f64]) -> Vec<f64> {
    let most = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let shares: Vec<f64> = scores.iter().map(|score| (score - most).exp()).collect();
    let sum: f64 = shares.iter().sum();
    shares.iter().map(|share| share / sum).collect()
}

impl Naive {
    pub(crate) fn new(weights: Weights) -> Self {
        Self(weights)
    }

    /// The losses of the output tokens, and the attention.
    pub(crate) fn losses(
        &self,
        history: &[u32],
        output: &[u32],
        change: Option<Change>,
    ) -> (Vec<f64>, Maps) {
        let (c, all) = (config(), [history, output].concat());
        let embed = |token: &u32| {
            let row = &self.0.embedding[*token as usize * c.dim..][..c.dim];
            row.iter().map(|x| f64::from(*x)).collect::<Vec<_>>()
        };
        let mut x: Vec<Vec<f64>> = all[..all.len() - 1].iter().map(embed).collect();
        let mut maps = Vec::new();
        for (at, layer) in self.0.layers.iter().enumerate() {
            maps.push(attention(layer, at, &mut x, change));
            for x in &mut x {
                let normal = norm(x, &layer.ffn_norm);
                let (gate, up) = (matvec(&layer.gate, &normal), matvec(&layer.up, &normal));
                let gated = gate.iter().zip(up).map(|(g, u)| g / (1.0 + (-g).exp()) * u);
                let down = matvec(&layer.down, &gated.collect::<Vec<_>>());
                x.iter_mut().zip(down).for_each(|(x, y)| *x += y);
            }
        }
        let table = self.0.output.as_ref().unwrap_or(&self.0.embedding);
        let rows = x[history.len() - 1..].iter().zip(output);
        let loss = |(x, token): (&Vec<f64>, &u32)| {
            let shares = softmax(&matvec(table, &norm(x, &self.0.output_norm)));
            -shares[*token as usize].ln()
        };
        (rows.map(loss).collect(), maps)
    }
}

/// Adds one layer's attention to `x`.
fn attention(
    layer: &LayerWeights,
    number: usize,
    x: &mut [Vec<f64>],
    change: Option<Change>,
) -> Vec<Vec<Vec<f64>>> {
    let c = config();
    let normal: Vec<_> = x.iter().map(|x| norm(x, &layer.attention_norm)).collect();
    let turned = |matrix: &[f32]| {
        let rows = normal.iter().enumerate().map(|(position, x)| {
            let mut y = matvec(matrix, x);
            turn(&mut y, position);
            y
        });
        rows.collect::<Vec<_>>()
    };
    let (queries, keys) = (turned(&layer.query), turned(&layer.key));
    let values: Vec<_> = normal.iter().map(|x| matvec(&layer.value, x)).collect();
    let mut maps = vec![Vec::new(); c.heads];
    for (row, x) in x.iter_mut().enumerate() {
        let mut out = vec![0.0; c.heads * c.head_dim];
        for (head, out) in out.chunks_mut(c.head_dim).enumerate() {
            let own = head / (c.heads / c.kv_heads) * c.head_dim;
            let query = &queries[row][head * c.head_dim..][..c.head_dim];
            let score = |at: usize| {
                let key = &keys[at][own..][..c.head_dim];
                let dot: f64 = query.iter().zip(key).map(|(q, k)| q * k).sum();
                dot / (c.head_dim as f64).sqrt()
            };
            let mut weights = softmax(&(0..=row).map(score).collect::<Vec<_>>());
            if let Some(change) = change
                && (change.layer, change.head, change.row) == (number, head, row)
            {
                weights[change.at] += change.by;
            }
            for (weight, value) in weights.iter().zip(&values) {
                let value = &value[own..][..c.head_dim];
                out.iter_mut()
                    .zip(value)
                    .for_each(|(o, v)| *o += weight * v);
            }
            maps[head].push(weights);
        }
        let out = matvec(&layer.attention_output, &out);
        x.iter_mut().zip(out).for_each(|(x, y)| *x += y);
    }
    maps
}
