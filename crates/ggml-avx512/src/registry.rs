//! ggml's registry of backends.

use llama_cpp_sys_2::{
    ggml_backend_cpu_reg, ggml_backend_reg_t, ggml_backend_register, ggml_backend_unload,
};

#[expect(unsafe_code, reason = "the build script's library is C")]
// SAFETY: the build script gives ggml's `ggml_backend_cpu_reg` this name, and leaves its signature.
unsafe extern "C" {
    fn ggml_backend_cpu_avx512_reg() -> ggml_backend_reg_t;
}

/// Puts the backend for AVX-512 into the registry and takes the portable one out. The processor must have the
/// instructions.
pub(super) fn replace_portable() {
    // SAFETY: both entries return static objects of the same version of ggml's interface, since both are compiled from
    // the same sources. The registry is created by the first call; nobody else reads or writes it meanwhile, by the
    // promise of `choose`. It then has a CPU backend all the time. Removing an entry frees nothing of the backend.
    #[expect(unsafe_code, reason = "the registry is C")]
    unsafe {
        ggml_backend_register(ggml_backend_cpu_avx512_reg());
        ggml_backend_unload(ggml_backend_cpu_reg());
    }
}
