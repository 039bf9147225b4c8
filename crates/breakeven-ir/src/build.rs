//! Builds bodies: rows and `math` are generic code, and [`Term`] is the value that writes down what they do.

use std::cell::RefCell;
use std::collections::HashMap;
use std::ops::{Add, BitAnd, BitOr, BitXor, Div, Mul, Neg, Not, Rem, Shl, Shr, Sub};

use crate::{Body, DType, Float, Inst, Integer, Mask, Number, Prim};

/// Instructions written so far. Equal instructions share one place, so common subexpressions cost nothing.
#[derive(Debug, Default)]
pub struct Builder {
    insts: RefCell<Vec<(Inst, DType)>>,
    known: RefCell<HashMap<(InstKey, DType), u32>>,
}

type InstKey = (u8, u64, [u32; 3]);

fn key(inst: Inst) -> InstKey {
    match inst {
        Inst::Arg(i) => (0, u64::from(i), [0; 3]),
        Inst::Param(i) => (1, u64::from(i), [0; 3]),
        Inst::Const(c) => (2, c.to_bits(), [0; 3]),
        Inst::Prim(p, ids) => (3, p as u64, ids),
        Inst::Cast(id) => (4, 0, [id, 0, 0]),
    }
}

impl Builder {
    /// Append an instruction, or find it.
    pub fn push<const CORE: bool>(&self, inst: Inst, dtype: DType) -> Term<'_, CORE> {
        let mut insts = self.insts.borrow_mut();
        let id = *self.known.borrow_mut().entry((key(inst), dtype)).or_insert_with(|| {
            insts.push((inst, dtype));
            insts.len() as u32 - 1
        });
        Term { builder: self, id }
    }

    /// The type of an instruction written earlier.
    pub fn dtype(&self, id: u32) -> DType {
        self.insts.borrow()[id as usize].1
    }

    /// The body whose result is instruction `result`; what came after it is dropped, and so is what it does not need.
    pub fn finish(self, result: u32) -> Body {
        Body { insts: self.finish_all(&[result]).0 }
    }

    /// What all `results` need, and where they are among it.
    pub fn finish_all(self, results: &[u32]) -> (Vec<(Inst, DType)>, Vec<u32>) {
        let insts = self.insts.into_inner();
        let mut needed = vec![false; insts.len()];
        for &result in results {
            needed[result as usize] = true;
        }
        for id in (0..insts.len()).rev() {
            if needed[id] {
                for operand in operands(insts[id].0) {
                    needed[operand as usize] = true;
                }
            }
        }
        let mut place = vec![0u32; insts.len()];
        let mut kept = Vec::new();
        for (id, (inst, dtype)) in insts.into_iter().enumerate().filter(|(id, _)| needed[*id]) {
            place[id] = kept.len() as u32;
            kept.push((inst.moved(&place), dtype));
        }
        (kept, results.iter().map(|&result| place[result as usize]).collect())
    }
}

fn operands(inst: Inst) -> Vec<u32> {
    match inst {
        Inst::Prim(_, ids) => ids.to_vec(),
        Inst::Cast(id) => vec![id],
        Inst::Arg(_) | Inst::Param(_) | Inst::Const(_) => Vec::new(),
    }
}

/// A value inside a body being built; `Copy`, so that rows read like mathematics. With `CORE`, functions such as `exp`
/// are written out in core primitives instead of named.
#[derive(Clone, Copy, Debug)]
pub struct Term<'a, const CORE: bool = false> {
    builder: &'a Builder,
    id: u32,
}

impl<const CORE: bool> Term<'_, CORE> {
    /// Index of the instruction that computes it.
    pub fn id(self) -> u32 {
        self.id
    }

    /// Type of the value.
    pub fn dtype(self) -> DType {
        self.builder.dtype(self.id)
    }

    /// The value as another type.
    pub fn cast(self, dtype: DType) -> Self {
        if self.dtype() == dtype { self } else { self.builder.push(Inst::Cast(self.id), dtype) }
    }

    fn prim(self, prim: Prim, operands: &[Self], dtype: DType) -> Self {
        let mut ids = [self.id; 3];
        for (place, operand) in ids[1..].iter_mut().zip(operands) {
            *place = operand.id;
        }
        self.builder.push(Inst::Prim(prim, ids), dtype)
    }

    fn same(self, prim: Prim, operands: &[Self]) -> Self {
        self.prim(prim, operands, self.dtype())
    }

    fn mask(self, prim: Prim, operands: &[Self]) -> Self {
        self.prim(prim, operands, DType::Bool)
    }
}

