//! GIF's bound on what flows from a span of the input into a draft.
//!
//! With Gaussian noise of variance `σ²` on the embeddings of a span, the draft's distribution tells at
//! most `½ log det(1 + σ² J F Jᵀ)` nats about the noise, to first order, where `J` is the Jacobian of the
//! logits with respect to these embeddings and `F` the Fisher information of their softmax. That is at
//! most `½ σ² tr(J F Jᵀ)`, and the trace is the mean of `‖u J‖²` over random vectors `u` with covariance
//! `F`: each costs one vector–Jacobian product, which serves all spans at once.

use std::ops::Range;

use anyhow::{Result, ensure};
use fastrand::Rng;
use saliency::Engine;

/// What each input token contributes to the bound, by random vector.
#[derive(Debug, Clone, PartialEq)]
pub struct Flow {
    /// The first token that has a number.
    from: usize,
    /// By vector and token: `½ ‖u J‖²` of the token's embedding.
    products: Vec<Vec<f64>>,
}

/// GIF's scores of a region, in the order of [`RegionFlow::NAMES`].
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RegionFlow(pub [f64; 4]);

impl RegionFlow {
    /// The bound in nats at `σ = 1`; that over the region's tokens; the region's part of what flows
    /// from all tokens; its largest token over the largest of all, as attention's raw score.
    pub const NAMES: [&str; 4] = ["bound", "per token", "part of the step", "largest token"];
}

impl Flow {
    /// From the tokens of `input` from number `from` on to all tokens of `output`, by so many products.
    ///
    /// # Errors
    /// The model fails.
    pub fn new(
        engine: &Engine,
        (input, output): (&[u32], &[u32]),
        from: usize,
        products: usize,
        random: &mut Rng,
    ) -> Result<Self> {
        ensure!(products > 0, "nothing is estimated by 0 products");
        let tape = engine.record(input, output, from)?;
        let config = engine.model().config();
        let tokens = input.len() - from;
        let product = |_| {
            let mut vector = tape.logits().to_vec();
            for row in vector.chunks_exact_mut(config.vocab) {
                draw(row, random);
            }
            let gradient = tape.pull_back(&vector)?;
            // The rows of the output's tokens follow, which belong to no region.
            let rows = gradient.chunks_exact(config.dim).take(tokens);
            let half = |row: &[f32]| row.iter().map(|it| f64::from(*it).powi(2)).sum::<f64>() / 2.0;
            Ok(rows.map(half).collect())
        };
        let products = (0..products).map(product).collect::<Result<_>>()?;
        Ok(Self { from, products })
    }

    /// The scores of a span of the input, by the first so many products.
    #[must_use]
    pub fn region(&self, span: &Range<usize>, products: usize) -> RegionFlow {
        let used = self.products.get(..products).unwrap_or(&self.products);
        let count = used.len() as f64;
        let tokens = self.products.first().map_or(0, Vec::len);
        let token = |at: usize| used.iter().filter_map(|one| one.get(at)).sum::<f64>() / count;
        let (mut all, mut largest, mut own, mut peak) = (0.0, 0.0_f64, 0.0, 0.0_f64);
        for at in 0..tokens {
            let flow = token(at);
            all += flow;
            largest = largest.max(flow);
            if span.contains(&(self.from + at)) {
                own += flow;
                peak = peak.max(flow);
            }
        }
        let part = |of: f64, all: f64| if all > 0.0 { of / all } else { 0.0 };
        RegionFlow([
            own,
            own / span.len().max(1) as f64,
            part(own, all),
            part(peak, largest),
        ])
    }
}

