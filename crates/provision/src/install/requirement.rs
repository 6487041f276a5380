//! Requirements of packages.

use serde::{Deserialize, Serialize};

/// A registry of packages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Registry {
    /// Packages of Node.
    Npm,
    /// Packages of Python.
    PyPi,
}

/// Whether a requirement is a package's name with or without versions: nothing that is an address, a path or an option.
pub(crate) fn is_of_registry(requirement: &str, registry: Registry) -> bool {
    let is_name = |name: &str, more: &str| {
        let allowed = |c: char| c.is_ascii_alphanumeric() || more.contains(c);
        name.starts_with(|c: char| c.is_ascii_alphanumeric()) && name.chars().all(allowed)
    };
    match registry {
        Registry::Npm => {
            let name = npm_name(requirement);
            let version = requirement.strip_prefix(name).unwrap_or_default();
            let parts = match name.strip_prefix('@') {
                Some(scoped) => scoped.split_once('/'),
                // Without a scope there is one part.
                None => Some((name, name)),
            };
            let fits = |c: char| c.is_ascii_alphanumeric() || "@.-+^~<>=|* ".contains(c);
            let is_part = |part| is_name(part, "-._~");
            parts.is_some_and(|(scope, name)| is_part(scope) && is_part(name))
                && version.chars().all(fits)
        }
        Registry::PyPi => {
            let name = pip_name(requirement);
            let rest = requirement.strip_prefix(name).unwrap_or_default();
            let fits = |c: char| c.is_ascii_alphanumeric() || "[],.-_+!<>=~* ".contains(c);
            is_name(name, "-._") && rest.chars().all(fits)
        }
    }
}

/// The name in `@scope/name@version`.
pub(crate) fn npm_name(requirement: &str) -> &str {
    let at = requirement.char_indices().skip(1).find(|(_, c)| *c == '@');
    at.and_then(|(at, _)| requirement.get(..at))
        .unwrap_or(requirement)
}

/// The name in `name[extra]>=1`.
pub(crate) fn pip_name(requirement: &str) -> &str {
    let of_name = |c: char| c.is_ascii_alphanumeric() || "-._".contains(c);
    let mut parts = requirement.split(|c| !of_name(c));
    parts.next().unwrap_or(requirement)
}
