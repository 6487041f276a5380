//! Compiles ggml's CPU backend for AVX-512 and hides everything in it but its entry.
//!
//! Both builds of the backend are linked into one program and define the same names, among them
//! inline functions of the C++ library, of which a linker keeps any one. If it kept one that was
//! compiled for AVX-512, an older processor would meet it in code that has nothing to do with this
//! crate. So the objects are joined into one (`ld -r`), and all its names are made local
//! (`objcopy`) but the entry, which gets a name of its own. `check` looks at the result.
//!
//! Whatever goes wrong is a warning of the build, and the program then has the portable backend
//! only.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The name under which the Rust side finds the backend.
const ENTRY: &str = "ggml_backend_cpu_avx512_reg";
/// Its name in ggml.
const UPSTREAM_ENTRY: &str = "ggml_backend_cpu_reg";

/// What ggml's CMake file compiles for x86, without what needs AMX or `memkind`.
const C_SOURCES: [&str; 3] = ["ggml-cpu.c", "quants.c", "arch/x86/quants.c"];
const CXX_SOURCES: [&str; 11] = [
    "ggml-cpu.cpp",
    "repack.cpp",
    "traits.cpp",
    "tiled/tiled.cpp",
    "tiled/tiled-kernel.cpp",
    "binary-ops.cpp",
    "unary-ops.cpp",
    "vec.cpp",
    "ops.cpp",
    "llamafile/sgemm.cpp",
    "arch/x86/repack.cpp",
];

/// The instructions that the backend is compiled for: those that ggml has kernels for and that all
/// processors with AVX-512 VNNI share. `src/lib.rs` looks for every one of them at run time.
const INSTRUCTIONS: [&str; 11] = [
    "-msse4.2",
    "-mavx2",
    "-mfma",
    "-mf16c",
    "-mbmi2",
    "-mavx512f",
    "-mavx512cd",
    "-mavx512vl",
    "-mavx512dq",
    "-mavx512bw",
    "-mavx512vnni",
];

/// As in llama.cpp's own build of the portable backend.
const DEFINITIONS: [(&str, Option<&str>); 6] = [
    ("NDEBUG", None),
    ("GGML_SCHED_MAX_COPIES", Some("4")),
    ("GGML_USE_CPU_REPACK", None),
    ("GGML_USE_LLAMAFILE", None),
    ("_GNU_SOURCE", None),
    ("_XOPEN_SOURCE", Some("600")),
];

/// Sections whose code or pointers run when the program starts, on every processor, and groups,
/// by which the linker would still merge our code with that of others.
const FORBIDDEN_SECTIONS: [&str; 4] = [".init_array", ".preinit_array", ".ctors", ".group"];

type Result<T> = std::result::Result<T, String>;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-check-cfg=cfg(avx512_backend)");
    if !is_wanted() {
        return;
    }
    match build() {
        Ok(()) => println!("cargo::rustc-cfg=avx512_backend"),
        Err(reason) => println!(
            "cargo::warning=the embedded model will not use AVX-512: {}",
            reason.replace('\n', " ")
        ),
    }
}

/// Only x86 has AVX-512, and only where the GNU tools work on ELF files is this known to be right. A build that is
/// for processors with these instructions anyway (`target-cpu`) needs no second backend.
fn is_wanted() -> bool {
    let features = variable("CARGO_CFG_TARGET_FEATURE").unwrap_or_default();
    variable("CARGO_CFG_TARGET_ARCH").as_deref() == Ok("x86_64")
        && variable("CARGO_CFG_TARGET_OS").as_deref() == Ok("linux")
        && !features.split(',').any(|feature| feature == "avx512vnni")
}

fn build() -> Result<()> {
    let ggml = sources()?;
    let mut objects = compile(&ggml, &C_SOURCES, "gnu11", false)?;
    objects.extend(compile(&ggml, &CXX_SOURCES, "gnu++17", true)?);
    let object = isolate(&objects)?;
    check(&object)?;
    cc::Build::new()
        .object(object)
        .cargo_warnings(false)
        .try_compile("ggml_cpu_avx512")
        .map_err(|error| error.to_string())
}

