//! Operations: what a node of a graph does to its inputs.

use smallvec::SmallVec;

use crate::{CustomOp, DType, Precision, Row, Shape};

/// What a node does. Elementwise operations are rows of the table; the rest is listed here.
#[derive(Clone, Debug, PartialEq)]
pub enum Op {
    /// Bytes that are given when the graph runs.
    Input,
    /// One number, rank 0; broadcasting views make it a tensor of any shape without storing it.
    Fill(f64),
    /// A row of the table over tensors of one shape; parameters in the order of the row.
    Map(Row, Params),
    /// Each element as another type: saturating from float to integer, NaN to 0, anything but 0 to true.
    Cast(DType),
    /// The same elements, looked at otherwise.
    View(View),
    /// Folds axes.
    Reduce(Reduce),
    /// Folds what comes before each element along an axis.
    Scan(Scan),
    /// Works on whole rows along one axis.
    RowWise(RowWise, usize),
    /// Brings the elements along an axis into order.
    Sort(Sort),
    /// Matrix product of `[.., m, k]` and `[.., k, n]`; leading axes are equal in both.
    MatMul(Precision),
    /// The same product of 8-bit integers, each side signed or unsigned, summed in i32.
    MatMulInt,
    /// Convolution (correlation, as networks mean it) of `[n, groups * c, ..]` with a weight of `[groups * o, c, ..]`.
    Conv(Convolution),
    /// Scaled dot product attention of queries `[.., l, e]`, keys `[.., s, e]`, values `[.., s, d]` and, where there is a fourth
    /// input, what is added to the scores `[.., l, s]`; leading axes are equal in all.
    Attention(Attention),
    /// `out[.., i.., ..] = source[.., index[i..], ..]` along one axis of the source.
    Gather(usize),
    /// The source, where `out[.., index[.., p, ..], ..]` was combined with `updates[.., p, ..]` for each `p` in order.
    /// Source, index and updates have one rank and are equal in all axes but this one, along which index and updates have
    /// one extent.
    Scatter(usize, Combine),
    /// Inputs one after the other along an axis.
    Concat(usize),
    /// An operation of the user's own, and its parameters.
    Custom(CustomOp, Params),
    /// Output `.0` of an input that has several; the node itself stands for output 0.
    Output(u8),
}

/// Parameters of a row: the same for every element.
pub type Params = SmallVec<[f64; 2]>;

/// A view of a tensor: no element is computed.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum View {
    /// The same elements in the same order under another shape.
    Reshape(Shape),
    /// Axes in this order.
    Permute(SmallVec<[usize; 4]>),
    /// Right-aligned to a larger shape.
    Broadcast(Shape),
    /// Along `axis`, `count` elements from `start` on, `step` apart; `step` may be negative.
    Slice {
        /// The axis that is cut.
        axis: usize,
        /// First element taken, counted from the front.
        start: usize,
        /// Elements taken.
        count: usize,
        /// Distance between neighbours, not 0.
        step: isize,
    },
    /// A sliding window: `out[.., i, .., j] = in[.., i * step + j * dilation, ..]`. The axis counts windows, and a new last
    /// axis runs along a window. Only whole windows count. Elements that several windows see stand in one place.
    Window {
        /// The axis that the window slides along.
        axis: usize,
        /// Elements of one window, at least 1.
        size: usize,
        /// Distance between windows, at least 1.
        step: usize,
        /// Distance between neighbours in a window, at least 1.
        dilation: usize,
    },
}

/// A reduction over some axes. The result keeps the other axes, in order.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Reduce {
    /// How elements are folded.
    pub fold: Fold,
    /// Axes that are folded, ascending.
    pub axes: SmallVec<[usize; 4]>,
}

/// A convolution over one to three spatial axes.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Convolution {
    /// Groups of channels that do not see each other.
    pub groups: usize,
    /// How windows lie along each spatial axis.
    pub along: SmallVec<[Sliding; 2]>,
}

/// Windows along one axis: element `j` of window `i` lies at `i * stride + j * dilation - before`. What lies outside the
/// input is 0, and takes part like any other number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Sliding {
    /// Distance between windows, at least 1.
    pub stride: usize,
    /// Distance between neighbours in a window, at least 1.
    pub dilation: usize,
    /// Zeros before the first element.
    pub before: usize,
    /// How many windows there are; those that leave the input see zeros there.
    pub count: usize,
}

/// Attention: `softmax(scale * q k^T + bias) v`, and 0 for a query whose scores are all -inf.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Attention {
    /// What products of queries and keys are multiplied with.
    pub scale: f64,
    /// How many keys the first query sees, each further query one more; all of them where it is not said. Causal attention over
    /// a sequence itself has 1 here, and one more for each key that came before the first query.
    pub seen: Option<usize>,
}

/// What an update does to the element it meets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Combine {
    /// Takes its place; the last update of several wins.
    Set,
    /// Is added to it, one after the other.
    Add,
    /// Is multiplied with it.
    Mul,
    /// The larger of both; NaN when either is NaN.
    Max,
    /// The smaller of both; NaN when either is NaN.
    Min,
}

impl Combine {
    /// All of them.
    pub const ALL: [Combine; 5] = [Combine::Set, Combine::Add, Combine::Mul, Combine::Max, Combine::Min];

    /// As users and errors name it.
    pub const fn name(self) -> &'static str {
        match self {
            Combine::Set => "scatter",
            Combine::Add => "scatter_add",
            Combine::Mul => "scatter_mul",
            Combine::Max => "scatter_max",
            Combine::Min => "scatter_min",
        }
    }

    /// Whether it is defined for elements of `dtype`: truth values and 16-bit floats can be set, and nothing else. The latter
    /// are cast to f32 before and back after, so that they are rounded once.
    pub const fn has(self, dtype: DType) -> bool {
        matches!(self, Combine::Set) || !matches!(dtype, DType::Bool | DType::F16 | DType::BF16)
    }
}

