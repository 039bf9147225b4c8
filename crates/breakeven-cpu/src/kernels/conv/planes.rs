//! Convolutions of f32 without columns: what a few rows of windows see is brought into planes with the zeros around it, in
//! which every element of a window is the plane again, shifted. 16-bit floats become f32 on the way.

mod seen;

use breakeven_ir::{ConvKernel, DType};

use super::super::Machine;
use super::geometry::Geometry;
use super::lines::zero;
use super::tiles::{Fit, tile};
use super::{Stretch, Sums, Unit};
use crate::blocks::load_run;
use crate::domain::BLOCK;
use crate::natives::RowFn;
use crate::shifts::{BringLines, Lines, SLACK, Shifts, SumShifts};
use crate::spare::{Lent, Spare};
use seen::Seen;

/// Bytes that one pass over channels sees for a few registers of places: they stay in the first-level cache, were it the smallest
/// there is. Passes split sums, which are the same on every machine.
const SLAB_BYTES: usize = 28 << 10;
/// Bytes of a line that a pass sees at a time: three of the longest registers, and what they straddle.
const LINE_BYTES: usize = 256;

/// Sizes of units, and how planes are laid out.
#[derive(Debug)]
pub(super) struct Planes {
    sum: SumShifts,
    bring: BringLines,
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
    /// Where it begins in the input itself, for windows of one element that step through it.
    own: Option<Vec<u32>>,
}

/// What one thread needs.
pub(super) struct PlaneRoom<'a> {
    planes: Lent<'a>,
    weights: Lent<'a>,
    /// What the last unit saw, from which corner on and how many rows: that of the next channel is the same.
    seen: Option<([usize; 3], usize, Seen)>,
}

impl PlaneRoom<'_> {
    pub fn new(spare: &Spare) -> PlaneRoom<'_> {
        PlaneRoom { planes: spare.lend(0), weights: spare.lend(0), seen: None }
    }
}

/// Output channels of a unit: their weights, and where their sums go.
#[derive(Clone, Copy)]
struct Work {
    outs: usize,
    weight: *const f32,
    /// Elements from one output channel's weights to the next.
    row: isize,
    to: *mut f32,
    /// Elements from one output channel's sums to the next.
    pitch: usize,
}

impl Work {
    /// Sums up the terms from `first` on, added to those before.
    ///
    /// # Safety
    /// `x` must hold all lines, and [`SLACK`] elements after each.
    unsafe fn sum(&self, sum: SumShifts, (x, offsets): (*const f32, &[u32]), first: usize, lines: Lines) {
        let weight = self.weight.wrapping_add(first);
        let (row, outs, to, pitch) = (self.row, self.outs, self.to, self.pitch);
        // SAFETY: the same contract.
        unsafe { sum(&Shifts { x, offsets, weight, row, outs, to, pitch, lines, add: first > 0 }) };
    }
}

