//! A path on the first line, then a tool's result. Labelling must not panic, must keep the text, and must give text that
//! is not JSON the most restrictive label as a whole. Any path that is accepted may be queried over any text, and no
//! region is above the most restrictive label.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    fuzz_targets::run("policy_label", bytes);
});
