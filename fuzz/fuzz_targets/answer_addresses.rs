//! An answer that a hijacked model wrote. Whatever it is, what is shown holds no address, says the same again, and does not depend on
//! how the answer was cut.

#![no_main]

use hub::address::{Inert, inert};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &str| {
    let (shown, changed) = inert(input, |_, _| false);
    assert_eq!(changed == 0, shown == input);
    let again = inert(&shown, |_, _| false);
    assert_eq!(again, (shown.clone(), 0), "{input:?}");
    assert!(!shown.contains("://"), "{shown:?}");

    let mut pieces = Inert::new(|_: &str, _| false);
    let mut streamed = String::new();
    for piece in input.split_inclusive(|c: char| c.is_alphabetic()) {
        streamed.push_str(&pieces.push(piece));
    }
    streamed.push_str(&pieces.finish());
    assert_eq!(streamed, shown);
});
