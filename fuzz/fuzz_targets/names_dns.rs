//! A question for a name. Reading it must not panic, what it names is a domain name or none, and no response is longer than what fits.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    fuzz_targets::run("names_dns", bytes);
});
