//! What an app writes, in portions that the first byte chooses. How it is cut changes nothing.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    fuzz_targets::run("mcp_guard", bytes);
});
