//! Products of floats: strips of rows times panels of columns, which are read where they lie or packed first.
//!
//! A sum is made of blocks of its terms that depend on their number alone, and within a block in the order of terms, so
//! that no cut by rows and columns changes a result.

mod bf16;
mod element;
mod kernel;
#[cfg(target_arch = "x86_64")]
mod masked;
mod opaque;
mod pack;
mod packing;
mod thin;

use std::ops::Range;

use breakeven_ir::DType;
use fearless_simd::Simd;

use crate::halves::{Bf16, F16};
use crate::program::Scratch;
pub(crate) use bf16::Lower;
use element::Source;
pub(crate) use element::{Element, LONGEST};
use kernel::{MOST_ROWS, Next, Strip, StripFn};
pub(crate) use pack::Lines;
use pack::{PackLeft, PackRight, pack_left, pack_right, strip_elements};
pub(crate) use packing::{Packing, measure as measure_packing};
pub(crate) use thin::{ThinRows, ThinTile};

/// Bytes of a packed line in the longest block of terms: a strip of such lines stays in the first-level cache.
pub(crate) const DEPTH_BYTES: usize = 2048;
/// Panels of which the last one does not matter.
const MANY_PANELS: usize = 16;
/// Bytes of a left operand whose next rows are not asked for ahead: every second-level cache has room for it many times over, and
/// asking between the panels takes a twentieth of so small a product.
const NEAR_BYTES: usize = 48 << 10;
/// Bytes between lines of which a strip's evict each other from the first-level cache: all fall on one of its sets.
const ONE_SET: usize = 4096;
/// Bytes between lines of which a panel's do: they fall on a quarter of its sets.
const FEW_SETS: usize = 1024;

/// How floats of one type are multiplied.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Gemm {
    strips: Strips,
    pack_left: PackLeft,
    pack_right: PackRight,
    /// Rows of a whole strip and columns of a whole panel.
    rows: usize,
    columns: usize,
    /// The same of narrow panels, and of those of one register.
    narrow: (usize, usize),
    thin: (usize, usize),
    /// Bytes of an operand's element, and of a packed one.
    width: usize,
    packed_width: usize,
    pairs: Pairs,
    /// Bytes of a packed line in the longest block of terms.
    depth_bytes: usize,
    /// Operands can be read where they lie.
    is_plain: bool,
    /// Which of them are not, though they can.
    packing: Packing,
}

/// The loops for strips.
#[derive(Clone, Copy, Debug)]
enum Strips {
    /// One for each number of rows.
    Each([StripFn; MOST_ROWS]),
    /// One for any number, which it is told.
    #[cfg_attr(not(target_arch = "x86_64"), allow(dead_code, reason = "tiles are those of x86-64"))]
    One(unsafe fn(&Strip, usize)),
}

/// How terms stand in packed elements.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Pairs {
    /// Terms in one element.
    pub terms: usize,
    /// Elements of a line are a multiple of this, the last ones zeros.
    pub whole: usize,
}

impl Pairs {
    /// No pairs.
    const NONE: Pairs = Pairs { terms: 1, whole: 1 };

    /// Packed elements of so many terms.
    fn elements(self, terms: usize) -> usize {
        terms.div_ceil(self.terms).next_multiple_of(self.whole)
    }
}

/// The ways of one instruction set.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Gemms([(DType, Gemm); 4]);

/// The right operand of a tile.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Right {
    /// It lies anywhere.
    Loose(Lines),
    /// Packed by [`Gemm::pack_columns`] before: all blocks of terms, `columns` wide each, of which the tile's start at
    /// panel `panel`.
    Packed { from: *const u8, columns: usize, panel: usize },
}

/// One tile.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tile {
    pub left: Lines,
    pub right: Right,
    /// Columns of the result.
    pub columns: usize,
    pub to: *mut u8,
    /// Elements of the result from row to row, and from column to column.
    pub steps: (isize, isize),
}

impl Strips {
    /// # Safety
    /// Operands and result must hold the strip of so many rows.
    #[inline]
    unsafe fn run(&self, work: &Strip, rows: usize) {
        // SAFETY: the same contract.
        unsafe {
            match self {
                Strips::Each(all) => (all[rows - 1])(work),
                Strips::One(one) => one(work, rows),
            }
        }
    }
}

