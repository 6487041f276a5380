//! Block formats of ggml, and their values as `f32`.
//!
//! A block is a row's next 32 values, or 256 in the `K` formats, with one or two scales in half
//! precision. Two four-bit values share a byte: the low half belongs to the first half of its
//! group of values, the high half to the second.

#[cfg(test)]
mod tests;

use half::{bf16, f16};

/// How a tensor's values are stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum TensorType {
    /// Single precision.
    F32,
    /// Half precision.
    F16,
    /// The upper half of single precision.
    Bf16,
    /// 4 bits, symmetric, 32 to a block.
    Q4_0,
    /// 4 bits with a minimum, 32 to a block.
    Q4_1,
    /// 5 bits, symmetric, 32 to a block.
    Q5_0,
    /// 5 bits with a minimum, 32 to a block.
    Q5_1,
    /// 8 bits, symmetric, 32 to a block.
    Q8_0,
    /// 4 bits with minima, eight groups of 32 to a block.
    Q4K,
    /// 5 bits with minima, eight groups of 32 to a block.
    Q5K,
    /// 6 bits, symmetric, sixteen groups of 16 to a block.
    Q6K,
}

/// ggml's names by number, for messages; empty where the number was withdrawn.
const NAMES: &[&str] = &[
    "F32", "F16", "Q4_0", "Q4_1", "", "", "Q5_0", "Q5_1", "Q8_0", "Q8_1", "Q2_K", "Q3_K", "Q4_K",
    "Q5_K", "Q6_K", "Q8_K", "IQ2_XXS", "IQ2_XS", "IQ3_XXS", "IQ1_S", "IQ4_NL", "IQ3_S", "IQ2_S",
    "IQ4_XS", "I8", "I16", "I32", "I64", "F64", "IQ1_M", "BF16", "", "", "", "TQ1_0", "TQ2_0", "",
    "", "", "MXFP4", "NVFP4",
];

impl TensorType {
    /// The type of that number.
    pub(super) fn of(number: u32) -> Option<Self> {
        Some(match number {
            0 => Self::F32,
            1 => Self::F16,
            2 => Self::Q4_0,
            3 => Self::Q4_1,
            6 => Self::Q5_0,
            7 => Self::Q5_1,
            8 => Self::Q8_0,
            12 => Self::Q4K,
            13 => Self::Q5K,
            14 => Self::Q6K,
            30 => Self::Bf16,
            _ => return None,
        })
    }

    /// What to call that number in a message.
    pub(super) fn name_of(number: u32) -> String {
        let name = usize::try_from(number).ok().and_then(|at| NAMES.get(at));
        match name {
            Some(name) if !name.is_empty() => (*name).to_owned(),
            _ => format!("number {number}"),
        }
    }

    /// Values in a block.
    pub fn block_elements(self) -> usize {
        match self {
            Self::F32 | Self::F16 | Self::Bf16 => 1,
            Self::Q4_0 | Self::Q4_1 | Self::Q5_0 | Self::Q5_1 | Self::Q8_0 => 32,
            Self::Q4K | Self::Q5K | Self::Q6K => 256,
        }
    }

    /// Bytes of a block.
    pub fn block_bytes(self) -> usize {
        match self {
            Self::F32 => 4,
            Self::F16 | Self::Bf16 => 2,
            Self::Q4_0 => 18,
            Self::Q4_1 => 20,
            Self::Q5_0 => 22,
            Self::Q5_1 => 24,
            Self::Q8_0 => 34,
            Self::Q4K => 144,
            Self::Q5K => 176,
            Self::Q6K => 210,
        }
    }
}

