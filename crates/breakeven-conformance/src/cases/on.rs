//! Kernels on a device, a line each.

use breakeven_device::{Device, DeviceKind, HostBytes};
use breakeven_ir::{
    DType, Expr, Fold, Kernel, Layout, Map, MatMul, Operand, Precision, ReduceRows, Row, RowWise, RowWiseKernel,
    ScanRows, Shape,
};

use crate::{Case, run};

/// A device that runs whole kernels on plain numbers.
#[derive(Clone, Copy, Debug)]
pub struct On<'a>(pub &'a dyn Device);

/// f32 bytes.
pub fn bytes(x: &[f32]) -> Vec<u8> {
    x.iter().flat_map(|v| v.to_le_bytes()).collect()
}

fn floats(memory: &[u8], count: usize) -> Vec<f32> {
    let four = |b: &[u8]| f32::from_le_bytes(b.try_into().expect("four bytes"));
    memory.chunks_exact(4).take(count).map(four).collect()
}

impl On<'_> {
    /// A processor, so that nothing is flushed and zeros keep their signs.
    pub fn is_cpu(&self) -> bool {
        matches!(self.0.info().kind, DeviceKind::Cpu | DeviceKind::Simulated)
    }

    /// The simulated device is the reference itself: slow, and of no limits.
    pub fn is_simulated(&self) -> bool {
        self.0.info().kind == DeviceKind::Simulated
    }

    /// `full` where kernels are fast, else `small`.
    pub fn sized(&self, full: usize, small: usize) -> usize {
        if self.0.info().kind == DeviceKind::Cpu { full } else { small }
    }

    /// Whole buffers of the outputs.
    pub fn call(&self, kernel: Kernel, buffers: Vec<Vec<u8>>) -> Vec<HostBytes> {
        let bound = (0..buffers.len()).collect();
        let case = Case { name: String::new(), kernel, buffers, bound, in_place: None, before: None };
        let got = run(self.0, std::slice::from_ref(&case));
        got.unwrap_or_else(|e| panic!("{}: {e}", self.0.info().name)).swap_remove(0)
    }

    /// A row over dense f32.
    pub fn map(&self, name: &str, params: &[f64], inputs: &[&[f32]]) -> Vec<f32> {
        let got = self.row(name, params, inputs);
        floats(&got, inputs[0].len())
    }

    /// A row that gives truth values.
    pub fn mask(&self, name: &str, inputs: &[&[f32]]) -> Vec<bool> {
        let got = self.row(name, &[], inputs);
        got[..inputs[0].len()].iter().map(|&b| b != 0).collect()
    }

    fn row(&self, name: &str, params: &[f64], inputs: &[&[f32]]) -> HostBytes {
        let row = Row::named(name).unwrap_or_else(|| panic!("the table has a row {name}"));
        let map = Map::dense(Expr::row(row, DType::F32), params.to_vec(), inputs[0].len());
        self.call(Kernel::Map(map), inputs.iter().map(|x| bytes(x)).collect()).swap_remove(0)
    }

    /// A fold of `outer ++ inner` that lies in `x` as `layout`; all its outputs as f32.
    pub fn fold_of(&self, fold: Fold, x: &[f32], outer: &Shape, layout: Layout) -> Vec<Vec<f32>> {
        let kernel = reduction(fold, outer, layout);
        let got = self.call(kernel, vec![bytes(x)]);
        got.iter().map(|m| floats(m, outer.elements())).collect()
    }

    /// A fold of each row of `length`.
    pub fn fold(&self, fold: Fold, x: &[f32], length: usize) -> Vec<f32> {
        let outer = Shape::from(x.len() / length.max(1));
        let layout = Layout::dense([outer[0], length]);
        self.fold_of(fold, x, &outer, layout).swap_remove(0)
    }

    /// Places of the largest or smallest in each row of `length`.
    pub fn places(&self, fold: Fold, x: &[f32], length: usize) -> Vec<i64> {
        let outer = Shape::from(x.len() / length);
        let got = self.call(reduction(fold, &outer, Layout::dense([outer[0], length])), vec![bytes(x)]);
        let eight = |b: &[u8]| i64::from_le_bytes(b.try_into().expect("eight bytes"));
        got[0].chunks_exact(8).take(outer[0]).map(eight).collect()
    }

    /// The running sum of one row.
    pub fn running_sum(&self, x: &[f32]) -> Vec<f32> {
        let input = Operand::new(DType::F32, Layout::dense([1, x.len()]));
        let (outer, length, out) = (Shape::from(1), x.len(), input.clone());
        let scan = ScanRows { fold: Fold::Sum, outer, length, exclusive: false, input, out };
        floats(&self.call(Kernel::Scan(scan), vec![bytes(x)])[0], length)
    }

    /// A softmax or norm of each row of `length`.
    pub fn rows(&self, kind: RowWise, x: &[f32], length: usize) -> Vec<f32> {
        let outer = Shape::from(x.len() / length);
        let operand = Operand::new(DType::F32, Layout::dense([outer[0], length]));
        let kernel = Kernel::RowWise(RowWiseKernel {
            kind,
            outer,
            length,
            pre: Expr::identity(DType::F32),
            post: Expr::identity(DType::F32),
            params: vec![],
            inputs: vec![operand.clone()],
            out: operand,
        });
        floats(&self.call(kernel, vec![bytes(x)])[0], x.len())
    }

    /// A product of operands that lie in `a` and `b` as these layouts over `batch ++ [rows, columns]`.
    pub fn matmul(&self, (a, left): (&[f32], Layout), (b, right): (&[f32], Layout)) -> Vec<f32> {
        let (batch, [m, k]) = left.shape.split_last_chunk().expect("a matrix");
        let n = *right.shape.last().expect("a matrix");
        let out: Shape = batch.iter().copied().chain([*m, n]).collect();
        let elements = out.elements();
        let kernel = Kernel::MatMul(MatMul {
            batch: Shape::from(batch),
            m: *m,
            n,
            k: *k,
            a: Operand::new(DType::F32, left.clone()),
            b: Operand::new(DType::F32, right),
            precision: Precision::Highest,
            post: Expr::identity(DType::F32),
            params: vec![],
            inputs: vec![],
            out: Operand::new(DType::F32, Layout::dense(out)),
        });
        floats(&self.call(kernel, vec![bytes(a), bytes(b)])[0], elements)
    }

    /// A product of dense matrices.
    pub fn product(&self, a: &[f32], b: &[f32], [m, k, n]: [usize; 3]) -> Vec<f32> {
        self.matmul((a, Layout::dense([m, k])), (b, Layout::dense([k, n])))
    }
}

fn reduction(fold: Fold, outer: &Shape, layout: Layout) -> Kernel {
    let out = fold.dtype(DType::F32).expect("defined for f32");
    let post = if fold == Fold::Moments { DType::F32 } else { out };
    Kernel::Reduce(ReduceRows {
        fold,
        outer: outer.clone(),
        inner: Shape::from(&layout.shape[outer.rank()..]),
        pre: Expr::identity(DType::F32),
        post: Expr::identity(post),
        params: vec![],
        inputs: vec![Operand::new(DType::F32, layout)],
        outs: vec![Operand::new(out, Layout::dense(outer.clone())); fold.outputs()],
    })
}

/// Equal, NaN to NaN, and otherwise within `relative` of what is wanted.
pub fn near(got: &[f32], want: &[f64], relative: f64) {
    assert_eq!(got.len(), want.len());
    for (i, (&g, &w)) in got.iter().zip(want).enumerate() {
        let g = f64::from(g);
        let is_near = g == w || (g.is_nan() && w.is_nan()) || (g - w).abs() <= relative * w.abs();
        assert!(is_near, "element {i}: got {g:?}, want {w:?} within {relative:?}; all: {got:?}");
    }
}
