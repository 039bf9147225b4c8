//! Products of integers over packed panels: both operands are copied in blocks, so that a small kernel reads them in
//! order. Integers wrap, so that every way gives the same bits.

#[cfg(target_arch = "x86_64")]
mod avx2;
mod pack;
mod plain;
#[cfg(target_arch = "x86_64")]
mod vnni;

use breakeven_ir::DType;
use fearless_simd::Simd;

use crate::Isa;
use crate::program::Scratch;
use pack::Lines;

/// Terms of one block, whose panels stay in the caches: a whole number of groups of every way.
const DEPTH: usize = 1024;

/// Alignment of panels: a cache line, and the longest register.
const LINE: usize = 64;

/// Bytes of the most sums that a kernel makes at once: 8 rows of 32.
const SUMS_BYTES: usize = 4 * 8 * 32;

/// One way to pack and multiply: what panels look like, and the loops over them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct IntegerPanels {
    /// Lines of a left and a right panel: rows of one operand, columns of the other.
    lines: [usize; 2],
    /// Terms of one line that lie together.
    group: usize,
    /// Bytes of a packed term.
    width: usize,
    /// Bytes behind the terms of each line.
    tail: usize,
    /// How a left and a right panel are packed.
    pack: [unsafe fn(&Lines, *mut u8); 2],
    /// Multiplies two panels.
    multiply: unsafe fn(&Pair),
    /// Writes or adds the sums of two panels to the result.
    keep: unsafe fn(&Pair, &Kept),
}

/// Two panels to be multiplied.
#[derive(Clone, Copy, Debug)]
struct Pair {
    left: *const u8,
    right: *const u8,
    groups: usize,
    /// Lines of the left panel that count.
    rows: usize,
    /// Takes the sums, a row of a whole right panel for each of `rows`.
    sums: *mut u8,
}

/// Where sums go.
#[derive(Clone, Copy, Debug)]
struct Kept {
    to: *mut u8,
    /// Elements from `to` to the first sum, from row to row, and from column to column.
    steps: [isize; 3],
    columns: usize,
    /// They are added to what is there.
    add: bool,
}

/// One operand: its first element, how many lines it has (rows on the left, columns on the right), and the bytes from line
/// to line and from term to term.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Side {
    pub from: *const u8,
    pub lines: usize,
    pub across: isize,
    pub along: isize,
}

/// A product of two operands.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Task {
    /// Left and right.
    pub sides: [Side; 2],
    pub terms: usize,
    pub to: *mut u8,
    /// Elements of the result from row to row, and from column to column.
    pub steps: (isize, isize),
}

/// The way of each type of sums, for one instruction set.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ways {
    alike: [(DType, IntegerPanels); 8],
    /// 8-bit integers summed in i32; by left and right, whether it is signed.
    bytes: [[IntegerPanels; 2]; 2],
}

impl Ways {
    /// Compiled for `S`, and for what else the machine has beside `isa`.
    pub fn with<S: Simd>(isa: Isa, _: S) -> Ways {
        let way =
            |left: bool, right: bool| of_bytes(isa, left, right).unwrap_or_else(|| plain::widened::<S>(left, right));
        Ways {
            alike: [
                (DType::I64, plain::alike::<S, i64, 8>()),
                (DType::I32, plain::alike::<S, i32, 16>()),
                (DType::I16, plain::alike::<S, i16, 16>()),
                (DType::I8, plain::alike::<S, i8, 16>()),
                (DType::U64, plain::alike::<S, u64, 8>()),
                (DType::U32, plain::alike::<S, u32, 16>()),
                (DType::U16, plain::alike::<S, u16, 16>()),
                (DType::U8, plain::alike::<S, u8, 16>()),
            ],
            bytes: [[way(false, false), way(false, true)], [way(true, false), way(true, true)]],
        }
    }

    /// The way for these types of operands and sums.
    pub fn get(&self, a: DType, b: DType, sums: DType) -> Option<IntegerPanels> {
        let is_byte = |d| matches!(d, DType::I8 | DType::U8);
        if sums == DType::I32 && is_byte(a) && is_byte(b) {
            return Some(self.bytes[usize::from(a == DType::I8)][usize::from(b == DType::I8)]);
        }
        let found = self.alike.iter().find(|(d, _)| *d == sums && a == sums && b == sums);
        found.map(|(_, way)| *way)
    }
}

