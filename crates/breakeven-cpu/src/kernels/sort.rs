//! Sorting, row by row. An element becomes a whole number that is ordered as the element is, with its index beside it: no
//! two are equal then, so that any way of sorting is stable.

use breakeven_ir::{DType, SortRows};

use super::{Bound, Machine, views};
use crate::domain::{Axes, Domain, Order};

/// Rows of a domain, sorted one by one.
#[derive(Debug)]
pub(crate) struct CpuSort {
    sort: unsafe fn(&Row, &mut Room),
    rows: Domain,
    /// How values, indices and input step from row to row.
    across: [Axes; 3],
    /// How many bytes they step along a row.
    along: [isize; 3],
    length: usize,
    keep: usize,
    descending: bool,
    nanoseconds: f64,
}

/// One row: first places of values, indices and input, and how many bytes each steps.
struct Row {
    values: *mut u8,
    indices: *mut u8,
    from: *const u8,
    steps: [isize; 3],
    length: usize,
    keep: usize,
    descending: bool,
}

/// What one thread needs.
#[derive(Default)]
struct Room {
    /// Keys above their indices.
    short: Vec<u64>,
    long: Vec<(u64, usize)>,
}

impl CpuSort {
    pub fn new(kernel: &SortRows, nanoseconds: f64) -> CpuSort {
        let sort = sort_of(kernel.input.dtype);
        let operands = [&kernel.outs[0], &kernel.outs[1], &kernel.input];
        let rank = kernel.outer.rank();
        // The operands have one shape up to the axis that is sorted.
        let (rows, across) = Domain::new(&views(operands), 0..rank, Order::Free);
        let along = operands.map(|o| o.layout.strides[rank] * o.dtype.bytes() as isize);
        let across = across.try_into().expect("three operands have three sets of axes");
        let SortRows { length, keep, descending, .. } = *kernel;
        CpuSort { sort, rows, across, along, length, keep, descending, nanoseconds }
    }

    /// # Safety
    /// As [`super::Compiled::run`].
    pub unsafe fn run(&self, machine: &Machine, bound: Bound<'_>) {
        machine.split(self.rows.elements(), self.nanoseconds, |rows| {
            let mut room = Room::default();
            for row in rows {
                let at = self.rows.run(row, 1);
                let place = |k: usize| self.rows.place(&self.across[k], &at) * self.across[k].width as isize;
                let row = Row {
                    values: bound.output(0).wrapping_offset(place(0)),
                    indices: bound.output(1).wrapping_offset(place(1)),
                    from: bound.input(0).wrapping_offset(place(2)),
                    steps: self.along,
                    length: self.length,
                    keep: self.keep,
                    descending: self.descending,
                };
                // SAFETY: operands hold their rows, which do not overlap.
                unsafe { (self.sort)(&row, &mut room) };
            }
        });
    }
}

fn sort_of(dtype: DType) -> unsafe fn(&Row, &mut Room) {
    match dtype {
        DType::F64 => sort::<f64>,
        DType::F32 => sort::<f32>,
        DType::I64 => sort::<i64>,
        DType::I32 => sort::<i32>,
        DType::I16 => sort::<i16>,
        DType::I8 => sort::<i8>,
        DType::U64 => sort::<u64>,
        DType::U32 => sort::<u32>,
        DType::U16 => sort::<u16>,
        DType::U8 | DType::Bool => sort::<u8>,
        DType::F16 => sort::<Half<0x7C00>>,
        DType::BF16 => sort::<Half<0x7F80>>,
    }
}

/// An element that has a whole number which is ordered as it is.
trait Key: Copy {
    fn key(self) -> u64;
}

macro_rules! keys {
    ($($t:ty: $x:ident => $key:expr;)+) => {$(
        impl Key for $t {
            #[inline(always)]
            fn key(self) -> u64 {
                let $x = self;
                $key
            }
        }
    )+};
}
keys! {
    u64: x => x;
    u32: x => u64::from(x);
    u16: x => u64::from(x);
    u8: x => u64::from(x);
    i64: x => x.cast_unsigned() ^ 1 << 63;
    i32: x => u64::from(x.cast_unsigned() ^ 1 << 31);
    i16: x => u64::from(x.cast_unsigned() ^ 1 << 15);
    i8: x => u64::from(x.cast_unsigned() ^ 1 << 7);
    f64: x => float(x.to_bits(), 63, f64::INFINITY.to_bits());
    f32: x => float(u64::from(x.to_bits()), 31, u64::from(f32::INFINITY.to_bits()));
}

/// The bits of a float of 16 bits whose infinity has the bits `INFINITY`.
#[derive(Clone, Copy)]
struct Half<const INFINITY: u16>(u16);

impl<const INFINITY: u16> Key for Half<INFINITY> {
    #[inline(always)]
    fn key(self) -> u64 {
        float(u64::from(self.0), 15, u64::from(INFINITY))
    }
}

/// The key of a float: its bits, those of negative numbers turned around. NaN is the largest, and -0 is 0.
#[inline(always)]
fn float(bits: u64, sign: u32, infinity: u64) -> u64 {
    let (top, size) = (1 << sign, bits & !(1 << sign));
    match bits & top != 0 {
        _ if size > infinity => top | (top - 1),
        true if size != 0 => !bits & (top | (top - 1)),
        _ => size | top,
    }
}

/// # Safety
/// The operands must hold the row, with elements that have the bytes of `T`, and indices of i64.
unsafe fn sort<T: Key>(row: &Row, room: &mut Room) {
    let most = u64::MAX >> (64 - 8 * size_of::<T>());
    let turn = if row.descending { most } else { 0 };
    // SAFETY: the caller's contract.
    let key = |i: usize| unsafe { row.from.wrapping_offset(i as isize * row.steps[2]).cast::<T>().read() }.key() ^ turn;
    // SAFETY: every index lies in the row.
    unsafe {
        if size_of::<T>() <= 4 && u32::try_from(row.length).is_ok() {
            room.short.clear();
            room.short.extend((0..row.length).map(|i| key(i) << 32 | i as u64));
            first_in_order(&mut room.short, row.keep);
            keep::<T>(row, room.short[..row.keep].iter().map(|pair| *pair as u32 as usize));
        } else {
            room.long.clear();
            room.long.extend((0..row.length).map(|i| (key(i), i)));
            first_in_order(&mut room.long, row.keep);
            keep::<T>(row, room.long[..row.keep].iter().map(|pair| pair.1));
        }
    }
}

/// Brings the first `keep` into order and to the front.
fn first_in_order<P: Ord>(pairs: &mut [P], keep: usize) {
    if keep > 0 && keep < pairs.len() {
        pairs.select_nth_unstable(keep - 1);
    }
    pairs[..keep].sort_unstable();
}

unsafe fn keep<T: Copy>(row: &Row, order: impl Iterator<Item = usize>) {
    let [value_step, index_step, step] = row.steps;
    for (place, index) in order.enumerate() {
        let place = place as isize;
        // SAFETY: the index was read from the row, and both outputs hold as many as are kept.
        unsafe {
            let value = row.from.wrapping_offset(index as isize * step).cast::<T>().read();
            row.values.wrapping_offset(place * value_step).cast::<T>().write(value);
            row.indices.wrapping_offset(place * index_step).cast::<i64>().write(index as i64);
        }
    }
}
