//! The graph of a sentence embedding model, written as a user of tensors would.

use breakeven_ir::{DType, Fold, NodeId, Op, Reduce, RowWise, Spec};

use super::Write;

/// Sizes of the model and of one call.
#[derive(Clone, Copy)]
pub struct Size {
    pub layers: usize,
    pub batch: usize,
    pub length: usize,
    pub width: usize,
    pub heads: usize,
    pub vocabulary: usize,
}

impl Size {
    pub const MINILM: Size = Size { layers: 6, batch: 8, length: 32, width: 384, heads: 12, vocabulary: 30522 };
    pub const TINY: Size = Size { layers: 2, batch: 2, length: 3, width: 8, heads: 2, vocabulary: 11 };
}

/// Inputs of the call; every other input is a weight.
pub struct MiniLm {
    pub write: Write,
    pub tokens: NodeId,
    pub mask: NodeId,
}

pub fn minilm(size: Size) -> MiniLm {
    let mut w = Write(breakeven_ir::Graph::new());
    let Size { batch, length, width, .. } = size;
    let tokens = w.0.input(Spec::new(DType::I64, [batch, length]));
    let mask = w.input(&[batch, length]);
    let x = embed(&mut w, size, tokens);
    let shut = additive(&mut w, size, mask);
    let x = (0..size.layers).fold(x, |x, _| layer(&mut w, size, x, shut));
    let weights = w.reshape(mask, &[batch, length, 1]);
    let weights = w.broadcast(weights, &[batch, length, width]);
    let kept = w.map("mul", &[x, weights]);
    let sum = |w: &mut Write, x| w.op(Op::Reduce(Reduce { fold: Fold::Sum, axes: [1].as_slice().into() }), &[x]);
    let (total, count) = (sum(&mut w, kept), sum(&mut w, weights));
    let mean = w.map("div", &[total, count]);
    let square = w.map("square", &[mean]);
    let norm = w.op(Op::Reduce(Reduce { fold: Fold::Sum, axes: [1].as_slice().into() }), &[square]);
    let norm = w.map("sqrt", &[norm]);
    let norm = w.reshape(norm, &[batch, 1]);
    let norm = w.broadcast(norm, &[batch, width]);
    let out = w.map("div", &[mean, norm]);
    w.0.want(out);
    MiniLm { write: w, tokens, mask }
}

/// `(1 - mask) * -1e9`, over batch, 1, 1, length.
fn additive(w: &mut Write, size: Size, mask: NodeId) -> NodeId {
    let shape = [size.batch, size.length];
    let (one, low) = (w.fill(1.0, &shape), w.fill(-1e9, &shape));
    let open = w.map("sub", &[one, mask]);
    let shut = w.map("mul", &[open, low]);
    w.reshape(shut, &[size.batch, 1, 1, size.length])
}

fn embed(w: &mut Write, size: Size, tokens: NodeId) -> NodeId {
    let Size { batch, length, width, vocabulary, .. } = size;
    let words = w.input(&[vocabulary, width]);
    let words = w.op(Op::Gather(0), &[words, tokens]);
    let places = w.input(&[512, width]);
    let places = w.slice(places, 0, 0, length, 1);
    let places = w.broadcast(places, &[batch, length, width]);
    let kind = w.input(&[2, width]);
    let kind = w.slice(kind, 0, 0, 1, 1);
    let kind = w.broadcast(kind, &[batch, length, width]);
    let x = w.map("add", &[words, places]);
    let x = w.map("add", &[x, kind]);
    norm(w, size, x)
}

/// `layer_norm(x) * scale + bias`
fn norm(w: &mut Write, size: Size, x: NodeId) -> NodeId {
    let shape = [size.batch, size.length, size.width];
    let x = w.op(Op::RowWise(RowWise::LayerNorm { epsilon: 1e-12 }, 2), &[x]);
    let (scale, bias) = (w.input(&[size.width]), w.input(&[size.width]));
    let (scale, bias) = (w.broadcast(scale, &shape), w.broadcast(bias, &shape));
    let x = w.map("mul", &[x, scale]);
    w.map("add", &[x, bias])
}

/// `x @ weight^T + bias`, the weight stored as `[to, from]`.
fn linear(w: &mut Write, size: Size, x: NodeId, from: usize, to: usize) -> NodeId {
    let weight = w.input(&[to, from]);
    let weight = w.permute(weight, &[1, 0]);
    let weight = w.broadcast(weight, &[size.batch, from, to]);
    let bias = w.input(&[to]);
    let bias = w.broadcast(bias, &[size.batch, size.length, to]);
    let x = w.op(Op::matmul(), &[x, weight]);
    w.map("add", &[x, bias])
}

fn heads(w: &mut Write, size: Size, x: NodeId) -> NodeId {
    let Size { batch, length, width, heads, .. } = size;
    let x = linear(w, size, x, width, width);
    let x = w.reshape(x, &[batch, length, heads, width / heads]);
    w.permute(x, &[0, 2, 1, 3])
}

fn layer(w: &mut Write, size: Size, x: NodeId, shut: NodeId) -> NodeId {
    let Size { batch, length, width, heads: h, .. } = size;
    let (q, k, v) = (heads(w, size, x), heads(w, size, x), heads(w, size, x));
    let k = w.permute(k, &[0, 1, 3, 2]);
    let scores = w.op(Op::matmul(), &[q, k]);
    let scale = w.fill(1.0 / ((width / h) as f64).sqrt(), &[batch, h, length, length]);
    let scores = w.map("mul", &[scores, scale]);
    let shut = w.broadcast(shut, &[batch, h, length, length]);
    let scores = w.map("add", &[scores, shut]);
    let shares = w.op(Op::RowWise(RowWise::Softmax, 3), &[scores]);
    let mixed = w.op(Op::matmul(), &[shares, v]);
    let mixed = w.permute(mixed, &[0, 2, 1, 3]);
    let mixed = w.reshape(mixed, &[batch, length, width]);
    let mixed = linear(w, size, mixed, width, width);
    let mixed = w.map("add", &[mixed, x]);
    let x = norm(w, size, mixed);
    let inner = linear(w, size, x, width, 4 * width);
    let inner = w.map("gelu", &[inner]);
    let outer = linear(w, size, inner, 4 * width, width);
    let outer = w.map("add", &[outer, x]);
    norm(w, size, outer)
}
