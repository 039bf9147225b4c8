//! Every row of the table, and every cast, as compiled loops over blocks of elements.

use std::fmt;
use std::sync::OnceLock;

use breakeven_ir::maps::rows;
use breakeven_ir::{DType, Expr, Item, MAPS, Row, Unsupported, Vocabulary, for_each_map, map_type};
use fearless_simd::Simd;

use crate::casts::cast;
use crate::folds::Folds;
use crate::gemm::Gemms;
use crate::halves::Halves;
use crate::integers::Ways;
use crate::isa::{Isa, with_token};
use crate::jit::Target;
use crate::lanes::{Chunk, Lanes, Plain, token};
use crate::shifts::{BringLines, SumShifts};
use crate::sweeps::Sweeps;
use crate::vectors::Vectors;

/// Operands of a block, in the order of the row; places that are not used repeat another.
pub(crate) type Args = [*const u8; 3];

/// Computes `n` elements. An output may lie exactly where an input lies.
pub(crate) type RowFn = unsafe fn(&Args, *mut u8, usize);

/// The loops of one instruction set.
pub(crate) struct Natives {
    lanes: Vec<Option<RowFn>>,
    plain: Vec<(DType, Vec<Option<RowFn>>)>,
    /// Core primitives of each row at its most usual type, reckoned when first asked for.
    flops: Vec<OnceLock<f64>>,
    /// Read when a row from outside the table is first met.
    words: OnceLock<Vocabulary>,
    halves: Halves,
    /// How reductions fold blocks.
    pub folds: Folds,
    /// Softmax and norms over one row.
    pub sweeps: Sweeps,
    /// Products with a vector, of f32 and of f64.
    pub vectors: [Vectors; 2],
    /// Products of floats.
    pub gemms: Gemms,
    /// Products of integers.
    pub integers: Ways,
    /// Sums of shifted lines.
    pub shifts: SumShifts,
    /// Copies of lines with zeros around them.
    pub bring: BringLines,
    /// What code is generated for, where it computes as these loops do.
    pub target: Option<Target>,
}

impl fmt::Debug for Natives {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Natives")
    }
}

impl Natives {
    /// The loops for `isa`; `None` where this machine does not have it.
    pub fn new(isa: Isa) -> Option<Natives> {
        with_token!(isa, simd => Natives::with(isa, simd))
    }

    fn with<S: Simd>(isa: Isa, simd: S) -> Natives {
        Natives {
            lanes: float_rows::<Lanes<S>, S>(),
            plain: vec![
                (DType::F64, float_rows::<Plain<f64>, S>()),
                (DType::I64, integer_rows::<Plain<i64>, S>()),
                (DType::I32, integer_rows::<Plain<i32>, S>()),
                (DType::I16, integer_rows::<Plain<i16>, S>()),
                (DType::I8, integer_rows::<Plain<i8>, S>()),
                (DType::U64, integer_rows::<Plain<u64>, S>()),
                (DType::U32, integer_rows::<Plain<u32>, S>()),
                (DType::U16, integer_rows::<Plain<u16>, S>()),
                (DType::U8, integer_rows::<Plain<u8>, S>()),
                (DType::Bool, logic_rows::<Plain<u8>, S>()),
            ],
            flops: MAPS.iter().map(|_| OnceLock::new()).collect(),
            words: OnceLock::new(),
            halves: Halves::with(simd),
            folds: Folds::with(simd),
            sweeps: Sweeps::with(simd),
            vectors: [Vectors::with::<f32, S>(simd), Vectors::with::<f64, S>(simd)],
            gemms: Gemms::with(simd),
            integers: Ways::with(isa, simd),
            shifts: crate::shifts::with(simd),
            bring: crate::shifts::bring(simd),
            target: Target::of(isa),
        }
    }

    /// Core primitives of one element of `row`.
    pub fn row_flops(&self, row: Row) -> f64 {
        let reckon = || row.body(row.family.dtypes()[0]).flops() as f64;
        row.index().map_or_else(reckon, |index| *self.flops[index].get_or_init(reckon))
    }

    /// `expr` in rows that have loops, and its parameters.
    pub fn written(&self, expr: &Expr, params: &[f64]) -> Result<(Expr, Vec<f64>), Unsupported> {
        let is_foreign = |(item, _): &(Item, DType)| matches!(item, Item::Row(row, _) if row.index().is_none());
        if expr.items().iter().any(is_foreign) {
            return self.words.get_or_init(Vocabulary::of_table).write(expr, params);
        }
        Ok((expr.clone(), params.to_vec()))
    }

    /// The loop that makes elements of `from` into elements of `to`.
    pub fn cast(&self, from: DType, to: DType) -> RowFn {
        self.halves.cast(from, to).unwrap_or_else(|| cast(from, to))
    }

    /// The loop of `row` over values of `dtype`; truth values for rows of logic.
    pub fn row(&self, row: Row, dtype: DType) -> Option<RowFn> {
        let index = row.index()?;
        if dtype == DType::F32 {
            return self.lanes[index];
        }
        self.plain.iter().find(|(d, _)| *d == dtype).and_then(|(_, rows)| rows[index])
    }
}

/// Elements in the longest register.
const LONGEST: usize = 16;

