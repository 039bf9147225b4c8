//! Convolutions of any type as products: the windows of a few places become columns in the cache.

use std::ops::Range;

use breakeven_ir::{ConvKernel, Unsupported};

use super::super::Machine;
use super::super::products::{Product, Shapes, Types};
use super::geometry::Geometry;
use super::lines::{line, zero};
use super::tiles::Fit;
use super::{Stretch, Sums, Unit};
use crate::blocks::load_run;
use crate::spare::{Lent, Spare};

/// Most places and output channels of a tile.
const TILE: usize = 256;
/// Fewest places of a tile, where there are as many.
const LEAST: usize = 16;

/// How tiles of places and output channels are multiplied.
#[derive(Debug)]
pub(super) struct Columns {
    product: Product,
    shapes: Shapes,
    width: usize,
}

/// What one thread needs.
pub(super) struct ColumnRoom<'a> {
    columns: Lent<'a>,
    weights: Lent<'a>,
    packed: Lent<'a>,
}

impl ColumnRoom<'_> {
    pub fn new(spare: &Spare) -> ColumnRoom<'_> {
        ColumnRoom { columns: spare.lend(0), weights: spare.lend(0), packed: spare.lend(0) }
    }
}

impl Columns {
    /// # Errors
    /// When there is no product of these types.
    pub fn new(machine: &Machine, k: &ConvKernel, geometry: &Geometry) -> Result<Columns, Unsupported> {
        let (width, terms) = (k.x.dtype.bytes(), geometry.terms());
        let (outs, places) = (geometry.outs.min(TILE), tile(geometry, width, Fit::new(machine.caches)));
        let types = Types { a: k.weight.dtype, b: k.x.dtype, sums: k.accumulator() };
        let shapes = Shapes {
            m: outs,
            n: places,
            k: terms,
            a: (terms as isize, 1),
            b: (places as isize, 1),
            to: (places as isize, 1),
            widths: (width, width),
        };
        let missing = || Unsupported(format!("the CPU has no convolution of {} summed in {}", types.b, types.sums));
        let product = Product::new(machine, types, &shapes).ok_or_else(missing)?;
        Ok(Columns { product, shapes, width })
    }

    /// Output channels of a unit, and how many units share them.
    pub fn units(&self, geometry: &Geometry) -> (usize, usize) {
        (self.shapes.m, geometry.places().div_ceil(self.shapes.n))
    }

    /// The places of a unit: one line.
    pub fn stretch(&self, geometry: &Geometry, unit: &Unit) -> Stretch {
        let places = self.places(geometry, unit);
        Stretch { start: places.start, lines: 1, length: places.len(), step: places.len() }
    }

    fn places(&self, geometry: &Geometry, unit: &Unit) -> Range<usize> {
        let start = unit.tile * self.shapes.n;
        start..(start + self.shapes.n).min(geometry.places())
    }

    /// Sums that a unit has at most.
    pub fn room(&self) -> usize {
        self.shapes.m * self.shapes.n
    }

    /// Writes the sums of a unit.
    ///
    /// # Safety
    /// `x` and `weight` must be the operands, `sums` must have room for the unit.
    pub unsafe fn run(
        &self,
        geometry: &Geometry,
        unit: &Unit,
        (x, weight): (*const u8, *const u8),
        sums: &Sums,
        room: &mut ColumnRoom<'_>,
    ) {
        let places = self.places(geometry, unit);
        let (m, n, k) = (unit.outs.len(), places.len(), self.shapes.k);
        let bytes = self.width as isize;
        let from = unit.n as isize * geometry.x[0] + unit.group as isize * geometry.x[1];
        let own = unit.group as isize * geometry.weight[0] + unit.outs.start as isize * geometry.weight[1];
        room.columns.reserve(k * n * self.width);
        // SAFETY: the operands hold the unit, and the columns have room for its windows.
        unsafe {
            self.columns(geometry, &places, x.wrapping_offset(from * bytes), room.columns.start());
            let (a, row) = self.weights(geometry, m, weight.wrapping_offset(own * bytes), room);
            let (b, to) = ((n as isize, 1), (sums.pitch as isize, 1));
            let shapes = Shapes { m, n, k, a: (row, 1), b, to, widths: self.shapes.widths };
            self.product.run(&shapes, (a, room.columns.start()), sums.to, &mut room.packed);
        }
    }

    /// Weights of `outs` channels whose terms are neighbours: as they lie, or copied; and the step from row to row.
    unsafe fn weights(
        &self,
        geometry: &Geometry,
        outs: usize,
        from: *const u8,
        room: &mut ColumnRoom<'_>,
    ) -> (*const u8, isize) {
        if geometry.window.is_contiguous() {
            return (from, geometry.weight[1]);
        }
        let (terms, width) = (self.shapes.k, self.width);
        room.weights.reserve(outs * terms * width);
        for out in 0..outs {
            let row = from.wrapping_offset(out as isize * geometry.weight[1] * width as isize);
            for (term, place) in geometry.window.positions().enumerate() {
                let to = room.weights.start().wrapping_add((out * terms + term) * width);
                // SAFETY: the operand holds the window, and there is room for its terms.
                unsafe { load_run(row.wrapping_offset(place as isize * width as isize), 1, to, 1, width) };
            }
        }
        (room.weights.start(), terms as isize)
    }

    /// The windows of some places as columns: a row for each term.
    unsafe fn columns(&self, geometry: &Geometry, places: &Range<usize>, x: *const u8, to: *mut u8) {
        let mut to = to;
        for channel in 0..geometry.channels {
            let from = x.wrapping_offset(channel as isize * geometry.x[2] * self.width as isize);
            for inner in geometry.window_places() {
                // SAFETY: the channel lies in the operand, and a row of places in the columns.
                unsafe { self.row(geometry, places, inner, from, to) };
                to = to.wrapping_add(places.len() * self.width);
            }
        }
    }

    /// What element `inner` of each window sees.
    unsafe fn row(&self, geometry: &Geometry, places: &Range<usize>, inner: [usize; 3], x: *const u8, to: *mut u8) {
        let [outer, middle, last] = &geometry.axes;
        let (mut place, mut to) = (places.start, to);
        while place < places.end {
            let (line_number, from) = (place / last.count, place % last.count);
            let n = (last.count - from).min(places.end - place);
            let lines = outer.seen(line_number / middle.count, inner[0]);
            let at = lines.zip(middle.seen(line_number % middle.count, inner[1]));
            // SAFETY: the line lies in the operand, and its places in the row.
            unsafe {
                match at {
                    None => zero(to, n * self.width),
                    Some((a, b)) => {
                        let first = (last.place(from, inner[2]), last.stride);
                        line(last, x.wrapping_offset((a + b) * self.width as isize), first, (to, n), self.width);
                    }
                }
            }
            (place, to) = (place + n, to.wrapping_add(n * self.width));
        }
    }
}

/// Places of one tile.
fn tile(geometry: &Geometry, width: usize, fit: Fit) -> usize {
    let fit = fit.column_bytes / (geometry.terms().max(1) * width);
    (fit / LEAST * LEAST).clamp(LEAST, TILE).min(geometry.places().max(1))
}
