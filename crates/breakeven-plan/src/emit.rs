//! Kernels written out: each group of nodes as one kernel over values.

use std::collections::BTreeMap;

use breakeven_ir::{
    Attention, AttentionKernel, ConvKernel, Convolution, Custom, DType, Expr, ExprBuilder, Gather, Graph, Kernel,
    Layout, Map, MatMul, NodeId, Op, Operand, Precision, ReduceRows, RowWiseKernel, Scan, ScanRows, Scatter, Shape,
    Sort, SortRows, Spec,
};

use crate::group::{Group, Groups, Leaf, Member, base_reads, reads};
use crate::index::{axes_last, joined};
use crate::program::{Fused, Program, Value, Wanted};
use crate::resolve::{Resolved, Role};

/// Writes every group as a kernel.
pub(crate) fn emit(graph: &Graph, resolved: &Resolved, groups: &Groups) -> Program {
    let mut emitter = Emitter { graph, resolved, program: Program::default(), values: BTreeMap::new() };
    let mut constants = groups.stored_constants.iter().copied().peekable();
    for group in &groups.groups {
        while let Some(id) = constants.next_if(|&id| id < group.root) {
            emitter.constant(id);
        }
        emitter.group(group);
    }
    constants.for_each(|id| emitter.constant(id));
    emitter.program.wanted = graph.outputs().iter().map(|&id| emitter.wanted(id)).collect();
    emitter.program
}

struct Emitter<'a> {
    graph: &'a Graph,
    resolved: &'a Resolved,
    program: Program,
    values: BTreeMap<NodeId, usize>,
}

