//! Kernels: the few fused shapes of work that a device knows how to run.
//!
//! A kernel says everything but the buffers: expressions, sizes, layouts and parameters. Expressions are its structure
//! (what a device compiles); sizes, strides, offsets and parameters are data.

mod attention;
mod conv;
mod custom;
mod gather;
mod map;
mod matmul;
mod reduce;
mod row_wise;
mod scan;
mod scatter;
mod sort;
mod widen;

pub use attention::AttentionKernel;
pub use conv::ConvKernel;
pub use custom::Custom;
pub use gather::Gather;
pub use map::Map;
pub use matmul::MatMul;
pub use reduce::ReduceRows;
pub use row_wise::RowWiseKernel;
pub use scan::ScanRows;
pub use scatter::Scatter;
pub use sort::SortRows;

use crate::{DType, Expr, Layout, Precision, Scalar};

/// One tensor a kernel reads or writes: the type of its elements and where they lie in the bound buffer.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Operand {
    /// Element type.
    pub dtype: DType,
    /// Where the elements lie, in elements from the start of the buffer.
    pub layout: Layout,
}

impl Operand {
    /// An operand with this layout.
    pub fn new(dtype: DType, layout: Layout) -> Operand {
        Operand { dtype, layout }
    }

    /// Bytes a buffer needs so that every element lies inside it.
    pub fn span_bytes(&self) -> u64 {
        self.layout.span().map_or(0, |(_, high)| (high as u64 + 1) * self.dtype.bytes() as u64)
    }

    /// Bytes that must be moved to see every element once.
    pub fn touched_bytes(&self) -> u64 {
        self.layout.distinct() as u64 * self.dtype.bytes() as u64
    }
}

/// One fused unit of device work.
#[derive(Clone, Debug, PartialEq)]
pub enum Kernel {
    /// Elementwise, over operands of any layout.
    Map(Map),
    /// Folds the trailing axes.
    Reduce(ReduceRows),
    /// Running folds along the last axis.
    Scan(ScanRows),
    /// Softmax and norms along the last axis.
    RowWise(RowWiseKernel),
    /// Brings rows into order.
    Sort(SortRows),
    /// Batched matrix product with an epilogue.
    MatMul(MatMul),
    /// Convolution with an epilogue.
    Conv(ConvKernel),
    /// Scaled dot product attention.
    Attention(AttentionKernel),
    /// Picks slices by index.
    Gather(Gather),
    /// Combines elements with updates by index.
    Scatter(Scatter),
    /// An operation of the user's own.
    Custom(Custom),
}

/// What a kernel must do, whoever does it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Work {
    /// Arithmetic operations; a multiply-add counts as two.
    pub flops: u64,
    /// Bytes that must be moved: each input element once, each output element once.
    pub bytes: u64,
    /// Rows that it goes through one by one or side by side; 0 where it has none.
    pub rows: u64,
    /// Elements of all of these rows.
    pub elements: u64,
}

/// Kernels of one class share one measured curve of a profile.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Class {
    /// Elementwise.
    Map,
    /// Reductions.
    Reduce,
    /// Running folds.
    Scan,
    /// Softmax and norms.
    RowWise,
    /// Sorting.
    Sort,
    /// Matrix products.
    MatMul,
    /// Matrix products that may be made of products of bf16.
    MatMulBf16,
    /// Matrix products of f16 that need not be of the highest precision.
    MatMulF16,
    /// Matrix products of 8-bit integers.
    MatMulInt,
    /// Convolutions.
    Conv,
    /// Attention.
    Attention,
    /// Gather.
    Gather,
    /// Scatter.
    Scatter,
    /// A custom operation, by its name.
    Custom(&'static str),
}

impl Kernel {
    /// The class it is measured in.
    pub fn class(&self) -> Class {
        match self {
            Kernel::Map(_) => Class::Map,
            Kernel::Reduce(_) => Class::Reduce,
            Kernel::Scan(_) => Class::Scan,
            Kernel::RowWise(_) => Class::RowWise,
            Kernel::Sort(_) => Class::Sort,
            Kernel::MatMul(k) if k.is_of_bytes() => Class::MatMulInt,
            Kernel::MatMul(k) if k.may_be_of_bf16() => Class::MatMulBf16,
            Kernel::MatMul(k) if k.is_of_halves() => Class::MatMulF16,
            Kernel::MatMul(_) => Class::MatMul,
            Kernel::Conv(_) => Class::Conv,
            Kernel::Attention(_) => Class::Attention,
            Kernel::Gather(_) => Class::Gather,
            Kernel::Scatter(_) => Class::Scatter,
            Kernel::Custom(k) => Class::Custom(k.op.name()),
        }
    }

    /// Tensors it reads, in the order they are bound.
    pub fn inputs(&self) -> Vec<&Operand> {
        match self {
            Kernel::Map(k) => k.inputs.iter().collect(),
            Kernel::Reduce(k) => k.inputs.iter().collect(),
            Kernel::Scan(k) => vec![&k.input],
            Kernel::RowWise(k) => k.inputs.iter().collect(),
            Kernel::Sort(k) => vec![&k.input],
            Kernel::MatMul(k) => [&k.a, &k.b].into_iter().chain(&k.inputs).collect(),
            Kernel::Conv(k) => [&k.x, &k.weight].into_iter().chain(&k.inputs).collect(),
            Kernel::Attention(k) => [&k.q, &k.k, &k.v].into_iter().chain(&k.bias).collect(),
            Kernel::Gather(k) => vec![&k.source, &k.index],
            Kernel::Scatter(k) => vec![&k.source, &k.index, &k.updates],
            Kernel::Custom(k) => k.inputs.iter().collect(),
        }
    }

