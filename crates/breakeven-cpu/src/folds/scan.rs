//! Running folds of one type: what each element leaves behind.

use breakeven_ir::{DType, Fold};

use super::kinds::{Max, Min, Prod, Sum};
use super::{Element, Folding, Partial, join};
use crate::halves::{Bf16, F16};

/// Neighbouring elements of a row, and where their results go.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Run {
    pub from: *const u8,
    pub to: *mut u8,
    pub n: usize,
    /// Each result leaves out its own element.
    pub exclusive: bool,
}

/// The loops of one running fold over one type.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ScanFns {
    /// Goes on with a part of a row, whose start is folded in `.1`; all before the part is folded in `.0`. Gives `.1` with
    /// the run. The result that folds nothing is any number.
    pub scan: unsafe fn(Partial, Partial, Run) -> Partial,
    /// As `scan`, without results.
    pub total: unsafe fn(Partial, *const u8, usize) -> Partial,
    /// Folds two neighbours, the earlier one first.
    pub join: fn(Partial, Partial) -> Partial,
}

/// The loops of `fold` over elements of `dtype`.
pub(crate) fn scan_of(fold: Fold, dtype: DType) -> Option<ScanFns> {
    Some(match dtype {
        DType::F32 => of::<f32>(fold)?,
        DType::F64 => of::<f64>(fold)?,
        DType::F16 => of::<F16>(fold)?,
        DType::BF16 => of::<Bf16>(fold)?,
        DType::I64 => of::<i64>(fold)?,
        DType::I32 => of::<i32>(fold)?,
        DType::I16 => of::<i16>(fold)?,
        DType::I8 => of::<i8>(fold)?,
        DType::U64 => of::<u64>(fold)?,
        DType::U32 => of::<u32>(fold)?,
        DType::U16 => of::<u16>(fold)?,
        DType::U8 => of::<u8>(fold)?,
        DType::Bool => return None,
    })
}

fn of<T: Element>(fold: Fold) -> Option<ScanFns> {
    Some(match fold {
        Fold::Sum => fns::<Sum, T>(),
        Fold::Prod => fns::<Prod, T>(),
        Fold::Max => fns::<Max, T>(),
        Fold::Min => fns::<Min, T>(),
        _ => return None,
    })
}

fn fns<F: Folding<T>, T: Element>() -> ScanFns {
    ScanFns { scan: scan::<F, T>, total: total::<F, T>, join: join::<F, T> }
}

fn with<F: Folding<T>, T: Element>(part: Partial, x: T) -> Partial {
    let more = if part.n == 0 { F::one(x, 0) } else { F::add(part, x, part.n) };
    Partial { n: part.n + 1, ..more }
}

unsafe fn scan<F: Folding<T>, T: Element>(before: Partial, mut part: Partial, run: Run) -> Partial {
    let (from, to) = (run.from.cast::<T>(), run.to.cast::<T>());
    for i in 0..run.n {
        // SAFETY: the caller vouches for `n` elements at both places.
        unsafe {
            let more = with::<F, T>(part, from.add(i).read());
            let seen = if run.exclusive { part } else { more };
            F::finish(join::<F, T>(before, seen), [to.add(i).cast(), std::ptr::null_mut()]);
            part = more;
        }
    }
    part
}

unsafe fn total<F: Folding<T>, T: Element>(part: Partial, from: *const u8, n: usize) -> Partial {
    let from = from.cast::<T>();
    // SAFETY: the caller vouches for `n` elements.
    (0..n).fold(part, |part, i| with::<F, T>(part, unsafe { from.add(i).read() }))
}
