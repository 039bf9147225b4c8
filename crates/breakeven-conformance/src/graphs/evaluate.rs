//! The meaning of a graph, node by node, dense, in double precision: nothing of the planner, no rounding to f32.

use breakeven_ir::{
    Attention, AttentionKernel, Combine, ConvKernel, Convolution, DType, Expr, ExprBuilder, Gather, Graph, Kernel,
    Layout, Map, MatMul, Node, NodeId, Op, Operand, Precision, Reduce, ReduceRows, RowWiseKernel, Scalar, Scan,
    ScanRows, Scatter, Shape, Sort, SortRows, Spec,
};

/// Elements of every node in row-major order; `inputs` gives the bytes of inputs as the graph types them.
pub fn evaluate(graph: &Graph, inputs: &dyn Fn(NodeId) -> Vec<u8>) -> Vec<Vec<Scalar>> {
    let mut values: Vec<Vec<u8>> = Vec::new();
    for id in graph.ids() {
        let node = graph.node(id);
        let value = match &node.op {
            Op::Input => widened(&node.spec, &inputs(id)),
            Op::Output(index) => {
                let source = graph.node(node.inputs[0]);
                computed(graph, source, &values).swap_remove(usize::from(*index))
            }
            _ => computed(graph, node, &values).swap_remove(0),
        };
        values.push(value);
    }
    let elements = |(id, bytes): (NodeId, &Vec<u8>)| {
        let spec = &graph.node(id).spec;
        (0..spec.shape.elements()).map(|at| Scalar::load(wide(spec.dtype), bytes, at)).collect()
    };
    graph.ids().zip(&values).map(elements).collect()
}

/// Floats are held in double precision.
fn wide(dtype: DType) -> DType {
    if dtype.is_float() { DType::F64 } else { dtype }
}

fn dense(spec: &Spec) -> Operand {
    Operand::new(wide(spec.dtype), Layout::dense(spec.shape.clone()))
}

fn zeroed(spec: &Spec) -> Vec<u8> {
    vec![0; spec.shape.elements() * wide(spec.dtype).bytes()]
}

fn widened(spec: &Spec, bytes: &[u8]) -> Vec<u8> {
    let mut out = zeroed(spec);
    for at in 0..spec.shape.elements() {
        Scalar::load(spec.dtype, bytes, at).store(wide(spec.dtype), &mut out, at);
    }
    out
}

fn computed(graph: &Graph, node: &Node, values: &[Vec<u8>]) -> Vec<Vec<u8>> {
    let read: Vec<&[u8]> = node.inputs.iter().map(|i| values[i.index()].as_slice()).collect();
    let specs: Vec<&Spec> = node.inputs.iter().map(|i| &graph.node(*i).spec).collect();
    let mut out = zeroed(&node.spec);
    match &node.op {
        Op::Fill(x) => Scalar::of(wide(node.spec.dtype), *x).store(wide(node.spec.dtype), &mut out, 0),
        Op::View(view) => {
            let layout = view.layout(&Layout::dense(specs[0].shape.clone())).expect("a dense layout can be looked at");
            copy(wide(node.spec.dtype), read[0], &layout, &mut out, &Layout::dense(node.spec.shape.clone()));
        }
        Op::Concat(axis) => {
            let (whole, mut start) = (Layout::dense(node.spec.shape.clone()), 0);
            for (spec, bytes) in specs.iter().zip(read) {
                let part = whole.slice(*axis, start, spec.shape[*axis], 1);
                copy(wide(spec.dtype), bytes, &Layout::dense(spec.shape.clone()), &mut out, &part);
                start += spec.shape[*axis];
            }
        }
        op => {
            let kernel = kernel(op, &specs, &node.spec);
            let mut outs: Vec<Vec<u8>> = kernel.outputs().iter().map(|o| vec![0; o.span_bytes() as usize]).collect();
            let mut places: Vec<&mut [u8]> = outs.iter_mut().map(Vec::as_mut_slice).collect();
            kernel.reference(&read, &mut places);
            return outs;
        }
    }
    vec![out]
}

fn copy(dtype: DType, from: &[u8], read: &Layout, to: &mut [u8], write: &Layout) {
    for (from_at, to_at) in read.positions().zip(write.positions()) {
        Scalar::load(dtype, from, from_at).store(dtype, to, to_at);
    }
}

