//! One step of a session: saliency of 50 output tokens after a history that is in the cache but for
//! its last tokens. Cost should grow with what is new. Needs the model: `sluice model pull`.
#![expect(
    clippy::unwrap_used,
    clippy::print_stderr,
    reason = "a benchmark that cannot run says so"
)]

use std::{hint::black_box, path::PathBuf, sync::Arc, time::Duration};

use criterion::{BatchSize, BenchmarkId, Criterion, criterion_group, criterion_main};
use saliency::{CacheLimits, Engine, Model, gguf::Gguf};

const OUTPUT: u32 = 50;

/// Tokens that mean nothing: the cost does not depend on them.
fn tokens(seed: u32, count: u32) -> Vec<u32> {
    let token = |at: u32| at.wrapping_mul(7919).wrapping_add(seed * 31 + 17) % 49_000;
    (0..count).map(token).collect()
}

fn model() -> Option<Arc<Model>> {
    let base = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
    let base = base.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".cache")))?;
    let path = base.join("sluice/models/smollm2-135m-instruct-q4_1.gguf");
    if !path.is_file() {
        eprintln!("SKIPPED, {} is not here", path.display());
        return None;
    }
    Some(Arc::new(
        Model::from_gguf(&Gguf::open(&path).unwrap()).unwrap(),
    ))
}

/// `new` tokens after `history` cached ones: each time other tokens, so that they are new.
fn step(bench: &mut Criterion, group: &str, model: &Arc<Model>, history: u32, new: u32) {
    let limits = CacheLimits { bytes: 600 << 20 };
    let engine = Engine::new(Arc::clone(model), limits).unwrap();
    let (known, output) = (tokens(1, history), tokens(2, OUTPUT));
    let mut seed = 10;
    let mut group = bench.benchmark_group(group);
    group
        .sample_size(10)
        .measurement_time(Duration::from_secs(10));
    group.bench_function(BenchmarkId::new(format!("{new} new"), history), |bench| {
        bench.iter_batched(
            || {
                // The last history token's row is always computed.
                engine.losses(&[&*known, &[0]].concat(), &[], &[]).unwrap();
                seed += 1;
                [known.clone(), tokens(seed, new)].concat()
            },
            |tokens| black_box(engine.saliency(&tokens, &output).unwrap()),
            BatchSize::PerIteration,
        );
    });
    group.finish();
}

fn steps(bench: &mut Criterion) {
    let Some(model) = model() else { return };
    for history in [500, 1000, 2000, 4000, 7800] {
        step(bench, "history", &model, history, 300);
    }
    for new in [500, 1000, 2000, 4000, 8000] {
        step(bench, "from nothing", &model, 1, new);
    }
}

criterion_group!(benches, steps);
criterion_main!(benches);
