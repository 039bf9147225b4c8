//! Kernels to test, made from sizes and random layouts.

use breakeven_ir::{
    AttentionKernel, DType, Expr, ExprBuilder, Fold, Gather, Kernel, Layout, MatMul, Operand, Precision, ReduceRows,
    Row, RowWise, RowWiseKernel, Shape,
};

use super::Random;

pub fn join(outer: &Shape, inner: &[usize]) -> Shape {
    outer.iter().chain(inner).copied().collect()
}

fn view(random: &mut Random, dtype: DType, shape: Shape, read: bool) -> Operand {
    let byte = dtype.bytes() == 1;
    let layout = if byte && !read { Layout::dense(shape) } else { random.layout(&shape, read) };
    Operand::new(dtype, layout)
}

/// `relu(x + y)`: an epilogue with one more operand.
pub fn add_relu() -> Expr {
    let mut b = ExprBuilder::default();
    let (x, y) = (b.arg(DType::F32), b.arg(DType::F32));
    let sum = b.row(Row::named("add").unwrap(), DType::F32, &[x, y]);
    let result = b.row(Row::named("relu").unwrap(), DType::F32, &[sum]);
    b.finish(result)
}

pub fn reduce(random: &mut Random, fold: Fold, dtype: DType, outer: &Shape, inner: &Shape) -> Kernel {
    let out = fold.dtype(dtype).unwrap();
    let with_extra = out == DType::F32 && fold != Fold::Moments;
    let post = if with_extra { add_relu() } else { Expr::identity(out) };
    let mut inputs = vec![view(random, dtype, join(outer, inner), true)];
    inputs.extend(with_extra.then(|| view(random, DType::F32, outer.clone(), true)));
    Kernel::Reduce(ReduceRows {
        fold,
        outer: outer.clone(),
        inner: inner.clone(),
        pre: Expr::identity(dtype),
        post,
        params: vec![],
        inputs,
        outs: (0..fold.outputs()).map(|_| view(random, out, outer.clone(), false)).collect(),
    })
}

/// A fold of the columns of a matrix.
pub fn reduce_across(random: &mut Random, fold: Fold, rows: usize, length: usize) -> Kernel {
    let Kernel::Reduce(mut kernel) = reduce(random, fold, DType::F32, &Shape::from(rows), &Shape::from(length)) else {
        unreachable!("it makes a reduction");
    };
    kernel.inputs[0].layout = Layout::dense([length, rows]).permute(&[1, 0]);
    Kernel::Reduce(kernel)
}

pub fn row_wise(random: &mut Random, kind: RowWise, outer: &Shape, length: usize) -> Kernel {
    let shape = join(outer, &[length]);
    let mut operand = |read| view(random, DType::F32, shape.clone(), read);
    Kernel::RowWise(RowWiseKernel {
        kind,
        outer: outer.clone(),
        length,
        pre: Expr::row(Row::named("neg").unwrap(), DType::F32),
        post: add_relu(),
        params: vec![],
        inputs: vec![operand(true), operand(true)],
        out: operand(false),
    })
}

pub fn matmul(random: &mut Random, batch: &Shape, [m, k, n]: [usize; 3], views: bool) -> Kernel {
    let mut operand = |dims: [usize; 2], read| {
        let shape = join(batch, &dims);
        if views { view(random, DType::F32, shape, read) } else { Operand::new(DType::F32, Layout::dense(shape)) }
    };
    Kernel::MatMul(MatMul {
        batch: batch.clone(),
        m,
        n,
        k,
        a: operand([m, k], true),
        b: operand([k, n], true),
        precision: Precision::Highest,
        post: add_relu(),
        params: vec![],
        inputs: vec![operand([m, n], true)],
        out: operand([m, n], false),
    })
}

/// Queries, keys, their width and that of values.
pub fn attention(random: &mut Random, batch: &Shape, [l, s, e, d]: [usize; 4], views: bool) -> AttentionKernel {
    let mut operand = |dims: [usize; 2], read| {
        let shape = join(batch, &dims);
        if views { view(random, DType::F32, shape, read) } else { Operand::new(DType::F32, Layout::dense(shape)) }
    };
    AttentionKernel {
        scale: 0.01,
        seen: None,
        q: operand([l, e], true),
        k: operand([s, e], true),
        v: operand([s, d], true),
        bias: views.then(|| operand([l, s], true)),
        out: operand([l, d], false),
    }
}

pub fn gather(random: &mut Random, source: &[usize], axis: usize, index: &[usize], views: bool) -> Kernel {
    let dims = [&source[..axis], index, &source[axis + 1..]].concat();
    let mut operand = |dtype, dims: &[usize], read| {
        let shape = Shape::from(dims);
        if views { view(random, dtype, shape, read) } else { Operand::new(dtype, Layout::dense(shape)) }
    };
    Kernel::Gather(Gather {
        axis,
        source: operand(DType::F32, source, true),
        index: operand(DType::I64, index, true),
        out: operand(DType::F32, &dims, false),
    })
}
