//! Picking slices of a tensor by index.

use super::Operand;
use crate::Scalar;

/// `out[o.., i.., r..] = source[o.., index[i..], r..]` along `axis` of the source.
///
/// A negative index counts from the end. An index outside the axis gives NaN for floats and 0 for other types, on every
/// device; indices that are known on the host are checked before anything runs.
#[derive(Clone, Debug, PartialEq)]
pub struct Gather {
    /// The axis of the source that is indexed.
    pub axis: usize,
    /// What is picked from.
    pub source: Operand,
    /// Which slices; i64 or i32.
    pub index: Operand,
    /// What it writes, over `source[..axis] ++ index ++ source[axis + 1..]`.
    pub out: Operand,
}

impl Gather {
    pub(super) fn reference(&self, inputs: &[&[u8]], outputs: &mut [&mut [u8]]) {
        let extent = self.source.layout.shape[self.axis] as i128;
        let inner: usize = self.source.layout.shape[self.axis + 1..].iter().product();
        let picks: Vec<usize> = self.index.layout.positions().collect();
        let sources: Vec<usize> = self.source.layout.positions().collect();
        for (e, at) in self.out.layout.positions().enumerate() {
            let (outer, pick, rest) = (e / inner / picks.len(), e / inner % picks.len(), e % inner);
            let Scalar::I(index) = Scalar::load(self.index.dtype, inputs[1], picks[pick]) else {
                unreachable!("an index is an integer");
            };
            let index = if index < 0 { index + extent } else { index };
            let value = if (0..extent).contains(&index) {
                let place = (outer * extent as usize + index as usize) * inner + rest;
                Scalar::load(self.source.dtype, inputs[0], sources[place])
            } else {
                Scalar::of(self.source.dtype, if self.source.dtype.is_float() { f64::NAN } else { 0.0 })
            };
            value.store(self.out.dtype, outputs[0], at);
        }
    }
}
