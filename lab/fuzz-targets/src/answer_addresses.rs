//! An answer that a hijacked model wrote. Whatever it is, what is shown holds no address, says the same again, and does not depend on
//! how the answer was cut.

use hub::address::{Inert, inert};

pub(crate) fn answer_addresses(bytes: &[u8]) -> bool {
    let Ok(input) = std::str::from_utf8(bytes) else {
        return false;
    };
    let (shown, changed) = inert(input, |_, _| false);
    assert_eq!(changed == 0, shown == input);
    let again = inert(&shown, |_, _| false);
    assert_eq!(again, (shown.clone(), 0), "{input:?}");
    assert!(!shown.contains("://"), "{shown:?}");

    let mut pieces = Inert::new(|_: &str, _| false);
    let mut streamed = String::new();
    // Behind every letter, so that each address is cut at each of its letters.
    for piece in input.split_inclusive(|c: char| c.is_alphabetic()) {
        streamed.push_str(&pieces.push(piece));
    }
    streamed.push_str(&pieces.finish());
    assert_eq!(streamed, shown);
    changed > 0
}
