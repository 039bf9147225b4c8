//! Products of tiles: up to 32 rows by 32 columns of sums stay in four tiles, two more hold rows, and two pairs of terms.

use super::pack::{Rounded, pack_left, pack_right};
use crate::gemm::kernel::Strip;
use crate::gemm::{Gemm, Packing, Pairs, Strips};
use fearless_simd::Simd;

/// Rows of a tile, sums in each of them, and pairs of terms.
pub(super) const SIDE: usize = 16;
/// Bytes of a tile's row.
pub(super) const ROW_BYTES: usize = 64;
/// Bytes of a packed line in the longest block of terms: 32 rows of them stay in the first-level cache, while panels come
/// from the second one.
const DEPTH_BYTES: usize = 1024;

/// Sums of one tile.
#[repr(align(64))]
struct Sums([f32; SIDE * SIDE]);

/// The eight tiles of a thread: sums of two by two blocks of [`SIDE`] rows and columns, and what is multiplied.
pub(super) trait Tiles {
    /// Tiles for so many rows above and below, sums being zeros.
    ///
    /// # Safety
    /// The processor must have tiles, and the caller must not use others before these are dropped.
    unsafe fn new(rows: [usize; 2]) -> Self;
    /// Sums become zeros.
    ///
    /// # Safety
    /// As [`Tiles::new`].
    unsafe fn clear(&mut self);
    /// Sums of a block become what lies at `from`, whose rows are `step` bytes apart.
    ///
    /// # Safety
    /// All its rows must be readable.
    unsafe fn load(&mut self, block: Block, from: *const u8, step: isize);
    /// The reverse.
    ///
    /// # Safety
    /// All its rows must be writable.
    unsafe fn store(&mut self, block: Block, to: *mut u8, step: isize);
    /// Adds products of [`SIDE`] pairs: rows above and, where `BOTH`, below, by two blocks of columns.
    ///
    /// # Safety
    /// All their rows must be readable.
    unsafe fn multiply<const BOTH: bool>(&mut self, factors: &Factors);
}

/// A block of sums, by rows and columns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Block {
    UpperLeft,
    UpperRight,
    LowerLeft,
    LowerRight,
}

impl Block {
    const ALL: [Block; 4] = [Block::UpperLeft, Block::UpperRight, Block::LowerLeft, Block::LowerRight];

    /// In blocks from the first.
    fn row(self) -> usize {
        usize::from(matches!(self, Block::LowerLeft | Block::LowerRight))
    }

    fn column(self) -> usize {
        usize::from(matches!(self, Block::UpperRight | Block::LowerRight))
    }
}

/// What is multiplied: where rows and pairs start, and bytes from one of them to the next.
#[derive(Clone, Copy, Debug)]
pub(super) struct Factors {
    pub left: *const u8,
    pub left_step: isize,
    pub right: *const u8,
    pub right_step: isize,
}

/// The way for operands of `F`.
pub(super) fn gemm<F: Rounded, S: Simd, T: Tiles>(_: S) -> Gemm {
    let wide = (2 * SIDE, 2 * SIDE);
    Gemm {
        strips: Strips::One(strip::<T>),
        pack_left: pack_left::<F, S, SIDE>,
        pack_right: pack_right::<F, S, SIDE>,
        rows: wide.0,
        columns: wide.1,
        narrow: wide,
        // Rows are packed in another order for thin panels.
        thin: (0, SIDE),
        width: size_of::<F>(),
        packed_width: size_of::<f32>(),
        pairs: Pairs { terms: 2, whole: SIDE },
        depth_bytes: DEPTH_BYTES,
        is_plain: false,
        packing: Packing::ALWAYS,
    }
}

