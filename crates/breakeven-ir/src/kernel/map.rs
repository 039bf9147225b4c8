//! Elementwise work: `out[i] = expr(in0[i], in1[i], ..)` over one shape.

use super::{Operand, load_all};
use crate::{Expr, Layout, Shape};

/// `out[i] = expr(in0[i], in1[i], ..)`; every operand has its own layout over the same shape. With the identity as its
/// expression it is a copy of any view into any view.
#[derive(Clone, Debug, PartialEq)]
pub struct Map {
    /// What is computed for each element; one argument for each input.
    pub expr: Expr,
    /// Its parameters.
    pub params: Vec<f64>,
    /// What it reads.
    pub inputs: Vec<Operand>,
    /// What it writes; the shape of the work.
    pub out: Operand,
}

impl Map {
    /// The expression over operands that lie densely in `shape`.
    pub fn dense(expr: Expr, params: Vec<f64>, shape: impl Into<Shape>) -> Map {
        let layout = Layout::dense(shape);
        let operand = |&dtype: &crate::DType| Operand::new(dtype, layout.clone());
        Map { inputs: expr.args().iter().map(operand).collect(), out: operand(&expr.dtype()), expr, params }
    }

    /// Elements written.
    pub fn elements(&self) -> usize {
        self.out.layout.shape.elements()
    }

    /// True when nothing is computed: the work is a copy.
    pub fn is_copy(&self) -> bool {
        self.expr.is_identity()
    }

    pub(super) fn flops(&self) -> u64 {
        self.expr.flops() * self.elements() as u64
    }

    pub(super) fn reference(&self, inputs: &[&[u8]], outputs: &mut [&mut [u8]]) {
        let body = self.expr.lower();
        let operands: Vec<&Operand> = self.inputs.iter().collect();
        let mut walks: Vec<_> = self.inputs.iter().map(|o| o.layout.positions()).collect();
        for at in self.out.layout.positions() {
            let places: Vec<usize> = walks.iter_mut().map(|w| w.next().expect("operands have one shape")).collect();
            let args = load_all(&operands, inputs, &places);
            body.eval(&args, &self.params).store(self.out.dtype, outputs[0], at);
        }
    }
}