impl Gemms {
    /// Compiled for `S`.
    pub fn with<S: Simd>(_: S) -> Gemms {
        Gemms([
            (DType::F32, Gemm::of::<f32, S>(true)),
            (DType::F64, Gemm::of::<f64, S>(true)),
            (DType::F16, Gemm::of::<F16, S>(false)),
            (DType::BF16, Gemm::of::<Bf16, S>(false)),
        ])
    }

    /// The way for operands of `dtype`.
    pub fn get(&self, dtype: DType) -> Option<Gemm> {
        self.0.iter().find(|(d, _)| *d == dtype).map(|(_, gemm)| *gemm)
    }
}

impl Gemm {
    fn of<F: Source, S: Simd>(is_plain: bool) -> Gemm {
        let [wide, narrow, thin] = kernel::widths::<F::Packed, S>();
        Gemm {
            strips: Strips::Each(kernel::strips::<F::Packed, S>()),
            pack_left: pack_left::<F, S>,
            pack_right: pack_right::<F, S>,
            rows: wide.0,
            columns: wide.1,
            narrow,
            thin,
            width: size_of::<F>(),
            packed_width: size_of::<F::Packed>(),
            pairs: Pairs::NONE,
            depth_bytes: DEPTH_BYTES,
            is_plain,
            packing: Packing::ALWAYS,
        }
    }

    /// The same that packs what `packing` says.
    pub fn with_packing(self, packing: Packing) -> Gemm {
        Gemm { packing, ..self }
    }

    /// The same with panels that fit a result of so many columns: a register alone at its end has too few sums to hide
    /// how long each takes.
    pub fn for_columns(self, columns: usize) -> Gemm {
        let (rest, one) = (columns % self.columns, self.thin.1);
        if self.is_plain && columns <= one {
            return Gemm { rows: self.thin.0, columns: one, ..self };
        }
        if columns <= 2 * one || columns < MANY_PANELS * self.columns && (1..=one).contains(&rest) {
            return Gemm { rows: self.narrow.0, columns: self.narrow.1, ..self };
        }
        self
    }

    /// Terms of the longest block.
    fn most_terms(&self) -> usize {
        self.depth_bytes / self.packed_width * self.pairs.terms
    }

    /// Terms of each block but the last: the same whatever the machine, since it decides how sums are split.
    fn depth(&self, terms: usize) -> usize {
        let whole = (self.pairs.terms * self.pairs.whole).max(8);
        terms.div_ceil(terms.div_ceil(self.most_terms()).max(1)).next_multiple_of(whole)
    }

    /// The blocks of `terms`: where each starts and how long it is.
    fn blocks(&self, terms: usize) -> impl Iterator<Item = (usize, usize)> {
        let depth = self.depth(terms).max(1);
        (0..terms.max(1)).step_by(depth).map(move |first| (first, depth.min(terms - first)))
    }

    /// Columns of a panel: tiles start at multiples of it.
    pub fn panel(&self) -> usize {
        self.columns
    }

    /// Rows of a strip and columns of a panel: what tiles had better be multiples of.
    pub fn whole(&self) -> (usize, usize) {
        (self.rows, self.columns)
    }

    /// True when a right operand is better packed for so many rows than read where it lies.
    pub fn packs(&self, rows: usize, right: &Lines) -> bool {
        let few_sets = (right.along.unsigned_abs() * self.width).is_multiple_of(FEW_SETS);
        let is_near = || right.lines * right.terms * self.width <= usize::from(self.packing.near_bytes);
        let most = if few_sets { self.packing.rows_of_few_sets } else { self.packing.rows };
        let pays = rows > usize::from(most) && (few_sets || !is_near());
        !self.is_plain || right.across != 1 || pays
    }

    /// Bytes of a packed right operand.
    pub fn packed_bytes(&self, columns: usize, terms: usize) -> usize {
        columns.next_multiple_of(self.columns) * self.pairs.elements(terms) * self.packed_width
    }

    /// How terms stand in what it packs.
    pub fn pairs(&self) -> Pairs {
        self.pairs
    }

    /// Packs panel `panel` of all columns in `lines`, for all blocks of terms.
    ///
    /// # Safety
    /// `lines` must be readable, `to` have room for [`Gemm::packed_bytes`] and be written in this panel by nobody else.
    pub unsafe fn pack_columns(&self, lines: &Lines, panel: usize, to: *mut u8) {
        // SAFETY: the same contract.
        unsafe { self.pack_panel(lines, (panel, self.columns), to) };
    }

