//! Matrix products.

use super::{Operand, load_all};
use crate::{DType, Expr, Precision, Scalar, Shape};

/// `out[.., i, j] = post(sum over p of a[.., i, p] * b[.., p, j], extra0[.., i, j], ..)`.
///
/// The sums are of the type of the first argument of `post`: that of both operands, or i32 for operands of i8 or u8, which
/// may differ. Integers wrap.
///
/// `a` lies over `batch ++ [m, k]`, `b` over `batch ++ [k, n]`, the other inputs and the output over `batch ++ [m, n]`;
/// broadcasting is a stride of 0.
#[derive(Clone, Debug, PartialEq)]
pub struct MatMul {
    /// Leading extents.
    pub batch: Shape,
    /// Rows of the result.
    pub m: usize,
    /// Columns of the result.
    pub n: usize,
    /// Terms of each sum.
    pub k: usize,
    /// Left operand.
    pub a: Operand,
    /// Right operand.
    pub b: Operand,
    /// How exactly operands must be multiplied; [`Precision::of`] the type of both.
    pub precision: Precision,
    /// Applied to each sum; its arguments after the first are `inputs`.
    pub post: Expr,
    /// Parameters of `post`.
    pub params: Vec<f64>,
    /// Further operands of `post`: bias, residual.
    pub inputs: Vec<Operand>,
    /// What it writes.
    pub out: Operand,
}

impl MatMul {
    /// Type of the sums.
    pub fn accumulator(&self) -> DType {
        self.post.args()[0]
    }

    /// True for 8-bit integers that are summed in i32.
    pub fn is_of_bytes(&self) -> bool {
        self.accumulator() == DType::I32 && self.a.dtype.bytes() == 1
    }

    /// True where products of bf16 may stand for those of the operands.
    pub fn may_be_of_bf16(&self) -> bool {
        let is_bf16 = |o: &Operand| o.dtype == DType::BF16;
        match self.precision {
            Precision::Highest => false,
            Precision::High => is_bf16(&self.a) && is_bf16(&self.b),
            Precision::Medium => true,
        }
    }

    /// Whether both operands are f16 whose products need not be of the highest precision.
    pub fn is_of_halves(&self) -> bool {
        self.precision != Precision::Highest && [&self.a, &self.b].iter().all(|o| o.dtype == DType::F16)
    }

    pub(super) fn flops(&self) -> u64 {
        let elements = (self.batch.elements() * self.m * self.n) as u64;
        elements * (2 * self.k as u64 + self.post.flops())
    }

    pub(super) fn reference(&self, inputs: &[&[u8]], outputs: &mut [&mut [u8]]) {
        let body = self.post.lower();
        let extras: Vec<&Operand> = self.inputs.iter().collect();
        let mut walks: Vec<_> = extras.iter().map(|o| o.layout.positions()).collect();
        let rows: Vec<usize> = self.a.layout.positions().collect();
        let columns: Vec<usize> = self.b.layout.positions().collect();
        for (e, at) in self.out.layout.positions().enumerate() {
            let (batch, i, j) = (e / (self.m * self.n), e / self.n % self.m, e % self.n);
            let a = |p| Scalar::load(self.a.dtype, inputs[0], rows[(batch * self.m + i) * self.k + p]);
            let b = |p| Scalar::load(self.b.dtype, inputs[1], columns[(batch * self.k + p) * self.n + j]);
            let places: Vec<usize> = walks.iter_mut().map(|w| w.next().expect("one shape")).collect();
            let sum = (0..self.k).map(|p| product(a(p), b(p))).fold(None, |acc, x| Some(add(acc, x)));
            let sum = sum.unwrap_or(Scalar::of(self.accumulator(), 0.0)).cast(self.accumulator());
            let args: Vec<Scalar> = [sum].into_iter().chain(load_all(&extras, &inputs[2..], &places)).collect();
            body.eval(&args, &self.params).store(self.out.dtype, outputs[0], at);
        }
    }
}

pub(super) fn product(a: Scalar, b: Scalar) -> Scalar {
    match (a, b) {
        (Scalar::I(a), Scalar::I(b)) => Scalar::I(a * b),
        (a, b) => Scalar::F(a.to_f64() * b.to_f64()),
    }
}

pub(super) fn add(sum: Option<Scalar>, x: Scalar) -> Scalar {
    match (sum, x) {
        (None, x) => x,
        (Some(Scalar::I(a)), Scalar::I(b)) => Scalar::I(a.wrapping_add(b)),
        (Some(a), b) => Scalar::F(a.to_f64() + b.to_f64()),
    }
}
