//! Graphs written without the noise of results.

use breakeven_ir::{DType, Fold, Graph, NodeId, Op, Params, Reduce, Row, Spec, View};

/// Adds nodes; a wrong call is a bug of the suite.
#[derive(Debug, Default)]
pub struct Write(pub Graph);

impl Write {
    /// Any operation.
    pub fn op(&mut self, op: Op, inputs: &[NodeId]) -> NodeId {
        self.0.add(op, inputs).expect("the suite writes right calls")
    }

    /// A row without parameters, its operands broadcast to one shape.
    pub fn map(&mut self, name: &str, inputs: &[NodeId]) -> NodeId {
        self.map_with(name, &[], inputs)
    }

    /// A row with parameters.
    pub fn map_with(&mut self, name: &str, params: &[f64], inputs: &[NodeId]) -> NodeId {
        let shape = |id: &NodeId| self.0.node(*id).spec.shape.clone();
        let whole = inputs.iter().map(shape).reduce(|a, b| a.broadcast(&b).expect("shapes that broadcast"));
        let whole = whole.expect("a row takes a tensor");
        let inputs: Vec<NodeId> = inputs.iter().map(|&id| self.broadcast(id, &whole)).collect();
        let row = Row::named(name).unwrap_or_else(|| panic!("the table has a row {name}"));
        self.op(Op::Map(row, Params::from_slice(params)), &inputs)
    }

    /// An input of f32.
    pub fn input(&mut self, shape: &[usize]) -> NodeId {
        self.0.input(Spec::new(DType::F32, shape))
    }

    /// One number.
    pub fn number(&mut self, value: f64) -> NodeId {
        self.0.fill(DType::F32, value)
    }

    /// The same elements under another shape.
    pub fn reshape(&mut self, x: NodeId, shape: &[usize]) -> NodeId {
        self.op(Op::View(View::Reshape(shape.into())), &[x])
    }

    /// Axes in another order.
    pub fn permute(&mut self, x: NodeId, axes: &[usize]) -> NodeId {
        self.op(Op::View(View::Permute(axes.into())), &[x])
    }

    /// Repeated to a larger shape.
    pub fn broadcast(&mut self, x: NodeId, shape: &[usize]) -> NodeId {
        if *self.0.node(x).spec.shape == *shape {
            return x;
        }
        self.op(Op::View(View::Broadcast(shape.into())), &[x])
    }

    /// A part of an axis.
    pub fn slice(&mut self, x: NodeId, axis: usize, start: usize, count: usize, step: isize) -> NodeId {
        self.op(Op::View(View::Slice { axis, start, count, step }), &[x])
    }

    /// Windows along an axis, `apart[0]` elements from each other; neighbours in a window lie `apart[1]` apart.
    pub fn window(&mut self, x: NodeId, axis: usize, size: usize, apart: [usize; 2]) -> NodeId {
        let [step, dilation] = apart;
        self.op(Op::View(View::Window { axis, size, step, dilation }), &[x])
    }

    /// A fold over some axes.
    pub fn reduce(&mut self, fold: Fold, x: NodeId, axes: &[usize]) -> NodeId {
        self.op(Op::Reduce(Reduce { fold, axes: axes.into() }), &[x])
    }
}
