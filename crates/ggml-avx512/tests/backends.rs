//! Both backends in one process: which one is chosen, and that they compute the same.
//!
//! One test, because a process has one registry.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stderr,
    reason = "tests fail by panicking, and say what they leave out"
)]

use std::ffi::CStr;
use std::num::NonZeroU32;
use std::path::Path;
use std::pin::pin;

use ggml_avx512::{CpuBackend, Reason, choose};
use llama_cpp_2::{
    context::params::LlamaContextParams,
    llama_backend::LlamaBackend,
    llama_batch::LlamaBatch,
    model::{LlamaModel, params::LlamaModelParams},
};
use model_files::{Cache, SMOLLM2_135M, find};

/// Longer than one batch of the kernels that read a prompt, so that these and those that write
/// one token are both used.
const TEXT: &str = "The quick brown fox jumps over the lazy dog. Whoever reads this sentence with \
    another set of instructions should be surprised by the same things: that foxes are brown, that \
    dogs are lazy, and that the next word is";
/// How far logits may differ (root mean square) as a part of how they vary (standard deviation). Kernels add in another
/// order, which tips over roundings to a few bits: 0.04 and 0.08 were measured, the same as against a build of llama.cpp for
/// this processor alone. Logits that have nothing to do with each other give 1.4.
const TOLERANCE: f32 = 0.2;

#[test]
fn the_chosen_backend_computes_what_the_portable_one_does() {
    let mut llama = LlamaBackend::init().unwrap();
    llama.void_logs();
    assert_eq!(
        choose(&mut llama, false),
        CpuBackend::Portable(Reason::AskedFor)
    );
    let portable = instructions(&mut llama);
    assert!(portable.contains("AVX2 = 1"), "{portable}");
    assert!(!portable.contains("AVX512"), "{portable}");
    let model = model();
    let expected = model.as_deref().map(|path| logits(&llama, path));

    let chosen = choose(&mut llama, true);
    let now = instructions(&mut llama);
    if !processor_has_vnni() {
        assert!(matches!(chosen, CpuBackend::Portable(Reason::Processor(_))));
        assert_eq!(now, portable);
        return;
    }
    // On a machine whose compiler knows AVX-512 the second backend was built, or something broke.
    assert_eq!(chosen, CpuBackend::Avx512);
    assert!(now.contains("AVX512_VNNI = 1"), "{now}");
    // It is there in the place of the other, not beside it.
    assert_eq!(now.matches("CPU : ").count(), 1, "{now}");
    assert_eq!(choose(&mut llama, true), CpuBackend::Avx512);
    assert_eq!(instructions(&mut llama), now);

    let (Some(path), Some(expected)) = (model, expected) else {
        return;
    };
    let actual = logits(&llama, &path);
    assert_ne!(actual, expected, "the same backend computed twice");
    for (actual, expected) in actual.iter().zip(&expected) {
        let difference: Vec<f32> = actual.iter().zip(expected).map(|(a, b)| a - b).collect();
        let part = deviation(&difference, 0.0) / deviation(expected, mean(expected));
        println!("the logits differ by {part} of their standard deviation");
        assert!(part < TOLERANCE, "{part}");
    }
}

#[cfg(target_arch = "x86_64")]
fn processor_has_vnni() -> bool {
    std::is_x86_feature_detected!("avx512vnni") && std::is_x86_feature_detected!("avx512bw")
}

#[cfg(not(target_arch = "x86_64"))]
fn processor_has_vnni() -> bool {
    false
}

/// The logits after a text that is read at once, and after one more token.
fn logits(llama: &LlamaBackend, path: &Path) -> [Vec<f32>; 2] {
    let params = pin!(LlamaModelParams::default());
    let model = LlamaModel::load_from_file(llama, path, &params).unwrap();
    let tokens = model.vocab().tokenize(TEXT.as_bytes(), true, false);
    let params = LlamaContextParams::default()
        .with_n_ctx(NonZeroU32::new(256))
        .with_n_threads(2)
        .with_n_threads_batch(2);
    let mut context = model.new_context(llama, params).unwrap();
    let (last, read) = tokens.split_last().unwrap();
    let mut batch = LlamaBatch::new(tokens.len(), 1);
    batch.add_sequence(read, 0, false).unwrap();
    context.decode(&mut batch).unwrap();
    let first = context.get_logits_ith(-1).to_vec();
    batch.clear();
    let position = i32::try_from(read.len()).unwrap();
    batch.add(*last, position, &[0], true).unwrap();
    context.decode(&mut batch).unwrap();
    [first, context.get_logits_ith(-1).to_vec()]
}

/// What the backends in the registry say they were compiled for.
fn instructions(_only: &mut LlamaBackend) -> String {
    // SAFETY: nobody else asks for it or changes the registry, since the test has the only `LlamaBackend`. The text is
    // a C string that lives until the next call.
    #[expect(unsafe_code, reason = "it has no safe wrapper")]
    let text = unsafe { CStr::from_ptr(llama_cpp_sys_2::llama_print_system_info()) };
    text.to_str().unwrap().to_owned()
}

fn mean(values: &[f32]) -> f32 {
    values.iter().sum::<f32>() / values.len() as f32
}

/// The root mean square distance from `center`.
fn deviation(values: &[f32], center: f32) -> f32 {
    let squares: Vec<f32> = values
        .iter()
        .map(|value| (value - center).powi(2))
        .collect();
    mean(&squares).sqrt()
}

/// The file of the small model: `None` (after a loud line) where it is not pulled.
fn model() -> Option<std::path::PathBuf> {
    let known = find(SMOLLM2_135M).unwrap();
    match Cache::of_user().and_then(|cache| cache.open(known)) {
        Ok(path) => Some(path),
        Err(error) if std::env::var_os("SLUICE_REQUIRE_MODELS").is_some_and(|v| v == "1") => {
            panic!("a model is required: {error}")
        }
        Err(error) => {
            eprintln!("SKIPPED, a model is missing: {error}");
            None
        }
    }
}
