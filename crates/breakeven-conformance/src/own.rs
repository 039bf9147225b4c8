//! What a user wrote, held against its own reference on any device: rows against their meaning in double precision, custom
//! operations against their CPU closure.

use breakeven_device::Device;
use breakeven_ir::{Custom, CustomOp, DType, Expr, Kernel, Layout, Map, Operand, Row, Scalar, Shape, Spec};

use crate::{Bench, Case, Counts, Tier, distinct_views, views};

/// A row from outside the table and what it is tried on.
pub struct OwnRow<'a> {
    /// The row.
    pub row: Row,
    /// Its parameters.
    pub params: &'a [f64],
    /// So many elements of each of its tensors, at this type; masks are truth values.
    pub inputs: &'a dyn Fn(DType, usize) -> Vec<Vec<Scalar>>,
}

/// A custom operation and what it is tried on.
pub struct OwnCustom<'a> {
    /// The operation; it has a CPU closure, with which others are compared.
    pub op: &'a CustomOp,
    /// Its parameters.
    pub params: &'a [f64],
    /// Its inputs, with their elements in row-major order.
    pub inputs: Vec<(Spec, Vec<Scalar>)>,
}

impl OwnRow<'_> {
    /// Runs the row at every element type that it and the device have: at every length of `tier`, under every view, in place
    /// and into strided outputs. Says what was run, so that the caller can insist on something.
    ///
    /// # Panics
    /// At the first element that is further from the row's meaning than its tolerance allows, and at the first byte that is no
    /// element's and was changed.
    pub fn check(&self, device: &dyn Device, tier: Tier) -> Counts {
        let mut bench = Bench::new(device);
        for dtype in self.row.family.dtypes().into_iter().filter(|d| device.caps().dtypes.contains(d)) {
            for n in tier.lengths() {
                bench.add(self.case(dtype, &Shape::from(n), |_| {}, "dense"));
            }
            self.looked_at(&mut bench, dtype);
            let dense = || self.case(dtype, &Shape::from(1025), |_| {}, "dense");
            let (inputs, out) = (dense().kernel.inputs().len(), dense().kernel.outputs()[0].dtype);
            let may = |&i: &usize| dense().kernel.inputs()[i].dtype == out;
            (0..inputs).filter(may).for_each(|i| bench.add(dense().in_place(i)));
        }
        bench.finish()
    }

    fn looked_at(&self, bench: &mut Bench<'_>, dtype: DType) {
        let shape = Shape::from([7, 11]);
        let all = views(shape.clone());
        for (turn, (name, _)) in all.iter().enumerate() {
            let look = |map: &mut Map| {
                for (i, input) in map.inputs.iter_mut().enumerate() {
                    input.layout = all[(turn + 4 * i) % all.len()].1.clone();
                }
            };
            bench.add(self.case(dtype, &shape, look, name));
        }
        for (name, layout) in distinct_views(shape.clone()) {
            bench.add(self.case(dtype, &shape, |map| map.out.layout = layout, name));
        }
    }

    fn case(&self, dtype: DType, shape: &Shape, change: impl FnOnce(&mut Map), name: &str) -> Case {
        let mut map = Map::dense(Expr::row(self.row, dtype), self.params.to_vec(), shape.clone());
        change(&mut map);
        let values = (self.inputs)(dtype, shape.elements());
        Case::with(format!("{} {dtype}{shape} {name}", self.row.name), Kernel::Map(map), &values)
    }
}

impl OwnCustom<'_> {
    /// Runs the operation with its inputs and outputs under every view in which no two elements share a place. Says what was
    /// run, so that the caller can insist on something.
    ///
    /// # Panics
    /// When the operation does not take these inputs; at the first element that is further from what its CPU closure gives
    /// than its tolerance allows; at the first byte that is no element's and was changed.
    pub fn check(&self, device: &dyn Device) -> Counts {
        let mut bench = Bench::new(device);
        let dense = self.dense();
        let most = |operands: &[Operand]| operands.iter().map(|o| ways(o).len()).max().unwrap_or(0);
        for turn in 0..most(&dense.inputs).max(most(&dense.outs)) {
            let look = |(i, operand): (usize, &Operand)| {
                let ways = ways(operand);
                Operand::new(operand.dtype, ways[(turn + i) % ways.len()].clone())
            };
            let inputs = dense.inputs.iter().enumerate().map(look).collect();
            bench.add(self.case(Custom { inputs, ..dense.clone() }, turn));
            let outs = dense.outs.iter().enumerate().map(look).collect();
            bench.add(self.case(Custom { outs, ..dense.clone() }, turn));
        }
        bench.finish()
    }

    fn dense(&self) -> Custom {
        let inputs: Vec<&Spec> = self.inputs.iter().map(|(spec, _)| spec).collect();
        let outs = self.op.specs(self.params.len(), &inputs).unwrap_or_else(|e| panic!("{e}"));
        let operand = |spec: &Spec| Operand::new(spec.dtype, Layout::dense(spec.shape.clone()));
        let (inputs, outs) = (inputs.into_iter().map(operand).collect(), outs.iter().map(operand).collect());
        Custom { op: self.op.clone(), params: self.params.to_vec(), inputs, outs }
    }

    fn case(&self, kernel: Custom, turn: usize) -> Case {
        let values: Vec<Vec<Scalar>> = self.inputs.iter().map(|(_, values)| values.clone()).collect();
        Case::with(format!("{} view {turn}", self.op.name()), Kernel::Custom(kernel), &values)
    }
}

/// Layouts over the shape of an operand in which each element has a place of its own.
fn ways(operand: &Operand) -> Vec<Layout> {
    let all = views(operand.layout.shape.clone()).into_iter().map(|(_, layout)| layout);
    all.filter(Layout::is_injective).collect()
}
