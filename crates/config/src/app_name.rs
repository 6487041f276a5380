//! Names of apps.

use hub::isc::PREFIX;

/// Longest name of an app. It is a part of tool names, whose length providers limit.
const MAX: usize = 64;

/// The help for a name that an app cannot have.
pub(crate) fn remedy(name: &str) -> Option<&'static str> {
    let allowed = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    if name.is_empty() || name.len() > MAX || !name.chars().all(allowed) {
        return Some("use at most 64 letters, digits, '-' and '_'");
    }
    // The app's tools could be confused with functionalities.
    let is_reserved = name.starts_with(PREFIX) || format!("{name}__") == PREFIX;
    is_reserved
        .then_some("ask__NAME is how a model asks for a functionality; call the app otherwise")
}