/// # Safety
/// Operands and result must hold the strip of so many rows; the left one lies in runs of pairs, as [`pack_left`] leaves it.
unsafe fn strip<T: Tiles>(s: &Strip, rows: usize) {
    let (mut right, mut to) = (s.right, s.to.cast::<f32>());
    let parts = s.columns.div_ceil(s.panel);
    // SAFETY: a way is only made where the processor has tiles, and nothing else here uses them.
    let mut tiles = unsafe { T::new([rows.min(SIDE), rows - rows.min(SIDE)]) };
    for part in 0..parts {
        let place = Place { to, steps: s.to_steps, rows, columns: s.panel.min(s.columns - part * s.panel) };
        if s.next.lines > 0 {
            s.next.fetch(part, parts);
        }
        // SAFETY: the caller's contract.
        unsafe {
            if s.add {
                place.blocks().for_each(|block| place.load(&mut tiles, block));
            } else {
                tiles.clear();
            }
            if rows > SIDE {
                multiply::<T, true>(&mut tiles, s, right);
            } else {
                multiply::<T, false>(&mut tiles, s, right);
            }
            place.blocks().for_each(|block| place.store(&mut tiles, block));
        }
        right = right.wrapping_offset(s.right_steps.1 * size_of::<f32>() as isize);
        to = to.wrapping_offset(s.panel as isize * s.to_steps.1);
    }
}

/// Adds the products of all terms.
unsafe fn multiply<T: Tiles, const BOTH: bool>(tiles: &mut T, s: &Strip, right: *const u8) {
    let (left_step, right_step) = (s.left_steps.0 * 4, s.right_steps.0 * 4);
    let mut factors = Factors { left: s.left, left_step, right, right_step };
    for _ in (0..s.terms).step_by(SIDE) {
        // SAFETY: both sides were packed in whole tiles of terms, and the right one in whole panels.
        unsafe { tiles.multiply::<BOTH>(&factors) };
        factors.left = factors.left.wrapping_add(ROW_BYTES);
        factors.right = factors.right.wrapping_offset(SIDE as isize * right_step);
    }
}

/// Where the sums of one panel go.
struct Place {
    to: *mut f32,
    steps: (isize, isize),
    rows: usize,
    columns: usize,
}

impl Place {
    /// Blocks that have sums.
    fn blocks(&self) -> impl Iterator<Item = Block> {
        let (rows, columns) = (self.rows, self.columns);
        Block::ALL.into_iter().filter(move |block| block.row() * SIDE < rows && block.column() * SIDE < columns)
    }

    /// The first sum of a block, and how many rows and columns count.
    fn corner(&self, block: Block) -> (*mut f32, usize, usize) {
        let (row, column) = (block.row() * SIDE, block.column() * SIDE);
        let to = self.to.wrapping_offset(row as isize * self.steps.0 + column as isize * self.steps.1);
        (to, SIDE.min(self.rows - row), SIDE.min(self.columns - column))
    }

    fn is_direct(&self, columns: usize) -> bool {
        self.steps.1 == 1 && columns == SIDE
    }

    unsafe fn load<T: Tiles>(&self, tiles: &mut T, block: Block) {
        let (from, rows, columns) = self.corner(block);
        // SAFETY: the result holds so many rows and columns, and the room a whole tile.
        unsafe {
            if self.is_direct(columns) {
                return tiles.load(block, from.cast_const().cast(), self.steps.0 * 4);
            }
            let mut room = Sums([0.0; SIDE * SIDE]);
            for row in 0..rows {
                for column in 0..columns {
                    let at = row as isize * self.steps.0 + column as isize * self.steps.1;
                    room.0[row * SIDE + column] = from.offset(at).read();
                }
            }
            tiles.load(block, room.0.as_ptr().cast(), ROW_BYTES as isize);
        }
    }

