//! Bytes from a spoke, in portions that the first byte chooses. The decoder must not panic, must not hold more than has
//! arrived twice over, and must give frames only that hold to their limits and survive a round trip.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    fuzz_targets::run("wire_decode", bytes);
});