    /// Tensors it writes, in the order they are bound. No two elements of one output lie in one place.
    pub fn outputs(&self) -> Vec<&Operand> {
        match self {
            Kernel::Map(k) => vec![&k.out],
            Kernel::Reduce(k) => k.outs.iter().collect(),
            Kernel::Scan(k) => vec![&k.out],
            Kernel::RowWise(k) => vec![&k.out],
            Kernel::Sort(k) => k.outs.iter().collect(),
            Kernel::MatMul(k) => vec![&k.out],
            Kernel::Conv(k) => vec![&k.out],
            Kernel::Attention(k) => vec![&k.out],
            Kernel::Gather(k) => vec![&k.out],
            Kernel::Scatter(k) => vec![&k.out],
            Kernel::Custom(k) => k.outs.iter().collect(),
        }
    }

    /// Parameters of its expressions, and other numbers that are data.
    pub fn params(&self) -> &[f64] {
        match self {
            Kernel::Map(k) => &k.params,
            Kernel::Reduce(k) => &k.params,
            Kernel::RowWise(k) => &k.params,
            Kernel::MatMul(k) => &k.params,
            Kernel::Conv(k) => &k.params,
            Kernel::Attention(k) => std::slice::from_ref(&k.scale),
            Kernel::Scan(_) | Kernel::Gather(_) | Kernel::Scatter(_) | Kernel::Sort(_) => &[],
            Kernel::Custom(k) => &k.params,
        }
    }

    /// How exactly its operands must be multiplied, if they are.
    pub fn precision(&self) -> Precision {
        if let Kernel::MatMul(k) = self { k.precision } else { Precision::Highest }
    }

    /// What it must do, whoever does it.
    pub fn work(&self) -> Work {
        let flops = match self {
            Kernel::Map(k) => k.flops(),
            Kernel::Reduce(k) => k.flops(),
            Kernel::Scan(k) => k.elements() as u64,
            Kernel::RowWise(k) => k.flops(),
            Kernel::Sort(k) => k.flops(),
            Kernel::MatMul(k) => k.flops(),
            Kernel::Conv(k) => k.flops(),
            Kernel::Attention(k) => k.flops(),
            Kernel::Gather(_) => 0,
            Kernel::Scatter(k) => k.updates.layout.shape.elements() as u64,
            Kernel::Custom(k) => k.flops(),
        };
        let touched = |operands: Vec<&Operand>| operands.iter().map(|o| o.touched_bytes()).sum::<u64>();
        let read = match self {
            Kernel::Gather(k) => k.out.touched_bytes() + k.index.touched_bytes(),
            _ => touched(self.inputs()),
        };
        let (rows, length) = self.rows().unwrap_or((0, 0));
        let (rows, elements) = (rows as u64, rows as u64 * length as u64);
        Work { flops, bytes: read + touched(self.outputs()), rows, elements }
    }

    /// How many rows it goes through and how long they are, where it works on rows.
    fn rows(&self) -> Option<(usize, usize)> {
        match self {
            Kernel::Reduce(k) => Some((k.outer.elements(), k.inner.elements())),
            Kernel::Scan(k) => Some((k.outer.elements(), k.length)),
            Kernel::RowWise(k) => Some((k.outer.elements(), k.length)),
            Kernel::Sort(k) => Some((k.outer.elements(), k.length)),
            _ => None,
        }
    }

    /// The slow and obvious meaning of the kernel, in double precision: what every device is tested against.
    ///
    /// `inputs` and `outputs` are whole buffers in the order of [`Kernel::inputs`] and [`Kernel::outputs`].
    pub fn reference(&self, inputs: &[&[u8]], outputs: &mut [&mut [u8]]) {
        match self {
            Kernel::Map(k) => k.reference(inputs, outputs),
            Kernel::Reduce(k) => k.reference(inputs, outputs),
            Kernel::Scan(k) => k.reference(inputs, outputs),
            Kernel::RowWise(k) => k.reference(inputs, outputs),
            Kernel::Sort(k) => k.reference(inputs, outputs),
            Kernel::MatMul(k) => k.reference(inputs, outputs),
            Kernel::Conv(k) => k.reference(inputs, outputs),
            Kernel::Attention(k) => k.reference(inputs, outputs),
            Kernel::Gather(k) => k.reference(inputs, outputs),
            Kernel::Scatter(k) => k.reference(inputs, outputs),
            Kernel::Custom(k) => k.reference(inputs, outputs),
        }
    }
}

/// A kernel bound to slots, which a plan or a segment numbers.
#[derive(Clone, Debug, PartialEq)]
pub struct Launch {
    /// What to run.
    pub kernel: Kernel,
    /// Slots of [`Kernel::inputs`], in order; one slot may stand for several.
    pub inputs: Vec<usize>,
    /// Slots of [`Kernel::outputs`], in order. An output may share a slot with an input only if the layouts are equal and
    /// the kernel is a [`Kernel::Map`].
    pub outputs: Vec<usize>,
    /// Scratch memory, where the device asked for some.
    pub workspace: Option<usize>,
}

/// Element `index` (row-major) of each operand, for the reference.
fn load_all(operands: &[&Operand], buffers: &[&[u8]], places: &[usize]) -> Vec<Scalar> {
    let one = |((o, b), &at): ((&&Operand, &&[u8]), &usize)| Scalar::load(o.dtype, b, at);
    operands.iter().zip(buffers).zip(places).map(one).collect()
}

/// Evaluates an epilogue or prologue for the reference.
fn eval(expr: &Expr, args: &[Scalar], params: &[f64]) -> Scalar {
    expr.lower().eval(args, params)
}