    /// As [`Gemm::pack_columns`] for panels of `width` columns.
    unsafe fn pack_panel(&self, lines: &Lines, (panel, width): (usize, usize), to: *mut u8) {
        let start = panel * width;
        let from = self.place(lines, start, 0);
        let one = Lines { from, lines: width.min(lines.lines - start), ..*lines };
        let all = lines.lines.next_multiple_of(width) * self.packed_width;
        for (first, terms) in self.blocks(lines.terms) {
            let place =
                all * self.pairs.elements(first) + width * self.packed_width * self.pairs.elements(terms) * panel;
            // SAFETY: the caller's contract.
            unsafe {
                let block = Lines { from: self.place(&one, 0, first), terms, ..one };
                (self.pack_right)(&block, to.wrapping_add(place), width);
            }
        }
    }

    fn place(&self, lines: &Lines, line: usize, term: usize) -> *const u8 {
        let elements = line as isize * lines.across + term as isize * lines.along;
        lines.from.wrapping_offset(elements * self.width as isize)
    }

    /// Writes the sums of a tile. `room` is kept from call to call.
    ///
    /// # Safety
    /// The operands must hold the tile, aligned to their elements; the output is not read before it is written.
    pub unsafe fn run(&self, tile: &Tile, room: &mut Scratch) {
        if let Some(strip) = self.one_strip(tile) {
            // SAFETY: the caller vouches for the operands, which are read where they lie.
            return unsafe { self.strips.run(&strip, tile.left.lines) };
        }
        let terms = self.depth(tile.left.terms);
        let strip =
            if self.packs_strip(tile, &tile.left) { strip_elements(self.rows, self.pairs.elements(terms)) } else { 0 };
        let strip_bytes = (strip * self.packed_width).next_multiple_of(64);
        let panels_bytes = match tile.right {
            Right::Loose(lines) => self.packed_bytes(tile.columns - self.direct_columns(tile, &lines), terms),
            Right::Packed { .. } => 0,
        };
        if room.bytes() < strip_bytes + panels_bytes {
            *room = Scratch::of_bytes(strip_bytes + panels_bytes);
        }
        let rooms = (room.start(), room.start().wrapping_add(strip_bytes));
        for (first, terms) in self.blocks(tile.left.terms) {
            // SAFETY: the rooms are large enough for a block; the caller vouches for the rest.
            unsafe { self.block(tile, first, terms, rooms) };
        }
    }

    /// A tile that is one strip of operands that are read where they lie: many are so small that deciding how to cut them would
    /// take as long as their products.
    fn one_strip(&self, tile: &Tile) -> Option<Strip> {
        let Right::Loose(right) = tile.right else { return None };
        let left = &tile.left;
        let is_one = (1..=self.rows).contains(&left.lines) && left.terms <= self.most_terms();
        if !self.is_plain
            || !is_one
            || self.packs_strip(tile, left)
            || self.direct_columns(tile, &right) != tile.columns
        {
            return None;
        }
        Some(Strip {
            terms: left.terms,
            left: left.from,
            left_steps: (left.across, left.along),
            right: right.from,
            right_steps: (right.along, self.columns as isize),
            panel: self.columns,
            columns: tile.columns,
            to: tile.to,
            to_steps: tile.steps,
            add: false,
            next: Next::NONE,
        })
    }

