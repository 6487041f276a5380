//! The first bytes of a connection. Reading them must not panic, there is a verdict after so many, and one that was given
//! is not changed by what follows.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    fuzz_targets::run("names_first_bytes", bytes);
});
