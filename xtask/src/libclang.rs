//! Whether the build will find libclang, which bindgen loads at run time.
//!
//! This looks in the usual folders of Linux alone. Where it finds nothing, the build may still find it by `llvm-config`.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};

/// Folders with libraries; those below them count too.
const FOLDERS: [&str; 3] = ["/usr/lib", "/usr/lib64", "/usr/local/lib"];
/// How far below: `/usr/lib/llvm-14/lib`.
const DEPTH: usize = 2;

/// Whether there is a libclang.
pub(crate) fn found() -> bool {
    match env::var_os("LIBCLANG_PATH") {
        // A named place is the only one that the build looks at.
        Some(named) => is_libclang(Path::new(&named)) || has_libclang(Path::new(&named), 0),
        None => FOLDERS
            .iter()
            .any(|folder| has_libclang(Path::new(folder), DEPTH)),
    }
}

fn has_libclang(folder: &Path, depth: usize) -> bool {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let paths: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    paths.iter().any(|path| is_libclang(path))
        || (depth > 0 && paths.iter().any(|path| has_libclang(path, depth - 1)))
}

/// `libclang.so`, `libclang-14.so.13` and the like, and not `libclang-cpp.so` or a link whose target is gone.
fn is_libclang(path: &Path) -> bool {
    let name = path.file_name().and_then(|name| name.to_str());
    let rest = name.and_then(|name| name.strip_prefix("libclang"));
    rest.is_some_and(|rest| {
        rest.contains(".so")
            && (rest.starts_with('.') || rest.starts_with('-'))
            && !rest.starts_with("-cpp")
    }) && path.is_file()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libclang_is_known_by_its_name() {
        for (file, expected) in [
            ("lib/x86_64-linux-gnu/libclang.so.1", true),
            ("lib/libclang-14.so.13", true),
            ("lib/llvm-14/lib/libclang-14.0.6.so", true),
            ("lib/llvm-14/lib/libclang-cpp.so.14", false),
            ("lib/llvm-14/lib/libclangAST.a", false),
            ("lib/libclang.a", false),
        ] {
            let root = tempfile::tempdir().unwrap();
            let path = root.path().join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(&path, "").unwrap();
            let found = has_libclang(&root.path().join("lib"), DEPTH);
            assert_eq!(found, expected, "{file}");
        }
    }
}
