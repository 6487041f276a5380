//! The target of this name in `lab/fuzz-targets`.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    fuzz_targets::run("llm_answer", bytes);
});
