//! `C = A·B` or `C += A·B`, `A` and `C` row-major, `B` packed in panels.
#![expect(
    clippy::indexing_slicing,
    reason = "shapes are checked where matrices are made; an index beyond one is a bug that must stop here"
)]

use pulp::{Arch, Simd, WithSimd};

/// Columns of a panel: two vectors of AVX-512.
pub(crate) const PANEL: usize = 32;

/// Rows of `A` that are multiplied at once with vectors of 16: 20 accumulators of 32 registers. With 12
/// rows (24 accumulators) the compiler spills them, and the speed falls to a fifth.
const TILE_WIDE: usize = 10;
/// The same with shorter vectors: 12 accumulators of 16 registers.
const TILE: usize = 6;

/// A row-major matrix, or a rectangle of one.
#[derive(Clone, Copy)]
pub(crate) struct Rows<'a> {
    pub(crate) data: &'a [f32],
    /// Distance between the starts of two rows.
    pub(crate) stride: usize,
    pub(crate) count: usize,
}

/// A packed right side: pieces one below the other.
#[derive(Clone, Copy)]
pub(crate) struct Panels<'a> {
    /// Each is `ceil(columns / 32)` panels of `tall × 32`.
    pub(crate) pieces: &'a [&'a [f32]],
    /// Lines of a panel that count: the columns of `A` that meet one piece.
    pub(crate) used: usize,
    /// Lines of a panel; those beyond `used` are padding.
    pub(crate) tall: usize,
}

/// `C = A·B`, or `C += A·B` where `add` is set.
///
/// `C` has `stride` floats from row to row.
pub(crate) fn multiply(
    a: Rows<'_>,
    b: Panels<'_>,
    columns: usize,
    c: &mut [f32],
    stride: usize,
    add: bool,
) {
    if a.count == 0 || columns == 0 {
        return;
    }
    Arch::new().dispatch(Multiply {
        a,
        b,
        columns,
        c,
        stride,
        add,
    });
}

struct Multiply<'a> {
    a: Rows<'a>,
    b: Panels<'a>,
    columns: usize,
    c: &'a mut [f32],
    stride: usize,
    add: bool,
}

impl WithSimd for Multiply<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(mut self, simd: S) {
        let most = if S::F32_LANES == 16 { TILE_WIDE } else { TILE };
        let tiles = self.a.count.div_ceil(most);
        // A panel stays in the cache next to the core while all rows pass by.
        for panel in 0..self.columns.div_ceil(PANEL) {
            for part in 0..PANEL / (2 * S::F32_LANES) {
                let mut row = 0;
                for tile in 0..tiles {
                    // Tiles of nearly the same size: one of 10 and one of 1 would waste the second.
                    let rows = (self.a.count - row).div_ceil(tiles - tile);
                    self.rows(simd, row, rows, panel, part);
                    row += rows;
                }
            }
        }
    }
}

impl Multiply<'_> {
    #[inline(always)]
    fn rows<S: Simd>(&mut self, simd: S, row: usize, rows: usize, panel: usize, part: usize) {
        macro_rules! by_size {
            ($($n:literal)*) => {
                match rows {
                    $($n => self.tile::<S, $n>(simd, row, panel, part),)*
                    _ => {}
                }
            };
        }
        if S::F32_LANES == 16 {
            by_size!(1 2 3 4 5 6 7 8 9 10);
        } else {
            by_size!(1 2 3 4 5 6);
        }
    }

    /// `N` rows times two vectors of columns.
    #[inline(always)]
    fn tile<S: Simd, const N: usize>(&mut self, simd: S, row: usize, panel: usize, part: usize) {
        let Panels { pieces, used, tall } = self.b;
        // They stay in registers over all pieces, so that each cell of `C` is read and written once.
        let mut sums = [[simd.splat_f32s(0.0); 2]; N];
        for (at, piece) in pieces.iter().enumerate() {
            let a: [&[f32]; N] = core::array::from_fn(|i| {
                // Sliced to `used` here, so that the inner loop has no bounds checks of its own.
                &self.a.data[(row + i) * self.a.stride + at * used..][..used]
            });
            let panel = &piece[panel * tall * PANEL..][..used * PANEL];
            let (vectors, _) = S::as_simd_f32s(panel);
            let per_row = PANEL / S::F32_LANES;
            for (k, b) in vectors.chunks_exact(per_row).enumerate().take(used) {
                let (left, right) = (b[2 * part], b[2 * part + 1]);
                for i in 0..N {
                    let value = simd.splat_f32s(a[i][k]);
                    sums[i][0] = simd.mul_add_f32s(value, left, sums[i][0]);
                    sums[i][1] = simd.mul_add_f32s(value, right, sums[i][1]);
                }
            }
        }
        let from = panel * PANEL + part * 2 * S::F32_LANES;
        // The last panel is padded with zeros beyond the columns of `C`, which has no room for them.
        let to = self.columns.min(from + 2 * S::F32_LANES);
        for (i, sum) in sums.iter().enumerate() {
            let line = &mut self.c[(row + i) * self.stride..][..self.columns];
            let mut start = from;
            for half in sum {
                if start < to {
                    let end = to.min(start + S::F32_LANES);
                    let cells = &mut line[start..end];
                    let value = if self.add {
                        simd.add_f32s(simd.partial_load_f32s(cells), *half)
                    } else {
                        *half
                    };
                    simd.partial_store_f32s(cells, value);
                }
                start += S::F32_LANES;
            }
        }
    }
}

/// Writes the transpose of a square of 32 by 32.
pub(crate) fn transpose_tile(from: &[f32], to: &mut [f32]) {
    let (from, to) = (&from[..PANEL * PANEL], &mut to[..PANEL * PANEL]);
    for (row, line) in to.chunks_exact_mut(PANEL).enumerate() {
        for (column, cell) in line.iter_mut().enumerate() {
            *cell = from[column * PANEL + row];
        }
    }
}
