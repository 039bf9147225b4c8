//! Attention in its several forms.

use breakeven::{Attention, DType, Pad, Spec, Tensor, concat, stack};

use super::{Operator, WRITTEN_DOWN, extents, many, one, plus};
use crate::call::{Call, Result};
use crate::error::{unsupported, wrong};
use crate::value::Item;

const ATTENTION: &[&str] = &[
    "is_causal",
    "kv_num_heads",
    "left_window_size",
    "q_num_heads",
    "qk_matmul_output_mode",
    "right_window_size",
    "scale",
    "softcap",
    "softmax_precision",
];

/// The family.
pub(super) const OPERATORS: &[Operator] = &[
    many("Attention", ATTENTION, attention),
    many("LinearAttention", &["chunk_size", "kv_num_heads", "q_num_heads", "scale", "update_rule"], linear_attention),
    one("RotaryEmbedding", &["interleaved", "num_heads", "rotary_embedding_dim"], rotary),
];

/// Operators of the domain `ai.onnx.preview`.
pub(super) const PREVIEW: &[Operator] =
    &[one("FlexAttention", &["prob_mod", "scale", "score_mod", "softmax_precision"], flex_attention)];

/// `[batch, steps, heads * width]` as `[batch, heads, steps, width]`.
fn by_heads(x: &Tensor, heads: usize) -> Result<Tensor> {
    match x.check()?.shape[..] {
        [batch, steps, all] if heads > 0 && all % heads == 0 => {
            Ok(x.reshape([batch, steps, heads, all / heads]).permute(&[0, 2, 1, 3]))
        }
        _ => wrong(format!("{heads} heads do not divide {}", x.shape())),
    }
}

/// The inverse of `by_heads`.
fn joined(x: &Tensor) -> Result<Tensor> {
    let &[batch, heads, steps, width] = &x.check()?.shape[..] else { return wrong("takes tensors of rank 4") };
    Ok(x.permute(&[0, 2, 1, 3]).reshape([batch, steps, heads * width]))
}

fn heads(call: &Call<'_>, name: &str) -> Result<usize> {
    Ok(extents(&[call.int(name, 0)?])?[0])
}

/// Each head so many times, one after the other.
fn repeated(x: &Tensor, times: usize) -> Result<Tensor> {
    let &[batch, heads, steps, width] = &x.check()?.shape[..] else { return wrong("takes tensors of rank 4") };
    if times == 1 {
        return Ok(x.clone());
    }
    let spread = x.unsqueeze(2).broadcast_to([batch, heads, times, steps, width]);
    Ok(spread.reshape([batch, heads * times, steps, width]))
}

/// How often keys are repeated so that each query head has one.
fn sharing(q: &Tensor, k: &Tensor) -> Result<usize> {
    match (q.check()?.shape.get(1), k.check()?.shape.get(1)) {
        (Some(&q), Some(&k)) if k > 0 && q % k == 0 => Ok(q / k),
        _ => wrong(format!("heads of {} are no multiple of those of {}", q.shape(), k.shape())),
    }
}