impl Emitter<'_> {
    fn wanted(&mut self, id: NodeId) -> Wanted {
        if self.resolved.role(id) == Role::Empty {
            return Wanted::Empty;
        }
        let seen = self.resolved.of(id).clone();
        Wanted::Value { value: self.value(seen.base), layout: seen.layout }
    }

    fn value(&mut self, id: NodeId) -> usize {
        if let Some(&value) = self.values.get(&id) {
            return value;
        }
        let value = self.fresh(id);
        self.values.insert(id, value);
        value
    }

    fn fresh(&mut self, id: NodeId) -> usize {
        let spec = &self.graph.node(id).spec;
        let is_input = self.resolved.role(id) == Role::Input;
        let bytes = match self.resolved.role(id) {
            Role::Input | Role::Constant(_) => self.operand(id, self.resolved.of(id).layout.clone()).span_bytes(),
            _ => spec.bytes(),
        };
        self.program.values.push(Value { node: id, dtype: spec.dtype, bytes, is_input });
        self.program.values.len() - 1
    }

    fn operand(&self, id: NodeId, layout: Layout) -> Operand {
        Operand::new(self.graph.node(id).spec.dtype, layout)
    }

    /// One number, stored as a single element.
    fn constant(&mut self, id: NodeId) {
        let Role::Constant(number) = self.resolved.role(id) else { return };
        let mut builder = ExprBuilder::default();
        let step = builder.param(self.graph.node(id).spec.dtype);
        let map = Map::dense(builder.finish(step), vec![number], ());
        let outputs = vec![self.value(id)];
        let kernel = Kernel::Map(map);
        self.program.kernels.push(Fused { kernel, inputs: vec![], outputs, nodes: vec![id], is_layout_copy: false });
    }

    fn group(&mut self, group: &Group) {
        let (kernel, leaves) = self.kernel(group);
        let inputs = leaves.into_iter().map(|id| self.value(id)).collect();
        let mut outputs = vec![self.value(group.root)];
        outputs.extend(self.further_outputs(group));
        let nodes = nodes(group);
        let is_layout_copy = nodes.iter().all(|&id| self.resolved.role(id) == Role::Copy);
        self.program.kernels.push(Fused { kernel, inputs, outputs, nodes, is_layout_copy });
    }

    /// Values of the outputs after the first; those that nobody reads are written all the same.
    fn further_outputs(&mut self, group: &Group) -> Vec<usize> {
        let Some(node) = group.base else { return Vec::new() };
        let mut values = Vec::new();
        for (index, spec) in (1..).zip(self.further_specs(node)) {
            let value = if let Some(id) = self.resolved.output(node, index) {
                self.value(id)
            } else {
                self.program.values.push(Value { node, dtype: spec.dtype, bytes: spec.bytes(), is_input: false });
                self.program.values.len() - 1
            };
            values.push(value);
        }
        values
    }

    /// Specs of the outputs after the first.
    fn further_specs(&self, id: NodeId) -> Vec<Spec> {
        let node = self.graph.node(id);
        if !matches!(node.op, Op::Reduce(_) | Op::Sort(_) | Op::Custom(..)) {
            return Vec::new();
        }
        let inputs: Vec<&Spec> = node.inputs.iter().map(|&input| &self.graph.node(input).spec).collect();
        let mut all = node.op.specs(&inputs).expect("the graph was built by the same rules");
        all.drain(1..).collect()
    }

    fn kernel(&self, group: &Group) -> (Kernel, Vec<NodeId>) {
        let out = self.operand(group.root, group.out.clone());
        let Some(base) = group.base else {
            let mut expr = Expression::new(self.graph, self.resolved);
            let last = expr.members(&group.post, group.piece);
            let (expr, params, leaves) = expr.finish(last);
            let (inputs, ids) = self.operands(leaves);
            return (Kernel::Map(Map { expr, params, inputs, out }), ids);
        };
        let first = base_reads(self.graph, self.resolved, base);
        match &self.graph.node(base).op {
            Op::MatMul(_) | Op::MatMulInt => self.matmul(group, base, &first, out),
            Op::Conv(convolution) => self.conv(convolution, group, base, &first, out),
            Op::Attention(attention) => {
                let mut all = first.iter().map(|leaf| self.operand(leaf.node, leaf.layout.clone()));
                let mut next = || all.next().expect("attention has queries, keys and values");
                let (q, k, v, Attention { scale, seen }) = (next(), next(), next(), *attention);
                let kernel = AttentionKernel { scale, seen, q, k, v, bias: all.next(), out };
                (Kernel::Attention(kernel), first.iter().map(|leaf| leaf.node).collect())
            }
            Op::Gather(axis) => {
                let operand = |leaf: &Leaf| self.operand(leaf.node, leaf.layout.clone());
                let (source, index) = (operand(&first[0]), operand(&first[1]));
                let kernel = Gather { axis: *axis, source, index, out };
                (Kernel::Gather(kernel), first.iter().map(|leaf| leaf.node).collect())
            }
            Op::Scatter(_, combine) => {
                let operand = |leaf: &Leaf| self.operand(leaf.node, leaf.layout.clone());
                let (source, index, updates) = (operand(&first[0]), operand(&first[1]), operand(&first[2]));
                let (_, outer) = out.layout.shape.split_last().expect("a scatter has an axis");
                let outer = Shape::from(outer);
                let kernel = Scatter { combine: *combine, outer, source, index, updates, out };
                (Kernel::Scatter(kernel), first.iter().map(|leaf| leaf.node).collect())
            }
            Op::Scan(scan) => (self.scan(*scan, &first[0], out), vec![first[0].node]),
            Op::Custom(op, params) => {
                let inputs = first.iter().map(|leaf| self.operand(leaf.node, leaf.layout.clone())).collect();
                let outs = self.outs(base, out);
                let kernel = Custom { op: op.clone(), params: params.to_vec(), inputs, outs };
                (Kernel::Custom(kernel), first.iter().map(|leaf| leaf.node).collect())
            }
            Op::Sort(sort) => (self.sort(*sort, base, &first[0], out), vec![first[0].node]),
            _ => self.rows(group, base, &first[0], out),
        }
    }

    fn scan(&self, scan: Scan, read: &Leaf, out: Operand) -> Kernel {
        let (&length, outer) = read.layout.shape.split_last().expect("a scan has an axis");
        let turned = |operand: Operand| {
            let last = outer.len();
            let backwards = |layout: &Layout| layout.slice(last, length - 1, length, -1);
            if scan.reverse { Operand::new(operand.dtype, backwards(&operand.layout)) } else { operand }
        };
        let input = turned(self.operand(read.node, read.layout.clone()));
        let (fold, exclusive, outer) = (scan.fold, scan.exclusive, Shape::from(outer));
        Kernel::Scan(ScanRows { fold, outer, length, exclusive, input, out: turned(out) })
    }

    fn sort(&self, Sort { axis, descending, .. }: Sort, base: NodeId, read: &Leaf, values: Operand) -> Kernel {
        let (&length, outer) = read.layout.shape.split_last().expect("a sort has an axis");
        let input = self.operand(read.node, read.layout.clone());
        let shape = &self.graph.node(base).spec.shape;
        let (keep, rank) = (shape[axis], shape.rank());
        let mut outs: [Operand; 2] = self.outs(base, values).try_into().expect("a sort has two outputs");
        outs[1].layout = outs[1].layout.permute(&axes_last(rank, &[axis]));
        Kernel::Sort(SortRows { outer: Shape::from(outer), length, keep, descending, input, outs })
    }

    fn operands(&self, leaves: Vec<(NodeId, Layout)>) -> (Vec<Operand>, Vec<NodeId>) {
        leaves.into_iter().map(|(id, layout)| (self.operand(id, layout), id)).unzip()
    }

    /// The expression after the base: its first argument is what the base gives, of type `dtype`.
    fn post(&self, group: &Group, base: NodeId) -> (Expr, Vec<f64>, Vec<(NodeId, Layout)>) {
        let mut expr = Expression::new(self.graph, self.resolved);
        let given = expr.given(base);
        let last = if group.post.is_empty() { given } else { expr.members(&group.post, group.piece) };
        expr.finish(last)
    }

    fn pre(&self, group: &Group, read: &Leaf) -> (Expr, Vec<f64>, Vec<(NodeId, Layout)>) {
        let mut expr = Expression::new(self.graph, self.resolved);
        let inside = !group.pre.is_empty();
        let last = if inside { expr.members(&group.pre, None) } else { expr.stored(read.node, read.layout.clone()) };
        expr.finish(last)
    }

    fn rows(&self, group: &Group, base: NodeId, read: &Leaf, out: Operand) -> (Kernel, Vec<NodeId>) {
        let (pre, mut params, mut leaves) = self.pre(group, read);
        let (post, more, extra) = self.post(group, base);
        params.extend(more);
        leaves.extend(extra);
        let (inputs, ids) = self.operands(leaves);
        let dims = &read.layout.shape;
        let kernel = match &self.graph.node(base).op {
            Op::RowWise(kind, _) => {
                let (&length, outer) = dims.split_last().expect("a row operation has an axis");
                let (kind, outer) = (*kind, Shape::from(outer));
                Kernel::RowWise(RowWiseKernel { kind, outer, length, pre, post, params, inputs, out })
            }
            Op::Reduce(reduce) => {
                let (outer, inner) = dims.split_at(dims.len() - reduce.axes.len());
                let (fold, outer, inner) = (reduce.fold, Shape::from(outer), Shape::from(inner));
                let outs = self.outs(base, out);
                Kernel::Reduce(ReduceRows { fold, outer, inner, pre, post, params, inputs, outs })
            }
            other => unreachable!("{} has no rows", other.name()),
        };
        (kernel, ids)
    }

    /// The first output and those after it.
    fn outs(&self, base: NodeId, out: Operand) -> Vec<Operand> {
        let one = |(index, spec): (u8, Spec)| match self.resolved.output(base, index) {
            Some(id) => self.operand(id, self.resolved.of(id).layout.clone()),
            None => Operand::new(spec.dtype, Layout::dense(spec.shape)),
        };
        let further = (1..).zip(self.further_specs(base)).map(one);
        [out].into_iter().chain(further).collect()
    }

    fn conv(
        &self,
        Convolution { groups, along }: &Convolution,
        group: &Group,
        base: NodeId,
        read: &[Leaf],
        out: Operand,
    ) -> (Kernel, Vec<NodeId>) {
        let (post, params, leaves) = self.post(group, base);
        let (inputs, extra) = self.operands(leaves);
        let over = |operand: Operand, axis| Operand::new(operand.dtype, in_groups(&operand.layout, axis, *groups));
        let (x, weight) = (&read[0], &read[1]);
        let kernel = ConvKernel {
            along: along.clone(),
            x: over(self.operand(x.node, x.layout.clone()), 1),
            weight: over(self.operand(weight.node, weight.layout.clone()), 0),
            post,
            params,
            inputs: inputs.into_iter().map(|extra| over(extra, 1)).collect(),
            out: over(out, 1),
        };
        (Kernel::Conv(kernel), [x.node, weight.node].into_iter().chain(extra).collect())
    }

    fn matmul(&self, group: &Group, base: NodeId, read: &[Leaf], out: Operand) -> (Kernel, Vec<NodeId>) {
        let (post, params, leaves) = self.post(group, base);
        let (inputs, extra) = self.operands(leaves);
        let (a, b) = (&read[0], &read[1]);
        let (&[ref batch @ .., m, k], &[.., n]) = (&*a.layout.shape, &*b.layout.shape) else {
            unreachable!("a product has matrices");
        };
        let operand = |leaf: &Leaf| self.operand(leaf.node, leaf.layout.clone());
        let batch = Shape::from(batch);
        let precision =
            if let Op::MatMul(precision) = self.graph.node(base).op { precision } else { Precision::Highest };
        let (a, b, precision) = (operand(a), operand(b), precision.of(self.graph.node(a.node).spec.dtype));
        let matmul = MatMul { batch, m, n, k, a, b, precision, post, params, inputs, out };
        let ids = [read[0].node, read[1].node].into_iter().chain(extra).collect();
        (Kernel::MatMul(flatten(&matmul).unwrap_or(matmul)), ids)
    }
}

