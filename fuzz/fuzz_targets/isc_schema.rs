//! A schema of messages between apps, as a configuration or a manifest has it. Whatever is read must say the same again when it
//! is written, in full and within its limits; whatever is not must say where it is wrong.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    fuzz_targets::run("isc_schema", bytes);
});
