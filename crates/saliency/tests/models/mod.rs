//! Finding the files of models that `sluice model pull` fetched.

use std::path::PathBuf;

/// The file, or nothing after a loud line where it is not pulled.
///
/// # Panics
/// `SLUICE_REQUIRE_MODELS=1` is set and the file is not there: a test that must run did not.
pub(crate) fn path(file: &str) -> Option<PathBuf> {
    let var = |name| {
        std::env::var_os(name)
            .filter(|v| !v.is_empty())
            .map(PathBuf::from)
    };
    let folder = var("SLUICE_MODELS").or_else(|| {
        let base = var("XDG_CACHE_HOME").filter(|path| path.is_absolute());
        let base = base.or_else(|| Some(var("HOME")?.join(".cache")))?;
        Some(base.join("sluice/models"))
    });
    let path = folder
        .map(|folder| folder.join(file))
        .filter(|path| path.is_file());
    let required = std::env::var("SLUICE_REQUIRE_MODELS").is_ok_and(|value| value == "1");
    assert!(
        path.is_some() || !required,
        "{file} is required: sluice model pull"
    );
    if path.is_none() {
        eprintln!("SKIPPED, {file} is not here; get it with: sluice model pull");
    }
    path
}