/// Turns a row of logits into a random vector whose covariance is the Fisher information of their
/// softmax `p`, `diag(p) − p pᵀ`: `√p ξ − p Σ √p ξ` with random signs `ξ`.
fn draw(row: &mut [f32], random: &mut Rng) {
    // Shifted by the largest logit, so that no exponential overflows.
    let most = row.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    row.iter_mut()
        .for_each(|logit| *logit = (*logit - most).exp());
    let total: f32 = row.iter().sum();
    let mut mean = 0.0;
    for share in row.iter_mut() {
        // `√p ξ` in the place of the logit: the sign is the random `ξ`.
        let root = (*share / total).sqrt();
        *share = if random.bool() { root } else { -root };
        mean += *share;
    }
    for root in row.iter_mut() {
        // The square is `p` again, whatever the sign.
        *root -= *root * *root * mean;
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use saliency::{CacheLimits, Config, LayerWeights, Model, Weights};

    use super::*;

    const VOCAB: usize = 11;
    const DIM: usize = 8;

    /// A random model of one layer.
    fn engine() -> Engine {
        let config = Config {
            layers: 1,
            dim: DIM,
            heads: 2,
            kv_heads: 1,
            head_dim: 4,
            ffn: 12,
            vocab: VOCAB,
            context: 64,
            rope_base: 100.0,
            norm_eps: 1e-5,
        };
        let mut random = Rng::with_seed(3);
        let mut numbers =
            |count: usize| -> Vec<f32> { (0..count).map(|_| random.f32() * 2.0 - 1.0).collect() };
        let weights = Weights {
            embedding: numbers(VOCAB * DIM),
            layers: vec![LayerWeights {
                attention_norm: vec![1.0; DIM],
                query: numbers(8 * DIM),
                key: numbers(4 * DIM),
                value: numbers(4 * DIM),
                attention_output: numbers(DIM * 8),
                ffn_norm: vec![1.0; DIM],
                gate: numbers(12 * DIM),
                up: numbers(12 * DIM),
                down: numbers(DIM * 12),
            }],
            output_norm: vec![1.0; DIM],
            output: Some(numbers(VOCAB * DIM)),
        };
        let model = Arc::new(Model::from_weights(config, weights).unwrap());
        Engine::new(model, CacheLimits::default()).unwrap()
    }

    fn softmax(row: &[f32]) -> Vec<f32> {
        let total: f32 = row.iter().map(|logit| logit.exp()).sum();
        row.iter().map(|logit| logit.exp() / total).collect()
    }

    /// `½ tr(J F Jᵀ)` of each token by its definition: over all that the model may say, the mean square
    /// of the gradient of its log-probability, summed over the outputs.
    fn exact(engine: &Engine, input: &[u32], output: &[u32], from: usize) -> Vec<f64> {
        let tape = engine.record(input, output, from).unwrap();
        let mut sums = vec![0.0; input.len() - from];
        for (at, row) in tape.logits().chunks(VOCAB).enumerate() {
            let shares = softmax(row);
            for (said, share) in shares.iter().enumerate() {
                let mut vector = vec![0.0; tape.logits().len()];
                for (token, other) in shares.iter().enumerate() {
                    vector[at * VOCAB + token] = f32::from(u8::from(token == said)) - other;
                }
                let gradient = tape.pull_back(&vector).unwrap();
                for (sum, row) in sums.iter_mut().zip(gradient.chunks(DIM)) {
                    let square: f32 = row.iter().map(|it| it * it).sum();
                    *sum += f64::from(share * square) / 2.0;
                }
            }
        }
        sums
    }

    #[test]
    fn random_products_estimate_the_trace() {
        let engine = engine();
        let (input, output) = ([1, 5, 2, 9, 3, 3, 7, 0], [4, 10, 6]);
        let exact = exact(&engine, &input, &output, 2);
        let mut random = Rng::with_seed(1);
        let flow = Flow::new(&engine, (&input, &output), 2, 4000, &mut random).unwrap();
        for span in [2..3, 4..6, 2..8] {
            let expected: f64 = exact[span.start - 2..span.end - 2].iter().sum();
            let found = flow.region(&span, 4000).0;
            assert!(
                (found[0] / expected - 1.0).abs() < 0.1,
                "{found:?} {expected}"
            );
        }
    }

    #[test]
    fn vectors_have_the_fisher_information_as_their_covariance() {
        let logits = [1.0, -0.5, 2.0, 0.0];
        let shares = softmax(&logits);
        let mut random = Rng::with_seed(1);
        let count = 40_000;
        let mut sums = [[0.0; 4]; 4];
        for _ in 0..count {
            let mut row = logits;
            draw(&mut row, &mut random);
            for (sums, one) in sums.iter_mut().zip(row) {
                for (sum, other) in sums.iter_mut().zip(row) {
                    *sum += one * other / count as f32;
                }
            }
        }
        for (i, sums) in sums.iter().enumerate() {
            for (j, found) in sums.iter().enumerate() {
                let own = if i == j { shares[i] } else { 0.0 };
                let expected = own - shares[i] * shares[j];
                assert!(
                    (found - expected).abs() < 0.01,
                    "{i} {j}: {found} {expected}"
                );
            }
        }
    }

    #[test]
    fn a_region_has_its_part_of_the_flow() {
        let flow = Flow {
            from: 10,
            products: vec![vec![1.0, 2.0, 0.0, 5.0], vec![3.0, 2.0, 0.0, 3.0]],
        };
        assert_eq!(flow.region(&(11..13), 2).0, [2.0, 1.0, 0.25, 0.5]);
        assert_eq!(flow.region(&(10..12), 1).0, [3.0, 1.5, 0.375, 0.4]);
        assert_eq!(flow.region(&(3..9), 2).0, [0.0; 4]);
    }
}