/// A running fold along one axis: `out[i] = in[0] + .. + in[i]` for a sum.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Scan {
    /// Sum, product, maximum or minimum.
    pub fold: Fold,
    /// The axis it runs along.
    pub axis: usize,
    /// Each result leaves out its own element; the first is that of no elements.
    pub exclusive: bool,
    /// It runs from the end.
    pub reverse: bool,
}

impl Scan {
    /// As users and errors name it; `None` for folds that have no running form.
    pub const fn name_of(fold: Fold) -> Option<&'static str> {
        match fold {
            Fold::Sum => Some("cumsum"),
            Fold::Prod => Some("cumprod"),
            Fold::Max => Some("cummax"),
            Fold::Min => Some("cummin"),
            _ => None,
        }
    }
}

/// Order along one axis. Two outputs: the values, and the i64 index along the axis that each had. NaN counts as larger than
/// anything, -0 equals 0, and of equals the one with the lower index comes first, whichever way is sorted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Sort {
    /// The axis along which elements are ordered.
    pub axis: usize,
    /// The largest comes first.
    pub descending: bool,
    /// How many are kept, the first in order; all where it is not said.
    pub keep: Option<usize>,
}

/// How a reduction folds elements. Its tree depends on lengths only.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Fold {
    /// Sum; 0 of nothing.
    Sum,
    /// Arithmetic mean; NaN of nothing. Floats.
    Mean,
    /// Product; 1 of nothing.
    Prod,
    /// Largest; NaN when any is NaN.
    Max,
    /// Smallest; NaN when any is NaN.
    Min,
    /// Index of the largest in row-major order of the folded axes; the first NaN wins, then the lowest index. i64.
    ArgMax,
    /// Index of the smallest, with the same ties.
    ArgMin,
    /// Every one holds; true of nothing. Truth values.
    All,
    /// Some one holds; false of nothing. Truth values.
    Any,
    /// Two outputs: the mean, and the mean square distance from it, without cancellation. Floats.
    Moments,
}

impl Fold {
    /// As users and errors name it.
    pub const fn name(self) -> &'static str {
        match self {
            Fold::Sum => "sum",
            Fold::Mean => "mean",
            Fold::Prod => "prod",
            Fold::Max => "max",
            Fold::Min => "min",
            Fold::ArgMax => "argmax",
            Fold::ArgMin => "argmin",
            Fold::All => "all",
            Fold::Any => "any",
            Fold::Moments => "var_mean",
        }
    }

    /// How many results it has.
    pub const fn outputs(self) -> usize {
        if matches!(self, Fold::Moments) { 2 } else { 1 }
    }

    /// Type of the result for elements of `dtype`; `None` where it is not defined.
    pub const fn dtype(self, dtype: DType) -> Option<DType> {
        match (self, dtype) {
            (Fold::All | Fold::Any, DType::Bool) => Some(DType::Bool),
            (Fold::All | Fold::Any, _) | (_, DType::Bool) => None,
            (Fold::ArgMax | Fold::ArgMin, _) => Some(DType::I64),
            (Fold::Mean | Fold::Moments, d) if !d.is_float() => None,
            (_, d) => Some(d),
        }
    }
}

/// Work on whole rows: each element of the result depends on its whole row. Floats.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum RowWise {
    /// `e^(x - max) / sum`; NaN for a row of nothing but -inf.
    Softmax,
    /// `x - max - ln(sum)`, without overflow.
    LogSoftmax,
    /// `(x - mean) / sqrt(variance + epsilon)`, two passes.
    LayerNorm {
        /// Added to the variance.
        epsilon: f64,
    },
    /// `x / sqrt(mean square + epsilon)`
    RmsNorm {
        /// Added to the mean square.
        epsilon: f64,
    },
}

impl RowWise {
    /// As users and errors name it.
    pub const fn name(self) -> &'static str {
        match self {
            RowWise::Softmax => "softmax",
            RowWise::LogSoftmax => "log_softmax",
            RowWise::LayerNorm { .. } => "layer_norm",
            RowWise::RmsNorm { .. } => "rms_norm",
        }
    }
}

impl Op {
    /// A matrix product at the highest precision.
    pub const fn matmul() -> Op {
        Op::MatMul(Precision::Highest)
    }

    /// As users and errors name it.
    pub fn name(&self) -> &'static str {
        match self {
            Op::Input => "input",
            Op::Fill(_) => "fill",
            Op::Map(row, _) => row.name,
            Op::Cast(_) => "cast",
            Op::View(View::Reshape(_)) => "reshape",
            Op::View(View::Permute(_)) => "permute",
            Op::View(View::Broadcast(_)) => "broadcast",
            Op::View(View::Slice { .. }) => "slice",
            Op::View(View::Window { .. }) => "window",
            Op::Reduce(r) => r.fold.name(),
            Op::Scan(s) => Scan::name_of(s.fold).unwrap_or("scan"),
            Op::RowWise(r, _) => r.name(),
            Op::Sort(_) => "sort",
            Op::MatMul(_) => "matmul",
            Op::MatMulInt => "matmul_int",
            Op::Conv(_) => "conv",
            Op::Attention(_) => "attention",
            Op::Gather(_) => "gather",
            Op::Scatter(_, combine) => combine.name(),
            Op::Concat(_) => "concat",
            Op::Custom(op, _) => op.name(),
            Op::Output(_) => "output",
        }
    }
}
