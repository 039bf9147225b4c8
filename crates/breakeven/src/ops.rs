//! Composed operations, over those of `maps`, `views` and `reduce`.

use std::panic::Location;

use breakeven_ir::{CallError, Op, Precision, RowWise, Shape};

use crate::Tensor;
use crate::maps::broadcast;
use crate::tensor::State;
use crate::value::Limit;
use crate::views::axis;

impl Tensor {
    /// Matrix product over the last two axes; leading axes broadcast. A vector stands for a single row on the left and a
    /// single column on the right, and drops out of the result. How exactly it is computed is up to the engine
    /// ([`EngineBuilder::precision`](crate::EngineBuilder::precision)): exactly as the operands are, unless it was told otherwise.
    #[must_use]
    #[track_caller]
    pub fn matmul(&self, other: &Tensor) -> Tensor {
        self.matmul_with(other, self.0.engine.0.options.precision)
    }

    /// As [`Tensor::matmul`], which takes the precision of the engine, at this one.
    ///
    /// ```
    /// use breakeven::{Engine, Precision};
    ///
    /// # fn main() -> breakeven::Result<()> {
    /// let engine = Engine::detect()?;
    /// let x = engine.tensor(&[1.0, 2.0, 3.0, 4.0], [2, 2]);
    /// let square = x.matmul_with(&x, Precision::Medium);
    /// assert_eq!(square.to_vec::<f32>()?, [7.0, 10.0, 15.0, 22.0]);
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    #[track_caller]
    pub fn matmul_with(&self, other: &Tensor, precision: Precision) -> Tensor {
        self.product(&Op::MatMul(precision), other)
    }

    /// A product of matrices, whichever `op` says, for tensors of any rank.
    #[track_caller]
    pub(crate) fn product(&self, op: &Op, other: &Tensor) -> Tensor {
        let at = Location::caller();
        let (Ok(a), Ok(b)) = (&self.0.spec, &other.0.spec) else {
            return Tensor::apply(op.clone(), &[self, other], at);
        };
        match (a.shape.rank(), b.shape.rank()) {
            (1, 1) => self.unsqueeze(0).product(op, &other.unsqueeze(-1)).reshape(()),
            (1, _) => self.unsqueeze(0).product(op, other).squeeze(-2),
            (_, 1) => self.product(op, &other.unsqueeze(-1)).squeeze(-1),
            (0, _) | (_, 0) => Tensor::apply(op.clone(), &[self, other], at),
            _ => matmul(op, self, other, at),
        }
    }

    /// `self @ weight^T + bias`, with `weight` of `[out, in]` as files store it.
    #[must_use]
    #[track_caller]
    pub fn linear(&self, weight: &Tensor, bias: Option<&Tensor>) -> Tensor {
        let product = self.matmul(&weight.t());
        bias.map_or_else(|| product.clone(), |bias| &product + bias)
    }

    /// `e^x / sum(e^x)` along `axis`; NaN for a row of nothing but -inf.
    #[must_use]
    #[track_caller]
    pub fn softmax(&self, axis: isize) -> Tensor {
        self.row_wise(RowWise::Softmax, axis, Location::caller())
    }

    /// `ln(softmax(x))` along `axis`, without overflow.
    #[must_use]
    #[track_caller]
    pub fn log_softmax(&self, axis: isize) -> Tensor {
        self.row_wise(RowWise::LogSoftmax, axis, Location::caller())
    }

    /// `(x - mean) / sqrt(variance + epsilon) * scale + bias` along the last axis.
    #[must_use]
    #[track_caller]
    pub fn layer_norm(&self, scale: Option<&Tensor>, bias: Option<&Tensor>, epsilon: f64) -> Tensor {
        let normal = self.row_wise(RowWise::LayerNorm { epsilon }, -1, Location::caller());
        let scaled = scale.map_or_else(|| normal.clone(), |s| &normal * s);
        bias.map_or_else(|| scaled.clone(), |b| &scaled + b)
    }

    /// `x / sqrt(mean square + epsilon) * scale` along the last axis.
    #[must_use]
    #[track_caller]
    pub fn rms_norm(&self, scale: Option<&Tensor>, epsilon: f64) -> Tensor {
        let normal = self.row_wise(RowWise::RmsNorm { epsilon }, -1, Location::caller());
        scale.map_or_else(|| normal.clone(), |s| &normal * s)
    }

