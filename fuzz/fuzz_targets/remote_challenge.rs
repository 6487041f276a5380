//! What a server says with a 401. Scopes are fit to be shown, and few.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    fuzz_targets::run("remote_challenge", bytes);
});
