//! Convolutions of f32 without columns: what a few rows of windows see is brought into planes with the zeros around it, in
//! which every element of a window is the plane again, shifted. 16-bit floats become f32 on the way.

use breakeven_ir::{ConvKernel, DType};

use super::super::Machine;
use super::geometry::Geometry;
use super::lines::{line, zero};
use super::tiles::tile;
use super::{Stretch, Unit};
use crate::blocks::load_run;
use crate::domain::BLOCK;
use crate::natives::RowFn;
use crate::program::Scratch;
use crate::shifts::{SLACK, Shifts, SumShifts};

/// Bytes of the planes of one unit: they stay in the second-level cache beside sums and weights.
const PLANE_BYTES: usize = 256 << 10;
/// Bytes that one pass over channels sees for a few registers of places: they stay in the first-level cache.
const SLAB_BYTES: usize = 28 << 10;
/// Bytes of a line that a pass sees at a time: three of the longest registers, and what they straddle.
const LINE_BYTES: usize = 256;

/// Sizes of units, and how planes are laid out.
#[derive(Debug)]
pub(super) struct Planes {
    sum: SumShifts,
    /// The loop that makes f32 of the operands, where they are not.
    widen: Option<RowFn>,
    width: usize,
    /// Output channels, rows and columns of places of a unit.
    tile: [usize; 3],
    /// Rows and columns of windows that start a plane of their own, along the last two axes.
    phases: [Vec<usize>; 2],
    /// Rows and columns of a plane.
    plane: [usize; 2],
    /// Channels that are brought in at a time, and that one pass sums up.
    channels: [usize; 2],
    /// Where the line of each term of a pass begins.
    offsets: Vec<u32>,
}

/// What one thread needs.
#[derive(Default)]
pub(super) struct PlaneRoom {
    planes: Scratch,
    weights: Scratch,
}

/// The starts of planes that windows of an axis need, and for each element of a window its plane and how far it is in.
fn phases(axis: &super::geometry::Axis) -> (Vec<usize>, Vec<(usize, usize)>) {
    let mut starts: Vec<usize> = Vec::new();
    let one = |j: usize| {
        let (phase, shift) = (j * axis.dilation % axis.stride, j * axis.dilation / axis.stride);
        let known = starts.iter().position(|&p| p == phase).unwrap_or_else(|| {
            starts.push(phase);
            starts.len() - 1
        });
        (known, shift)
    };
    let taps = (0..axis.size).map(one).collect();
    (starts, taps)
}

impl Planes {
    /// `None` where another way suits the types or the shape better.
    pub fn new(machine: &Machine, k: &ConvKernel, g: &Geometry) -> Option<Planes> {
        let dtype = k.x.dtype;
        let fits = dtype == DType::F32 || dtype.is_half();
        if !fits || g.terms() == 0 || g.places() < SLACK / 2 {
            return None;
        }
        let widen = dtype.is_half().then(|| machine.natives.cast(dtype, DType::F32));
        let [_, (rows, row_taps), (columns, column_taps)] = g.axes.each_ref().map(phases);
        let reach = |taps: &[(usize, usize)]| taps.iter().map(|t| t.1).max().unwrap_or(0);
        let halo = [reach(&row_taps), reach(&column_taps)];
        let tile = tile(g, [rows.len(), columns.len()], halo);
        let plane = [tile[1] + halo[0], tile[2] + halo[1]];
        // Windows far apart would make planes that are mostly zeros.
        if plane[1] > 2 * tile[2] + SLACK {
            return None;
        }
        let area = plane[0] * plane[1];
        let per_channel = g.axes[0].size * rows.len() * columns.len() * area;
        let lines = g.axes[0].size * g.axes[1].size * columns.len();
        let deep = (SLAB_BYTES / (lines * LINE_BYTES)).clamp(1, g.channels);
        let packed = (PLANE_BYTES / (4 * per_channel) / deep * deep).clamp(deep, g.channels.max(deep));
        let offset = |[a, b, c]: [usize; 3]| {
            let ((row, down), (column, right)) = (row_taps[b], column_taps[c]);
            ((a * rows.len() + row) * columns.len() + column) * area + down * plane[1] + right
        };
        let all = (0..deep).flat_map(|channel| g.window_places().map(move |at| (channel, at)));
        let offsets: Option<Vec<u32>> =
            all.map(|(channel, at)| u32::try_from(channel * per_channel + offset(at)).ok()).collect();
        Some(Planes {
            sum: machine.natives.shifts,
            widen,
            width: dtype.bytes(),
            tile,
            phases: [rows, columns],
            plane,
            channels: [packed.min(g.channels), deep],
            offsets: offsets?,
        })
    }

