//! Running folds along the last axis.

use super::Operand;
use crate::{Fold, Scalar, Shape};

/// `out[o, i] = fold of in[o, 0], .. in[o, i]`, or of the elements before `i` alone.
///
/// Floats are folded in double precision here; a device accumulates in f32 at least, in a tree that depends on the length
/// alone. A running fold from the end is one over layouts that step backwards.
#[derive(Clone, Debug, PartialEq)]
pub struct ScanRows {
    /// Sum, product, maximum or minimum.
    pub fold: Fold,
    /// Leading extents.
    pub outer: Shape,
    /// Elements of one row.
    pub length: usize,
    /// Each result leaves out its own element; the first is [`ScanRows::of_nothing`].
    pub exclusive: bool,
    /// What it reads, over `outer ++ [length]`.
    pub input: Operand,
    /// What it writes, over `outer ++ [length]`; of the same type.
    pub out: Operand,
}

impl ScanRows {
    /// Elements written.
    pub fn elements(&self) -> usize {
        self.outer.elements() * self.length
    }

    /// What the fold of no elements is: 0 for sums, 1 for products, and what any element replaces for extremes.
    pub fn of_nothing(&self) -> Scalar {
        let dtype = self.input.dtype;
        let number = match self.fold {
            Fold::Prod => 1.0,
            Fold::Max => f64::NEG_INFINITY,
            Fold::Min => f64::INFINITY,
            _ => 0.0,
        };
        Scalar::of(dtype, number)
    }

    pub(super) fn reference(&self, inputs: &[&[u8]], outputs: &mut [&mut [u8]]) {
        let mut reads = self.input.layout.positions();
        let mut writes = self.out.layout.positions();
        for _ in 0..self.outer.elements() {
            let mut so_far = self.of_nothing();
            for _ in 0..self.length {
                let at = reads.next().expect("one shape");
                let with = self.both(so_far, Scalar::load(self.input.dtype, inputs[0], at));
                let value = if self.exclusive { so_far } else { with };
                value.store(self.out.dtype, outputs[0], writes.next().expect("one shape"));
                so_far = with;
            }
        }
    }

    fn both(&self, a: Scalar, b: Scalar) -> Scalar {
        match (a, b) {
            (Scalar::I(a), Scalar::I(b)) => Scalar::I(match self.fold {
                Fold::Prod => a.wrapping_mul(b),
                Fold::Max => a.max(b),
                Fold::Min => a.min(b),
                _ => a + b,
            })
            .cast(self.input.dtype),
            (a, b) => Scalar::F(self.both_floats(a.to_f64(), b.to_f64())),
        }
    }

    fn both_floats(&self, a: f64, b: f64) -> f64 {
        match self.fold {
            Fold::Prod => a * b,
            Fold::Max | Fold::Min if a.is_nan() || b.is_nan() => f64::NAN,
            Fold::Max => a.max(b),
            Fold::Min => a.min(b),
            _ => a + b,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{DType, Kernel, Layout};

    fn check(fold: Fold, exclusive: bool, want: [f64; 4]) {
        let operand = Operand::new(DType::F64, Layout::dense([1, 4]));
        let (input, out) = (operand.clone(), operand);
        let kernel = Kernel::Scan(ScanRows { fold, outer: 1.into(), length: 4, exclusive, input, out });
        let bytes: Vec<u8> = [2.0f64, -1.0, 4.0, 3.0].iter().flat_map(|x| x.to_ne_bytes()).collect();
        let mut got = vec![0; 32];
        kernel.reference(&[&bytes], &mut [&mut got]);
        let value = |at| Scalar::load(DType::F64, &got, at).to_f64();
        assert_eq!([0, 1, 2, 3].map(value), want, "{fold:?}");
    }

    #[test]
    fn each_result_folds_what_came_before() {
        check(Fold::Sum, false, [2.0, 1.0, 5.0, 8.0]);
        check(Fold::Sum, true, [0.0, 2.0, 1.0, 5.0]);
        check(Fold::Prod, true, [1.0, 2.0, -2.0, -8.0]);
        check(Fold::Max, false, [2.0, 2.0, 4.0, 4.0]);
        check(Fold::Max, true, [f64::NEG_INFINITY, 2.0, 2.0, 4.0]);
        check(Fold::Min, false, [2.0, -1.0, -1.0, -1.0]);
    }
}
