//! A configuration and the file that it names, as somebody else wrote them: the first character chooses between TOML and an
//! `mcpServers` file, a NUL parts the two. Reading must not panic, every mistake must have a place in its file, and what is
//! accepted must be a policy that denies what it does not know.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    fuzz_targets::run("config_load", bytes);
});