/// The folder `ggml` of the llama.cpp that `llama-cpp-sys-2` builds, by what CMake wrote down about that build.
fn sources() -> Result<PathBuf> {
    let output = variable("DEP_LLAMA_ROOT")?;
    let notes = Path::new(&output).join("build/CMakeCache.txt");
    let text = fs::read_to_string(&notes)
        .map_err(|error| format!("cannot read {}: {error}", notes.display()))?;
    let folder = text
        .lines()
        .find_map(|line| line.strip_prefix("CMAKE_HOME_DIRECTORY:INTERNAL="))
        .ok_or_else(|| format!("{} does not say where llama.cpp is", notes.display()))?;
    Ok(Path::new(folder).join("ggml"))
}

fn compile(ggml: &Path, names: &[&str], standard: &str, cxx: bool) -> Result<Vec<PathBuf>> {
    let backend = ggml.join("src/ggml-cpu");
    let mut build = cc::Build::new();
    build
        .cpp(cxx)
        .std(standard)
        .opt_level(3)
        .debug(false)
        .warnings(false)
        .cargo_warnings(false)
        .include(ggml.join("include"))
        .include(ggml.join("src"))
        .include(&backend)
        .files(names.iter().map(|name| backend.join(name)))
        // Objects of link-time optimisation have no symbols to hide yet.
        .flag("-fno-lto")
        // GCC's unique symbols stay global whatever `objcopy` is told. Clang has none, and no such flag.
        .flag_if_supported("-fno-gnu-unique");
    for (name, value) in DEFINITIONS {
        build.define(name, value);
    }
    for flag in INSTRUCTIONS {
        build.flag(flag);
    }
    build
        .try_compile_intermediates()
        .map_err(|error| error.to_string())
}

/// One object with all code in it, of which nothing can be seen but the entry.
fn isolate(objects: &[PathBuf]) -> Result<PathBuf> {
    let folder = PathBuf::from(variable("OUT_DIR")?);
    let (joined, isolated) = (folder.join("joined.o"), folder.join("isolated.o"));
    // Groups are dissolved: what two objects share is taken once, and what others share with us is not ours to take.
    let mut link = tool("ld")?;
    link.args(["-r", "--force-group-allocation", "-o"])
        .arg(&joined)
        .args(objects);
    output(&mut link)?;
    let mut hide = tool("objcopy")?;
    hide.arg(format!("--redefine-sym={UPSTREAM_ENTRY}={ENTRY}"))
        .arg(format!("--keep-global-symbol={ENTRY}"))
        .args([&joined, &isolated]);
    output(&mut hide)?;
    Ok(isolated)
}

/// Refuses an object of which more than the entry can be seen, or in which something runs before it is asked to.
fn check(object: &Path) -> Result<()> {
    let mut list = tool("nm")?;
    list.args(["--extern-only", "--defined-only", "--format=posix"])
        .arg(object);
    let symbols = output(&mut list)?;
    let visible: Vec<&str> = symbols
        .lines()
        .filter_map(|line| line.split(' ').next())
        .collect();
    if visible != [ENTRY] {
        return Err(format!("symbols that should be hidden: {visible:?}"));
    }
    let mut list = tool("readelf")?;
    list.args(["--wide", "--sections", "--symbols"]).arg(object);
    let contents = output(&mut list)?;
    let begins_with = |word: &str| FORBIDDEN_SECTIONS.iter().any(|name| word.starts_with(name));
    if let Some(section) = contents.split_whitespace().find(|word| begins_with(word)) {
        return Err(format!("there is a section {section}"));
    }
    // The dynamic linker calls the resolver of such a symbol when the program starts.
    if contents.split_whitespace().any(|word| word == "IFUNC") {
        return Err("there is an indirect function".into());
    }
    Ok(())
}

/// One of the compiler's companions, for the target that it compiles for.
fn tool(name: &str) -> Result<Command> {
    let compiler = cc::Build::new()
        .cargo_warnings(false)
        .try_get_compiler()
        .map_err(|error| error.to_string())?;
    let mut question = compiler.to_command();
    question.arg(format!("-print-prog-name={name}"));
    let path = output(&mut question)?;
    Ok(Command::new(path.trim()))
}

fn output(command: &mut Command) -> Result<String> {
    let name = command.get_program().to_owned();
    let failed = |reason: &str| format!("{} failed: {reason}", name.display());
    let output = command
        .output()
        .map_err(|error| failed(&error.to_string()))?;
    if !output.status.success() {
        return Err(failed(&String::from_utf8_lossy(&output.stderr)));
    }
    String::from_utf8(output.stdout).map_err(|error| failed(&error.to_string()))
}

fn variable(name: &str) -> Result<String> {
    env::var(name).map_err(|error| format!("{name}: {error}"))
}
