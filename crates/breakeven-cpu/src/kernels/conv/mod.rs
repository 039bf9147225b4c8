//! Convolutions: units of a few output channels at a few places, each by the way that suits the shape.

mod columns;
mod geometry;
mod lines;
mod planes;
mod tiles;

use std::ops::Range;

use breakeven_ir::{ConvKernel, Unsupported};

use super::epilogue::Epilogue;
use super::{Bound, Machine, views};
use crate::domain::{BLOCK, Domain, Order};
use crate::spare::{Lent, Spare};
use columns::{ColumnRoom, Columns};
use geometry::Geometry;
use planes::{PlaneRoom, Planes};

/// What one thread computes at a time: some output channels of one group of one image, at the places of one tile.
#[derive(Clone, Debug)]
struct Unit {
    n: usize,
    group: usize,
    outs: Range<usize>,
    tile: usize,
}

/// The places of a unit in the result: some lines.
#[derive(Clone, Copy, Debug)]
struct Stretch {
    /// The first place.
    start: usize,
    lines: usize,
    /// Places of a line.
    length: usize,
    /// Places from one line to the next.
    step: usize,
}

/// Where the sums of a unit go.
#[derive(Clone, Copy, Debug)]
struct Sums {
    to: *mut u8,
    /// Elements from one output channel to the next.
    pitch: usize,
    /// Elements from one line to the next.
    step: usize,
}

impl Stretch {
    /// How many runs of neighbours there are, and how long.
    fn runs(&self) -> (usize, usize) {
        if self.step == self.length { (1, self.lines * self.length) } else { (self.lines, self.length) }
    }
}

/// How sums are made.
#[derive(Debug)]
enum Way {
    Planes(Planes),
    Columns(Columns),
}

/// A convolution cut into units.
#[derive(Debug)]
pub(crate) struct CpuConv {
    geometry: Geometry,
    way: Way,
    /// All elements of the result, as the epilogue sees them.
    grid: Domain,
    post: Epilogue,
    /// Sums are the result, and written where it is wanted.
    is_direct: bool,
    extras: usize,
    /// Bytes of a sum.
    sum_width: usize,
    nanoseconds: f64,
}

impl CpuConv {
    pub fn new(machine: &Machine, k: &ConvKernel, nanoseconds: f64) -> Result<CpuConv, Unsupported> {
        let geometry = Geometry::new(k);
        let rank = k.out.layout.shape.rank();
        let operands = views([&k.out].into_iter().chain(&k.inputs));
        let (grid, mut axes) = Domain::new(&operands, 0..rank, Order::Kept);
        let out = axes.remove(0);
        let post = Epilogue::new(machine, &k.post, &k.params, (out, axes, 2))?;
        let way = match Planes::new(machine, k, &geometry) {
            Some(planes) => Way::Planes(planes),
            None => Way::Columns(Columns::new(machine, k, &geometry)?),
        };
        let is_direct = post.is_identity() && k.accumulator() == k.out.dtype && k.out.layout.is_contiguous();
        let (extras, sum_width) = (k.inputs.len(), k.accumulator().bytes());
        Ok(CpuConv { geometry, way, grid, post, is_direct, extras, sum_width, nanoseconds })
    }

    /// # Safety
    /// As [`super::Compiled::run`].
    pub unsafe fn run(&self, machine: &Machine, bound: Bound<'_>) {
        let g = &self.geometry;
        let (outs, tiles) = match &self.way {
            Way::Planes(planes) => planes.units(g),
            Way::Columns(columns) => columns.units(g),
        };
        let down = g.outs.div_ceil(outs);
        self.post.expect(machine, g.n * g.groups * g.outs * g.places());
        machine.split(g.n * g.groups * down * tiles, self.nanoseconds, |units| {
            let mut room = UnitRoom::new(self, &machine.spare);
            (0..self.extras).for_each(|k| room.bases[2 + k] = bound.input(2 + k));
            for unit in units {
                let (image, part) = (unit / (down * tiles), unit % (down * tiles));
                // Weights stay in the cache while tiles go by.
                let first = part / tiles * outs;
                let unit = Unit {
                    n: image / g.groups,
                    group: image % g.groups,
                    outs: first..(first + outs).min(g.outs),
                    tile: part % tiles,
                };
                // SAFETY: units do not overlap.
                unsafe { self.unit(&unit, bound, &mut room) };
            }
        });
    }

    unsafe fn unit(&self, unit: &Unit, bound: Bound<'_>, room: &mut UnitRoom<'_>) {
        let g = &self.geometry;
        let stretch = match &self.way {
            Way::Planes(planes) => planes.stretch(g, unit),
            Way::Columns(columns) => columns.stretch(g, unit),
        };
        let number = |out: usize| ((unit.n * g.groups + unit.group) * g.outs + out) * g.places() + stretch.start;
        let sums = if self.is_direct {
            let to = bound.output(0).wrapping_add(number(unit.outs.start) * self.sum_width);
            Sums { to, pitch: g.places(), step: stretch.step }
        } else {
            Sums { to: room.sums.start(), pitch: stretch.lines * stretch.length, step: stretch.length }
        };
        let operands = (bound.input(0), bound.input(1));
        // SAFETY: the operands hold the unit, and the sums have room for it.
        unsafe {
            match (&self.way, &mut room.way) {
                (Way::Planes(planes), WayRoom::Planes(room)) => planes.run(g, unit, operands, &sums, room),
                (Way::Columns(columns), WayRoom::Columns(room)) => columns.run(g, unit, operands, &sums, room),
                _ => unreachable!("the room is made for the way"),
            }
            if self.is_direct {
                return;
            }
            let (lines, length) = stretch.runs();
            for (row, out) in unit.outs.clone().enumerate() {
                for line in 0..lines {
                    let values = sums.to.wrapping_add((row * sums.pitch + line * length) * self.sum_width);
                    self.finish((number(out) + line * stretch.step, length), values, bound, room);
                }
            }
        }
    }