fn kernel(op: &Op, specs: &[&Spec], out: &Spec) -> Kernel {
    let inputs: Vec<Operand> = specs.iter().map(|s| dense(s)).collect();
    let identity = || Expr::identity(inputs[0].dtype);
    let out = dense(out);
    match op {
        Op::Map(row, params) => {
            let dtype = inputs.iter().map(|o| o.dtype).find(|d| *d != DType::Bool).unwrap_or(DType::Bool);
            Kernel::Map(Map { expr: Expr::row(*row, dtype), params: params.to_vec(), inputs, out })
        }
        Op::Cast(dtype) => {
            let mut builder = ExprBuilder::default();
            let x = builder.arg(inputs[0].dtype);
            let cast = builder.cast(x, wide(*dtype));
            Kernel::Map(Map { expr: builder.finish(cast), params: vec![], inputs, out })
        }
        Op::Reduce(reduce) => reduction(reduce, &inputs[0], &out),
        Op::Scatter(axis, combine) => scattered(*axis, *combine, &inputs, &out),
        Op::Scan(scan) => scanned(scan, &inputs[0], &out),
        Op::RowWise(kind, axis) => {
            let operand = Operand::new(inputs[0].dtype, axes_last(&inputs[0].layout, &[*axis]));
            let (outer, length) = (out.layout.shape.without(*axis), out.layout.shape[*axis]);
            let inputs = vec![operand.clone()];
            Kernel::RowWise(RowWiseKernel {
                kind: *kind,
                outer,
                length,
                pre: identity(),
                post: identity(),
                params: vec![],
                inputs,
                out: operand,
            })
        }
        Op::Sort(sort) => sorted(*sort, &inputs[0], &out),
        Op::MatMul(precision) => matmul(*precision, &inputs[0], &inputs[1], &out),
        Op::MatMulInt => matmul(Precision::Highest, &inputs[0], &inputs[1], &out),
        Op::Conv(convolution) => conv(convolution, &inputs, &out),
        Op::Attention(Attention { scale, seen }) => {
            let [q, k, v, bias @ ..] = &inputs[..] else { unreachable!("attention has queries, keys and values") };
            let (q, k, v, bias) = (q.clone(), k.clone(), v.clone(), bias.first().cloned());
            Kernel::Attention(AttentionKernel { scale: *scale, seen: *seen, q, k, v, bias, out })
        }
        Op::Gather(axis) => {
            Kernel::Gather(Gather { axis: *axis, source: inputs[0].clone(), index: inputs[1].clone(), out })
        }
        other => unreachable!("{} is no kernel", other.name()),
    }
}

fn scattered(axis: usize, combine: Combine, inputs: &[Operand], out: &Operand) -> Kernel {
    let turned = |o: &Operand| Operand::new(o.dtype, axes_last(&o.layout, &[axis]));
    let (source, index, updates) = (turned(&inputs[0]), turned(&inputs[1]), turned(&inputs[2]));
    let outer = out.layout.shape.without(axis);
    Kernel::Scatter(Scatter { combine, outer, source, index, updates, out: turned(out) })
}

fn scanned(scan: &Scan, x: &Operand, out: &Operand) -> Kernel {
    let (length, last) = (out.layout.shape[scan.axis], out.layout.shape.rank() - 1);
    let mut layout = axes_last(&x.layout, &[scan.axis]);
    if scan.reverse {
        layout = layout.slice(last, length.saturating_sub(1), length, -1);
    }
    let operand = Operand::new(out.dtype, layout);
    let (fold, exclusive, outer) = (scan.fold, scan.exclusive, out.layout.shape.without(scan.axis));
    Kernel::Scan(ScanRows { fold, outer, length, exclusive, input: operand.clone(), out: operand })
}

fn reduction(reduce: &Reduce, x: &Operand, out: &Operand) -> Kernel {
    let layout = axes_last(&x.layout, &reduce.axes);
    let (outer, inner) = layout.shape.split_at(layout.shape.rank() - reduce.axes.len());
    Kernel::Reduce(ReduceRows {
        fold: reduce.fold,
        outer: Shape::from(outer),
        inner: Shape::from(inner),
        pre: Expr::identity(x.dtype),
        post: Expr::identity(out.dtype),
        params: vec![],
        inputs: vec![Operand::new(x.dtype, layout.clone())],
        outs: vec![out.clone(); reduce.fold.outputs()],
    })
}

fn sorted(sort: Sort, x: &Operand, out: &Operand) -> Kernel {
    let over = |dtype, shape: &Shape| Operand::new(dtype, axes_last(&Layout::dense(shape.clone()), &[sort.axis]));
    let (shape, kept) = (&x.layout.shape, &out.layout.shape);
    Kernel::Sort(SortRows {
        outer: kept.without(sort.axis),
        length: shape[sort.axis],
        keep: kept[sort.axis],
        descending: sort.descending,
        input: over(x.dtype, shape),
        outs: [over(x.dtype, kept), over(DType::I64, kept)],
    })
}

fn matmul(precision: Precision, a: &Operand, b: &Operand, out: &Operand) -> Kernel {
    let (lead, [m, n]) = out.layout.shape.split_last_chunk().expect("a product has two axes");
    let k = *a.layout.shape.last().expect("a product has two axes");
    Kernel::MatMul(MatMul {
        batch: Shape::from(lead),
        m: *m,
        n: *n,
        k,
        a: a.clone(),
        b: b.clone(),
        precision: precision.of(a.dtype),
        post: Expr::identity(out.dtype),
        params: vec![],
        inputs: vec![],
        out: out.clone(),
    })
}

fn conv(Convolution { groups, along }: &Convolution, inputs: &[Operand], out: &Operand) -> Kernel {
    let grouped = |o: &Operand, axis: usize| {
        let shape = &o.layout.shape;
        let dims = [&shape[..axis], &[*groups, shape[axis] / groups], &shape[axis + 1..]].concat();
        Operand::new(o.dtype, Layout::dense(dims.as_slice()))
    };
    Kernel::Conv(ConvKernel {
        along: along.clone(),
        x: grouped(&inputs[0], 1),
        weight: grouped(&inputs[1], 0),
        post: Expr::identity(out.dtype),
        params: vec![],
        inputs: vec![],
        out: grouped(out, 1),
    })
}

fn axes_last(layout: &Layout, axes: &[usize]) -> Layout {
    let rest = (0..layout.shape.rank()).filter(|a| !axes.contains(a));
    layout.permute(&rest.chain(axes.iter().copied()).collect::<Vec<_>>())
}