    unsafe fn store<T: Tiles>(&self, tiles: &mut T, block: Block) {
        let (to, rows, columns) = self.corner(block);
        // SAFETY: as in `load`.
        unsafe {
            if self.is_direct(columns) {
                return tiles.store(block, to.cast(), self.steps.0 * 4);
            }
            let mut room = Sums([0.0; SIDE * SIDE]);
            tiles.store(block, room.0.as_mut_ptr().cast(), ROW_BYTES as isize);
            for row in 0..rows {
                for column in 0..columns {
                    let at = row as isize * self.steps.0 + column as isize * self.steps.1;
                    to.offset(at).write(room.0[row * SIDE + column]);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use fearless_simd::Fallback;

    use super::super::model::Model;
    use super::*;
    use crate::gemm::{Lines, Right, Tile};
    use crate::halves::{Bf16, Half};
    use crate::program::Scratch;

    /// Numbers that bf16 has.
    fn numbers(n: usize, seed: usize) -> Vec<f32> {
        (0..n).map(|i| ((i * 37 + seed * 11) % 61) as f32 * 0.125 - 3.5).collect()
    }

    /// Lines of terms as columns, or side by side.
    fn lines(from: &[f32], lines: usize, terms: usize, is_turned: bool) -> Lines {
        let (across, along) = if is_turned { (1, lines as isize) } else { (terms as isize, 1) };
        Lines { from: from.as_ptr().cast(), lines, terms, across, along }
    }

    fn at(lines: &Lines, of: &[f32], line: usize, term: usize) -> f64 {
        f64::from(of[(line as isize * lines.across + term as isize * lines.along) as usize])
    }

    /// A product of these extents, whose sums are exact in f32, laid out in either way and packed before or not.
    fn check([m, n, k]: [usize; 3], turned: [bool; 2], is_packed: bool, is_gapped: bool) {
        let gemm = gemm::<f32, Fallback, Model>(Fallback::new());
        let (a, b) = (numbers(m * k, 1), numbers(n * k, 2));
        let (left, loose) = (lines(&a, m, k, turned[0]), lines(&b, n, k, turned[1]));
        let steps = if is_gapped { (2 * n as isize + 1, 2) } else { (n as isize, 1) };
        let mut out = vec![f32::NAN; m * (2 * n + 1)];
        let mut packed = Scratch::of_bytes(gemm.packed_bytes(n, k));
        let right = if is_packed {
            for panel in 0..n.div_ceil(gemm.panel()) {
                // SAFETY: the room is as large as was asked.
                unsafe { gemm.pack_columns(&loose, panel, packed.start()) };
            }
            Right::Packed { from: packed.start(), columns: n, panel: 0 }
        } else {
            Right::Loose(loose)
        };
        let tile = Tile { left, right, columns: n, to: out.as_mut_ptr().cast(), steps };
        // SAFETY: operands and result are as long as the tile says.
        unsafe { gemm.run(&tile, &mut Scratch::of_bytes(0)) };
        for i in 0..m {
            for j in 0..n {
                let want: f64 = (0..k).map(|p| at(&left, &a, i, p) * at(&loose, &b, j, p)).sum();
                let got = out[(i as isize * steps.0 + j as isize * steps.1) as usize];
                assert_eq!(f64::from(got), want, "{i} {j} of {m}x{n}x{k}, {turned:?}, {is_packed}, {is_gapped}");
            }
        }
    }

    #[test]
    fn blocks_of_every_size_are_whole() {
        for sizes in [[1, 1, 1], [2, 3, 0], [16, 16, 32], [17, 33, 31], [33, 15, 65], [47, 70, 130], [5, 100, 1_100]] {
            for turned in [[false, false], [true, false], [false, true], [true, true]] {
                for (is_packed, is_gapped) in [(false, false), (true, false), (true, true), (false, true)] {
                    check(sizes, turned, is_packed, is_gapped);
                }
            }
        }
    }

    #[test]
    fn operands_of_f32_are_rounded_and_those_of_bf16_are_not() {
        let x = [1.003_906_3f32, -2.011_718_8, 3.0, f32::INFINITY];
        let halves = x.map(Bf16::narrow);
        let mut packed = [[0u16; 64]; 2];
        let line = |from: *const u8| Lines { from, lines: 1, terms: 4, across: 4, along: 1 };
        // SAFETY: there is room for a line of 32 terms and a gap.
        unsafe {
            pack_left::<f32, Fallback, SIDE>(&line(x.as_ptr().cast()), packed[0].as_mut_ptr().cast());
            pack_left::<Bf16, Fallback, SIDE>(&line(halves.as_ptr().cast()), packed[1].as_mut_ptr().cast());
        }
        assert_eq!(packed[0], packed[1]);
        assert_eq!(packed[0][..5], [0x3F80, 0xC001, 0x4040, 0x7F80, 0]);
    }
}
