//! Convolutions.

use smallvec::SmallVec;

use super::matmul::{add, product};
use super::{Operand, load_all};
use crate::{DType, Expr, Scalar, Sliding};

/// `out[n, g, o, p..] = post(sum over c, w.. of x[n, g, c, p * stride + w * dilation - before ..] * weight[g, o, c, w..],
/// extra0[n, g, o, p..], ..)`, where `x` is 0 outside its extents.
///
/// `x` lies over `[n, groups, channels, spatial..]`, `weight` over `[groups, outs, channels, window..]`, the other inputs
/// and the output over `[n, groups, outs, places..]`, with one to three spatial axes. The sums are of the type of the first
/// argument of `post`: that of both operands. Integers wrap.
#[derive(Clone, Debug, PartialEq)]
pub struct ConvKernel {
    /// How windows lie along each spatial axis.
    pub along: SmallVec<[Sliding; 2]>,
    /// What windows see.
    pub x: Operand,
    /// What they are multiplied with.
    pub weight: Operand,
    /// Applied to each sum; its arguments after the first are `inputs`.
    pub post: Expr,
    /// Parameters of `post`.
    pub params: Vec<f64>,
    /// Further operands of `post`: bias, residual.
    pub inputs: Vec<Operand>,
    /// What it writes.
    pub out: Operand,
}

impl ConvKernel {
    /// Axes of every operand before the spatial ones.
    pub const LEAD: usize = 3;

    /// Type of the sums.
    pub fn accumulator(&self) -> DType {
        self.post.args()[0]
    }

    /// Terms of each sum, those outside the input included.
    pub fn terms(&self) -> usize {
        self.weight.layout.shape[2..].iter().product()
    }

    pub(super) fn flops(&self) -> u64 {
        self.out.layout.shape.elements() as u64 * (2 * self.terms() as u64 + self.post.flops())
    }

    pub(super) fn reference(&self, inputs: &[&[u8]], outputs: &mut [&mut [u8]]) {
        let body = self.post.lower();
        let extras: Vec<&Operand> = self.inputs.iter().collect();
        let mut walks: Vec<_> = extras.iter().map(|o| o.layout.positions()).collect();
        for (e, at) in self.out.layout.positions().enumerate() {
            let index = digits(e, &self.out.layout.shape);
            let places: Vec<usize> = walks.iter_mut().map(|w| w.next().expect("one shape")).collect();
            let terms = (0..self.terms()).map(|term| self.term(&index, term, inputs));
            let sum = terms.fold(None, |acc, x| Some(add(acc, x)));
            let sum = sum.unwrap_or(Scalar::of(self.accumulator(), 0.0)).cast(self.accumulator());
            let args: Vec<Scalar> = [sum].into_iter().chain(load_all(&extras, &inputs[2..], &places)).collect();
            body.eval(&args, &self.params).store(self.out.dtype, outputs[0], at);
        }
    }

    /// One term of the sum of the output at `index`.
    fn term(&self, index: &[usize], term: usize, inputs: &[&[u8]]) -> Scalar {
        let inner = digits(term, &self.weight.layout.shape[2..]);
        let weight = [&[index[1], index[2]], &inner[..]].concat();
        let weight = Scalar::load(self.weight.dtype, inputs[1], self.weight.layout.position(&weight));
        let seen = self.seen(&index[ConvKernel::LEAD..], &inner[1..]);
        let x = seen.map_or(Scalar::of(self.x.dtype, 0.0), |place| {
            let x = [&[index[0], index[1], inner[0]], &place[..]].concat();
            Scalar::load(self.x.dtype, inputs[0], self.x.layout.position(&x))
        });
        product(x, weight)
    }

    /// Where element `inner` of the window at `place` lies in the input; `None` outside it.
    pub fn seen(&self, place: &[usize], inner: &[usize]) -> Option<Vec<usize>> {
        let extents = &self.x.layout.shape[ConvKernel::LEAD..];
        let one = |(axis, along): (usize, &Sliding)| {
            let at = place[axis] * along.stride + inner[axis] * along.dilation;
            at.checked_sub(along.before).filter(|at| *at < extents[axis])
        };
        self.along.iter().enumerate().map(one).collect()
    }
}

/// The coordinates of element `e` of a shape.
fn digits(e: usize, shape: &[usize]) -> Vec<usize> {
    let mut left = e;
    let mut all: Vec<usize> = shape.iter().rev().map(|&n| (left % n, left /= n).0).collect();
    all.reverse();
    all
}
