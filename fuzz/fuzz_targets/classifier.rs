//! The content of a file of weights, without its hash. It is refused, or it is a classifier that can be used, whose own
//! file is the same, and which gives every region a probability.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    fuzz_targets::run("classifier", bytes);
});
