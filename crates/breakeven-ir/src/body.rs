//! Bodies: what one element of a kernel computes, in scalar primitives, for devices that compile text and for the
//! reference.

use crate::build::{Builder, Term};
use crate::{DType, Float, math};

/// A scalar primitive. Those with no [`Prim::definition`] are spelled by every device language exactly once; the rest
/// are defined in terms of them, and a language may spell them itself where it has something as good.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[allow(missing_docs, reason = "each is the method of `Number`, `Float`, `Integer` or `Mask` of the same name")]
pub enum Prim {
    Add,
    Sub,
    Mul,
    Div,
    Rem,
    Neg,
    Abs,
    Larger,
    Smaller,
    Lt,
    Le,
    Eq,
    Pick,
    And,
    Or,
    Xor,
    Not,
    Shl,
    Shr,
    Floor,
    Ceil,
    Trunc,
    Round,
    Sqrt,
    MulAdd,
    IsNan,
    IsInf,
    IsNegative,
    Ldexp,
    Exponent,
    /// The first operand times the second, to the nearest whole number.
    Nearest,
    /// A quotient that need not be the nearest one.
    Quotient,
    TurnRest,
    TurnQuadrant,
    Exp,
    Exp2,
    Expm1,
    Ln,
    Log1p,
    Log2,
    Log10,
    Sin,
    Cos,
    Tan,
    Asin,
    Acos,
    Atan,
    Atan2,
    Sinh,
    Cosh,
    Tanh,
    Erf,
    Erfc,
    Pow,
}

/// What the remainder of two floats takes, in other primitives: 4 ns where these take 0.013 (a processor with AVX-512, one thread).
const REMAINDER: u64 = 300;

impl Prim {
    /// Operands it takes.
    pub fn arity(self) -> usize {
        use Prim::{
            Add, And, Atan2, Div, Eq, Larger, Ldexp, Le, Lt, Mul, MulAdd, Nearest, Or, Pick, Pow, Quotient, Rem, Shl,
            Shr, Smaller, Sub, Xor,
        };
        match self {
            Pick | MulAdd => 3,
            Add | Sub | Mul | Div | Rem | Larger | Smaller | Lt | Le | Eq | And | Or | Xor | Shl | Shr | Ldexp
            | Nearest | Quotient | Atan2 | Pow => 2,
            _ => 1,
        }
    }

    /// The f32 algorithm of a primitive that no device needs to spell, in primitives that every device spells.
    pub fn definition(self) -> Option<Body> {
        macro_rules! of {
            ($f:ident(x)) => {
                Some(Body::core(1, |a| math::$f(a[0])))
            };
            ($f:ident(x, y)) => {
                Some(Body::core(2, |a| math::$f(a[0], a[1])))
            };
        }
        match self {
            Self::Exp => of!(exp(x)),
            Self::Exp2 => of!(exp2(x)),
            Self::Expm1 => of!(expm1(x)),
            Self::Ln => of!(ln(x)),
            Self::Log1p => of!(log1p(x)),
            Self::Log2 => of!(log2(x)),
            Self::Log10 => of!(log10(x)),
            Self::Sin => of!(sin(x)),
            Self::Cos => of!(cos(x)),
            Self::Tan => of!(tan(x)),
            Self::Asin => of!(asin(x)),
            Self::Acos => of!(acos(x)),
            Self::Atan => of!(atan(x)),
            Self::Atan2 => of!(atan2(x, y)),
            Self::Sinh => of!(sinh(x)),
            Self::Cosh => of!(cosh(x)),
            Self::Tanh => of!(tanh(x)),
            Self::Erf => of!(erf(x)),
            Self::Erfc => of!(erfc(x)),
            Self::Pow => of!(pow(x, y)),
            _ => None,
        }
    }

    /// The arithmetic that a cost model counts: core primitives that one evaluation takes, and as many for a core primitive that takes as
    /// long as several.
    pub fn flops(self) -> u64 {
        match self {
            // Parts of a turn are found in twice the precision, those of large angles from many digits.
            Prim::TurnRest | Prim::TurnQuadrant => 20,
            _ => self.definition().map_or(1, |body| body.flops()),
        }
    }
}

/// One instruction; operands are indices of earlier instructions.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Inst {
    /// The element that argument `.0` has here.
    Arg(u16),
    /// Parameter `.0`: the same for every element, passed as data.
    Param(u16),
    /// A constant, in the type of the instruction.
    Const(f64),
    /// A primitive; unused operands repeat the first.
    Prim(Prim, [u32; 3]),
    /// A change of type: saturating from float to integer, NaN to 0, anything but 0 to true.
    Cast(u32),
}

impl Inst {
    /// The same where operand `id` is at `place[id]`.
    pub fn moved(self, place: &[u32]) -> Inst {
        match self {
            Inst::Prim(p, ids) => Inst::Prim(p, ids.map(|id| place[id as usize])),
            Inst::Cast(id) => Inst::Cast(place[id as usize]),
            other => other,
        }
    }
}

/// Instructions in order, each with the type of its result; the last one is the result of the body.
#[derive(Clone, Debug, PartialEq)]
pub struct Body {
    pub(crate) insts: Vec<(Inst, DType)>,
}

impl Body {
    /// The instructions and the type of each.
    pub fn insts(&self) -> &[(Inst, DType)] {
        &self.insts
    }

    /// Type of the result.
    pub fn dtype(&self) -> DType {
        self.insts.last().expect("a body has a result").1
    }

    /// Arithmetic of one evaluation, in core primitives.
    pub fn flops(&self) -> u64 {
        let cost = |(inst, dtype): &(Inst, DType)| match inst {
            // Floats are divided again and again until a remainder is left; processors have an instruction for integers.
            Inst::Prim(Prim::Rem, _) if dtype.is_float() => REMAINDER,
            Inst::Prim(p, _) => p.flops(),
            _ => 0,
        };
        self.insts.iter().map(cost).sum()
    }

    /// `n` and `e^r` of `e^x = 2^n * e^r` in f32, for a device that knows more of `x` than that it is a number, and joins them in
    /// its own way. The second is NaN where `x` is.
    pub fn exp_parts() -> [Body; 2] {
        [Body::core(1, |a| math::exp_power(a[0])), Body::core(1, |a| math::exp_rest(a[0]))]
    }

    /// An f32 body in core primitives alone.
    fn core(arity: u16, body: impl for<'a> FnOnce(&[Term<'a, true>]) -> Term<'a, true>) -> Body {
        let builder = Builder::default();
        let args: Vec<_> = (0..arity).map(|i| builder.push(Inst::Arg(i), DType::F32)).collect();
        let result = body(&args).id();
        builder.finish(result)
    }
}

/// `Float` must stay usable without naming a device.
const _: fn() = || {
    fn float<V: Float>() {}
    float::<Term<'_, false>>();
};
