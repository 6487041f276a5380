//! Loops over floats: the one matrix multiplication, and what is done to rows.
//!
//! Measured on two cores with AVX-512, one thread, GFLOP/s (rows × outputs × inputs): this
//! multiplication and the crate `gemm` 0.19 reach 190 and 133 at 50×576×576, 176 and 99 at
//! 50×1536×576, 151 and 135 at 350×576×1536, 142 and 140 at 350×960×576. Where it wins, it is because
//! the right side is packed once (weights, keys, values) and not at each call. It loses where there is
//! little to do per output, as for attention scores: 107 against 136 at 48×4352×64. It needs no
//! `unsafe`: the vector instructions of the machine come from `pulp`.

mod gemm;
mod matrix;
mod rows;

pub(crate) use gemm::{PANEL, Panels, Rows, multiply, transpose_tile};
pub(crate) use matrix::Matrix;
pub(crate) use rows::{
    add_absolute_products, losses, normalize, normalize_backward, softmax, softmax_backward,
    swiglu, swiglu_backward,
};