/// The values of whole blocks. Both slices hold the same number of blocks.
pub(super) fn dequantize(kind: TensorType, bytes: &[u8], values: &mut [f32]) {
    match kind {
        TensorType::F32 => each(bytes, values, |b, [v]| *v = f32::from_le_bytes(*b)),
        TensorType::F16 => each(bytes, values, |b, [v]| *v = half(*b)),
        TensorType::Bf16 => each(bytes, values, |b, [v]| {
            *v = bf16::from_le_bytes(*b).to_f32();
        }),
        TensorType::Q4_0 => each(bytes, values, q4_0),
        TensorType::Q4_1 => each(bytes, values, q4_1),
        TensorType::Q5_0 => each(bytes, values, q5_0),
        TensorType::Q5_1 => each(bytes, values, q5_1),
        TensorType::Q8_0 => each(bytes, values, q8_0),
        TensorType::Q4K => each(bytes, values, q4_k),
        TensorType::Q5K => each(bytes, values, q5_k),
        TensorType::Q6K => each(bytes, values, q6_k),
    }
}

fn each<const BYTES: usize, const VALUES: usize>(
    bytes: &[u8],
    values: &mut [f32],
    block: impl Fn(&[u8; BYTES], &mut [f32; VALUES]),
) {
    let (blocks, rest) = bytes.as_chunks::<BYTES>();
    let (targets, open) = values.as_chunks_mut::<VALUES>();
    debug_assert!(rest.is_empty() && open.is_empty() && blocks.len() == targets.len());
    for (bytes, values) in blocks.iter().zip(targets) {
        block(bytes, values);
    }
}

fn half(bytes: [u8; 2]) -> f32 {
    f16::from_le_bytes(bytes).to_f32()
}

/// The two values of each byte: all low halves, then all high halves.
fn nibbles(quants: &[u8; 16]) -> impl Iterator<Item = u8> {
    let low = quants.iter().map(|byte| byte & 15);
    low.chain(quants.iter().map(|byte| byte >> 4))
}

/// [`nibbles`] with a fifth bit each.
fn five_bits(quants: &[u8; 16], high: [u8; 4]) -> impl Iterator<Item = u8> {
    let high = u32::from_le_bytes(high);
    nibbles(quants)
        .zip(0..)
        .map(move |(nibble, at)| nibble | if high >> at & 1 == 1 { 16 } else { 0 })
}

fn set(values: &mut [f32; 32], found: impl Iterator<Item = f32>) {
    for (value, found) in values.iter_mut().zip(found) {
        *value = found;
    }
}

fn q4_0([d0, d1, quants @ ..]: &[u8; 18], values: &mut [f32; 32]) {
    let scale = half([*d0, *d1]);
    set(
        values,
        nibbles(quants).map(|q| scale * (f32::from(q) - 8.0)),
    );
}

fn q4_1([d0, d1, m0, m1, quants @ ..]: &[u8; 20], values: &mut [f32; 32]) {
    let (scale, least) = (half([*d0, *d1]), half([*m0, *m1]));
    set(
        values,
        nibbles(quants).map(|q| scale * f32::from(q) + least),
    );
}

fn q5_0([d0, d1, h0, h1, h2, h3, quants @ ..]: &[u8; 22], values: &mut [f32; 32]) {
    let scale = half([*d0, *d1]);
    let found = five_bits(quants, [*h0, *h1, *h2, *h3]);
    set(values, found.map(|q| scale * (f32::from(q) - 16.0)));
}

fn q5_1([d0, d1, m0, m1, h0, h1, h2, h3, quants @ ..]: &[u8; 24], values: &mut [f32; 32]) {
    let (scale, least) = (half([*d0, *d1]), half([*m0, *m1]));
    let found = five_bits(quants, [*h0, *h1, *h2, *h3]);
    set(values, found.map(|q| scale * f32::from(q) + least));
}

fn q8_0([d0, d1, quants @ ..]: &[u8; 34], values: &mut [f32; 32]) {
    let scale = half([*d0, *d1]);
    let found = quants.iter().map(|q| f32::from(q.cast_signed()));
    set(values, found.map(|q| scale * q));
}

