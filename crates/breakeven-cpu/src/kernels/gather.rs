//! Picking slices by index.

use breakeven_ir::{DType, Gather};

use super::{Bound, Machine, views};
use crate::blocks::{load_run, store_run};
use crate::domain::{Axes, Domain, Order};
use crate::halves::{Bf16, F16, Half};

/// Slices of a source, laid over the outer axes, the picks and the inner axes.
#[derive(Debug)]
pub(crate) struct CpuGather {
    outer: Domain,
    outer_axes: [Axes; 2],
    picks: Domain,
    pick_axes: [Axes; 2],
    inner: Domain,
    inner_axes: [Axes; 2],
    extent: i64,
    /// Elements from one slice of the source to the next.
    step: isize,
    index: DType,
    dtype: DType,
    nanoseconds: f64,
}

impl CpuGather {
    pub fn new(kernel: &Gather, nanoseconds: f64) -> CpuGather {
        let (axis, source, out) = (kernel.axis, &kernel.source.layout, &kernel.out.layout);
        let picks = kernel.index.layout.shape.rank();
        let width = kernel.source.dtype.bytes();
        let both = |from: std::ops::Range<usize>, to: std::ops::Range<usize>| {
            let source = source.permute(&from.collect::<Vec<_>>());
            let out = out.permute(&to.collect::<Vec<_>>());
            let rank = out.shape.rank();
            let (domain, axes) = Domain::new(&[(&out, width), (&source, width)], 0..rank, Order::Kept);
            (domain, pair(axes))
        };
        let (outer, outer_axes) = both(0..axis, 0..axis);
        let (inner, inner_axes) = both(axis + 1..source.shape.rank(), axis + picks..out.shape.rank());
        let picked = out.permute(&(axis..axis + picks).collect::<Vec<_>>());
        let operands = [(&picked, width), views([&kernel.index])[0]];
        let (picks, pick_axes) = Domain::new(&operands, 0..picks, Order::Kept);
        CpuGather {
            outer,
            outer_axes,
            picks,
            pick_axes: pair(pick_axes),
            inner,
            inner_axes,
            extent: source.shape[axis] as i64,
            step: source.strides[axis],
            index: kernel.index.dtype,
            dtype: kernel.source.dtype,
            nanoseconds,
        }
    }

    /// # Safety
    /// As [`super::Compiled::run`].
    pub unsafe fn run(&self, machine: &Machine, bound: Bound<'_>) {
        let picks = self.picks.elements();
        machine.split(self.outer.elements() * picks, self.nanoseconds, |slices| {
            for slice in slices {
                // SAFETY: slices of the output do not overlap.
                unsafe { self.slice(slice / picks, slice % picks, bound) };
            }
        });
    }

    unsafe fn slice(&self, outer: usize, pick: usize, bound: Bound<'_>) {
        let width = self.dtype.bytes() as isize;
        let (outer, pick) = (self.outer.run(outer, 1), self.picks.run(pick, 1));
        let index_at = self.picks.place(&self.pick_axes[1], &pick) * self.index.bytes() as isize;
        // SAFETY: the index operand holds every pick.
        let index = unsafe { read_index(self.index, bound.input(1).wrapping_offset(index_at)) };
        let index = if index < 0 { index.wrapping_add(self.extent) } else { index };
        let to = self.outer.place(&self.outer_axes[0], &outer) + self.picks.place(&self.pick_axes[0], &pick);
        let to = bound.output(0).wrapping_offset(to * width);
        // SAFETY: the operands hold their domains, and `index` lies in the source where it is read.
        unsafe {
            if (0..self.extent).contains(&index) {
                let from = self.outer.place(&self.outer_axes[1], &outer) + index as isize * self.step;
                self.copy(bound.input(0).wrapping_offset(from * width), to);
            } else {
                self.fill(to);
            }
        }
    }

    unsafe fn copy(&self, from: *const u8, to: *mut u8) {
        let width = self.dtype.bytes();
        let whole = self.inner.run(0, self.inner.elements());
        let [out, source] = &self.inner_axes;
        let (mut places, mut at) = (Vec::new(), 0);
        if self.inner.direct(source, &whole).is_none() && self.inner.direct(out, &whole).is_none() {
            self.inner.runs(out, &whole, |place, step, n| places.push((place, step, n)));
            // SAFETY: runs of both operands have the same lengths, since they walk one domain.
            self.inner.runs(source, &whole, |place, step, n| unsafe {
                let from = from.wrapping_offset(place * width as isize);
                let (place, out_step, _) = places[at];
                at += 1;
                for i in 0..n as isize {
                    let to = to.wrapping_offset((place + i * out_step) * width as isize);
                    std::ptr::copy_nonoverlapping(from.wrapping_offset(i * step * width as isize), to, width);
                }
            });
            return;
        }
        // SAFETY: one side has no gaps, so runs of the other are parts of it.
        unsafe {
            if let Some(place) = self.inner.direct(out, &whole) {
                self.inner.gather(source, from, &whole, to.wrapping_offset(place * width as isize));
            } else {
                self.inner.scatter(out, to, &whole, from.wrapping_offset(source.start * width as isize));
            }
        }
    }

    /// NaN for floats, 0 for other types.
    unsafe fn fill(&self, to: *mut u8) {
        let value: [u8; 8] = match self.dtype {
            DType::F32 => u64::from(f32::NAN.to_bits()).to_ne_bytes(),
            DType::F64 => f64::NAN.to_ne_bytes(),
            DType::F16 => u64::from(F16::narrow(f32::NAN).0).to_ne_bytes(),
            DType::BF16 => u64::from(Bf16::narrow(f32::NAN).0).to_ne_bytes(),
            _ => [0; 8],
        };
        let value = Aligned(value);
        let width = self.dtype.bytes();
        let whole = self.inner.run(0, self.inner.elements());
        self.inner.runs(&self.inner_axes[0], &whole, |place, step, n| {
            let to = to.wrapping_offset(place * width as isize);
            // SAFETY: the output holds the domain; the value is one element, read again and again.
            unsafe {
                if step == 1 {
                    load_run(value.0.as_ptr(), 0, to, n, width);
                } else {
                    for i in 0..n as isize {
                        store_run(value.0.as_ptr(), to.wrapping_offset(i * step * width as isize), 1, 1, width);
                    }
                }
            }
        });
    }
}

/// An index of type `dtype`.
///
/// # Safety
/// One must be readable at `at`, aligned.
pub(super) unsafe fn read_index(dtype: DType, at: *const u8) -> i64 {
    // SAFETY: the caller's contract.
    unsafe {
        match dtype {
            DType::I64 => at.cast::<i64>().read(),
            DType::I32 => i64::from(at.cast::<i32>().read()),
            DType::I16 => i64::from(at.cast::<i16>().read()),
            DType::I8 => i64::from(at.cast::<i8>().read()),
            DType::U64 => i64::try_from(at.cast::<u64>().read()).unwrap_or(i64::MAX),
            DType::U32 => i64::from(at.cast::<u32>().read()),
            DType::U16 => i64::from(at.cast::<u16>().read()),
            _ => i64::from(at.read()),
        }
    }
}

#[repr(align(8))]
struct Aligned([u8; 8]);

fn pair(axes: Vec<Axes>) -> [Axes; 2] {
    axes.try_into().expect("two operands have two sets of axes")
}
