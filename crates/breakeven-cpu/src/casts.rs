//! Changes of type, and plain copies, as loops over blocks.

use breakeven_ir::DType;

use crate::halves::{Bf16, F16, Half, Narrowed};
use crate::natives::{Args, RowFn};

/// A type that others can be made from: saturating from float to integer, NaN to 0, anything but 0 to true.
trait From1<A> {
    fn from1(a: A) -> Self;
}

/// One byte that is a truth value.
#[derive(Clone, Copy)]
#[repr(transparent)]
struct Bit(u8);

macro_rules! number_from {
    ($to:ty: $($from:ty),+) => {$(
        impl From1<$from> for $to {
            #[inline(always)]
            #[allow(clippy::unnecessary_cast, reason = "one text for all pairs of types")]
            fn from1(a: $from) -> $to {
                a as $to
            }
        }
    )+
        impl From1<Bit> for $to {
            #[inline(always)]
            #[allow(clippy::unnecessary_cast, reason = "one text for all pairs of types")]
            fn from1(a: Bit) -> $to {
                u8::from(a.0 != 0) as $to
            }
        }
        impl From1<$to> for Bit {
            #[inline(always)]
            fn from1(a: $to) -> Bit {
                Bit(u8::from(a != <$to>::default()))
            }
        }
    };
}

macro_rules! all_numbers {
    ($($to:ty),+) => {
        $(number_from!($to: f64, f32, i64, i32, i16, i8, u64, u32, u16, u8);)+
    };
}
all_numbers!(f64, f32, i64, i32, i16, i8, u64, u32, u16, u8);

macro_rules! half_from {
    ($half:ty: $($t:ty),+) => {$(
        impl From1<$half> for $t {
            #[inline(always)]
            #[allow(clippy::unnecessary_cast, reason = "one text for all pairs of types")]
            fn from1(a: $half) -> $t {
                a.widen() as $t
            }
        }
        impl From1<$t> for $half {
            #[inline(always)]
            fn from1(a: $t) -> $half {
                <$half>::narrow(a.narrowed())
            }
        }
    )+
        impl From1<Bit> for $half {
            #[inline(always)]
            fn from1(a: Bit) -> $half {
                <$half>::narrow(f32::from(u8::from(a.0 != 0)))
            }
        }
        impl From1<$half> for Bit {
            #[inline(always)]
            fn from1(a: $half) -> Bit {
                Bit(u8::from(a.0 & 0x7FFF != 0))
            }
        }
    };
}
half_from!(F16: f64, f32, i64, i32, i16, i8, u64, u32, u16, u8);
half_from!(Bf16: f64, f32, i64, i32, i16, i8, u64, u32, u16, u8);

macro_rules! half_from_half {
    ($($from:ty => $to:ty),+) => {$(
        impl From1<$from> for $to {
            #[inline(always)]
            fn from1(a: $from) -> $to {
                <$to>::narrow(a.widen())
            }
        }
    )+};
}
half_from_half!(F16 => F16, F16 => Bf16, Bf16 => F16, Bf16 => Bf16);

impl From1<Bit> for Bit {
    #[inline(always)]
    fn from1(a: Bit) -> Bit {
        Bit(u8::from(a.0 != 0))
    }
}

unsafe fn convert<A: Copy, B: From1<A>>(args: &Args, out: *mut u8, n: usize) {
    let (from, to) = (args[0].cast::<A>(), out.cast::<B>());
    for i in 0..n {
        // SAFETY: the caller vouches for `n` aligned elements of both types.
        unsafe { to.add(i).write(B::from1(from.add(i).read())) };
    }
}

fn from_type<A: Copy>(to: DType) -> RowFn
where
    f64: From1<A>,
    f32: From1<A>,
    F16: From1<A>,
    Bf16: From1<A>,
    i64: From1<A>,
    i32: From1<A>,
    i16: From1<A>,
    i8: From1<A>,
    u64: From1<A>,
    u32: From1<A>,
    u16: From1<A>,
    u8: From1<A>,
    Bit: From1<A>,
{
    match to {
        DType::F64 => convert::<A, f64>,
        DType::F32 => convert::<A, f32>,
        DType::F16 => convert::<A, F16>,
        DType::BF16 => convert::<A, Bf16>,
        DType::I64 => convert::<A, i64>,
        DType::I32 => convert::<A, i32>,
        DType::I16 => convert::<A, i16>,
        DType::I8 => convert::<A, i8>,
        DType::U64 => convert::<A, u64>,
        DType::U32 => convert::<A, u32>,
        DType::U16 => convert::<A, u16>,
        DType::U8 => convert::<A, u8>,
        DType::Bool => convert::<A, Bit>,
    }
}

/// The loop that makes elements of `from` into elements of `to`.
pub(crate) fn cast(from: DType, to: DType) -> RowFn {
    match from {
        DType::F64 => from_type::<f64>(to),
        DType::F32 => from_type::<f32>(to),
        DType::F16 => from_type::<F16>(to),
        DType::BF16 => from_type::<Bf16>(to),
        DType::I64 => from_type::<i64>(to),
        DType::I32 => from_type::<i32>(to),
        DType::I16 => from_type::<i16>(to),
        DType::I8 => from_type::<i8>(to),
        DType::U64 => from_type::<u64>(to),
        DType::U32 => from_type::<u32>(to),
        DType::U16 => from_type::<u16>(to),
        DType::U8 => from_type::<u8>(to),
        DType::Bool => from_type::<Bit>(to),
    }
}

/// The loop that copies elements of `bytes` each.
pub(crate) fn copy(bytes: usize) -> RowFn {
    unsafe fn copy<const BYTES: usize>(args: &Args, out: *mut u8, n: usize) {
        // SAFETY: the caller vouches for `n` elements; `copy` lets them overlap.
        unsafe { std::ptr::copy(args[0], out, n * BYTES) };
    }
    match bytes {
        1 => copy::<1>,
        2 => copy::<2>,
        4 => copy::<4>,
        _ => copy::<8>,
    }
}