macro_rules! operators {
    ($($Trait:ident $method:ident $prim:ident),+ $(,)?) => {$(
        impl<const CORE: bool> $Trait for Term<'_, CORE> {
            type Output = Self;
            fn $method(self, rhs: Self) -> Self {
                self.same(Prim::$prim, &[rhs])
            }
        }
    )+};
}
operators!(Add add Add, Sub sub Sub, Mul mul Mul, Div div Div, Rem rem Rem, BitAnd bitand And, BitOr bitor Or,
    BitXor bitxor Xor, Shl shl Shl, Shr shr Shr);

macro_rules! with_literals {
    ($($Trait:ident $method:ident),+ $(,)?) => {$(
        impl<const CORE: bool> $Trait<f64> for Term<'_, CORE> {
            type Output = Self;
            fn $method(self, rhs: f64) -> Self {
                self.$method(self.lit(rhs))
            }
        }
    )+};
}
with_literals!(Add add, Sub sub, Mul mul, Div div);

impl<const CORE: bool> Neg for Term<'_, CORE> {
    type Output = Self;
    fn neg(self) -> Self {
        self.same(Prim::Neg, &[])
    }
}

impl<const CORE: bool> Not for Term<'_, CORE> {
    type Output = Self;
    fn not(self) -> Self {
        self.same(Prim::Not, &[])
    }
}

impl<const CORE: bool> Mask for Term<'_, CORE> {}
impl<const CORE: bool> Integer for Term<'_, CORE> {}

impl<const CORE: bool> Number for Term<'_, CORE> {
    type Mask = Self;

    fn lit(self, c: f64) -> Self {
        self.builder.push(Inst::Const(c), self.dtype())
    }
    fn abs(self) -> Self {
        self.same(Prim::Abs, &[])
    }
    fn larger(self, other: Self) -> Self {
        self.same(Prim::Larger, &[other])
    }
    fn smaller(self, other: Self) -> Self {
        self.same(Prim::Smaller, &[other])
    }
    fn lt(self, other: Self) -> Self {
        self.mask(Prim::Lt, &[other])
    }
    fn le(self, other: Self) -> Self {
        self.mask(Prim::Le, &[other])
    }
    fn eq(self, other: Self) -> Self {
        self.mask(Prim::Eq, &[other])
    }
    fn pick(mask: Self, a: Self, b: Self) -> Self {
        mask.prim(Prim::Pick, &[a, b], a.dtype())
    }
}

macro_rules! core_floats {
    () => {
        fn floor(self) -> Self {
            self.same(Prim::Floor, &[])
        }
        fn ceil(self) -> Self {
            self.same(Prim::Ceil, &[])
        }
        fn trunc(self) -> Self {
            self.same(Prim::Trunc, &[])
        }
        fn round(self) -> Self {
            self.same(Prim::Round, &[])
        }
        fn sqrt(self) -> Self {
            self.same(Prim::Sqrt, &[])
        }
        fn mul_add(self, b: Self, c: Self) -> Self {
            self.same(Prim::MulAdd, &[b, c])
        }
        fn is_nan(self) -> Self {
            self.mask(Prim::IsNan, &[])
        }
        fn is_inf(self) -> Self {
            self.mask(Prim::IsInf, &[])
        }
        fn is_negative(self) -> Self {
            self.mask(Prim::IsNegative, &[])
        }
        fn ldexp(self, n: Self) -> Self {
            self.same(Prim::Ldexp, &[n])
        }
        fn exponent(self) -> Self {
            self.same(Prim::Exponent, &[])
        }
        fn nearest(self, scale: f64) -> Self {
            self.same(Prim::Nearest, &[self.lit(scale)])
        }
        fn quotient(self, divisor: Self) -> Self {
            self.same(Prim::Quotient, &[divisor])
        }
        fn turn_rest(self) -> Self {
            self.same(Prim::TurnRest, &[])
        }
        fn turn_quadrant(self) -> Self {
            self.same(Prim::TurnQuadrant, &[])
        }
    };
}

/// Writes functions out in core primitives.
impl Float for Term<'_, true> {
    core_floats!();
}

macro_rules! named {
    ($($method:ident $prim:ident),+ $(,)?) => {$(
        fn $method(self) -> Self {
            self.same(Prim::$prim, &[])
        }
    )+};
}

/// Names functions, so that a language can spell them and the reference can compute them in double precision.
impl Float for Term<'_, false> {
    core_floats!();
    named!(exp Exp, exp2 Exp2, expm1 Expm1, ln Ln, log1p Log1p, log2 Log2, log10 Log10, sin Sin, cos Cos, tan Tan,
        asin Asin, acos Acos, atan Atan, sinh Sinh, cosh Cosh, tanh Tanh, erf Erf, erfc Erfc);

    fn atan2(self, x: Self) -> Self {
        self.same(Prim::Atan2, &[x])
    }
    fn pow(self, y: Self) -> Self {
        self.same(Prim::Pow, &[y])
    }
}