fn attention(call: &Call<'_>) -> Result<Vec<Item>> {
    let (mut q, mut k, mut v) = (call.tensor(0)?, call.tensor(1)?, call.tensor(2)?);
    let is_flat = q.check()?.shape.rank() == 3;
    if is_flat {
        let (queries, keys) = (heads(call, "q_num_heads")?, heads(call, "kv_num_heads")?);
        (q, k, v) = (by_heads(&q, queries)?, by_heads(&k, keys)?, by_heads(&v, keys)?);
    }
    if let (Some(past_key), Some(past_value)) = (call.optional(4)?, call.optional(5)?) {
        (k, v) = (concat(&[&past_key, &k], 2), concat(&[&past_value, &v], 2));
    }
    let (present_key, present_value) = (k.clone(), v.clone());
    let times = sharing(&q, &k)?;
    (k, v) = (repeated(&k, times)?, repeated(&v, times)?);
    let width = q.check()?.shape.last().copied().unwrap_or(1);
    let scale = match call.attribute("scale") {
        Some(_) => call.float("scale", 1.0)?,
        None => 1.0 / (width as f64).sqrt(),
    };
    let mut scores = (&q * scale.sqrt()).matmul(&(k.t() * scale.sqrt()));
    let softcap = call.float("softcap", 0.0)?;
    if softcap > 0.0 {
        scores = (scores / softcap).tanh() * softcap;
    }
    let bias = bias(call, &q, &present_key, Hides::Later)?;
    let biased = bias.as_ref().map_or_else(|| scores.clone(), |bias| &scores + bias);
    let precision = call.dtype("softmax_precision")?.unwrap_or(q.dtype());
    let mut weights = biased.cast(precision).softmax(-1);
    if let Some(bias) = &bias {
        let lowest = bias.max(-1).unsqueeze(-1);
        let unseen = lowest.equal(&lowest.scalar(f64::NEG_INFINITY));
        weights = unseen.where_(&weights.scalar(0.0), &weights);
    }
    let weights = weights.cast(q.dtype());
    let shown = match call.int("qk_matmul_output_mode", 0)? {
        0 | 1 => scores,
        2 => biased,
        3 => weights.clone(),
        other => return wrong(format!("has no output mode {other}")),
    };
    let is_plain = softcap <= 0.0 && (precision == q.dtype() || precision == DType::F32 && q.dtype().is_half());
    let y = if is_plain { fused(call, [&q, &k, &v], &present_key, scale)? } else { weights.matmul(&v) };
    let y = if is_flat { joined(&y)? } else { y };
    Ok(vec![y.into(), present_key.into(), present_value.into(), shown.into()])
}

/// The result without the scores, which are computed for themselves only where somebody wants them.
fn fused(call: &Call<'_>, [q, k, v]: [&Tensor; 3], present_key: &Tensor, scale: f64) -> Result<Tensor> {
    // Where a query stands follows from its number alone, unless the caller says how many keys there are.
    let causal = call.flag("is_causal", false)? && !call.has(6);
    let hides = if causal { Hides::AllButLater } else { Hides::Later };
    let mask = bias(call, q, present_key, hides)?.map(|mask| mask.cast(q.dtype()));
    let new = call.spec(1)?.shape.iter().rev().nth(1).copied().unwrap_or(0);
    let cached = present_key.check()?.shape.iter().rev().nth(1).map_or(0, |keys| keys.saturating_sub(new));
    let past = if call.has(4) { cached } else { 0 };
    Ok(q.attention_with(k, v, Attention { mask: mask.as_ref(), causal, past, scale: Some(scale) }))
}

/// Whether a bias also hides keys that come after a query, where attention is causal.
#[derive(PartialEq, Clone, Copy)]
enum Hides {
    Later,
    AllButLater,
}

