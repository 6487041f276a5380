//! What an app can be called.

use hub::isc::PREFIX;

/// Longest name of an app: it is a part of tool names, which providers bound.
const MAX: usize = 64;

/// What would be right, where an app cannot have this name.
pub(crate) fn remedy(name: &str) -> Option<&'static str> {
    let allowed = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    if name.is_empty() || name.len() > MAX || !name.chars().all(allowed) {
        return Some("use at most 64 letters, digits, '-' and '_'");
    }
    // Its tools could be taken for functionalities.
    let is_reserved = name.starts_with(PREFIX) || format!("{name}__") == PREFIX;
    is_reserved
        .then_some("ask__NAME is how a model asks for a functionality; call the app otherwise")
}
