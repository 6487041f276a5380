//! Bytes of a remote server's stream of events, in portions that the first byte chooses. How they are cut changes nothing, the
//! events are those of a plain reading of the whole text (WHATWG, "Interpreting an event stream"), no event is longer than
//! allowed, and what goes back in a header can stand in one. What an event holds is no panic, whether a message or not.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    fuzz_targets::run("remote_stream", bytes);
});
