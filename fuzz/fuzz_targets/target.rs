//! The target of `lab/fuzz-targets` that `SLUICE_FUZZ_TARGET` names:
//! `SLUICE_FUZZ_TARGET=gguf cargo fuzz run target lab/fuzz-targets/corpus/gguf`.

#![no_main]

use std::sync::LazyLock;

static NAME: LazyLock<String> = LazyLock::new(|| {
    std::env::var("SLUICE_FUZZ_TARGET").expect("SLUICE_FUZZ_TARGET names the target")
});

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    fuzz_targets::run(&NAME, bytes);
});
