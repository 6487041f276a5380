//! A message between apps: a schema in the first line, the rest is what an app says. Whatever is admitted must be of the form, say
//! what was said, be no less restrictive than that, and tell nobody what is in a text that this reader may not see.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    fuzz_targets::run("isc_message", bytes);
});
