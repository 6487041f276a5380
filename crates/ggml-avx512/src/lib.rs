//! llama.cpp's CPU backend for AVX-512, in one program with the portable one.
//!
//! llama.cpp computes in a *backend* of ggml that it looks up in a registry. The one that it is
//! built with is for x86-64-v3 (AVX2), so that a program runs on other processors than it was built
//! on. Reading a prompt takes half as long again with it as with AVX-512. The build script compiles
//! the same sources a second time, for AVX-512; [`choose`] puts that backend into the registry in
//! the place of the portable one where the processor has all the instructions.
//!
//! Two crates need `unsafe`: the sandbox, and this one, because the registry is C. It is
//! one block, in `registry`.

use std::fmt;

use llama_cpp_2::llama_backend::LlamaBackend;

#[cfg(avx512_backend)]
mod registry;

/// The backend that llama.cpp computes with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CpuBackend {
    /// The one for AVX-512.
    Avx512,
    /// The one that llama.cpp was built with, and why.
    Portable(Reason),
}

/// Why the portable backend is used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reason {
    /// This program has no other: the compiler could not build it, or the target is not Linux on x86-64, or the
    /// whole program is for such a processor anyway.
    NotBuilt,
    /// The processor, or the system, lacks these instructions.
    Processor(&'static str),
    /// The caller asked for it.
    AskedFor,
}

impl fmt::Display for CpuBackend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Avx512 => f.write_str("AVX-512"),
            Self::Portable(Reason::NotBuilt) => {
                f.write_str("as it was compiled; this build has no second backend for AVX-512")
            }
            Self::Portable(Reason::Processor(missing)) => {
                write!(f, "AVX2; this processor has no {missing}")
            }
            Self::Portable(Reason::AskedFor) => f.write_str("AVX2; AVX-512 is switched off"),
        }
    }
}

/// Chooses the backend for the models that will be loaded: that for AVX-512 if it is `wanted` and can be used.
///
/// It takes the only [`LlamaBackend`], because the registry has no lock: this is the time before models are loaded
/// and other threads look into it. Models that were loaded before stay with their backend.
pub fn choose(llama: &mut LlamaBackend, wanted: bool) -> CpuBackend {
    // The exclusive borrow stands for the lock that the registry lacks: nobody can load a model meanwhile.
    let _only = llama;
    if !wanted {
        return CpuBackend::Portable(Reason::AskedFor);
    }
    replace_portable()
}

#[cfg(avx512_backend)]
fn replace_portable() -> CpuBackend {
    // Before the registry is touched: asking the new backend for its entry runs code that was compiled with these
    // instructions.
    if let Some(missing) = missing_instructions() {
        return CpuBackend::Portable(Reason::Processor(missing));
    }
    registry::replace_portable();
    CpuBackend::Avx512
}

#[cfg(not(avx512_backend))]
fn replace_portable() -> CpuBackend {
    CpuBackend::Portable(Reason::NotBuilt)
}

/// The first instructions of the build script's `INSTRUCTIONS` that cannot be used here. The macro also asks whether
/// the operating system saves the wide registers.
#[cfg(avx512_backend)]
fn missing_instructions() -> Option<&'static str> {
    use std::is_x86_feature_detected as has;
    let needed = [
        ("SSE4.2", has!("sse4.2")),
        ("AVX2", has!("avx2")),
        ("FMA", has!("fma")),
        ("F16C", has!("f16c")),
        ("BMI2", has!("bmi2")),
        ("AVX512F", has!("avx512f")),
        ("AVX512CD", has!("avx512cd")),
        ("AVX512VL", has!("avx512vl")),
        ("AVX512DQ", has!("avx512dq")),
        ("AVX512BW", has!("avx512bw")),
        ("AVX512VNNI", has!("avx512vnni")),
    ];
    let missing = needed.iter().find(|(_, present)| !present)?;
    Some(missing.0)
}
