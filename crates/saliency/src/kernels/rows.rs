//! What is done to rows of numbers. Plain loops, compiled for the machine's vectors by `dispatch`.
#![expect(
    clippy::indexing_slicing,
    reason = "shapes are checked where matrices are made; an index beyond one is a bug that must stop here"
)]

use pulp::{Arch, Simd, WithSimd};
use rayon::prelude::*;

/// Sums and maxima run in so many lanes, which the compiler puts into vectors.
const LANES: usize = 32;

#[inline(always)]
fn lanes(values: &[f32], start: f32, join: impl Fn(f32, f32) -> f32) -> f32 {
    // A single running sum would be a chain of dependent additions, which the compiler may not reorder.
    let mut lanes = [start; LANES];
    let (chunks, rest) = values.as_chunks::<LANES>();
    for chunk in chunks {
        for (lane, value) in lanes.iter_mut().zip(chunk) {
            *lane = join(*lane, *value);
        }
    }
    let joined = lanes.into_iter().fold(start, &join);
    rest.iter()
        .fold(joined, |so_far, value| join(so_far, *value))
}

#[inline(always)]
fn largest(values: &[f32]) -> f32 {
    lanes(values, f32::NEG_INFINITY, |a, b| if a > b { a } else { b })
}

#[inline(always)]
fn total(values: &[f32]) -> f32 {
    lanes(values, 0.0, |a, b| a + b)
}

#[inline(always)]
fn dot_product(a: &[f32], b: &[f32]) -> f32 {
    let mut lanes = [0.0; LANES];
    let (a, a_rest) = a.as_chunks::<LANES>();
    let (b, b_rest) = b.as_chunks::<LANES>();
    for (a, b) in a.iter().zip(b) {
        for ((lane, a), b) in lanes.iter_mut().zip(a).zip(b) {
            *lane += a * b;
        }
    }
    let rest = a_rest.iter().zip(b_rest).map(|(a, b)| a * b).sum::<f32>();
    lanes.iter().sum::<f32>() + rest
}

/// `e^x` within 2 units of the last place, from `x = n·ln 2 + r`; flat beyond ±87.
#[inline(always)]
fn exp(x: f32) -> f32 {
    const LIMIT: f32 = 87.0;
    /// Adding it rounds to an integer, which is then in the lowest bits.
    const ROUND: f32 = 12_582_912.0;
    /// `ln 2` in two parts; the first has so few bits that its product with `n` is exact.
    const LN2_HIGH: f32 = 0.693_359_4;
    const LN2_LOW: f32 = -2.121_944_4e-4;
    let x = if x < -LIMIT { -LIMIT } else { x };
    let x = if x > LIMIT { LIMIT } else { x };
    // `n` is x/ln 2 rounded to an integer, so |r| is at most half of ln 2, where a Taylor polynomial of
    // degree 7 is exact enough for f32.
    let shifted = x * core::f32::consts::LOG2_E + ROUND;
    let n = shifted - ROUND;
    let r = (x - n * LN2_HIGH) - n * LN2_LOW;
    let mut p = 1.0 / 5040.0;
    for factor in [
        1.0 / 720.0,
        1.0 / 120.0,
        1.0 / 24.0,
        1.0 / 6.0,
        0.5,
        1.0,
        1.0,
    ] {
        p = p * r + factor;
    }
    // Times 2^n: the low bits of `shifted` hold n, and 23 further up they are the exponent.
    f32::from_bits(p.to_bits().wrapping_add(shifted.to_bits() << 23))
}