/// At least so many elements, in an odd number of lines of the cache: what lies so far apart never shares few of its sets.
fn odd_lines(elements: usize) -> usize {
    (elements.div_ceil(SLACK + 1) | 1) * (SLACK + 1)
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
        let fit = Fit::new(machine.caches);
        let tile = tile(g, [rows.len(), columns.len()], halo, fit);
        let plane = [tile[1] + halo[0], tile[2] + halo[1]];
        // Windows far apart would make planes that are mostly zeros.
        if plane[1] > 2 * tile[2] + SLACK {
            return None;
        }
        let area = plane[0] * plane[1];
        let per_channel = odd_lines(g.axes[0].size * rows.len() * columns.len() * area);
        let lines = g.axes[0].size * g.axes[1].size * columns.len();
        let deep = (SLAB_BYTES / (lines * LINE_BYTES)).clamp(1, g.channels);
        let packed = (fit.plane_bytes / (4 * per_channel) / deep * deep).clamp(deep, g.channels.max(deep));
        let offset = |[a, b, c]: [usize; 3]| {
            let ((row, down), (column, right)) = (row_taps[b], column_taps[c]);
            ((a * rows.len() + row) * columns.len() + column) * area + down * plane[1] + right
        };
        let all = (0..deep).flat_map(|channel| g.window_places().map(move |at| (channel, at)));
        let offsets: Option<Vec<u32>> =
            all.map(|(channel, at)| u32::try_from(channel * per_channel + offset(at)).ok()).collect();
        Some(Planes {
            sum: machine.natives.shifts,
            bring: machine.natives.bring,
            widen,
            width: dtype.bytes(),
            tile,
            phases: [rows, columns],
            plane,
            channels: [packed.min(g.channels), deep],
            offsets: offsets?,
            own: g.is_steppable().then(|| (0..deep).map(|channel| (channel as isize * g.x[2]) as u32).collect()),
        })
    }

    /// Output channels of a unit, and how many units share them.
    pub fn units(&self, g: &Geometry) -> (usize, usize) {
        let [outs, rows, columns] = self.tile;
        (outs, g.axes[0].count * g.axes[1].count.div_ceil(rows) * g.axes[2].count.div_ceil(columns))
    }

    /// Sums that a unit has at most.
    pub fn room(&self) -> usize {
        self.tile.iter().product()
    }

    fn per_channel(&self, g: &Geometry) -> usize {
        odd_lines(g.axes[0].size * self.phases[0].len() * self.phases[1].len() * self.plane[0] * self.plane[1])
    }

    /// Where a unit begins along each axis, and its rows and columns.
    fn corner(&self, g: &Geometry, tile: usize) -> ([usize; 3], [usize; 2]) {
        let [_, rows, columns] = self.tile;
        let (across, down) = (g.axes[2].count.div_ceil(columns), g.axes[1].count.div_ceil(rows));
        let at = [tile / (across * down), tile / across % down * rows, tile % across * columns];
        (at, [rows.min(g.axes[1].count - at[1]), columns.min(g.axes[2].count - at[2])])
    }

    /// The places of a unit.
    pub fn stretch(&self, g: &Geometry, unit: &Unit) -> Stretch {
        let (at, [lines, length]) = self.corner(g, unit.tile);
        let start = (at[0] * g.axes[1].count + at[1]) * g.axes[2].count + at[2];
        Stretch { start, lines, length, step: g.axes[2].count }
    }

    /// Writes the sums of a unit.
    ///
    /// # Safety
    /// `x` and `weight` must be the operands, `sums` must have room for the unit.
    pub unsafe fn run(
        &self,
        g: &Geometry,
        unit: &Unit,
        (x, weight): (*const u8, *const u8),
        sums: &Sums,
        room: &mut PlaneRoom<'_>,
    ) {
        let (at, [rows, columns]) = self.corner(g, unit.tile);
        let from = unit.n as isize * g.x[0] + unit.group as isize * g.x[1];
        let own = unit.group as isize * g.weight[0] + unit.outs.start as isize * g.weight[1];
        let bytes = self.width as isize;
        let x = x.wrapping_offset(from * bytes);
        let work =
            Work { outs: unit.outs.len(), weight: std::ptr::null(), row: 0, to: sums.to.cast(), pitch: sums.pitch };
        // SAFETY: the operands hold the unit, the planes have room for the channels that are brought in.
        unsafe {
            let (weight, row) = self.weights(g, unit.outs.len(), weight.wrapping_offset(own * bytes), room);
            let work = Work { weight, row, ..work };
            if let Some(own) = &self.own {
                let whole = columns.next_multiple_of(SLACK + 1);
                let near = if g.may_step(unit, at[2], whole) { columns } else { columns / (SLACK + 1) * (SLACK + 1) };
                let x = x.cast::<f32>().add(at[2]);
                self.step(g, &work, (x, g.x[2], own), near);
                self.rest(g, &Work { to: work.to.add(near), ..work }, x.add(near), columns - near, room);
            } else {
                let lines = Lines { count: rows, length: columns, every: self.plane[1], step: sums.step };
                self.shifted(g, &work, (x, at), lines, room);
            }
        }
    }

    /// The sums of planes, brought in as many channels at a time as stay in the cache.
    unsafe fn shifted(
        &self,
        g: &Geometry,
        work: &Work,
        (x, at): (*const u8, [usize; 3]),
        lines: Lines,
        room: &mut PlaneRoom<'_>,
    ) {
        let per_channel = self.per_channel(g);
        room.planes.reserve(4 * (self.channels[0] * per_channel + 4 * (SLACK + 1)));
        let planes = room.planes.start().cast::<f32>();
        let known = room.seen.take().filter(|(corner, rows, _)| (*corner, *rows) == (at, lines.count));
        let (.., seen) = room.seen.insert(known.unwrap_or_else(|| (at, lines.count, self.seen(g, at, lines.count))));
        for first in (0..g.channels).step_by(self.channels[0]) {
            let count = self.channels[0].min(g.channels - first);
            let x = x.wrapping_offset(first as isize * g.x[2] * self.width as isize);
            // SAFETY: the operands hold the unit, the planes have room for the channels that are brought in.
            unsafe { self.bring(g, x, count, seen, planes) };
            for pass in (0..count).step_by(self.channels[1]) {
                let terms = self.channels[1].min(count - pass) * g.taps();
                let x = planes.wrapping_add(pass * per_channel);
                // SAFETY: lines end within the planes or the zeros behind them.
                unsafe { work.sum(self.sum, (x, &self.offsets[..terms]), (first + pass) * g.taps(), lines) };
            }
        }
    }

    /// The sums of windows of one element at so many places, read where they lie.
    unsafe fn step(&self, g: &Geometry, work: &Work, (x, apart, own): (*const f32, isize, &[u32]), places: usize) {
        if places == 0 {
            return;
        }
        let lines = Lines { count: 1, length: places, every: places.next_multiple_of(SLACK + 1), step: 0 };
        for first in (0..g.channels).step_by(own.len()) {
            let terms = own.len().min(g.channels - first);
            let x = x.wrapping_offset(first as isize * apart);
            // SAFETY: the caller vouches for lines of whole registers, weights and sums.
            unsafe { work.sum(self.sum, (x, &own[..terms]), first, lines) };
        }
    }

    /// The same for the last places, fewer than a register has, copied so that nothing behind the input is read.
    unsafe fn rest(&self, g: &Geometry, work: &Work, x: *const f32, places: usize, room: &mut PlaneRoom<'_>) {
        const LINE: usize = SLACK + 1;
        if places == 0 {
            return;
        }
        room.planes.reserve(4 * LINE * g.channels);
        let copies = room.planes.start().cast::<f32>();
        let own: Vec<u32> = (0..self.channels[1]).map(|channel| (channel * LINE) as u32).collect();
        // SAFETY: the places lie in the operand, and a line of them for each channel in the copies.
        unsafe {
            zero(copies.cast(), 4 * LINE * g.channels);
            for channel in 0..g.channels {
                let from = x.wrapping_offset(channel as isize * g.x[2]);
                let to = copies.add(channel * LINE);
                (0..places).for_each(|i| to.add(i).write(from.add(i).read()));
            }
            self.step(g, work, (copies, LINE as isize, &own), places);
        }
    }

    /// Weights as f32 whose terms are neighbours: as they lie, or copied; and the step from row to row.
    unsafe fn weights(
        &self,
        g: &Geometry,
        outs: usize,
        from: *const u8,
        room: &mut PlaneRoom<'_>,
    ) -> (*const f32, isize) {
        if g.is_dense && self.widen.is_none() {
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
                if g.is_dense {
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

    /// Writes `n` elements that lie `step` apart as f32.
    unsafe fn widened(&self, from: *const u8, step: isize, to: *mut u8, n: usize) {
        // SAFETY: the caller's contract; the array holds a block.
        unsafe {
            match self.widen {
                None => load_run(from, step, to, n, 4),
                Some(widen) if step == 1 => widen(&[from; 3], to, n),
                Some(widen) => {
                    let mut narrow = [0u16; BLOCK];
                    for start in (0..n).step_by(BLOCK) {
                        let count = BLOCK.min(n - start);
                        let from = from.wrapping_offset(2 * start as isize * step);
                        load_run(from, step, narrow.as_mut_ptr().cast(), count, 2);
                        widen(&[narrow.as_ptr().cast(); 3], to.add(4 * start), count);
                    }
                }
            }
        }
    }
}