/// Scale and minimum of the eight groups of a `K` block: six bits each in twelve bytes. The first
/// four of each have a byte of their own, whose two spare bits are the upper bits of the others.
fn scales(packed: &[u8; 12]) -> [(f32, f32); 8] {
    let [s0, s1, s2, s3, m0, m1, m2, m3, rest @ ..] = *packed;
    let first = [s0, s1, s2, s3].into_iter().zip([m0, m1, m2, m3]);
    let mut groups = [(0.0, 0.0); 8];
    let (low, high) = groups.split_at_mut(4);
    for (((scale, least), rest), (low, high)) in first.zip(rest).zip(low.iter_mut().zip(high)) {
        *low = (f32::from(scale & 63), f32::from(least & 63));
        *high = (
            f32::from(rest & 15 | scale >> 6 << 4),
            f32::from(rest >> 4 | least >> 6 << 4),
        );
    }
    groups
}

/// Writes the eight groups of a `K` block; `fifth` gives the fifth bit (as 0 or 16) of a place
/// within a group.
fn groups(
    scale: f32,
    least: f32,
    packed: &[u8; 12],
    quants: &[u8; 128],
    values: &mut [f32; 256],
    fifth: impl Fn(usize, usize) -> u8,
) {
    let (pairs, _) = quants.as_chunks::<32>();
    let (targets, _) = values.as_chunks_mut::<32>();
    for (group, (target, (s, m))) in targets.iter_mut().zip(scales(packed)).enumerate() {
        let (scale, least) = (scale * s, least * m);
        let shift = if group % 2 == 0 { 0 } else { 4 };
        let Some(bytes) = pairs.get(group / 2) else {
            continue;
        };
        for (at, (value, byte)) in target.iter_mut().zip(bytes).enumerate() {
            let q = byte >> shift & 15 | fifth(group, at);
            *value = scale * f32::from(q) - least;
        }
    }
}

fn q4_k(block: &[u8; 144], values: &mut [f32; 256]) {
    let [d0, d1, m0, m1, rest @ ..] = block;
    let Some((packed, quants)) = rest.split_first_chunk::<12>() else {
        return;
    };
    let Some(quants) = quants.first_chunk() else {
        return;
    };
    let (scale, least) = (half([*d0, *d1]), half([*m0, *m1]));
    groups(scale, least, packed, quants, values, |_, _| 0);
}

fn q5_k(block: &[u8; 176], values: &mut [f32; 256]) {
    let [d0, d1, m0, m1, rest @ ..] = block;
    let Some((packed, rest)) = rest.split_first_chunk::<12>() else {
        return;
    };
    let Some((high, quants)) = rest.split_first_chunk::<32>() else {
        return;
    };
    let Some(quants) = quants.first_chunk() else {
        return;
    };
    let (scale, least) = (half([*d0, *d1]), half([*m0, *m1]));
    groups(scale, least, packed, quants, values, |group, at| {
        let byte = high.get(at).copied().unwrap_or(0);
        (byte >> group & 1) << 4
    });
}

fn q6_k(block: &[u8; 210], values: &mut [f32; 256]) {
    let Some((low, rest)) = block.split_first_chunk::<128>() else {
        return;
    };
    let Some((high, rest)) = rest.split_first_chunk::<64>() else {
        return;
    };
    let Some((scales, [d0, d1])) = rest.split_last_chunk::<2>() else {
        return;
    };
    let scale = half([*d0, *d1]);
    // Two halves of 128 values; in each, four rows of 32, two scales to a row.
    let halves = low.as_chunks::<64>().0.iter().zip(high.as_chunks::<32>().0);
    let halves = halves.zip(scales.as_chunks::<8>().0);
    for (((low, high), scales), values) in halves.zip(values.as_chunks_mut::<128>().0) {
        for (row, values) in values.as_chunks_mut::<32>().0.iter_mut().enumerate() {
            let (bytes, _) = low.as_chunks::<32>();
            let Some(bytes) = bytes.get(row % 2) else {
                continue;
            };
            let shift = if row < 2 { 0 } else { 4 };
            for (at, (value, (byte, high))) in
                values.iter_mut().zip(bytes.iter().zip(high)).enumerate()
            {
                let q = byte >> shift & 15 | (high >> (2 * row) & 3) << 4;
                let s = scales.get(2 * row + at / 16).copied().unwrap_or(0);
                *value = scale * f32::from(s.cast_signed()) * (f32::from(q) - 32.0);
            }
        }
    }
}