/// A function whose loops are compiled for the machine's vectors. `pulp` has this for closures too, but
/// the compiler does not inline those, and then their loops keep to the oldest instructions.
macro_rules! vectorized {
    ($(#[$doc:meta])* $name:ident($($argument:ident: $kind:ty),*) -> $result:ty $body:block) => {
        $(#[$doc])*
        pub(crate) fn $name<'a>($($argument: $kind),*) -> $result {
            struct Call<'a> { $($argument: $kind,)* }
            impl<'a> WithSimd for Call<'a> {
                type Output = $result;
                #[inline(always)]
                fn with_simd<S: Simd>(self, _: S) -> $result {
                    let Self { $($argument,)* } = self;
                    $body
                }
            }
            Arch::new().dispatch(Call { $($argument,)* })
        }
    };
}

vectorized! {
    /// `a·b`.
    dot(a: &'a [f32], b: &'a [f32]) -> f32 { dot_product(a, b) }
}

vectorized! {
    /// `sums += |a·b|`, number by number.
    add_absolute_products(sums: &'a mut [f32], a: &'a [f32], b: &'a [f32]) -> () {
        for ((sum, a), b) in sums.iter_mut().zip(a).zip(b) {
            *sum += (a * b).abs();
        }
    }
}

vectorized! {
    /// From the gradient of a softmax's result that of its input, times `scale`.
    softmax_backward(gradient: &'a mut [f32], result: &'a [f32], scale: f32) -> () {
        // dx_i = y_i (dy_i − Σ_j y_j dy_j), where y is the softmax's result.
        let mean = dot_product(gradient, result);
        for (gradient, result) in gradient.iter_mut().zip(result) {
            *gradient = scale * result * (*gradient - mean);
        }
    }
}

vectorized! {
    /// The softmax of the first `seen` values of a row; the others become 0.
    softmax(row: &'a mut [f32], seen: usize) -> () {
        let (row, hidden) = row.split_at_mut(seen);
        // Without the largest the exponentials could overflow; it cancels in the quotient.
        let most = largest(row);
        for value in row.iter_mut() {
            *value = exp(*value - most);
        }
        let scale = 1.0 / total(row);
        for value in row {
            *value *= scale;
        }
        hidden.fill(0.0);
    }
}

vectorized! {
    /// Turns logits into their gradient; returns the largest of them and the sum of `e^(logit − largest)`
    /// over all tokens but the target.
    logits_backward(logits: &'a mut [f32], target: usize) -> (f32, f32) {
        let most = largest(logits);
        for value in logits.iter_mut() {
            *value = exp(*value - most);
        }
        // Without the target: where it is nearly certain, 1 minus its share would be rounding only.
        let own = std::mem::take(&mut logits[target]);
        let others = total(logits);
        let scale = 1.0 / (own + others);
        for value in logits.iter_mut() {
            *value *= scale;
        }
        logits[target] = -others * scale;
        (most, others)
    }
}

vectorized! {
    /// `silu(gate) · up` of one row that holds both halves.
    swiglu_row(y: &'a mut [f32], both: &'a [f32]) -> () {
        let (gate, up) = both.split_at(y.len());
        for ((y, gate), up) in y.iter_mut().zip(gate).zip(up) {
            *y = gate / (1.0 + exp(-gate)) * up;
        }
    }
}

vectorized! {
    /// The way back of [`swiglu_row`].
    swiglu_row_backward(both: &'a mut [f32], dy: &'a [f32]) -> () {
        let (gate, up) = both.split_at_mut(dy.len());
        for ((gate, up), dy) in gate.iter_mut().zip(up).zip(dy) {
            let sigmoid = 1.0 / (1.0 + exp(-*gate));
            let silu = *gate * sigmoid;
            // The derivative of g·σ(g), which is σ + g·σ·(1 − σ).
            let slope = sigmoid + silu * (1.0 - sigmoid);
            *gate = dy * *up * slope;
            *up = dy * silu;
        }
    }
}

/// Turns each row of logits into the gradient of `−log softmax(logits)[target]`, and returns these losses.
pub(crate) fn losses(logits: &mut [f32], vocab: usize, targets: &[u32]) -> Vec<f32> {
    let rows = logits.par_chunks_exact_mut(vocab).zip(targets);
    rows.map(|(row, target)| loss(row, *target as usize))
        .collect()
}

fn loss(logits: &mut [f32], token: usize) -> f32 {
    let target = logits[token];
    let (most, others) = logits_backward(logits, token);
    // With own = e^−below: −ln(own / (own + others)) = ln(1 + others · e^below). `ln_1p` keeps the digits
    // where the target is nearly certain, and f64 keeps the exponential from overflowing.
    let (below, others) = (f64::from(most) - f64::from(target), f64::from(others));
    // Beyond this `e^below` nears the largest f64, and the 1 counts for nothing.
    let loss = if below < 500.0 {
        (others * below.exp()).ln_1p()
    } else {
        below + others.ln()
    };
    loss as f32
}

/// Root mean square normalisation of each row.
pub(crate) fn normalize(x: &[f32], weight: &[f32], eps: f32, y: &mut [f32]) {
    let width = weight.len();
    y.par_chunks_mut(width)
        .zip(x.par_chunks(width))
        .with_min_len(ROWS_AT_LEAST)
        .for_each(|(y, x)| {
            let scale = inverse_root_mean_square(x, eps);
            for ((y, x), weight) in y.iter_mut().zip(x).zip(weight) {
                *y = x * scale * weight;
            }
        });
}

/// Rows that are worth giving to another thread.
const ROWS_AT_LEAST: usize = 16;

fn inverse_root_mean_square(x: &[f32], eps: f32) -> f32 {
    1.0 / (dot(x, x) / x.len() as f32 + eps).sqrt()
}

/// Adds to `dx` the gradient of a normalisation of `x`, where `dy` is that of its result.
pub(crate) fn normalize_backward(x: &[f32], weight: &[f32], eps: f32, dy: &[f32], dx: &mut [f32]) {
    let width = weight.len();
    dx.par_chunks_mut(width)
        .zip(x.par_chunks(width))
        .zip(dy.par_chunks(width))
        .with_min_len(ROWS_AT_LEAST)
        .for_each(|((dx, x), dy)| {
            let scale = inverse_root_mean_square(x, eps);
            let along = x.iter().zip(dy).zip(weight);
            let along = along.map(|((x, dy), weight)| x * dy * weight).sum::<f32>();
            // y_j = x_j·s·w_j with s = (mean(x²) + ε)^−½ gives dx_i = s·w_i·dy_i − x_i·s³/width · Σ_j
            // x_j·w_j·dy_j.
            let back = along * scale * scale * scale / width as f32;
            for (((dx, x), dy), weight) in dx.iter_mut().zip(x).zip(dy).zip(weight) {
                *dx += scale * weight * dy - x * back;
            }
        });
}

/// `silu(gate) · up` of rows that hold both halves.
pub(crate) fn swiglu(gate_up: &[f32], width: usize, y: &mut [f32]) {
    y.par_chunks_mut(width)
        .zip(gate_up.par_chunks(2 * width))
        .with_min_len(ROWS_AT_LEAST)
        .for_each(|(y, both)| swiglu_row(y, both));
}

/// Puts the gradients of both halves in their place, from that of `silu(gate) · up`.
pub(crate) fn swiglu_backward(gate_up: &mut [f32], width: usize, dy: &[f32]) {
    gate_up
        .par_chunks_mut(2 * width)
        .zip(dy.par_chunks(width))
        .with_min_len(ROWS_AT_LEAST)
        .for_each(|(both, dy)| swiglu_row_backward(both, dy));
}
