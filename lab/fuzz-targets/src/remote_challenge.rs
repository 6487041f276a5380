//! What a server says with a 401. Scopes are fit to be shown, and few.

#[path = "../../../crates/remote/src/challenge.rs"]
mod challenge;

use reqwest::header::{HeaderMap, HeaderValue, WWW_AUTHENTICATE};

pub(crate) fn remote_challenge(bytes: &[u8]) -> bool {
    let mut headers = HeaderMap::new();
    for line in bytes.split(|byte| *byte == b'\n') {
        if let Ok(value) = HeaderValue::from_bytes(line) {
            headers.append(WWW_AUTHENTICATE, value);
        }
    }
    let Some(read) = challenge::Challenge::of(&headers) else {
        return false;
    };
    assert!(read.scopes.len() <= 64);
    for scope in &read.scopes {
        assert!((1..=128).contains(&scope.len()), "{scope:?}");
        assert!(
            scope
                .bytes()
                .all(|byte| byte.is_ascii_graphic() && byte != b'"' && byte != b'\\')
        );
    }
    let again = challenge::scopes(read.scopes.iter().map(String::as_str));
    assert_eq!(again, read.scopes);
    true
}
