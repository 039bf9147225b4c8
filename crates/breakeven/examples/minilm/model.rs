//! `MiniLM`: a BERT encoder whose outputs are averaged into one vector for each text. Start reading here.

use breakeven::{DType, Engine, Tensor};

use crate::batch::Batch;

/// Width of one attention head. The number of heads is the one size that the weights' shapes do not tell.
pub const HEAD_WIDTH: usize = 32;
/// What layer norms add to the variance.
pub const EPSILON: f64 = 1e-12;

/// The encoder. All its sizes come from the shapes of its weights.
pub struct Model {
    pub engine: Engine,
    /// `[vocabulary, width]`
    pub words: Tensor,
    /// `[positions, width]`
    pub positions: Tensor,
    /// `[types, width]`; a single text has type 0 throughout.
    pub types: Tensor,
    pub norm: Norm,
    pub layers: Vec<Layer>,
}

/// Attention, then two linear maps with a gelu between; each is added to what came in, and normalized.
pub struct Layer {
    pub query: Linear,
    pub key: Linear,
    pub value: Linear,
    pub attended: Linear,
    pub attended_norm: Norm,
    pub inner: Linear,
    pub outer: Linear,
    pub outer_norm: Norm,
}

impl Model {
    /// A vector of length 1 for each text of the batch: `[texts, width]`. Nothing is computed before it is read.
    pub fn embed(&self, batch: &Batch) -> Tensor {
        let (texts, length) = (batch.texts, batch.length);
        let ids = self.engine.from_vec(batch.ids.clone(), [texts, length]);
        let mask = self.engine.from_vec(batch.mask.clone(), [texts, length]);
        let mut x = self.embed_tokens(&ids, length);
        // Every head and every query of every layer sees the same keys: the same is added to all scores.
        let seen = mask.reshape([texts, 1, 1, length]);
        let hidden = seen.where_(&x.scalar(0.0), &x.scalar(f64::NEG_INFINITY));
        for layer in &self.layers {
            x = layer.apply(&x, &hidden);
        }
        normalize(&masked_mean(&x, &mask))
    }

    /// Tokens it knows.
    pub fn vocabulary(&self) -> usize {
        self.words.shape()[0]
    }

    /// Elements of one vector.
    pub fn width(&self) -> usize {
        self.words.shape()[1]
    }

    /// Tokens that one text may have.
    pub fn longest(&self) -> usize {
        self.positions.shape()[0]
    }

    fn embed_tokens(&self, ids: &Tensor, length: usize) -> Tensor {
        let positions = self.positions.slice(0, ..length);
        self.norm.apply(&(self.words.embedding(ids) + positions + self.types.slice(0, ..1)))
    }
}

impl Layer {
    fn apply(&self, x: &Tensor, hidden: &Tensor) -> Tensor {
        let [q, k, v] = [&self.query, &self.key, &self.value].map(|linear| split_heads(&linear.apply(x)));
        let attended = self.attended.apply(&merge_heads(&q.attention(&k, &v, Some(hidden))));
        let x = self.attended_norm.apply(&(x + attended));
        let fed_forward = self.outer.apply(&self.inner.apply(&x).gelu());
        self.outer_norm.apply(&(x + fed_forward))
    }
}

/// `[texts, length, width]` to `[texts, heads, length, head width]`
fn split_heads(x: &Tensor) -> Tensor {
    let [texts, length, width] = x.shape()[..] else { return x.clone() };
    x.reshape([texts, length, width / HEAD_WIDTH, HEAD_WIDTH]).transpose(1, 2)
}

fn merge_heads(x: &Tensor) -> Tensor {
    let [texts, heads, length, head_width] = x.shape()[..] else { return x.clone() };
    x.transpose(1, 2).reshape([texts, length, heads * head_width])
}

/// The mean over the tokens that are really there.
fn masked_mean(x: &Tensor, mask: &Tensor) -> Tensor {
    let weights = mask.cast(DType::F32).unsqueeze(-1);
    (x * &weights).sum(1) / weights.sum(1)
}

fn normalize(x: &Tensor) -> Tensor {
    x / x.norm(-1).unsqueeze(-1)
}

/// `x weight^T + bias`
pub struct Linear {
    /// `[out, in]`
    pub weight: Tensor,
    /// `[out]`
    pub bias: Tensor,
}

impl Linear {
    fn apply(&self, x: &Tensor) -> Tensor {
        x.linear(&self.weight, Some(&self.bias))
    }
}

/// Each row brought to mean 0 and variance 1, then scaled and moved.
pub struct Norm {
    pub scale: Tensor,
    pub bias: Tensor,
}

impl Norm {
    fn apply(&self, x: &Tensor) -> Tensor {
        x.layer_norm(Some(&self.scale), Some(&self.bias), EPSILON)
    }
}
