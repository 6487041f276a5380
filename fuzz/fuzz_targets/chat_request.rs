//! What the guard proxy reads of its client. It is refused with a reason, or within the limits.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    fuzz_targets::run("chat_request", bytes);
});
