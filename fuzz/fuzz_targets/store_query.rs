//! A query. Reading it must not panic, its words are few, short and folded, and each is found by itself.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    fuzz_targets::run("store_query", bytes);
});
