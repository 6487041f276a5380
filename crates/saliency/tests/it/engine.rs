//! The engine on small random models: against a plain implementation in f64 whose attention is changed
//! number by number, and against itself with and without its cache.
use std::sync::Arc;

use crate::naive::{Change, Naive, config, random};
use crate::{Saliency, saliency};
use proptest::prelude::*;
use saliency::{Engine, Model, ModelError, Observer, Row, SaliencyError};

const ROOMY: usize = 64 << 20;

fn engine(seed: u64, cache_bytes: usize) -> Engine {
    let model = Model::from_weights(config(), random(seed)).unwrap();
    Engine::new(Arc::new(model), cache_bytes).unwrap()
}

fn tokens(seed: u32, count: u32) -> Vec<u32> {
    (0..count)
        .map(|at| (at * 7 + at * at + seed) % 40)
        .collect()
}

fn losses(engine: &Engine, history: &[u32], output: &[u32]) -> Vec<f32> {
    saliency(engine, history, output).unwrap().losses
}

/// Every row, by output, layer and head.
#[derive(Default)]
struct All(Vec<Seen>);

type Seen = ((usize, usize, usize), Vec<f32>, Vec<f32>);

impl Observer for All {
    fn row(&mut self, row: Row<'_>) {
        let key = (row.output, row.layer, row.head);
        self.0
            .push((key, row.attention.to_vec(), row.gradient.to_vec()));
    }
}

#[test]
fn attention_and_gradients_are_those_of_a_loss_whose_attention_is_changed() {
    let (history, output) = (tokens(3, 37), tokens(5, 3));
    let mut all = All::default();
    let losses = engine(1, ROOMY)
        .observe(&history, &output, &mut all)
        .unwrap();
    let naive = Naive::new(random(1));
    let (expected, maps) = naive.losses(&history, &output, None);
    for (loss, expected) in losses.iter().zip(&expected) {
        assert!(
            (f64::from(*loss) - expected).abs() < 1e-5,
            "{loss} {expected}"
        );
    }
    assert_eq!(all.0.len(), 3 * 2 * 4);
    for ((output_at, layer, head), attention, gradient) in &all.0 {
        let row = history.len() - 1 + output_at;
        assert_eq!(attention.len(), row + 1);
        for at in (0..=row).step_by(3).chain([row]) {
            let found = f64::from(attention[at]);
            assert!((found - maps[*layer][*head][row][at]).abs() < 1e-5);
            let change = |by| {
                let change = Change {
                    layer: *layer,
                    head: *head,
                    row,
                    at,
                    by,
                };
                naive.losses(&history, &output, Some(change)).0[*output_at]
            };
            let expected = (change(1e-4) - change(-1e-4)) / 2e-4;
            let found = f64::from(gradient[at]);
            assert!(
                (found - expected).abs() < 1e-4 * (1.0 + expected.abs()),
                "output {output_at}, layer {layer}, head {head}, {at}: {found} is not {expected}"
            );
        }
    }
}

#[test]
fn saliency_is_the_sum_of_what_is_observed() {
    let (history, output) = (tokens(3, 70), tokens(5, 4));
    let engine = engine(2, ROOMY);
    let mut all = All::default();
    engine.observe(&history, &output, &mut all).unwrap();
    let saliency = saliency(&engine, &history, &output).unwrap();
    for row in 0..4 {
        for at in 0..70 {
            let rows = all.0.iter().filter(|(key, ..)| key.0 == row);
            let sum = rows.map(|(_, a, g)| (a[at] * g[at]).abs()).sum::<f32>();
            assert!((saliency.rows[row][at] - sum).abs() <= 1e-5 * sum);
        }
    }
}

#[test]
fn what_cannot_be_computed_is_an_error() {
    let engine = engine(1, ROOMY);
    assert_eq!(saliency(&engine, &[], &[1]), Err(SaliencyError::NoHistory));
    let error = SaliencyError::UnknownToken {
        token: 40,
        vocab: 40,
    };
    assert_eq!(saliency(&engine, &[1, 40], &[1]), Err(error.clone()));
    assert_eq!(saliency(&engine, &[1], &[40]), Err(error));
    let error = SaliencyError::TooLong {
        tokens: 257,
        context: 256,
    };
    assert_eq!(
        saliency(&engine, &tokens(0, 250), &tokens(0, 7)),
        Err(error)
    );
    assert!(saliency(&engine, &tokens(0, 250), &tokens(0, 6)).is_ok());
}

#[test]
fn a_broken_model_gives_no_numbers() {
    let mut weights = random(1);
    weights.layers[1].down[0] = f32::NAN;
    let model = Model::from_weights(config(), weights).unwrap();
    let engine = Engine::new(Arc::new(model), ROOMY).unwrap();
    let error = SaliencyError::NotFinite(0);
    assert_eq!(saliency(&engine, &[1, 2], &[3]), Err(error));

    let mut weights = random(1);
    weights.layers[1].down.pop();
    let refused = Model::from_weights(config(), weights);
    assert!(matches!(refused, Err(ModelError::Shape { .. })));
}

