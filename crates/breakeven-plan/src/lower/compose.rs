//! Kernels that a device cannot run, made of those that it can: attention as products and a softmax.

use breakeven_ir::{
    AttentionKernel, DType, Expr, ExprBuilder, Fold, Kernel, Layout, Map, MatMul, Operand, Precision, ReduceRows, Row,
    RowWise, RowWiseKernel, Shape,
};

use super::divide::{Bound, Piece};

/// What lies between the pieces.
const SCORES: Bound = Bound::Between(0);
const MOST: Bound = Bound::Between(1);
const WEIGHTS: Bound = Bound::Between(2);
const HIDDEN: Bound = Bound::Between(3);
const VALUES: Bound = Bound::Between(4);

/// The pieces that `piece` is made of, where it is made of any.
pub(super) fn compose(piece: &Piece) -> Option<Vec<Piece>> {
    let Kernel::Attention(kernel) = &piece.kernel else { return None };
    let made = Made { kernel, piece, dtype: kernel.accumulator() };
    Some([made.hidden(), vec![made.scores(), made.most(), made.weights()], made.values(), vec![made.sums()]].concat())
}

struct Made<'a> {
    kernel: &'a AttentionKernel,
    piece: &'a Piece,
    /// Of scores and weights.
    dtype: DType,
}

