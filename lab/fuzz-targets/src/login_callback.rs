//! The request with which the user's browser comes back. Only one for our own address has a query.

#[path = "../../../crates/cli/src/login/callback.rs"]
mod callback;

const HOST: &str = "127.0.0.1:7";
const PATH: &str = "/callback";

/// The target.
pub(crate) fn login_callback(bytes: &[u8]) -> bool {
    let Some(query) = callback::query(bytes, HOST, PATH) else {
        return false;
    };
    let head = std::str::from_utf8(bytes).expect("what has a query is text");
    assert!(head.starts_with("GET /callback?") && head.contains(HOST));
    let size: usize = query
        .iter()
        .map(|(name, value)| name.len() + value.len())
        .sum();
    // A byte that is no UTF-8 becomes a mark of three.
    assert!(size <= head.len() * 3);
    true
}