/// One register's worth of each operand, for the last elements of a block.
#[repr(align(64))]
struct Tail([[u8; 4 * LONGEST]; 4]);

/// Runs `body` over whole chunks, then over the rest in a copy padded with zeros.
///
/// # Safety
/// `args` and `out` must hold `n` elements of the given widths; `body(args, out)` must touch no more than
/// `V::LEN` elements of each.
#[inline(always)]
unsafe fn chunks<V: Chunk>(args: &Args, out: *mut u8, n: usize, widths: [usize; 4], body: impl Fn(&Args, *mut u8)) {
    let whole = n - n % V::LEN;
    let mut tail = Tail([[0; 4 * LONGEST]; 4]);
    let (mut from, mut to, mut count) = (*args, out, whole);
    loop {
        let mut at = 0;
        while at < count {
            // SAFETY: `at + LEN` elements lie within the operands.
            unsafe {
                let place = |k: usize| from[k].add(at * widths[k]);
                body(&[place(0), place(1), place(2)], to.add(at * widths[3]));
            }
            at += V::LEN;
        }
        if V::LEN == 1 || n == whole || to == tail.0[3].as_mut_ptr() {
            break;
        }
        for k in 0..3 {
            // SAFETY: the last `n - whole` elements of the operand lie behind `whole`, and fewer than `LEN` fit the tail.
            unsafe {
                let rest = args[k].add(whole * widths[k]);
                std::ptr::copy_nonoverlapping(rest, tail.0[k].as_mut_ptr(), (n - whole) * widths[k]);
            }
            from[k] = tail.0[k].as_ptr();
        }
        (to, count) = (tail.0[3].as_mut_ptr(), V::LEN);
    }
    if V::LEN > 1 && n > whole {
        // SAFETY: as above, for the output.
        unsafe {
            std::ptr::copy_nonoverlapping(tail.0[3].as_ptr(), out.add(whole * widths[3]), (n - whole) * widths[3]);
        }
    }
}

macro_rules! width {
    ($V:ty, M) => {
        1
    };
    ($V:ty, $kind:ident) => {
        <$V as Chunk>::WIDTH
    };
}

macro_rules! load {
    ($V:ty, M, $from:expr) => {
        <$V as Chunk>::load_mask($from)
    };
    ($V:ty, $kind:ident, $from:expr) => {
        <$V as Chunk>::load($from)
    };
}

macro_rules! store {
    ($V:ty, M, $value:expr, $to:expr) => {
        <$V as Chunk>::store_mask($value, $to)
    };
    ($V:ty, V, $value:expr, $to:expr) => {
        <$V as Chunk>::store($value, $to)
    };
}

/// The loop of one row for one type, or nothing where the family does not have the type.
macro_rules! only {
    (float: Integer, $f:expr) => {
        None
    };
    (float: Word, $f:expr) => {
        None
    };
    (float: Logic, $f:expr) => {
        None
    };
    (float: $family:ident, $f:expr) => {
        Some($f)
    };
    (integer: Float, $f:expr) => {
        None
    };
    (integer: Logic, $f:expr) => {
        None
    };
    (integer: $family:ident, $f:expr) => {
        Some($f)
    };
    (logic: Logic, $f:expr) => {
        Some($f)
    };
    (logic: Any, $f:expr) => {
        Some($f)
    };
    (logic: $family:ident, $f:expr) => {
        None
    };
}

macro_rules! natives {
    ($($(#[doc = $doc:literal])+
        $name:ident: $family:ident($($arg:ident: $kind:ident),+) -> $out:ident [$tolerance:expr] = $body:expr;)+) => {
        /// The rows as loops.
        mod loops {
            use super::*;
            $(pub unsafe fn $name<V: breakeven_ir::$family + Chunk, S: Simd>(args: &Args, out: *mut u8, n: usize) {
                // SAFETY: tables of `S` are only built with a value of `S` at hand.
                let simd = unsafe { token::<S>() };
                simd.vectorize(#[inline(always)] || {
                    let mut widths = [0, 0, 0, width!(V, $out)];
                    let mut k = 0;
                    $(widths[k] = width!(V, $kind); k += 1;)+
                    let _ = k;
                    // SAFETY: the caller vouches for `n` elements of each operand, and `chunks` gives places with `LEN`
                    // elements of the kind that the row takes.
                    unsafe {
                        chunks::<V>(args, out, n, widths, #[inline(always)] |args, out| {
                            let mut k = 0;
                            $(let $arg: map_type!(V, $kind) = load!(V, $kind, args[k]); k += 1;)+
                            let _ = k;
                            store!(V, $out, rows::$name::<V>($($arg),+), out);
                        });
                    }
                });
            })+
        }

        fn float_rows<V: breakeven_ir::Float + Chunk, S: Simd>() -> Vec<Option<RowFn>> {
            vec![$(only!(float: $family, loops::$name::<V, S>)),+]
        }

        fn integer_rows<V: breakeven_ir::Integer + Chunk, S: Simd>() -> Vec<Option<RowFn>> {
            vec![$(only!(integer: $family, loops::$name::<V, S>)),+]
        }

        fn logic_rows<V: breakeven_ir::Number + Chunk, S: Simd>() -> Vec<Option<RowFn>> {
            vec![$(only!(logic: $family, loops::$name::<V, S>)),+]
        }
    };
}
for_each_map!(natives);
