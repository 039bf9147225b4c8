//! Attention.

use breakeven_ir::{AttentionKernel, DType, Kernel, Layout, Operand, Scalar, Shape};

use super::dtypes;
use crate::{Bench, Case, Tier, data, views};

/// Queries, keys, their width and that of values, around tiles, vectors and blocks: decoding, few keys, one more than fits.
const SIZES: &[[usize; 4]] = &[
    [1, 1, 1, 1],
    [1, 7, 5, 3],
    [5, 1, 4, 4],
    [7, 20, 3, 6],
    [16, 16, 16, 16],
    [17, 33, 8, 20],
    [32, 128, 32, 32],
    [64, 64, 64, 64],
    [65, 130, 32, 33],
    [129, 67, 40, 64],
    [130, 65, 20, 128],
    [3, 300, 16, 8],
    [1, 1100, 64, 64],
    [2, 5, 200, 30],
    [4, 9, 6, 129],
];

/// Every float type: sizes, masks, causal, views of all operands, heads inside rows, scores of any size.
pub fn attentions(bench: &mut Bench<'_>, tier: Tier) {
    for dtype in dtypes(bench).into_iter().filter(|d| d.is_float()) {
        // Those of 16 bits are loaded and stored otherwise, and computed as f32.
        for &sizes in if dtype.is_half() { &SIZES[3..7] } else { SIZES } {
            bench.add(case(&plain(dtype, &[2], sizes), ""));
            bench.add(case(&causal(plain(dtype, &[2], sizes), 1), ""));
        }
        heads(bench, dtype);
        looked_at(bench, dtype);
        if !dtype.is_half() {
            masks(bench, dtype);
        }
    }
    extremes(bench);
    if tier == Tier::Full {
        bench.add(case(&plain(DType::F32, &[3], [257, 515, 72, 100]), ""));
        bench.add(case(&causal(plain(DType::F32, &[1], [300, 2100, 16, 16]), 1700), ""));
    }
}

/// Dense operands of `[queries, keys, width, value width]`.
pub(super) fn plain(dtype: DType, batch: &[usize], [l, s, e, d]: [usize; 4]) -> AttentionKernel {
    let over = |last: [usize; 2]| Operand::new(dtype, Layout::dense([batch, &last].concat().as_slice()));
    let (q, k, v, out) = (over([l, e]), over([s, e]), over([s, d]), over([l, d]));
    AttentionKernel { scale: 1.0 / (e as f64).sqrt(), seen: None, q, k, v, bias: None, out }
}

fn causal(k: AttentionKernel, seen: usize) -> AttentionKernel {
    AttentionKernel { seen: Some(seen), ..k }
}

fn name(k: &AttentionKernel, view: &str) -> String {
    let seen = k.seen.map_or(String::new(), |seen| format!(" of which the first sees {seen}"));
    let bias = if k.bias.is_some() { " with a bias" } else { "" };
    format!("attention {} {} over {}{seen}{bias} {view}", k.q.dtype, k.q.layout.shape, k.v.layout.shape)
}

fn case(k: &AttentionKernel, view: &str) -> Case {
    Case::new(name(k, view), Kernel::Attention(k.clone()))
}

/// The shape of the scores.
fn scores(k: &AttentionKernel) -> Shape {
    k.batch().iter().copied().chain([k.queries(), k.keys()]).collect()
}

/// A bias for each score, one for each key or query alone, keys that are not seen, queries that see nothing, both ways of hiding
/// keys at once, and fewer keys than queries.
fn masks(bench: &mut Bench<'_>, dtype: DType) {
    let plain = plain(dtype, &[2, 3], [19, 70, 8, 12]);
    let shape = scores(&plain);
    for (view, layout) in [
        ("of all", Layout::dense(shape.clone())),
        ("of keys", views::repeated(&shape, &[1, 2])),
        ("of queries", views::repeated(&shape, &[0, 3])),
        ("of both", views::repeated(&shape, &[0, 1])),
        ("transposed", Layout::dense_in_order(&shape, &[0, 1, 3, 2])),
    ] {
        let k = AttentionKernel { bias: Some(Operand::new(dtype, layout)), ..plain.clone() };
        bench.add(case(&k, view));
        bench.add(hidden(&k, view));
        bench.add(hidden(&causal(k, 5), view));
    }
    for seen in [0, 1, 60, 1000] {
        bench.add(case(&causal(plain.clone(), seen), ""));
    }
    bench.add(case(&causal(self::plain(dtype, &[2], [90, 13, 5, 3]), 1), "more queries than keys"));
}

