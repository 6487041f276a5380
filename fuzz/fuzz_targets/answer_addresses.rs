//! An answer that a hijacked model wrote. Whatever it is, what is shown holds no address, says the same again, and does not depend on
//! how the answer was cut.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    fuzz_targets::run("answer_addresses", bytes);
});
