//! A pattern on the first line, then a text. Reading and matching must not panic, and no match is longer than an identifier.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    fuzz_targets::run("policy_pattern", bytes);
});
