//! Whether the build will find libclang.
//!
//! bindgen loads it at run time, by way of clang-sys. This is the search of clang-sys 1.9
//! (`build/common.rs`, `build/dynamic.rs`) for Linux. It must not accept more than that: the build
//! would then fail minutes after the set-up said that everything is there.

use std::env;
use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Folders below the root of the file system, one pattern per part of the path.
const FOLDERS: [&[&str]; 7] = [
    &["usr", "local", "llvm*", "lib*"],
    &["usr", "local", "lib*", "*", "*"],
    &["usr", "local", "lib*", "*"],
    &["usr", "local", "lib*"],
    &["usr", "lib*", "*", "*"],
    &["usr", "lib*", "*"],
    &["usr", "lib*"],
];

/// Whether the build finds libclang on this machine and with these variables.
pub(crate) fn found() -> bool {
    // A named place is the only one that the build looks at.
    if let Some(named) = env::var_os("LIBCLANG_PATH") {
        return is_libclang(Path::new(&named)) || has_libclang(Path::new(&named));
    }
    let listed = ["LD_LIBRARY_PATH", "LIBRARY_PATH"].map(env::var_os);
    let listed: Vec<PathBuf> = (listed.iter().flatten())
        .flat_map(|paths| env::split_paths(paths))
        .collect();
    llvm_folders()
        .chain(listed)
        .any(|folder| has_libclang(&folder))
        || found_below(Path::new("/"))
}

/// Whether one of the usual folders below `root` has it.
fn found_below(root: &Path) -> bool {
    (FOLDERS.iter()).any(|parts| {
        matching(root, parts)
            .iter()
            .any(|folder| has_libclang(folder))
    })
}

/// Where the LLVM lies that `llvm-config` belongs to.
fn llvm_folders() -> impl Iterator<Item = PathBuf> {
    let program = env::var_os("LLVM_CONFIG_PATH").unwrap_or_else(|| "llvm-config".into());
    let mut command = Command::new(program);
    command
        .arg("--prefix")
        .stdin(Stdio::null())
        .stderr(Stdio::null());
    let output = command
        .output()
        .ok()
        .filter(|output| output.status.success());
    let prefix = output.and_then(|output| {
        let words = String::from_utf8_lossy(&output.stdout).into_owned();
        words.lines().next().map(PathBuf::from)
    });
    let folders = ["bin", "lib", "lib64"];
    (prefix.into_iter()).flat_map(move |prefix| folders.map(|folder| prefix.join(folder)))
}

/// The folders below `root` whose path matches `parts`; a `*` at the end of a part stands for any
/// rest of a name.
fn matching(root: &Path, parts: &[&str]) -> Vec<PathBuf> {
    let Some((first, rest)) = parts.split_first() else {
        return vec![root.to_owned()];
    };
    let matches = |name: &str| match first.strip_suffix('*') {
        Some(start) => name.starts_with(start),
        None => name == *first,
    };
    let entries = fs::read_dir(root).into_iter().flatten().flatten();
    let named = entries.filter(|entry| entry.file_name().to_str().is_some_and(matches));
    // Through links too: `/lib64` and its like often are some.
    let folders = named.map(|entry| entry.path()).filter(|path| path.is_dir());
    folders.flat_map(|folder| matching(&folder, rest)).collect()
}

fn has_libclang(folder: &Path) -> bool {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.into_iter().any(|entry| is_libclang(&entry.path()))
}

/// A library with the right name that is an ELF file of this machine's word size. A link whose
/// target is gone is none.
fn is_libclang(path: &Path) -> bool {
    let named = path.file_name().and_then(|name| name.to_str());
    named.is_some_and(is_name_of_libclang) && has_elf_class(path)
}

/// `libclang.so`, `libclang-14.so` and both with a version behind. `libclang-cpp.so` is another
/// library: Clang's C++ interface, which comes with LLVM's tools.
fn is_name_of_libclang(name: &str) -> bool {
    let Some(rest) = name.strip_prefix("libclang") else {
        return false;
    };
    let Some((version, behind)) = rest.split_once(".so") else {
        return false;
    };
    (version.is_empty() || version.starts_with('-'))
        && (behind.is_empty() || behind.starts_with('.'))
        && !name.contains("-cpp.")
}

fn has_elf_class(path: &Path) -> bool {
    let class = if cfg!(target_pointer_width = "64") {
        2
    } else {
        1
    };
    // The first four bytes are the magic number, the fifth is the class: 1 for 32 bits, 2 for 64.
    let mut head = [0; 5];
    let read = File::open(path).and_then(|mut file| file.read_exact(&mut head));
    read.is_ok() && head == [0x7f, b'E', b'L', b'F', class]
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    const ELF: [u8; 5] = [0x7f, b'E', b'L', b'F', 2];

    /// A root with these files, each an ELF library.
    fn root(files: &[&str]) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        for file in files {
            let path = root.path().join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, ELF).unwrap();
        }
        root
    }

    #[track_caller]
    fn check(file: &str, expected: bool) {
        let root = root(&[file]);
        assert_eq!(found_below(root.path()), expected, "{file}");
    }

    #[test]
    fn what_the_build_finds_is_found() {
        check("usr/lib/x86_64-linux-gnu/libclang.so", true);
        check("usr/lib/x86_64-linux-gnu/libclang.so.1", true);
        check("usr/lib/x86_64-linux-gnu/libclang-14.so", true);
        check("usr/lib/x86_64-linux-gnu/libclang-14.so.13", true);
        check("usr/lib/llvm-14/lib/libclang-14.0.6.so", true);
        check("usr/lib64/libclang.so.18.1", true);
        check("usr/local/llvm17/lib/libclang.so", true);
    }

    #[test]
    fn the_cpp_library_of_llvms_tools_is_not_libclang() {
        check("usr/lib/x86_64-linux-gnu/libclang-cpp.so.14", false);
        check("usr/lib/llvm-14/lib/libclang-cpp.so", false);
        check("usr/lib/llvm-14/lib/libclang-cpp.so.14", false);
    }

    #[test]
    fn neither_are_archives_and_other_libraries() {
        check("usr/lib/llvm-14/lib/libclangAST.a", false);
        check("usr/lib/llvm-14/lib/libclangFoo.so", false);
        check("usr/lib/x86_64-linux-gnu/libclang.a", false);
        check("usr/lib/x86_64-linux-gnu/libclang.sort", false);
        check("opt/llvm/lib/libclang.so", false);
    }

    #[test]
    fn a_link_into_nothing_and_a_text_file_are_no_libraries() {
        let root = root(&["usr/lib/llvm-14/lib/libclangAST.a"]);
        let folder = root.path().join("usr/lib/llvm-14/lib");
        symlink("gone.so.1", folder.join("libclang.so")).unwrap();
        fs::write(folder.join("libclang.so.1"), "INPUT(libclang.so.1)").unwrap();
        assert!(!found_below(root.path()));
        symlink("libclang-14.so.1", folder.join("libclang-14.so")).unwrap();
        fs::write(folder.join("libclang-14.so.1"), ELF).unwrap();
        assert!(found_below(root.path()));
    }
}