impl Made<'_> {
    fn over(&self, last: &[usize]) -> Operand {
        let shape: Shape = self.kernel.batch().iter().chain(last).copied().collect();
        Operand::new(self.dtype, Layout::dense(shape))
    }

    fn all_scores(&self) -> Operand {
        self.over(&[self.kernel.queries(), self.kernel.keys()])
    }

    /// For causal attention one line of zeros and then -inf: in the row of each query it begins one place further left.
    fn hidden(&self) -> Vec<Piece> {
        let Some(seen) = self.kernel.seen else { return Vec::new() };
        let length = self.kernel.queries() + self.kernel.keys() - 1;
        let zeros = (self.kernel.queries() - 1).saturating_add(seen).min(length);
        let part = |number: f64, start: usize, count: usize| {
            let mut b = ExprBuilder::default();
            let x = b.param(self.dtype);
            let out = Operand::new(self.dtype, Layout::dense(length).slice(0, start, count, 1));
            let kernel = Kernel::Map(Map { expr: b.finish(x), params: vec![number], inputs: vec![], out });
            (count > 0).then_some(Piece { kernel, inputs: vec![], outputs: vec![HIDDEN] })
        };
        [part(0.0, 0, zeros), part(f64::NEG_INFINITY, zeros, length - zeros)].into_iter().flatten().collect()
    }

    /// The line of `hidden` as what is added to the scores.
    fn hiding(&self) -> Operand {
        let k = self.kernel;
        let shape = self.all_scores().layout.shape;
        let lead = std::iter::repeat_n(0, k.batch().len());
        let strides = lead.chain([-1, 1]).collect();
        Operand::new(self.dtype, Layout { shape, offset: k.queries() - 1, strides })
    }

    /// Products of queries and keys, scaled, with all that is added to them.
    fn scores(&self) -> Piece {
        let (k, mut b) = (self.kernel, ExprBuilder::default());
        let product = b.arg(k.q.dtype);
        let mut sum = self.wide(&mut b, product, k.q.dtype);
        let scale = b.param(self.dtype);
        sum = b.row(row("mul"), self.dtype, &[sum, scale]);
        let (mut inputs, mut bound) = (Vec::new(), self.piece.inputs[..2].to_vec());
        if let Some(bias) = &k.bias {
            let x = b.arg(bias.dtype);
            let x = self.wide(&mut b, x, bias.dtype);
            sum = b.row(row("add"), self.dtype, &[sum, x]);
            inputs.push(bias.clone());
            bound.push(self.piece.inputs[3]);
        }
        if k.seen.is_some() {
            let x = b.arg(self.dtype);
            sum = b.row(row("add"), self.dtype, &[sum, x]);
            inputs.push(self.hiding());
            bound.push(HIDDEN);
        }
        let turned = Operand::new(k.k.dtype, turned(&k.k.layout));
        let (post, params) = (b.finish(sum), vec![k.scale]);
        let kernel = self.product([&k.q, &turned], post, params, inputs, self.all_scores());
        Piece { kernel, inputs: bound, outputs: vec![SCORES] }
    }

    fn wide(&self, b: &mut ExprBuilder, x: u16, dtype: DType) -> u16 {
        if dtype == self.dtype { x } else { b.cast(x, self.dtype) }
    }

    /// The largest score of each query: where it is -inf, there is nothing to weigh.
    fn most(&self) -> Piece {
        let k = self.kernel;
        let kernel = Kernel::Reduce(ReduceRows {
            fold: Fold::Max,
            outer: k.batch().iter().copied().chain([k.queries()]).collect(),
            inner: Shape::from(k.keys()),
            pre: Expr::identity(self.dtype),
            post: Expr::identity(self.dtype),
            params: vec![],
            inputs: vec![self.all_scores()],
            outs: vec![self.over(&[k.queries()])],
        });
        Piece { kernel, inputs: vec![SCORES], outputs: vec![MOST] }
    }

    fn weights(&self) -> Piece {
        let (k, mut b) = (self.kernel, ExprBuilder::default());
        let [weight, most] = [0; 2].map(|_| b.arg(self.dtype));
        let [lowest, zero] = [0; 2].map(|_| b.param(self.dtype));
        let is_unseen = b.row(row("equal"), self.dtype, &[most, lowest]);
        let result = b.row(row("where"), self.dtype, &[is_unseen, zero, weight]);
        let mut each = self.over(&[k.queries()]);
        each.layout.shape = self.all_scores().layout.shape;
        each.layout.strides.push(0);
        let kernel = Kernel::RowWise(RowWiseKernel {
            kind: RowWise::Softmax,
            outer: k.batch().iter().copied().chain([k.queries()]).collect(),
            length: k.keys(),
            pre: Expr::identity(self.dtype),
            post: b.finish(result),
            params: vec![f64::NEG_INFINITY, 0.0],
            inputs: vec![self.all_scores(), each],
            out: self.all_scores(),
        });
        Piece { kernel, inputs: vec![SCORES, MOST], outputs: vec![WEIGHTS] }
    }

    /// Values in the type of the weights, where they have another.
    fn values(&self) -> Vec<Piece> {
        let v = &self.kernel.v;
        if v.dtype == self.dtype {
            return Vec::new();
        }
        let mut b = ExprBuilder::default();
        let x = b.arg(v.dtype);
        let x = b.cast(x, self.dtype);
        let out = self.over(&v.layout.shape[self.kernel.batch().len()..]);
        let kernel = Kernel::Map(Map { expr: b.finish(x), params: vec![], inputs: vec![v.clone()], out });
        vec![Piece { kernel, inputs: vec![self.piece.inputs[2]], outputs: vec![VALUES] }]
    }

    fn sums(&self) -> Piece {
        let (k, mut b) = (self.kernel, ExprBuilder::default());
        let mut sum = b.arg(self.dtype);
        if k.out.dtype != self.dtype {
            sum = b.cast(sum, k.out.dtype);
        }
        let (values, bound) = if k.v.dtype == self.dtype {
            (k.v.clone(), self.piece.inputs[2])
        } else {
            (self.over(&[k.keys(), k.value_width()]), VALUES)
        };
        let kernel = self.product([&self.all_scores(), &values], b.finish(sum), vec![], vec![], k.out.clone());
        Piece { kernel, inputs: vec![WEIGHTS, bound], outputs: self.piece.outputs.clone() }
    }

    fn product(
        &self,
        [a, b]: [&Operand; 2],
        post: Expr,
        params: Vec<f64>,
        inputs: Vec<Operand>,
        out: Operand,
    ) -> Kernel {
        let (&[.., m, k], &[.., n]) = (&*a.layout.shape, &*b.layout.shape) else { unreachable!("they are matrices") };
        let (batch, precision) = (Shape::from(self.kernel.batch()), Precision::Highest);
        Kernel::MatMul(MatMul { batch, m, n, k, a: a.clone(), b: b.clone(), precision, post, params, inputs, out })
    }
}

/// Rows and columns exchanged.
fn turned(layout: &Layout) -> Layout {
    let mut order: Vec<usize> = (0..layout.shape.rank()).collect();
    let rank = order.len();
    order.swap(rank - 2, rank - 1);
    layout.permute(&order)
}

fn row(name: &str) -> Row {
    Row::named(name).expect("it is in the table")
}