/// What is added to the scores: 0 where a key is seen, -inf where it is not, or what the caller gives.
fn bias(call: &Call<'_>, q: &Tensor, k: &Tensor, hides: Hides) -> Result<Option<Tensor>> {
    let (&[_, _, queries, _], &[_, _, keys, _]) = (&q.check()?.shape[..], &k.check()?.shape[..]) else {
        return wrong(format!("takes queries and keys of rank 4, not {} and {}", q.shape(), k.shape()));
    };
    let hidden = q.scalar(f64::NEG_INFINITY);
    let hide = |seen: &Tensor| seen.where_(&q.scalar(0.0), &hidden);
    let mut parts = Vec::new();
    if let Some(mask) = call.optional(3)? {
        let (is_truth, whole) = masked(&mask, keys)?;
        parts.push(if is_truth { hide(&whole) } else { whole });
    }
    let lengths = call.optional(6)?.map(|n| n.cast(DType::I32));
    let engine = call.engine();
    let column = engine.arange(DType::I32, 0.0, 1.0, keys);
    let row = engine.arange(DType::I32, 0.0, 1.0, queries).unsqueeze(-1);
    // The key that a query stands at: after what is cached.
    let place = match (call.has(4), &lengths) {
        (false, Some(lengths)) => {
            let batch = lengths.check()?.shape.elements();
            row + plus(&lengths.reshape([batch, 1, 1, 1]), -(queries as f64))
        }
        (true, _) => {
            let new = call.spec(1)?.shape.iter().rev().nth(1).copied().unwrap_or(0);
            plus(&row, keys.saturating_sub(new) as f64)
        }
        (false, None) => row,
    };
    if hides == Hides::Later && call.flag("is_causal", false)? {
        parts.push(hide(&column.less_equal(&place)));
    }
    let (left, right) = (call.int("left_window_size", -1)?, call.int("right_window_size", -1)?);
    if left >= 0 {
        parts.push(hide(&column.greater_equal(&plus(&place, -(left as f64)))));
    }
    if right >= 0 {
        parts.push(hide(&column.less_equal(&plus(&place, right as f64))));
    }
    if let Some(lengths) = lengths {
        let batch = lengths.check()?.shape.elements();
        parts.push(hide(&column.less(&lengths.reshape([batch, 1, 1, 1]))));
    }
    Ok(parts.into_iter().reduce(|a, b| a + b))
}

/// A mask over all `keys`, of which it may name only the first, and whether it holds truth values.
fn masked(mask: &Tensor, keys: usize) -> Result<(bool, Tensor)> {
    let Spec { dtype, shape } = mask.check()?;
    let mut widths = vec![(0, 0); shape.rank()];
    if let (Some(last), Some(&given)) = (widths.last_mut(), shape.last()) {
        last.1 = keys.saturating_sub(given) as isize;
    }
    let unseen = if *dtype == DType::Bool { 0.0 } else { f64::NEG_INFINITY };
    Ok((*dtype == DType::Bool, mask.pad(&widths, Pad::Constant(unseen))))
}

fn flex_attention(call: &Call<'_>) -> Result<Tensor> {
    let (q, k, v) = (call.tensor(0)?, call.tensor(1)?, call.tensor(2)?);
    let times = sharing(&q, &k)?;
    let (k, v) = (repeated(&k, times)?, repeated(&v, times)?);
    let width = q.check()?.shape.last().copied().unwrap_or(1);
    let scale = match call.attribute("scale") {
        Some(_) => call.float("scale", 1.0)?,
        None => 1.0 / (width as f64).sqrt(),
    };
    let default = if q.dtype() == DType::F64 { DType::F64 } else { DType::F32 };
    let precision = call.dtype("softmax_precision")?.unwrap_or(default);
    let scores = (&q * scale.sqrt()).matmul(&(k * scale.sqrt()).t()).cast(precision);
    let scores = modified(call, "score_mod", scores)?;
    let weights = modified(call, "prob_mod", scores.softmax(-1))?;
    Ok(weights.matmul(&v.cast(precision)).cast(v.dtype()))
}

/// What a subgraph makes of it, if there is one.
fn modified(call: &Call<'_>, name: &str, x: Tensor) -> Result<Tensor> {
    if call.attribute(name).is_none() {
        return Ok(x);
    }
    let dtype = x.check()?.dtype;
    let graph = call.graph(name)?;
    match call.run_graph(&graph, vec![call.settled(x)])?.as_slice() {
        [one] => Ok(call.on_target(one)?.cast(dtype)),
        all => wrong(format!("its {name} must give one tensor, not {}", all.len())),
    }
}

/// How a linear attention updates its state.
struct Rule {
    decays: bool,
    corrects: bool,
}

