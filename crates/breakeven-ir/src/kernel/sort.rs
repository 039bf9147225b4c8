//! Sorting: rows brought into order, with the places that their elements had.

use super::Operand;
use crate::{Scalar, Shape};

/// `values[o, i]` is the element of `in[o, ..]` that comes at place `i` in order, `indices[o, i]` where it stood.
///
/// NaN counts as larger than anything, -0 equals 0, and of equal elements the one with the lower index comes first, whichever
/// way is sorted.
#[derive(Clone, Debug, PartialEq)]
pub struct SortRows {
    /// Leading extents.
    pub outer: Shape,
    /// Elements of one row.
    pub length: usize,
    /// How many of each row are written, the first in order.
    pub keep: usize,
    /// The largest comes first.
    pub descending: bool,
    /// What it reads, over `outer ++ [length]`.
    pub input: Operand,
    /// What it writes, over `outer ++ [keep]`: values as they are, and indices of i64.
    pub outs: [Operand; 2],
}

impl SortRows {
    /// Comparisons, as good sorting makes them.
    pub(super) fn flops(&self) -> u64 {
        let levels = u64::from(self.length.max(2).ilog2());
        (self.outer.elements() * self.length) as u64 * levels
    }

    pub(super) fn reference(&self, inputs: &[&[u8]], outputs: &mut [&mut [u8]]) {
        let mut walk = self.input.layout.positions();
        let mut out_walks = [0, 1].map(|n: usize| self.outs[n].layout.positions());
        for _ in 0..self.outer.elements() {
            let load = |at| Scalar::load(self.input.dtype, inputs[0], at);
            let row: Vec<Scalar> = walk.by_ref().take(self.length).map(load).collect();
            let mut order: Vec<usize> = (0..self.length).collect();
            order.sort_by(|&a, &b| {
                let forwards = row[a].order(row[b]);
                if self.descending { forwards.reverse() } else { forwards }
            });
            for &index in &order[..self.keep] {
                let places = out_walks.each_mut().map(|walk| walk.next().expect("one shape"));
                row[index].store(self.outs[0].dtype, outputs[0], places[0]);
                Scalar::I(index as i128).store(self.outs[1].dtype, outputs[1], places[1]);
            }
        }
    }
}
