//! The meaning of a graph, node by node: every node dense, no fusion, nothing of the planner.

use breakeven_ir::{
    Attention, AttentionKernel, Combine, ConvKernel, Convolution, Expr, Gather, Graph, Kernel, Kind, Layout, Map,
    MatMul, NodeId, Op, Operand, Precision, Reduce, ReduceRows, RowWiseKernel, Scalar, Scan, ScanRows, Scatter, Shape,
    SortRows, Spec,
};

/// Dense bytes of every node; `inputs` gives those of inputs.
pub fn evaluate(graph: &Graph, inputs: &dyn Fn(NodeId) -> Vec<u8>) -> Vec<Vec<u8>> {
    let mut values: Vec<Vec<u8>> = Vec::new();
    for id in graph.ids() {
        let value = node(graph, id, &values, inputs);
        values.push(value);
    }
    values
}

fn node(graph: &Graph, id: NodeId, values: &[Vec<u8>], inputs: &dyn Fn(NodeId) -> Vec<u8>) -> Vec<u8> {
    let node = graph.node(id);
    let read: Vec<&[u8]> = node.inputs.iter().map(|i| values[i.index()].as_slice()).collect();
    let specs: Vec<&Spec> = node.inputs.iter().map(|i| &graph.node(*i).spec).collect();
    let mut out = vec![0; node.spec.bytes() as usize];
    match &node.op {
        Op::Input => return inputs(id),
        Op::Fill(x) => Scalar::of(node.spec.dtype, *x).store(node.spec.dtype, &mut out, 0),
        Op::View(view) => return viewed(specs[0], read[0], view, &node.spec),
        Op::Concat(axis) => concat(*axis, &specs, &read, &node.spec, &mut out),
        Op::Output(0) => return read[0].to_vec(),
        Op::Output(_) => return second(graph, node.inputs[0], values),
        _ => {
            let kernel = kernel(&node.op, &specs, &node.spec);
            let mut second = vec![0; kernel.outputs().last().map_or(0, |o| o.span_bytes() as usize)];
            let mut outs = [out.as_mut_slice(), second.as_mut_slice()];
            let count = kernel.outputs().len();
            kernel.reference(&read, &mut outs[..count]);
        }
    }
    out
}

fn second(graph: &Graph, id: NodeId, values: &[Vec<u8>]) -> Vec<u8> {
    let node = graph.node(id);
    let specs: Vec<&Spec> = node.inputs.iter().map(|i| &graph.node(*i).spec).collect();
    let kernel = kernel(&node.op, &specs, &node.spec);
    let bytes = |output: usize| vec![0; kernel.outputs()[output].span_bytes() as usize];
    let (mut first, mut second) = (bytes(0), bytes(1));
    kernel.reference(&[&values[node.inputs[0].index()]], &mut [&mut first, &mut second]);
    second
}

fn viewed(spec: &Spec, bytes: &[u8], view: &breakeven_ir::View, out: &Spec) -> Vec<u8> {
    let dense = Layout::dense(spec.shape.clone());
    let layout = view.layout(&dense).expect("a dense layout can be looked at anyhow");
    gathered(bytes, &layout, out)
}

/// Elements of `layout` brought into row-major order.
pub fn gathered(bytes: &[u8], layout: &Layout, spec: &Spec) -> Vec<u8> {
    let width = spec.dtype.bytes();
    layout.positions().flat_map(|at| bytes[at * width..][..width].to_vec()).collect()
}

fn concat(axis: usize, specs: &[&Spec], read: &[&[u8]], out: &Spec, bytes: &mut [u8]) {
    let (mut start, dense, width) = (0, Layout::dense(out.shape.clone()), out.dtype.bytes());
    for (spec, from) in specs.iter().zip(read) {
        let piece = dense.slice(axis, start, spec.shape[axis], 1);
        for (element, at) in piece.positions().enumerate() {
            bytes[at * width..][..width].copy_from_slice(&from[element * width..][..width]);
        }
        start += spec.shape[axis];
    }
}

/// All axes in order, `axis` last.
fn axes_last_of(rank: usize, axis: usize) -> Vec<usize> {
    (0..rank).filter(|&a| a != axis).chain([axis]).collect()
}

fn dense(spec: &Spec) -> Operand {
    Operand::new(spec.dtype, Layout::dense(spec.shape.clone()))
}

