//! The first bytes of a connection. Reading them must not panic, there is a verdict after so many, and one that was given
//! is not changed by what follows.

use names::DomainName;
use names::first_bytes::{MOST, Verdict, look};

pub(crate) fn names_first_bytes(bytes: &[u8]) -> bool {
    let Some((port, bytes)) = bytes.split_first() else {
        return false;
    };
    let port = match port % 3 {
        0 => 443,
        1 => 80,
        _ => 8443,
    };
    let name = DomainName::new("a.org").expect("it is one");
    let bytes = bytes.get(..MOST).unwrap_or(bytes);
    let verdict = look(&name, port, bytes);
    if bytes.len() == MOST {
        assert!(!matches!(verdict, Verdict::More | Verdict::FitsYet));
    }
    // One byte less is enough: by induction a verdict holds for every continuation.
    let before = bytes
        .get(..bytes.len().saturating_sub(1))
        .unwrap_or_default();
    match look(&name, port, before) {
        Verdict::More | Verdict::FitsYet => {}
        earlier => assert_eq!(earlier, verdict),
    }
    matches!(verdict, Verdict::Fits)
}