    /// Slices of this tensor along `axis`, picked by an i64 or i32 tensor whose shape takes the place of that axis. A
    /// negative index counts from the end; an index that leaves the axis gives NaN (0 for integers), or an error where
    /// the indices are known on the host.
    #[must_use]
    #[track_caller]
    pub fn gather(&self, along: isize, index: &Tensor) -> Tensor {
        let at = Location::caller();
        let Ok(spec) = &self.0.spec else { return self.clone() };
        match axis("gather", along, spec.shape.rank()).and_then(|a| Ok((a, index.within("gather", spec.shape[a])?))) {
            Ok((axis, ())) => Tensor::apply(Op::Gather(axis), &[self, index], at),
            Err(error) => Tensor::wrong(&self.0.engine, error.of(&[spec]).at(at)),
        }
    }

    /// Rows of this table of `[count, width]`, one for each index.
    #[must_use]
    #[track_caller]
    pub fn embedding(&self, index: &Tensor) -> Tensor {
        self.gather(0, index)
    }

    fn row_wise(&self, kind: RowWise, along: isize, at: &'static Location<'static>) -> Tensor {
        let Ok(spec) = &self.0.spec else { return self.clone() };
        match axis(kind.name(), along, spec.shape.rank()) {
            Ok(axis) => Tensor::apply(Op::RowWise(kind, axis), &[self], at),
            Err(error) => Tensor::wrong(&self.0.engine, error.of(&[spec]).at(at)),
        }
    }
}

/// Rank 2 or more on both sides; leading axes are broadcast where they can be, and left for the rules to name else.
fn matmul(op: &Op, a: &Tensor, b: &Tensor, at: &'static Location<'static>) -> Tensor {
    let lead = |t: &Tensor| t.shape()[..t.shape().rank() - 2].iter().copied().collect::<Shape>();
    let Some(batch) = lead(a).broadcast(&lead(b)) else {
        return Tensor::apply(op.clone(), &[a, b], at);
    };
    let spread = |t: &Tensor| {
        let dims: Shape = batch.iter().chain(&t.shape()[t.shape().rank() - 2..]).copied().collect();
        t.broadcast_at(&dims, at)
    };
    Tensor::apply(op.clone(), &[&spread(a), &spread(b)], at)
}

/// Tensors one after the other along `axis`.
///
/// # Panics
/// When there is no tensor at all.
#[must_use]
#[track_caller]
pub fn concat(tensors: &[&Tensor], along: isize) -> Tensor {
    let at = Location::caller();
    let first = tensors.first().expect("concat takes at least one tensor");
    let Ok(spec) = &first.0.spec else { return (*first).clone() };
    match axis("concat", along, spec.shape.rank()) {
        Ok(axis) => Tensor::apply(Op::Concat(axis), tensors, at),
        Err(error) => Tensor::wrong(&first.0.engine, error.of(&[spec]).at(at)),
    }
}

/// Tensors of one shape along a new axis.
///
/// # Panics
/// When there is no tensor at all.
#[must_use]
#[track_caller]
pub fn stack(tensors: &[&Tensor], along: isize) -> Tensor {
    let spread: Vec<Tensor> = tensors.iter().map(|t| t.unsqueeze(along)).collect();
    concat(&spread.iter().collect::<Vec<_>>(), along)
}

impl Tensor {
    /// Broadcast against each other, for operations that take tensors of one shape.
    #[track_caller]
    pub fn broadcast_together(tensors: &[&Tensor]) -> Vec<Tensor> {
        broadcast(tensors.iter().map(|&t| t.clone()).collect(), Location::caller())
    }

    /// An error when host-known indices leave an axis of `extent`.
    pub(crate) fn within(&self, operation: &'static str, extent: usize) -> Result<(), CallError> {
        if let State::Value(value) = &*self.0.state() {
            value.note(Limit { operation, extent });
        }
        let bad = self.host_indices().and_then(|all| {
            let outside = |&&i: &&i64| i < -(extent as i64) || i >= extent as i64;
            all.iter().find(outside).copied()
        });
        let message = |i| CallError::new(operation, format!("index {i} leaves an axis of extent {extent}"));
        bad.map_or(Ok(()), |i| Err(message(i)))
    }
}