/// The bias hides some keys, and all keys from some queries.
fn hidden(k: &AttentionKernel, view: &str) -> Case {
    let inputs = Kernel::Attention(k.clone());
    let mut values: Vec<Vec<Scalar>> =
        (0u64..).zip(inputs.inputs()).map(|(i, o)| data::values(o.dtype, o.layout.shape.elements(), i)).collect();
    let keys = k.keys();
    for (i, bias) in values[3].iter_mut().enumerate() {
        let (row, key) = (i / keys % k.queries(), i % keys);
        let is_hidden = key % 3 == 1 || key > keys / 2 || row % 4 == 2;
        *bias = Scalar::F(if is_hidden { f64::NEG_INFINITY } else { 0.0 });
    }
    Case::with(name(k, &format!("{view}, hidden")), inputs, &values)
}

/// Each operand in every view.
fn looked_at(bench: &mut Bench<'_>, dtype: DType) {
    let dense = plain(dtype, &[2], [9, 21, 8, 12]);
    let view = |o: &Operand| views::all(o.layout.shape.clone());
    for (view, layout) in view(&dense.q) {
        bench.add(case(&AttentionKernel { q: Operand::new(dtype, layout), ..dense.clone() }, &format!("q {view}")));
    }
    for (view, layout) in view(&dense.k) {
        bench.add(case(&AttentionKernel { k: Operand::new(dtype, layout), ..dense.clone() }, &format!("k {view}")));
    }
    for (view, layout) in view(&dense.v) {
        bench.add(case(&AttentionKernel { v: Operand::new(dtype, layout), ..dense.clone() }, &format!("v {view}")));
    }
    for (view, layout) in views::distinct(dense.out.layout.shape.clone()) {
        bench.add(case(&AttentionKernel { out: Operand::new(dtype, layout), ..dense.clone() }, &format!("out {view}")));
    }
}

/// Heads that lie inside the rows of one matrix, as a model has them, one head of keys for several of queries.
fn heads(bench: &mut Bench<'_>, dtype: DType) {
    let (texts, heads, width) = (2, 4, 8);
    let inside = |length: usize, heads: usize| {
        Operand::new(dtype, Layout::dense([texts, length, heads, width]).permute(&[0, 2, 1, 3]))
    };
    let shared = |length: usize| {
        let one = inside(length, 1).layout.broadcast(&[texts, heads, length, width].into());
        Operand::new(dtype, one.expect("one head stands for all"))
    };
    let dense = plain(dtype, &[texts, heads], [37, 50, width, width]);
    let each = AttentionKernel { q: inside(37, heads), k: inside(50, heads), v: inside(50, heads), ..dense };
    let each = AttentionKernel { out: inside(37, heads), ..each };
    bench.add(case(&each, "heads in rows"));
    bench.add(case(&AttentionKernel { k: shared(50), v: shared(50), ..each }, "one head of keys"));
}

/// Scores that are so large that e^x overflows, differ so much that all but one vanish, rise and fall along the keys, are
/// infinite, or no numbers.
fn extremes(bench: &mut Bench<'_>) {
    for sizes in [[5, 40, 4, 8], [70, 150, 16, 20]] {
        let k = plain(DType::F32, &[2], sizes);
        let [l, s, e, d] = sizes;
        let q = vec![Scalar::F(1.0); 2 * l * e];
        let value = |i: usize| Scalar::F((i * 37 % 101) as f64 / 50.0 - 1.0);
        let v: Vec<Scalar> = (0..2 * s * d).map(value).collect();
        let mut add = |what: &str, key: &dyn Fn(usize) -> f64| {
            let keys = (0..2 * s * e).map(|i| Scalar::F(key(i / e % s))).collect();
            bench.add(Case::with(name(&k, what), Kernel::Attention(k.clone()), &[q.clone(), keys, v.clone()]));
        };
        add("large", &|key| 1e4 + key as f64 / 64.0);
        add("negative", &|key| -1e4 - key as f64 / 64.0);
        add("far apart", &|key| if key == 3 { 200.0 } else { -200.0 });
        add("rising", &|key| key as f64);
        add("falling", &|key| -(key as f64));
        add("infinite", &|key| if key == 9 { f64::INFINITY } else { 0.0 });
        add("no number", &|key| if key == 9 { f64::NAN } else { 0.0 });
        add("nothing but -inf", &|_| f64::NEG_INFINITY);
    }
}
