//! The arguments of a call as a model wrote them. Whatever is read must have one text that is read as the same again, and
//! other readers must find in that text exactly what they find in the original.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    fuzz_targets::run("arguments", bytes);
});
