//! The request with which the user's browser comes back. Only one for our own address has a query.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    fuzz_targets::run("login_callback", bytes);
});