    /// Applies the epilogue to the sums of `n` neighbouring places of one output channel.
    ///
    /// # Safety
    /// `values` must hold the sums.
    unsafe fn finish(&self, (start, n): (usize, usize), values: *const u8, bound: Bound<'_>, room: &mut UnitRoom<'_>) {
        for at in (0..n).step_by(BLOCK) {
            let block = self.grid.run(start + at, BLOCK.min(n - at));
            let values = values.wrapping_add(at * self.sum_width);
            // SAFETY: the operands hold all of the result, `values` the block.
            unsafe { self.post.write(&self.grid, &block, values, &room.bases, bound.output(0), &mut room.post) };
        }
    }
}

/// What one thread needs.
struct UnitRoom<'a> {
    post: super::map::Room<'a>,
    bases: Vec<*const u8>,
    sums: Lent<'a>,
    way: WayRoom<'a>,
}

enum WayRoom<'a> {
    Planes(PlaneRoom<'a>),
    Columns(ColumnRoom<'a>),
}

impl<'a> UnitRoom<'a> {
    fn new(of: &'a CpuConv, spare: &'a Spare) -> UnitRoom<'a> {
        let (sums, way) = match &of.way {
            Way::Planes(planes) => (planes.room(), WayRoom::Planes(PlaneRoom::new(spare))),
            Way::Columns(columns) => (columns.room(), WayRoom::Columns(ColumnRoom::new(spare))),
        };
        UnitRoom {
            post: of.post.room(),
            bases: vec![std::ptr::null(); 2 + of.extras],
            sums: spare.lend(if of.is_direct { 0 } else { sums * of.sum_width }),
            way,
        }
    }
}

#[cfg(test)]
mod tests {
    use breakeven_ir::{DType, Expr, Kernel, Layout, Operand, Sliding};

    use super::*;
    use crate::caches::Caches;
    use crate::kernels::compile;
    use crate::natives::Natives;
    use crate::program::Scratch;
    use crate::team::Team;
    use crate::{CpuOptions, Isa};

    /// 3x3 windows over 40 channels of `[45, 70]`, 40 to 72.
    fn kernel(dtype: DType) -> Kernel {
        let dense = |dims: [usize; 5]| Operand::new(dtype, Layout::dense(dims));
        let along = |count| Sliding { stride: 1, dilation: 1, before: 1, count };
        Kernel::Conv(ConvKernel {
            along: [along(45), along(70)].into_iter().collect(),
            x: dense([1, 1, 40, 45, 70]),
            weight: dense([1, 72, 40, 3, 3]),
            post: Expr::identity(dtype),
            params: Vec::new(),
            inputs: Vec::new(),
            out: dense([1, 1, 72, 45, 70]),
        })
    }

    /// The bytes of the result on a machine with so much of a second-level cache.
    fn result(dtype: DType, isa: Isa, second: usize) -> Vec<u8> {
        let natives = Natives::new(isa).expect("it is available");
        let machine = Machine {
            caches: Caches { first: 32 << 10, second },
            ..Machine::new((isa, natives), Team::new(1, 1), &CpuOptions::default())
        };
        let kernel = kernel(dtype);
        let operands: Vec<&Operand> = kernel.inputs().into_iter().chain(kernel.outputs()).collect();
        let mut memory: Vec<Scratch> = operands.iter().map(|o| Scratch::of_bytes(o.span_bytes() as usize)).collect();
        for (operand, memory) in operands.iter().zip(&mut memory) {
            for at in 0..operand.layout.shape.elements() {
                let value = f64::from((at as u32).wrapping_mul(2_654_435_761) >> 8) / f64::from(1 << 23) - 1.0;
                // SAFETY: the memory holds the operand.
                unsafe {
                    match dtype {
                        DType::F32 => memory.start().cast::<f32>().add(at).write(value as f32),
                        _ => memory.start().cast::<f64>().add(at).write(value),
                    }
                }
            }
        }
        let places = [0, 1, 2].map(|at| memory[at].start());
        let bound = Bound::new(&places, 2, None);
        let compiled = compile(&machine, &kernel).expect("it is supported");
        // SAFETY: each operand lies in memory of its own.
        unsafe {
            compiled.run(&machine, bound).expect("no custom operation is in it");
            std::slice::from_raw_parts(places[2], operands[2].span_bytes() as usize).to_vec()
        }
    }

    #[test]
    fn no_cache_changes_a_result() {
        for isa in Isa::ALL.into_iter().filter(|isa| isa.is_available()) {
            for dtype in [DType::F32, DType::F64] {
                let want = result(dtype, isa, 2 << 20);
                for second in [128 << 10, 512 << 10, 16 << 20] {
                    assert!(result(dtype, isa, second) == want, "{dtype} on {isa} with {second} bytes");
                }
            }
        }
    }
}