    /// Output channels of a unit, and how many units share them.
    pub fn units(&self, g: &Geometry) -> (usize, usize) {
        let [outs, rows, columns] = self.tile;
        (outs, g.axes[0].count * g.axes[1].count.div_ceil(rows) * g.axes[2].count.div_ceil(columns))
    }

    /// Sums that a unit needs room for.
    pub fn room(&self) -> usize {
        self.tile[0] * self.pitch() + SLACK
    }

    fn pitch(&self) -> usize {
        (self.tile[1] * self.plane[1]).next_multiple_of(SLACK + 1)
    }

    fn per_channel(&self, g: &Geometry) -> usize {
        g.axes[0].size * self.phases[0].len() * self.phases[1].len() * self.plane[0] * self.plane[1]
    }

    /// Where a unit begins along each axis, and its rows and columns.
    fn corner(&self, g: &Geometry, tile: usize) -> ([usize; 3], [usize; 2]) {
        let [_, rows, columns] = self.tile;
        let (across, down) = (g.axes[2].count.div_ceil(columns), g.axes[1].count.div_ceil(rows));
        let at = [tile / (across * down), tile / across % down * rows, tile % across * columns];
        (at, [rows.min(g.axes[1].count - at[1]), columns.min(g.axes[2].count - at[2])])
    }

    /// Writes the sums of a unit, a row for each output channel; says how they lie in the result.
    ///
    /// # Safety
    /// `x` and `weight` must be the operands, `sums` must have [`Planes::room`].
    pub unsafe fn run(
        &self,
        g: &Geometry,
        unit: &Unit,
        (x, weight): (*const u8, *const u8),
        sums: *mut f32,
        room: &mut PlaneRoom,
    ) -> Stretch {
        let (at, [rows, columns]) = self.corner(g, unit.tile);
        let from = unit.n as isize * g.x[0] + unit.group as isize * g.x[1];
        let own = unit.group as isize * g.weight[0] + unit.outs.start as isize * g.weight[1];
        let bytes = self.width as isize;
        let per_channel = self.per_channel(g);
        room.planes.reserve(4 * (self.channels[0] * per_channel + 4 * (SLACK + 1)));
        let x = x.wrapping_offset(from * bytes);
        // SAFETY: the operands hold the unit, the planes have room for the channels that are brought in.
        unsafe {
            let (weight, row) = self.weights(g, unit.outs.len(), weight.wrapping_offset(own * bytes), room);
            for first in (0..g.channels).step_by(self.channels[0]) {
                let count = self.channels[0].min(g.channels - first);
                let planes = room.planes.start().cast::<f32>();
                let x = x.wrapping_offset(first as isize * g.x[2] * bytes);
                self.bring(g, x, count, (at, rows), planes);
                for pass in (0..count).step_by(self.channels[1]) {
                    let terms = self.channels[1].min(count - pass) * g.taps();
                    (self.sum)(&Shifts {
                        x: planes.add(pass * per_channel),
                        offsets: &self.offsets[..terms],
                        weight: weight.add((first + pass) * g.taps()),
                        row,
                        outs: unit.outs.len(),
                        to: sums,
                        pitch: self.pitch(),
                        places: (rows - 1) * self.plane[1] + columns,
                        add: first + pass > 0,
                    });
                }
            }
        }
        let start = (at[0] * g.axes[1].count + at[1]) * g.axes[2].count + at[2];
        let (apart, pitch) = (self.plane[1], self.pitch());
        Stretch { start, lines: rows, length: columns, step: g.axes[2].count, apart, pitch }
    }