/// A layout whose `axis` is counted in `groups`, each with as many neighbours as follow from the extent.
fn in_groups(layout: &Layout, axis: usize, groups: usize) -> Layout {
    let (each, stride) = (layout.shape[axis] / groups, layout.strides[axis]);
    let (lead, tail) = (axis, axis + 1);
    let (shape, strides) = (&layout.shape, &layout.strides);
    Layout {
        shape: joined(&joined(&shape[..lead], &[groups, each]), &shape[tail..]),
        offset: layout.offset,
        strides: [&strides[..lead], &[stride * each as isize, stride], &strides[tail..]].concat().into_iter().collect(),
    }
}

fn nodes(group: &Group) -> Vec<NodeId> {
    let members = group.pre.iter().chain(&group.post).map(|member| member.node);
    let mut nodes: Vec<NodeId> = members.chain(group.base).collect();
    nodes.sort_unstable();
    nodes
}

/// One product instead of a batch, where all of the batch share the right matrix and the rows lie in step.
fn flatten(matmul: &MatMul) -> Option<MatMul> {
    let batch = matmul.batch.rank();
    let b = &matmul.b.layout;
    let shared = (0..batch).all(|axis| b.shape[axis] == 1 || b.strides[axis] == 0);
    if batch == 0 || !shared {
        return None;
    }
    let rows = matmul.batch.elements() * matmul.m;
    let fold = |operand: &Operand, columns: usize| {
        Some(Operand::new(operand.dtype, operand.layout.reshape(&[rows, columns].into())?))
    };
    let right = Layout {
        shape: joined(&b.shape[batch..], &[]),
        offset: b.offset,
        strides: b.strides[batch..].iter().copied().collect(),
    };
    Some(MatMul {
        batch: Shape::scalar(),
        m: rows,
        a: fold(&matmul.a, matmul.k)?,
        b: Operand::new(matmul.b.dtype, right),
        inputs: matmul.inputs.iter().map(|extra| fold(extra, matmul.n)).collect::<Option<_>>()?,
        out: fold(&matmul.out, matmul.n)?,
        ..matmul.clone()
    })
}