/// A state of `[batch, heads, width, value width]` that each step decays, corrects and adds to.
fn linear_attention(call: &Call<'_>) -> Result<Vec<Item>> {
    let rule = match call.text("update_rule", "gated_delta")? {
        "linear" => Rule { decays: false, corrects: false },
        "gated" => Rule { decays: true, corrects: false },
        "delta" => Rule { decays: false, corrects: true },
        "gated_delta" => Rule { decays: true, corrects: true },
        other => return unsupported(format!("the update rule '{other}'")),
    };
    let (queries, keys) = (heads(call, "q_num_heads")?, heads(call, "kv_num_heads")?);
    let dtype = call.spec(0)?.dtype;
    let part = |index: usize, heads: usize| by_heads(&call.tensor(index)?.cast(DType::F32), heads);
    let (q, k, v) = (part(0, queries)?, part(1, keys)?, part(2, keys)?);
    let times = sharing(&q, &k)?;
    let (batch, steps) = (q.shape()[0], q.shape()[2]);
    call.room(steps, WRITTEN_DOWN)?;
    let (width, value_width) = (k.shape()[3], v.shape()[3]);
    let decay = if rule.decays { Some(part(4, keys)?.exp()) } else { None };
    let beta = if rule.corrects { Some(part(5, call.spec(5)?.shape.last().copied().unwrap_or(1))?) } else { None };
    let past = call.optional(3)?;
    let state_dtype = past.as_ref().map_or(dtype, Tensor::dtype);
    let mut state = match past {
        Some(state) => state.cast(DType::F32),
        None => call.engine().full(DType::F32, 0.0, [batch, keys, width, value_width]),
    };
    let scale = match call.float("scale", 0.0)? {
        0.0 => 1.0 / (width as f64).sqrt(),
        scale => scale,
    };
    let mut all = Vec::new();
    for step in 0..steps {
        // Rows of [batch, heads, 1, width].
        let at = |x: &Tensor| x.slice(2, step..=step);
        let (key, mut value) = (at(&k), at(&v));
        if let Some(decay) = &decay {
            state = state * at(decay).t();
        }
        if let Some(beta) = &beta {
            value = at(beta) * (value - key.matmul(&state));
        }
        state = state + key.t().matmul(&value);
        all.push(at(&q).matmul(&repeated(&state, times)?).squeeze(2) * scale);
    }
    if all.is_empty() {
        return unsupported("a sequence of no steps");
    }
    let y = joined(&stack(&all.iter().collect::<Vec<_>>(), 2))?.cast(dtype);
    Ok(vec![y.into(), state.cast(state_dtype).into()])
}

/// Pairs of elements turned by angles whose cosines and sines are given.
fn rotary(call: &Call<'_>) -> Result<Tensor> {
    let (x, mut cos, mut sin) = (call.tensor(0)?, call.tensor(1)?, call.tensor(2)?);
    if let Some(places) = call.optional(3)? {
        (cos, sin) = (cos.gather(0, &places), sin.gather(0, &places));
    }
    let is_flat = x.check()?.shape.rank() == 3;
    let rows = if is_flat { by_heads(&x, heads(call, "num_heads")?)? } else { x };
    let &[_, _, _, width] = &rows.check()?.shape[..] else { return wrong("takes a tensor of rank 3 or 4") };
    let turned = match heads(call, "rotary_embedding_dim")? {
        0 => width,
        n if n <= width => n,
        n => return wrong(format!("turns {n} of {width} elements")),
    };
    let (cos, sin) = (cos.unsqueeze(1), sin.unsqueeze(1));
    let (turning, rest) = (rows.slice(3, ..turned), rows.slice(3, turned..));
    let interleaved = call.flag("interleaved", false)?;
    let half = turned / 2;
    let (a, b) = if interleaved {
        (turning.slice_by(3, 0, half, 2), turning.slice_by(3, 1.min(turned), half, 2))
    } else {
        (turning.slice(3, ..half), turning.slice(3, half..))
    };
    let (real, imaginary) = (&cos * &a - &sin * &b, &sin * &a + &cos * &b);
    let both = if interleaved {
        let dims = turning.check()?.shape.clone();
        stack(&[&real, &imaginary], -1).reshape(dims)
    } else {
        concat(&[&real, &imaginary], 3)
    };
    let y = concat(&[&both, &rest], 3);
    if is_flat { joined(&y) } else { Ok(y) }
}