#[cfg(target_arch = "x86_64")]
fn of_bytes(isa: Isa, left: bool, right: bool) -> Option<IntegerPanels> {
    match isa {
        Isa::Avx512 if vnni::is_available() => Some(vnni::panels(left, right)),
        Isa::Avx512 | Isa::Avx2 => Some(avx2::panels(left, right)),
        Isa::Scalar | Isa::Baseline => None,
    }
}

#[cfg(not(target_arch = "x86_64"))]
fn of_bytes(_: Isa, _: bool, _: bool) -> Option<IntegerPanels> {
    None
}

impl IntegerPanels {
    /// True when a product of so many rows and columns is better done with its sides changed, since few rows cost little.
    pub fn is_turned(&self, rows: usize, columns: usize) -> bool {
        columns < rows && columns <= self.lines[0]
    }

    fn panel_bytes(&self, s: usize, terms: usize) -> usize {
        (self.lines[s] * (terms.next_multiple_of(self.group) * self.width + self.tail)).next_multiple_of(LINE)
    }

    fn side_bytes(&self, s: usize, lines: usize, terms: usize) -> usize {
        lines.div_ceil(self.lines[s]) * self.panel_bytes(s, terms)
    }

    /// Writes the product. `room` is kept from call to call.
    ///
    /// # Safety
    /// The operands must hold the task, aligned to their elements, whose types must be those of the way.
    pub unsafe fn run(&self, task: &Task, room: &mut Scratch) {
        let depth = DEPTH.min(task.terms);
        let [left, right] = [0, 1].map(|s| self.side_bytes(s, task.sides[s].lines, depth));
        if room.bytes() < left + right {
            *room = Scratch::of_bytes(left + right);
        }
        let packed = [room.start(), room.start().wrapping_add(left)];
        for first in (0..task.terms.max(1)).step_by(DEPTH) {
            let terms = DEPTH.min(task.terms - first);
            // SAFETY: the room holds the panels of a block; the caller vouches for the operands.
            unsafe {
                for s in 0..2 {
                    let side = task.sides[s];
                    let from = side.from.wrapping_offset(first as isize * side.along);
                    self.pack(s, Side { from, ..side }, terms, packed[s]);
                }
                self.block(task, packed, terms, first > 0);
            }
        }
    }

    unsafe fn pack(&self, s: usize, side: Side, terms: usize, to: *mut u8) {
        let most = self.lines[s];
        for (panel, start) in (0..side.lines).step_by(most).enumerate() {
            let from = side.from.wrapping_offset(start as isize * side.across);
            let lines = Lines { side: Side { from, lines: most.min(side.lines - start), ..side }, terms };
            // SAFETY: the caller's contract.
            unsafe { (self.pack[s])(&lines, to.wrapping_add(panel * self.panel_bytes(s, terms))) };
        }
    }

    unsafe fn block(&self, task: &Task, packed: [*mut u8; 2], terms: usize, add: bool) {
        let [rows, columns] = self.lines;
        let [m, n] = task.sides.map(|side| side.lines);
        let mut sums = Sums([[0; LINE]; SUMS_BYTES / LINE]);
        for (right, j) in (0..n).step_by(columns).enumerate() {
            for (left, i) in (0..m).step_by(rows).enumerate() {
                let pair = Pair {
                    left: packed[0].wrapping_add(left * self.panel_bytes(0, terms)),
                    right: packed[1].wrapping_add(right * self.panel_bytes(1, terms)),
                    groups: terms.div_ceil(self.group),
                    rows: rows.min(m - i),
                    sums: sums.0.as_mut_ptr().cast(),
                };
                let (row, column) = task.steps;
                let steps = [i as isize * row + j as isize * column, row, column];
                let kept = Kept { to: task.to, steps, columns: columns.min(n - j), add };
                // SAFETY: both panels were packed, the sums have room for all rows, and the result holds the task.
                unsafe {
                    (self.multiply)(&pair);
                    (self.keep)(&pair, &kept);
                }
            }
        }
    }
}

/// Sums of one pair.
#[repr(align(64))]
struct Sums([[u8; LINE]; SUMS_BYTES / LINE]);
