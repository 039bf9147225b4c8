//! Combining elements of a tensor with updates, by index.

use super::Operand;
use crate::{Combine, Scalar, Shape};

/// `out[o, i] = source[o, i]`, combined with `updates[o, p]` for every `p` with `index[o, p] = i`, in order.
///
/// A negative index counts from the end of the row. An update whose index lies outside is ignored, on every device; indices
/// that are known on the host are checked before anything runs. Floats are combined in the width of their type or wider, one
/// after the other. An index that many rows share has stride 0 along their axes: then its updates are whole slices.
#[derive(Clone, Debug, PartialEq)]
pub struct Scatter {
    /// What an update does.
    pub combine: Combine,
    /// Leading extents, of every operand.
    pub outer: Shape,
    /// Over `outer ++ [length]`.
    pub source: Operand,
    /// Over `outer ++ [count]`; i64 or i32.
    pub index: Operand,
    /// Over `outer ++ [count]`.
    pub updates: Operand,
    /// What it writes, over `outer ++ [length]`.
    pub out: Operand,
}

impl Scatter {
    /// Elements of a row of the source.
    pub fn length(&self) -> usize {
        self.source.layout.shape.last().copied().unwrap_or(1)
    }

    /// Updates of a row.
    pub fn count(&self) -> usize {
        self.updates.layout.shape.last().copied().unwrap_or(1)
    }

    pub(super) fn reference(&self, inputs: &[&[u8]], outputs: &mut [&mut [u8]]) {
        let mut sources = self.source.layout.positions();
        let mut indices = self.index.layout.positions();
        let mut updates = self.updates.layout.positions();
        let mut outs = self.out.layout.positions();
        let load = |operand: &Operand, k: usize, at: Option<usize>| {
            Scalar::load(operand.dtype, inputs[k], at.expect("one shape"))
        };
        for _ in 0..self.outer.elements() {
            let mut row: Vec<Scalar> = (0..self.length()).map(|_| load(&self.source, 0, sources.next())).collect();
            for _ in 0..self.count() {
                let index = load(&self.index, 1, indices.next());
                let update = load(&self.updates, 2, updates.next());
                if let Some(element) = self.place(index).and_then(|place| row.get_mut(place)) {
                    *element = self.both(*element, update);
                }
            }
            row.iter().for_each(|x| x.store(self.out.dtype, outputs[0], outs.next().expect("one shape")));
        }
    }

    /// Where in a row an index points; `None` outside.
    pub fn place(&self, index: Scalar) -> Option<usize> {
        let Scalar::I(index) = index else { unreachable!("an index is an integer") };
        let length = self.length() as i128;
        let place = if index < 0 { index + length } else { index };
        usize::try_from(place).ok().filter(|&place| place < self.length())
    }

    /// An element after an update, in double precision.
    pub fn both(&self, element: Scalar, update: Scalar) -> Scalar {
        match (element, update) {
            _ if self.combine == Combine::Set => update,
            (Scalar::I(a), Scalar::I(b)) => Scalar::I(match self.combine {
                Combine::Mul => a.wrapping_mul(b),
                Combine::Max => a.max(b),
                Combine::Min => a.min(b),
                _ => a + b,
            })
            .cast(self.out.dtype),
            (a, b) => Scalar::F(floats(self.combine, a.to_f64(), b.to_f64())),
        }
    }
}

fn floats(combine: Combine, a: f64, b: f64) -> f64 {
    match combine {
        Combine::Mul => a * b,
        Combine::Max | Combine::Min if a.is_nan() || b.is_nan() => f64::NAN,
        Combine::Max => a.max(b),
        Combine::Min => a.min(b),
        _ => a + b,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{DType, Kernel, Layout};

    fn check(combine: Combine, want: [f64; 3]) {
        let of = |dtype, n: usize| Operand::new(dtype, Layout::dense([1, n]));
        let (source, out) = (of(DType::F64, 3), of(DType::F64, 3));
        let (index, updates) = (of(DType::I32, 4), of(DType::F64, 4));
        let kernel = Kernel::Scatter(Scatter { combine, outer: 1.into(), source, index, updates, out });
        let floats = |all: &[f64]| all.iter().flat_map(|x| x.to_ne_bytes()).collect::<Vec<u8>>();
        let index: Vec<u8> = [0i32, -1, 0, 3].iter().flat_map(|x| x.to_ne_bytes()).collect();
        let mut got = vec![0; 24];
        kernel.reference(&[&floats(&[2.0, 4.0, 6.0]), &index, &floats(&[5.0, 3.0, -1.0, 9.0])], &mut [&mut got]);
        let value = |at| Scalar::load(DType::F64, &got, at).to_f64();
        assert_eq!([0, 1, 2].map(value), want, "{combine:?}");
    }

    #[test]
    fn updates_meet_their_element_in_order_and_miss_outside() {
        check(Combine::Set, [-1.0, 4.0, 3.0]);
        check(Combine::Add, [6.0, 4.0, 9.0]);
        check(Combine::Mul, [-10.0, 4.0, 18.0]);
        check(Combine::Max, [5.0, 4.0, 6.0]);
        check(Combine::Min, [-1.0, 4.0, 3.0]);
    }
}
