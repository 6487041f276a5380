//! Block formats of ggml, and their values as `f32`.
//!
//! A block is a row's next 32 values with one or two scales in half precision. In `Q4_1` two values share a byte: the
//! low half belongs to the first half of the block, the high half to the second.
//!
//! Only the types of the feature model's file are read: the screener's weights are bound to that file by its SHA-256.

#[cfg(test)]
mod tests;

use half::f16;

/// How a tensor's values are stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TensorType {
    /// Single precision.
    F32,
    /// 4 bits with a minimum, 32 to a block.
    Q4_1,
    /// 8 bits, symmetric, 32 to a block.
    Q8_0,
}

impl TensorType {
    /// The type with this number in ggml.
    pub(super) fn of(number: u32) -> Option<Self> {
        Some(match number {
            0 => Self::F32,
            3 => Self::Q4_1,
            8 => Self::Q8_0,
            _ => return None,
        })
    }

    /// Values in a block.
    pub fn block_elements(self) -> usize {
        match self {
            Self::F32 => 1,
            Self::Q4_1 | Self::Q8_0 => 32,
        }
    }

    /// Bytes of a block.
    pub fn block_bytes(self) -> usize {
        match self {
            Self::F32 => 4,
            Self::Q4_1 => 20,
            Self::Q8_0 => 34,
        }
    }
}

/// The values of whole blocks, as many as `values` has room for. `bytes` holds at least as many blocks.
pub(super) fn dequantize(kind: TensorType, bytes: &[u8], values: &mut [f32]) {
    match kind {
        TensorType::F32 => each(bytes, values, |b, [v]| *v = f32::from_le_bytes(*b)),
        TensorType::Q4_1 => each(bytes, values, q4_1),
        TensorType::Q8_0 => each(bytes, values, q8_0),
    }
}

fn each<const BYTES: usize, const VALUES: usize>(
    bytes: &[u8],
    values: &mut [f32],
    block: impl Fn(&[u8; BYTES], &mut [f32; VALUES]),
) {
    let (blocks, _) = bytes.as_chunks::<BYTES>();
    let (targets, rest) = values.as_chunks_mut::<VALUES>();
    // In a release build a mismatch would leave zeros.
    debug_assert!(rest.is_empty() && blocks.len() >= targets.len());
    for (bytes, values) in blocks.iter().zip(targets) {
        block(bytes, values);
    }
}

fn half(bytes: [u8; 2]) -> f32 {
    f16::from_le_bytes(bytes).to_f32()
}

fn q4_1([d0, d1, m0, m1, quants @ ..]: &[u8; 20], values: &mut [f32; 32]) {
    let (scale, minimum) = (half([*d0, *d1]), half([*m0, *m1]));
    // Low halves of all bytes first, then the high halves: bytes do not hold neighbouring values.
    let low = quants.iter().map(|byte| byte & 15);
    let all = low.chain(quants.iter().map(|byte| byte >> 4));
    for (value, q) in values.iter_mut().zip(all) {
        *value = scale * f32::from(q) + minimum;
    }
}

fn q8_0([d0, d1, quants @ ..]: &[u8; 34], values: &mut [f32; 32]) {
    let scale = half([*d0, *d1]);
    for (value, q) in values.iter_mut().zip(quants) {
        *value = scale * f32::from(q.cast_signed());
    }
}
