//! Places that hold more than a command needs, and are not shown for it.

use std::ffi::OsStr;
use std::path::{Component, Path};

use super::error::FindError;
use crate::launcher::is_of;

/// Files and folders of keys.
const KEYS: &str = ".ssh .gnupg .aws .azure .kube .docker .pki .password-store .mozilla .thunderbird .netrc .pgpass \
    .npmrc .pypirc .git-credentials .vault-token .electrum .bitcoin keyrings id_rsa id_dsa id_ecdsa id_ed25519";
/// Folders of a home that many programs share.
const SHARED: &str = ".local .local/bin .local/lib .local/share .config .cache bin Desktop Documents Downloads \
    Pictures Projects";
/// The folders of all homes.
const HOMES: [&str; 2] = ["/home", "/Users"];

/// Refuses a place that holds more than a command needs. If the command names exactly this place (`named`), only places that
/// cannot be meant are refused.
pub(super) fn check(place: &Path, home: Option<&Path>, named: bool) -> Result<(), FindError> {
    let refuse = |reason: String| {
        Err(FindError::TooMuch {
            path: place.to_owned(),
            reason,
            first: match named {
                true => "name a folder in it",
                false => "move the program into a folder of its own",
            },
        })
    };
    let is_key = |name: &OsStr| name.to_str().is_some_and(|name| is_of(KEYS, name));
    let mut names = place.components().filter_map(|part| match part {
        Component::Normal(name) => Some(name),
        _ => None,
    });
    if let Some(key) = names.find(|name| is_key(name)) {
        return refuse(format!("keys are kept in '{}'", key.to_string_lossy()));
    }
    if !place.is_dir() {
        return Ok(());
    }
    // The root, or one name below it.
    if place.components().count() <= 2 {
        return refuse("that is a whole part of the system".to_owned());
    }
    let parent = place.parent().and_then(Path::to_str);
    if parent.is_some_and(|parent| HOMES.contains(&parent))
        || home.is_some_and(|home| home.starts_with(place))
    {
        return refuse("that is a whole home".to_owned());
    }
    let inside = home.and_then(|home| place.strip_prefix(home).ok()?.to_str());
    if !named && inside.is_some_and(|inside| is_of(SHARED, inside)) {
        return refuse("other programs keep their files there too".to_owned());
    }
    let mut keys = KEYS.split_ascii_whitespace();
    match keys.find(|key| place.join(key).symlink_metadata().is_ok()) {
        // A project may have settings of a package manager.
        Some(key) if !(named && matches!(key, ".npmrc" | ".docker")) => {
            refuse(format!("it holds '{key}'"))
        }
        _ => Ok(()),
    }
}