fn kernel(op: &Op, specs: &[&Spec], out: &Spec) -> Kernel {
    let inputs: Vec<Operand> = specs.iter().map(|s| dense(s)).collect();
    let identity = Expr::identity(specs[0].dtype);
    match op {
        Op::Map(row, params) => {
            let value = row.args.iter().zip(specs).find(|(kind, _)| **kind == Kind::V);
            let dtype = value.map_or(breakeven_ir::DType::Bool, |(_, spec)| spec.dtype);
            let (expr, params) = (Expr::row(*row, dtype), params.to_vec());
            Kernel::Map(Map { expr, params, inputs, out: dense(out) })
        }
        Op::Cast(dtype) => {
            let mut builder = breakeven_ir::ExprBuilder::default();
            let x = builder.arg(specs[0].dtype);
            let cast = builder.cast(x, *dtype);
            Kernel::Map(Map { expr: builder.finish(cast), params: vec![], inputs, out: dense(out) })
        }
        Op::Reduce(reduce) => reduction(reduce, specs[0], out),
        Op::Scan(scan) => scanned(scan, out),
        Op::Scatter(axis, combine) => scattered(*axis, *combine, &inputs),
        Op::RowWise(kind, axis) => {
            let order: Vec<usize> = (0..out.shape.rank()).filter(|a| a != axis).chain([*axis]).collect();
            let layout = inputs[0].layout.permute(&order);
            let (outer, length) = (out.shape.without(*axis), out.shape[*axis]);
            let operand = Operand::new(out.dtype, layout);
            let (inputs, kind, pre, post) = (vec![operand.clone()], *kind, identity.clone(), identity);
            Kernel::RowWise(RowWiseKernel { kind, outer, length, pre, post, params: vec![], inputs, out: operand })
        }
        Op::Sort(sort) => {
            let order = axes_last_of(specs[0].shape.rank(), sort.axis);
            let over = |spec: &Spec, dtype| Operand::new(dtype, Layout::dense(spec.shape.clone()).permute(&order));
            let (outer, length) = (out.shape.without(sort.axis), specs[0].shape[sort.axis]);
            let (keep, input) = (out.shape[sort.axis], over(specs[0], specs[0].dtype));
            // Whichever output is asked for, the kernel writes both.
            let outs = [over(out, specs[0].dtype), over(out, breakeven_ir::DType::I64)];
            Kernel::Sort(SortRows { outer, length, keep, descending: sort.descending, input, outs })
        }
        Op::MatMul(_) | Op::MatMulInt => product(&inputs[0], &inputs[1], dense(out)),
        Op::Conv(convolution) => conv(convolution, &inputs, &dense(out)),
        Op::Attention(Attention { scale, seen }) => {
            let [q, k, v, bias @ ..] = &inputs[..] else { unreachable!("attention has queries, keys and values") };
            let (q, k, v, bias, out) = (q.clone(), k.clone(), v.clone(), bias.first().cloned(), dense(out));
            Kernel::Attention(AttentionKernel { scale: *scale, seen: *seen, q, k, v, bias, out })
        }
        Op::Gather(axis) => {
            let (source, index) = (inputs[0].clone(), inputs[1].clone());
            Kernel::Gather(Gather { axis: *axis, source, index, out: dense(out) })
        }
        other => unreachable!("{} is no kernel", other.name()),
    }
}

fn product(a: &Operand, b: &Operand, out: Operand) -> Kernel {
    let shape = &out.layout.shape;
    let (batch, [m, n]) = shape.split_last_chunk().expect("a product has two axes");
    let k = *a.layout.shape.last().expect("a product has two axes");
    let (batch, m, n, post) = (Shape::from(batch), *m, *n, Expr::identity(out.dtype));
    let (a, b) = (a.clone(), b.clone());
    let precision = Precision::Highest;
    Kernel::MatMul(MatMul { batch, m, n, k, a, b, precision, post, params: vec![], inputs: vec![], out })
}

fn conv(Convolution { groups, along }: &Convolution, inputs: &[Operand], out: &Operand) -> Kernel {
    let grouped = |o: &Operand, axis: usize| {
        let shape = &o.layout.shape;
        let dims = [&shape[..axis], &[*groups, shape[axis] / groups], &shape[axis + 1..]].concat();
        Operand::new(o.dtype, Layout::dense(dims.as_slice()))
    };
    let (x, weight, out) = (grouped(&inputs[0], 1), grouped(&inputs[1], 0), grouped(out, 1));
    let post = Expr::identity(out.dtype);
    Kernel::Conv(ConvKernel { along: along.clone(), x, weight, post, params: vec![], inputs: vec![], out })
}

fn reduction(reduce: &Reduce, x: &Spec, out: &Spec) -> Kernel {
    let rest: Vec<usize> = (0..x.shape.rank()).filter(|a| !reduce.axes.contains(a)).collect();
    let order: Vec<usize> = rest.iter().chain(&reduce.axes).copied().collect();
    let layout = dense(x).layout.permute(&order);
    let inner: Shape = reduce.axes.iter().map(|&a| x.shape[a]).collect();
    let outs = vec![dense(out); reduce.fold.outputs()];
    let (fold, outer, post) = (reduce.fold, out.shape.clone(), Expr::identity(out.dtype));
    let inputs = vec![Operand::new(x.dtype, layout)];
    Kernel::Reduce(ReduceRows { fold, outer, inner, pre: Expr::identity(x.dtype), post, params: vec![], inputs, outs })
}

fn scanned(scan: &Scan, out: &Spec) -> Kernel {
    let rest = (0..out.shape.rank()).filter(|a| *a != scan.axis);
    let order: Vec<usize> = rest.chain([scan.axis]).collect();
    let length = out.shape[scan.axis];
    let mut layout = dense(out).layout.permute(&order);
    if scan.reverse {
        layout = layout.slice(order.len() - 1, length.saturating_sub(1), length, -1);
    }
    let operand = Operand::new(out.dtype, layout);
    let (fold, exclusive, outer) = (scan.fold, scan.exclusive, out.shape.without(scan.axis));
    Kernel::Scan(ScanRows { fold, outer, length, exclusive, input: operand.clone(), out: operand })
}

fn scattered(axis: usize, combine: Combine, inputs: &[Operand]) -> Kernel {
    let rest = (0..inputs[0].layout.shape.rank()).filter(|a| *a != axis);
    let order: Vec<usize> = rest.chain([axis]).collect();
    let operand = |k: usize| Operand::new(inputs[k].dtype, inputs[k].layout.permute(&order));
    let (source, index, updates, out) = (operand(0), operand(1), operand(2), operand(0));
    let outer = inputs[0].layout.shape.without(axis);
    Kernel::Scatter(Scatter { combine, outer, source, index, updates, out })
}
