use std::sync::Arc;

use saliency::{Config, LayerWeights, Model, Weights};

use super::process::{forget_peak, load, peak, peak_of};
use super::*;

/// A model that knows nothing.
fn model() -> Arc<Model> {
    let config = Config {
        layers: 2,
        dim: 16,
        heads: 2,
        kv_heads: 1,
        head_dim: 8,
        ffn: 16,
        vocab: 258,
        context: 2048,
        rope_base: 10_000.0,
        norm_eps: 1e-5,
    };
    let mut random = fastrand::Rng::with_seed(3);
    let mut numbers = |count: usize| -> Vec<f32> {
        std::iter::repeat_with(|| random.f32() * 2.0 - 1.0)
            .take(count)
            .collect()
    };
    let layer = |numbers: &mut dyn FnMut(usize) -> Vec<f32>| LayerWeights {
        attention_norm: vec![1.0; 16],
        query: numbers(16 * 16),
        key: numbers(8 * 16),
        value: numbers(8 * 16),
        attention_output: numbers(16 * 16),
        ffn_norm: vec![1.0; 16],
        gate: numbers(16 * 16),
        up: numbers(16 * 16),
        down: numbers(16 * 16),
    };
    let weights = Weights {
        embedding: numbers(258 * 16),
        layers: vec![layer(&mut numbers), layer(&mut numbers)],
        output_norm: vec![1.0; 16],
        output: None,
    };
    Arc::new(Model::from_weights(config, weights).unwrap())
}

fn near(a: f64, b: f64) -> bool {
    (a - b).abs() < 1e-9
}

#[test]
fn medians_and_lines_are_those_made_by_hand() {
    assert_eq!(median(&[3.0, 1.0, 2.0]), Some(2.0));
    assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), Some(2.5));
    assert_eq!(median(&[]), None);

    let exact = fit(&[(0.0, 1.0), (1.0, 3.0), (2.0, 5.0)]).unwrap();
    assert_eq!((exact.start, exact.slope, exact.r2), (1.0, 2.0, 1.0));
    // Means 1 and 1; sums of products 2, 1 and 2.
    let loose = fit(&[(0.0, 0.0), (1.0, 2.0), (2.0, 1.0)]).unwrap();
    assert_eq!((loose.start, loose.slope, loose.r2), (0.5, 0.5, 0.25));
    assert_eq!(fit(&[(1.0, 0.0), (1.0, 2.0)]), None);
    assert_eq!(fit(&[]), None);
}

fn plan() -> SpeedPlan {
    SpeedPlan {
        fresh: vec![50, 100, 200],
        cached: 100,
        added: vec![10, 40],
        output: 5,
        runs: 3,
    }
}

fn tokens(count: usize) -> Vec<u32> {
    (0..250).cycle().take(count).collect()
}

#[test]
fn speed_measures_each_size_so_often() {
    let tokens = tokens(plan().tokens());
    assert_eq!(tokens.len(), 100 + 3 * 40 + 5);
    let mut said = Vec::new();
    let mut progress = |what: &str| said.push(what.to_owned());
    let found = speed(&model(), &tokens, &plan(), &mut progress).unwrap();
    assert_eq!(said[0], "50 new tokens");
    assert_eq!(said[4], "40 new tokens after 100");
    let sizes: Vec<Vec<usize>> = found
        .curves
        .iter()
        .map(|curve| curve.points.iter().map(|point| point.new).collect())
        .collect();
    assert_eq!(sizes, [vec![50, 100, 200], vec![10, 40]]);
    for point in found.curves.iter().flat_map(|curve| &curve.points) {
        assert_eq!((point.seconds.len(), point.output), (3, 5));
        assert!(point.best > 0.0 && point.best <= point.median);
        assert_eq!(median(&point.seconds), Some(point.median));
    }
    assert!(found.text().contains("after 100 cached tokens"));
    let short = speed(&model(), &tokens[1..], &plan(), &mut |_| ());
    assert!(short.unwrap_err().to_string().contains("too few"));
    let never = SpeedPlan { runs: 0, ..plan() };
    assert!(speed(&model(), &tokens, &never, &mut |_| ()).is_err());
}

#[test]
fn a_curve_tells_how_it_grows() {
    let point = |new: usize, median: f64| Point {
        new,
        output: 50,
        seconds: vec![median],
        median,
        best: median,
        peak: None,
    };
    let curve = Curve::new(0, vec![point(100, 1.0), point(200, 2.0), point(400, 4.0)]);
    let line = curve.line.unwrap();
    assert!(near(line.slope, 0.01) && near(line.start, 0.0) && near(line.r2, 1.0));
    assert!(near(curve.power.unwrap(), 1.0));
    let square = Curve::new(0, vec![point(100, 1.0), point(200, 4.0), point(400, 16.0)]);
    assert!(near(square.power.unwrap(), 2.0) && square.line.unwrap().r2 < 0.99);
    assert_eq!(Curve::new(0, vec![point(100, 1.0)]).line, None);
}

#[test]
fn the_peak_of_memory_is_the_systems() {
    assert_eq!(
        peak_of("Name:\tx\nVmHWM:\t  2048 kB\nVmRSS:\t 1 kB\n"),
        Some(2 << 20)
    );
    assert_eq!(peak_of("Name:\tx\n"), None);
    if cfg!(target_os = "linux") {
        assert!(peak().unwrap() > 1 << 20);
        assert!(load().unwrap() >= 0.0);
        if forget_peak() {
            let before = peak().unwrap();
            let much = vec![1u8; 64 << 20];
            assert!(peak().unwrap() >= before + (48 << 20));
            assert!(much.iter().all(|one| *one == 1));
        }
    }
}