    /// Weights as f32 whose terms are neighbours: as they lie, or copied; and the step from row to row.
    unsafe fn weights(&self, g: &Geometry, outs: usize, from: *const u8, room: &mut PlaneRoom) -> (*const f32, isize) {
        let is_dense = g.window.is_contiguous();
        if is_dense && self.widen.is_none() {
            return (from.cast(), g.weight[1]);
        }
        let terms = g.terms();
        room.weights.reserve(4 * outs * terms);
        let to = room.weights.start();
        for out in 0..outs {
            let row = from.wrapping_offset(out as isize * g.weight[1] * self.width as isize);
            let to = to.wrapping_add(4 * out * terms);
            // SAFETY: the operand holds the window, and there is room for its terms.
            unsafe {
                if is_dense {
                    self.widened(row, 1, to, terms);
                } else {
                    for (term, place) in g.window.positions().enumerate() {
                        let from = row.wrapping_offset(place as isize * self.width as isize);
                        self.widened(from, 1, to.wrapping_add(4 * term), 1);
                    }
                }
            }
        }
        (to.cast_const().cast(), terms as isize)
    }

    /// Brings what `rows` rows of windows from `at` on see of `count` channels into planes, zeros around it.
    unsafe fn bring(
        &self,
        g: &Geometry,
        x: *const u8,
        count: usize,
        (at, rows): ([usize; 3], usize),
        planes: *mut f32,
    ) {
        let mut to = planes;
        let seen = rows + self.plane[0] - self.tile[1];
        for channel in 0..count {
            let from = x.wrapping_offset(channel as isize * g.x[2] * self.width as isize);
            for j in 0..g.axes[0].size {
                let outer = g.axes[0].seen(at[0], j);
                for &row in &self.phases[0] {
                    // SAFETY: the channel lies in the operand, and its planes in the room for them.
                    unsafe { self.lines(g, (from, outer), [at[1], row, at[2]], seen, to) };
                    to = to.wrapping_add(self.phases[1].len() * self.plane[0] * self.plane[1]);
                }
            }
        }
        // SAFETY: there is room for it behind the planes.
        unsafe { zero(to.cast(), 4 * (SLACK + 1)) };
    }

    /// Writes `seen` rows of the planes of one phase of rows.
    unsafe fn lines(
        &self,
        g: &Geometry,
        (x, outer): (*const u8, Option<isize>),
        [row, phase, column]: [usize; 3],
        seen: usize,
        to: *mut f32,
    ) {
        let (middle, last) = (&g.axes[1], &g.axes[2]);
        let [rows, columns] = self.plane;
        for (number, &start) in self.phases[1].iter().enumerate() {
            let first = (column * last.stride + start) as isize - last.before;
            for r in 0..seen {
                let to = to.wrapping_add((number * rows + r) * columns).cast();
                let place = ((row + r) * middle.stride + phase) as isize - middle.before;
                let inside = (0..middle.extent as isize).contains(&place);
                // SAFETY: the line lies in the operand, and its places in the plane.
                unsafe {
                    match outer.filter(|_| inside) {
                        None => zero(to, 4 * columns),
                        Some(outer) => {
                            let from = x.wrapping_offset((outer + place * middle.step) * self.width as isize);
                            self.line(last, from, (first, last.stride), to, columns);
                        }
                    }
                }
            }
        }
    }

    unsafe fn line(
        &self,
        axis: &super::geometry::Axis,
        from: *const u8,
        (first, stride): (isize, usize),
        to: *mut u8,
        n: usize,
    ) {
        // SAFETY: the caller's contract; the array holds a block.
        unsafe {
            let Some(widen) = self.widen else { return line(axis, from, (first, stride), (to, n), self.width) };
            let mut narrow = [0u16; BLOCK];
            for start in (0..n).step_by(BLOCK) {
                let count = BLOCK.min(n - start);
                let place = (first + (start * stride) as isize, stride);
                line(axis, from, place, (narrow.as_mut_ptr().cast(), count), 2);
                widen(&[narrow.as_ptr().cast(); 3], to.add(4 * start), count);
            }
        }
    }

    unsafe fn widened(&self, from: *const u8, step: isize, to: *mut u8, n: usize) {
        // SAFETY: the caller's contract.
        unsafe {
            match self.widen {
                Some(widen) => widen(&[from; 3], to, n),
                None => load_run(from, step, to, n, 4),
            }
        }
    }
}
