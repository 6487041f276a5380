//! A model file from anywhere. The reader must not panic, must not hold much more than the file has, and what it accepts
//! can be used: every tensor, and the vocabulary on a text, which its tokens must cover.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    fuzz_targets::run("gguf", bytes);
});