    /// One block of terms, added to what the ones before it left.
    unsafe fn block(&self, tile: &Tile, first: usize, terms: usize, (strip_room, panels_room): (*mut u8, *mut u8)) {
        let elements = self.pairs.elements(terms);
        let packed = (self.columns as isize, (self.columns * elements) as isize);
        let mut parts = [(0, tile.columns, panels_room.cast_const(), packed), (0, 0, panels_room.cast_const(), packed)];
        match tile.right {
            Right::Packed { from, columns, panel } => {
                let place = self.packed_bytes(columns, first) + self.packed_bytes(1, terms) * panel;
                parts[0].2 = from.wrapping_add(place);
            }
            Right::Loose(lines) => {
                let here = Lines { from: self.place(&lines, 0, first), terms, ..lines };
                let direct = self.direct_columns(tile, &lines);
                let mut width = self.columns;
                if direct > 0 {
                    // What is left is less than a register.
                    width = self.thin.1;
                    parts = [
                        (0, direct, here.from, (lines.along, self.columns as isize)),
                        (direct, tile.columns - direct, panels_room.cast_const(), (width as isize, 0)),
                    ];
                }
                // SAFETY: the room holds all panels; the caller vouches for the operand.
                unsafe { self.pack_panels(&here, direct..tile.columns, width, panels_room) };
            }
        }
        let lines = tile.left.lines;
        let strips = if lines > self.rows { lines.div_ceil(self.rows) } else { lines.min(1) };
        let edge = |strip: usize| if strip == strips { lines } else { lines * strip / strips };
        let asked = if lines * terms * self.width > NEAR_BYTES { strips } else { 0 };
        for strip in 0..strips {
            let (start, rows) = (edge(strip), edge(strip + 1) - edge(strip));
            let lines = Lines { from: self.place(&tile.left, start, first), lines: rows, terms, ..tile.left };
            let (mut left, mut left_steps) = (lines.from, (lines.across, lines.along));
            if self.packs_strip(tile, &lines) {
                // SAFETY: the room holds a strip.
                left_steps = unsafe { (self.pack_left)(&lines, strip_room) };
                left = strip_room;
            }
            let mut next =
                if strip + 1 < asked { self.next(&lines, edge(strip + 2) - edge(strip + 1)) } else { Next::NONE };
            for (column, columns, right, right_steps) in parts.into_iter().take(if parts[1].1 > 0 { 2 } else { 1 }) {
                let offset = start as isize * tile.steps.0 + column as isize * tile.steps.1;
                let to = tile.to.wrapping_offset(offset * self.packed_width as isize);
                let (terms, panel, to_steps, add) = (elements, self.columns, tile.steps, first > 0);
                let work =
                    Strip { terms, left, left_steps, right, right_steps, panel, columns, to, to_steps, add, next };
                next = Next::NONE;
                // SAFETY: the operands were packed or hold the strip.
                unsafe { self.strips.run(&work, rows) };
            }
        }
    }

    /// Packs some columns of one block in panels of `width`.
    ///
    /// # Safety
    /// `lines` must be readable, and `to` have room for all panels.
    unsafe fn pack_panels(&self, lines: &Lines, columns: Range<usize>, width: usize, to: *mut u8) {
        for (i, start) in columns.clone().step_by(width).enumerate() {
            let from = self.place(lines, start, 0);
            let panel = Lines { from, lines: width.min(columns.end - start), ..*lines };
            let to = to.wrapping_add(i * self.packed_bytes(1, lines.terms));
            // SAFETY: the same contract.
            unsafe { (self.pack_right)(&panel, to, width) };
        }
    }

    /// The `rows` rows after `lines`.
    fn next(&self, lines: &Lines, rows: usize) -> Next {
        let from = self.place(lines, lines.lines, 0);
        let width = self.width as isize;
        if lines.along == 1 {
            return Next { from, lines: rows, step: lines.across * width, bytes: lines.terms * self.width };
        }
        let bytes = if lines.across == 1 { rows * self.width } else { 1 };
        Next { from, lines: lines.terms, step: lines.along * width, bytes }
    }

    /// Columns of a tile that are read where they lie.
    fn direct_columns(&self, tile: &Tile, right: &Lines) -> usize {
        // Whole registers of them: no loop reads beyond these.
        if self.packs(tile.left.lines, right) { 0 } else { tile.columns - tile.columns % self.thin.1 }
    }

    /// True when a strip is better packed than read where it lies.
    fn packs_strip(&self, tile: &Tile, lines: &Lines) -> bool {
        let panels = tile.columns.div_ceil(self.columns);
        !self.is_plain || panels > 1 && self.collides(lines) || panels > usize::from(self.packing.panels)
    }

    /// True when the terms of a strip that lies like `lines` evict each other from the first-level cache, or from the TLB.
    fn collides(&self, lines: &Lines) -> bool {
        let step = if lines.along == 1 { lines.across } else { lines.along }.unsigned_abs() * self.width;
        if lines.along == 1 { step.is_multiple_of(ONE_SET) } else { step >= ONE_SET }
    }
}
