//! Bytes from a spoke, in portions that the first byte chooses. The decoder must not panic, must not hold more than has
//! arrived twice over, and must give frames only that hold to their limits and survive a round trip.

use wire::{Decoder, Frame, HubFrame, SpokeFrame, encode};

pub(crate) fn wire_decode(bytes: &[u8]) -> bool {
    let Some((portion, stream)) = bytes.split_first() else {
        return false;
    };
    let portion = usize::from(*portion).max(1);
    // Both directions: a hostile spoke sends the first, and a spoke reads the second.
    let of_spoke = decode::<SpokeFrame>(stream, portion);
    let of_hub = decode::<HubFrame>(stream, portion);
    of_spoke || of_hub
}

fn decode<F: Frame + PartialEq + std::fmt::Debug>(stream: &[u8], portion: usize) -> bool {
    let mut decoder = Decoder::<F>::new();
    let mut has_frame = false;
    let mut arrived: usize = 0;
    for mut input in stream.chunks(portion) {
        arrived += input.len();
        while let Ok(Some(frame)) = decoder.decode(&mut input) {
            has_frame = true;
            frame.check().expect("a decoded frame holds to its limits");
            let bytes = encode(&frame).expect("a decoded frame can be sent");
            let again = Decoder::<F>::new().decode(&mut bytes.as_slice());
            assert_eq!(again, Ok(Some(frame)));
        }
        assert!(decoder.allocated() <= arrived.saturating_mul(2));
    }
    let _ = decoder.finish();
    has_frame
}
