//! Examples whose labels are a known function of their features.

use std::sync::Arc;

use super::model_spec::PAPER;
use crate::examples::Example;

/// The first `width` features of the paper. A region depends on its first feature and on the second feature of the
/// region before it, with little noise.
pub(crate) fn with_memory(steps: usize, width: usize, seed: u64) -> Vec<Example> {
    let mut random = fastrand::Rng::with_seed(seed);
    let columns: Arc<[String]> = PAPER[..width].iter().map(ToString::to_string).collect();
    let suites = ["banking", "slack", "travel", "workspace"];
    let mut normal = move || (0..12).map(|_| random.f32()).sum::<f32>() - 6.0;
    let example = |step: usize| {
        let regions = 2 + step % 7;
        let mut before = 0.0;
        let (mut features, mut weak) = (Vec::new(), Vec::new());
        for _ in 0..regions {
            // Not standardised, so that means and deviations matter.
            let row: Vec<f32> = (0..width).map(|at| normal() * 3.0 + at as f32).collect();
            let here = row[0] / 3.0;
            weak.push(here + 1.5 * before + 0.1 * normal() > 0.5);
            before = (row[1] - 1.0) / 3.0;
            features.push(row);
        }
        Example {
            step: format!("step {step}"),
            model: "m".to_owned(),
            suite: suites[step % suites.len()].to_owned(),
            user_task: format!("user_task_{}", step / suites.len() % 10),
            attack: None,
            columns: Arc::clone(&columns),
            regions: (0..).take(regions).collect(),
            features,
            hand: vec![None; regions],
            weight: vec![1.0; regions],
            weak,
        }
    };
    (0..steps).map(example).collect()
}
