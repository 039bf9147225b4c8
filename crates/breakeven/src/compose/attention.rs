//! Scaled dot product attention.

use std::panic::Location;

use breakeven_ir::{CallError, DType, Op, Precision, Shape};

use super::{composed, right};
use crate::Tensor;

/// What attention takes beside queries, keys and values. By default every query sees every key.
#[derive(Clone, Copy, Debug, Default)]
pub struct Attention<'a> {
    /// Of truth values, where a key is seen; or numbers of the queries' type that are added to the scores. Broadcast to
    /// `[.., queries, keys]`.
    pub mask: Option<&'a Tensor>,
    /// A query sees no key that comes after it: query `i` those up to `past + i`, counted from the first key. Both masks hold.
    pub causal: bool,
    /// With `causal`, how many keys come before the first query, as those that are cached do.
    pub past: usize,
    /// What products of queries and keys are multiplied with; `1 / sqrt(width)` where nothing is said.
    pub scale: Option<f64>,
}

impl Tensor {
    /// Scaled dot product attention of queries `[.., queries, width]` over `key` of `[.., keys, width]` and `value` of
    /// `[.., keys, value width]`: `softmax(q k^T / sqrt(width)) v`, `[.., queries, value width]`. Where `mask` (truth values,
    /// broadcast to `[.., queries, keys]`) does not hold, a key is not seen; a mask of numbers is added to the scores.
    ///
    /// All are floats of one type, and leading axes broadcast. A query that sees no key, or whose scores are all -inf, gives 0,
    /// as in `PyTorch` since 2.5 and in ONNX. A key that is not seen should have finite values all the same: whether they are multiplied
    /// with its weight of 0 is up to the device. Scores are never stored where the device has a kernel for that; at a lower
    /// precision than [`Precision::Highest`] the products are made as [`Tensor::matmul`] makes them. After Vaswani et al.,
    /// "Attention Is All You Need" (2017); without scores in memory after Dao et al., `FlashAttention` (2022).
    ///
    /// ```
    /// use breakeven::Engine;
    ///
    /// # fn main() -> breakeven::Result<()> {
    /// let engine = Engine::detect()?;
    /// let x = engine.tensor(&[0.0, 0.0, 0.0, 0.0], [2, 2]);
    /// let v = engine.tensor(&[1.0, 3.0], [2, 1]);
    /// assert_eq!(x.attention(&x, &v, None).to_vec::<f32>()?, [2.0, 2.0]);
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    #[track_caller]
    pub fn attention(&self, key: &Tensor, value: &Tensor, mask: Option<&Tensor>) -> Tensor {
        self.attention_with(key, value, Attention { mask, ..Attention::default() })
    }

    /// As [`Tensor::attention`], causal or with another scale.
    #[must_use]
    #[track_caller]
    pub fn attention_with(&self, key: &Tensor, value: &Tensor, how: Attention<'_>) -> Tensor {
        let at = Location::caller();
        let inputs: Vec<&Tensor> = [self, key, value].into_iter().chain(how.mask).collect();
        composed(&inputs, at, || {
            let width = self.shape().last().copied().unwrap_or(1);
            let scale = how.scale.unwrap_or(1.0 / (width as f64).sqrt());
            let bias = how.mask.map(|mask| self.added(mask));
            if self.0.engine.0.options.precision.of(self.dtype()) != Precision::Highest {
                return self.in_products(key, value, Attention { mask: bias.as_ref(), scale: Some(scale), ..how });
            }
            let seen = how.causal.then(|| how.past.saturating_add(1));
            let op = Op::Attention(breakeven_ir::Attention { scale, seen });
            let inputs = spread([self, key, value], bias.as_ref(), at);
            Ok(Tensor::apply(op, &inputs.iter().collect::<Vec<_>>(), at))
        })
    }

    /// What a mask adds to scores.
    fn added(&self, mask: &Tensor) -> Tensor {
        if mask.dtype() != DType::Bool {
            return mask.clone();
        }
        mask.where_(&self.scalar(0.0), &self.scalar(f64::NEG_INFINITY))
    }

    /// The same in operations of their own.
    fn in_products(&self, key: &Tensor, value: &Tensor, how: Attention<'_>) -> Result<Tensor, CallError> {
        let mut scores = right(&self.matmul(&key.t()))? * how.scale.unwrap_or(1.0);
        if let Some(bias) = how.mask {
            scores = scores + bias;
        }
        if how.causal {
            let (&[.., queries, _], &[.., keys, _]) = (&self.shape()[..], &key.shape()[..]) else { return Ok(scores) };
            let places = |from: usize, count: usize| self.0.engine.arange(DType::I32, from as f64, 1.0, count);
            let seen = places(0, keys).less_equal(&places(how.past.min(keys), queries).unsqueeze(-1));
            scores = scores + self.added(&seen);
        }
        let lowest = scores.scalar(f64::NEG_INFINITY);
        let unseen = right(&scores)?.equal(&lowest).all(-1).unsqueeze(-1);
        let weights = scores.softmax(-1);
        right(&unseen.where_(&weights.scalar(0.0), &weights).matmul(value)).cloned()
    }
}

/// Queries, keys, values and the bias with equal leading axes, where they broadcast; else as they are, for the rules to say.
fn spread(all: [&Tensor; 3], bias: Option<&Tensor>, at: &'static Location<'static>) -> Vec<Tensor> {
    let lead = |t: &Tensor| -> Shape { t.shape()[..t.shape().rank().saturating_sub(2)].iter().copied().collect() };
    let tensors = || all.iter().copied().chain(bias);
    let batch = tensors().try_fold(Shape::scalar(), |batch, t| batch.broadcast(&lead(t)));
    let last = |t: &Tensor| t.shape().iter().rev().nth(1).copied();
    let (Some(batch), Some(queries), Some(keys)) = (batch, last(all[0]), last(all[1])) else {
        return tensors().cloned().collect();
    };
    let over = |t: &Tensor, tail: &[usize]| {
        let dims: Shape = batch.iter().chain(tail).copied().collect();
        t.broadcast_at(&dims, at)
    };
    let whole = |t: &Tensor| over(t, &t.shape()[t.shape().rank().saturating_sub(2)..]);
    all.iter().map(|t| whole(t)).chain(bias.map(|bias| over(bias, &[queries, keys]))).collect()
}
