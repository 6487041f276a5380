//! How places and labels are written.

use std::path::Path;

/// A place by the name of its file alone.
pub(super) fn short(file: &Path, line: usize) -> String {
    let name = file.file_name().unwrap_or_default().to_string_lossy();
    format!("{name}:{line}")
}

/// A label as a set.
pub(super) fn set(names: &[String]) -> String {
    match names {
        [] => "{trusted, public}".to_owned(),
        [any] if any == "any" => "anything".to_owned(),
        names => format!("{{{}}}", names.join(", ")),
    }
}