/// An expression being written over stored values.
struct Expression<'a> {
    graph: &'a Graph,
    resolved: &'a Resolved,
    builder: ExprBuilder,
    /// Steps of nodes that are computed here, ascending by node.
    steps: Vec<(NodeId, u16)>,
    leaves: Vec<(NodeId, Layout, u16)>,
    params: Vec<(u64, DType, u16)>,
}

impl<'a> Expression<'a> {
    fn new(graph: &'a Graph, resolved: &'a Resolved) -> Expression<'a> {
        let builder = ExprBuilder::default();
        Expression { graph, resolved, builder, steps: Vec::new(), leaves: Vec::new(), params: Vec::new() }
    }

    /// What the base of the kernel gives, as the next argument.
    fn given(&mut self, base: NodeId) -> u16 {
        let step = self.builder.arg(self.graph.node(base).spec.dtype);
        self.steps.push((base, step));
        step
    }

    /// Members in descending order; the step of the first, which is the last to be computed.
    fn members(&mut self, members: &[Member], piece: Option<usize>) -> u16 {
        for member in members.iter().rev() {
            let step = self.member(member, piece);
            let place = self.steps.partition_point(|(id, _)| *id < member.node);
            self.steps.insert(place, (member.node, step));
        }
        let root = members[0].node;
        self.steps.iter().find(|(id, _)| *id == root).expect("it was just written").1
    }

    fn member(&mut self, member: &Member, piece: Option<usize>) -> u16 {
        let reads = reads(self.graph, self.resolved, member, piece).expect("a member reads in step with its group");
        let mut operands: Vec<u16> = reads.into_iter().map(|(id, layout)| self.read(id, layout)).collect();
        let node = self.graph.node(member.node);
        match &node.op {
            Op::Map(row, params) => {
                let dtype = row_dtype(self.graph, member.node);
                operands.extend(params.iter().map(|&number| self.param(number, dtype)));
                self.builder.row(*row, dtype, &operands)
            }
            Op::Cast(dtype) => self.builder.cast(operands[0], *dtype),
            _ => operands[0],
        }
    }

    fn read(&mut self, id: NodeId, layout: Layout) -> u16 {
        if let Ok(place) = self.steps.binary_search_by_key(&id, |(id, _)| *id) {
            return self.steps[place].1;
        }
        match self.resolved.role(id) {
            Role::Constant(number) => self.param(number, self.graph.node(id).spec.dtype),
            _ => self.stored(id, layout),
        }
    }

    fn stored(&mut self, id: NodeId, layout: Layout) -> u16 {
        if let Some(leaf) = self.leaves.iter().find(|leaf| leaf.0 == id && leaf.1 == layout) {
            return leaf.2;
        }
        let step = self.builder.arg(self.graph.node(id).spec.dtype);
        self.leaves.push((id, layout, step));
        step
    }

    fn param(&mut self, number: f64, dtype: DType) -> u16 {
        if let Some(param) = self.params.iter().find(|p| p.0 == number.to_bits() && p.1 == dtype) {
            return param.2;
        }
        let step = self.builder.param(dtype);
        self.params.push((number.to_bits(), dtype, step));
        step
    }

    fn finish(self, last: u16) -> (Expr, Vec<f64>, Vec<(NodeId, Layout)>) {
        let params = self.params.iter().map(|p| f64::from_bits(p.0)).collect();
        let leaves = self.leaves.into_iter().map(|(id, layout, _)| (id, layout)).collect();
        (self.builder.finish(last), params, leaves)
    }
}

/// The type a row runs at: that of its values, or truth values where it has none.
fn row_dtype(graph: &Graph, id: NodeId) -> DType {
    let node = graph.node(id);
    let Op::Map(row, _) = &node.op else { unreachable!("only rows have a row's type") };
    let value = row.args.iter().zip(&node.inputs).find(|(kind, _)| **kind == breakeven_ir::Kind::V);
    value.map_or(DType::Bool, |(_, input)| graph.node(*input).spec.dtype)
}
