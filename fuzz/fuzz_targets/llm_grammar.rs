//! A schema, as the grammar of the embedded model. It is bounded, and each rule is defined once.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    fuzz_targets::run("llm_grammar", bytes);
});