#[test]
fn no_output_only_fills_the_cache() {
    let engine = engine(1, ROOMY);
    let history = tokens(1, 50);
    assert_eq!(
        engine.observe(&history, &[], &mut All::default()),
        Ok(vec![])
    );
    assert_eq!(engine.cached(&history), 49);
}

#[test]
fn sessions_share_what_begins_alike() {
    let engine = engine(1, ROOMY);
    let common = tokens(1, 75);
    let with = |last: &[u32]| [&common[..], last].concat();
    saliency(&engine, &with(&[1, 2, 3]), &[5]).unwrap();
    let bytes = engine.cached_bytes();
    assert_eq!(engine.cached(&with(&[9, 8, 7])), 75);
    saliency(&engine, &with(&[9, 8, 7]), &[5]).unwrap();
    // Two whole blocks are shared; of the third there are now two.
    assert_eq!(engine.cached_bytes(), bytes / 3 * 4);
    assert_eq!(engine.cached(&with(&[1, 2, 3])), 77);
    assert_eq!(engine.cached(&with(&[9, 8, 7])), 77);
    // A history that goes on replaces the shorter form of its last block.
    saliency(&engine, &with(&[1, 2, 3, 4]), &[5]).unwrap();
    assert_eq!(engine.cached_bytes(), bytes / 3 * 4);
}

#[test]
fn what_was_not_used_for_longest_is_dropped() {
    let first = tokens(1, 65);
    let block = {
        let engine = engine(1, ROOMY);
        losses(&engine, &first, &[1]);
        engine.cached_bytes() / 2
    };
    let engine = engine(1, 4 * block);
    let fill = |seed| losses(&engine, &tokens(seed, 65), &[1]);
    fill(1);
    fill(2);
    fill(1);
    fill(3);
    assert_eq!(engine.cached_bytes(), 4 * block);
    assert_eq!(engine.cached(&tokens(1, 64)), 64);
    assert_eq!(engine.cached(&tokens(2, 64)), 0);
    assert_eq!(engine.cached(&tokens(3, 64)), 64);
    // A history that does not fit loses its end, not its beginning.
    losses(&engine, &tokens(9, 200), &[1]);
    assert_eq!(engine.cached(&tokens(9, 200)), 128);
}

#[test]
fn sessions_at_the_same_time_have_the_results_of_one_after_the_other() {
    let engine = engine(1, 200_000);
    std::thread::scope(|scope| {
        for seed in 0..4 {
            let engine = &engine;
            scope.spawn(move || {
                for length in [40, 90, 140] {
                    let history = tokens(seed % 2, length);
                    let found = losses(engine, &history, &[1, 2]);
                    let alone = losses(&self::engine(1, ROOMY), &history, &[1, 2]);
                    assert_eq!(found, alone);
                }
            });
        }
    });
}

/// Asks again while it is shown a row.
struct Asking<'a>(&'a Engine, Vec<Result<Saliency, SaliencyError>>);

impl Observer for Asking<'_> {
    fn row(&mut self, _: Row<'_>) {
        self.1.push(saliency(self.0, &[1, 2], &[3]));
    }
}

#[test]
fn a_call_within_a_call_is_refused_and_waits_for_nothing() {
    let engine = engine(1, ROOMY);
    let mut asking = Asking(&engine, Vec::new());
    assert!(engine.observe(&[1, 2], &[3], &mut asking).is_ok());
    assert_eq!(asking.1.len(), 2 * 4);
    let refused = Err(SaliencyError::Nested);
    assert!(asking.1.iter().all(|answer| *answer == refused));
}

struct Panicking;

impl Observer for Panicking {
    fn row(&mut self, _: Row<'_>) {
        std::panic::resume_unwind(Box::new("an observer's mistake"));
    }
}

#[test]
fn a_call_that_panics_does_not_stop_the_next() {
    let engine = engine(1, ROOMY);
    std::thread::scope(|scope| {
        let panics = scope.spawn(|| engine.observe(&[1, 2], &[3], &mut Panicking));
        assert!(panics.join().is_err());
    });
    assert_eq!(losses(&engine, &[1, 2], &[3]).len(), 1);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// Whatever was asked before, and however little the cache holds: the same numbers.
    #[test]
    fn the_cache_changes_nothing(
        asked in prop::collection::vec((0..3_u32, 1..150_u32, 1..5_u32), 1..8),
        blocks in 0..12_usize,
    ) {
        // 2 layers, 2 key heads, keys and values of 32 by 32 floats.
        let bytes = blocks * 2 * 2 * 2 * 32 * 32 * 4;
        let engine = engine(7, bytes);
        for (seed, length, outputs) in asked {
            let (history, output) = (tokens(seed, length), tokens(seed + 1, outputs));
            let found = saliency(&engine, &history, &output).unwrap();
            let alone = saliency(&self::engine(7, ROOMY), &history, &output).unwrap();
            prop_assert_eq!(found, alone);
            prop_assert!(engine.cached_bytes() <= bytes);
        }
    }
}
