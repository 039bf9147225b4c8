//! Elements combined with updates, over intervals.

use breakeven_ir::{Combine, DType, Scalar, Scatter, Tolerance};

use super::bound::smallest_normal;
use super::fold::{rounded_product, times};
use super::slack::Slack;
use super::{Bound, Rules, load};

/// The output in row-major order.
pub fn scatter(kernel: &Scatter, inputs: &[&[u8]], rules: Rules) -> Vec<Bound> {
    let source = load(&kernel.source, inputs[0], rules);
    let updates = load(&kernel.updates, inputs[2], rules);
    let index: Vec<Scalar> =
        kernel.index.layout.positions().map(|at| Scalar::load(kernel.index.dtype, inputs[1], at)).collect();
    let (length, count) = (kernel.length(), kernel.count());
    let mut out = Vec::with_capacity(source.len());
    for row in 0..kernel.outer.elements() {
        let mut met: Vec<Vec<Bound>> = source[row * length..][..length].iter().map(|&x| vec![x]).collect();
        for p in row * count..(row + 1) * count {
            if let Some(place) = kernel.place(index[p]) {
                met[place].push(updates[p]);
            }
        }
        out.extend(met.iter().map(|met| combined(kernel, met, rules)));
    }
    out
}

/// An element and its updates, in order.
fn combined(kernel: &Scatter, met: &[Bound], rules: Rules) -> Bound {
    let dtype = kernel.out.dtype;
    let [first, .., last] = met else { return met[0] };
    if kernel.combine == Combine::Set {
        return *last;
    }
    if dtype.is_integer() {
        let value = |b: &Bound| b.samples()[0];
        let all = met[1..].iter().map(value).fold(value(first), |a, b| kernel.both(a, b));
        return Bound::exactly(all);
    }
    if met.iter().any(Bound::is_nan_only) {
        return Bound::NAN;
    }
    let flush = if rules.gpu { met.len() as f64 * smallest_normal(dtype) } else { 0.0 };
    match kernel.combine {
        Combine::Mul => rounded_product(met[1..].iter().fold(*first, times), met.len(), flush, dtype),
        Combine::Max => met[1..].iter().fold(*first, |a, b| extreme(a, b, f64::max)),
        Combine::Min => met[1..].iter().fold(*first, |a, b| extreme(a, b, f64::min)),
        _ => sum(met, flush, dtype).widen(dtype, 1, Tolerance::EXACT),
    }
}

/// One after the other: each addition rounds once.
fn sum(met: &[Bound], flush: f64, dtype: DType) -> Bound {
    let (mut at, mut size) = (Bound::exactly(Scalar::F(0.0)), 0.0);
    for x in met {
        let ((a, b), (c, d)) = (at.ends(), x.ends());
        let nan = at.may_be_nan() || x.may_be_nan();
        if (a + c).is_nan() && (b + d).is_nan() {
            return Bound::NAN;
        }
        at = Bound::between(a + c, b + d).or_nan(nan);
        size += c.abs().max(d.abs());
    }
    if size.is_finite() && size > f64::from(f32::MAX) {
        return Bound::ANY;
    }
    let wrong = if size.is_finite() { Slack::of(dtype, met.len()).dot(met.len()) * size + flush } else { 0.0 };
    let (low, high) = at.ends();
    Bound::between(low - wrong, high + wrong).or_nan(at.may_be_nan())
}

fn extreme(a: Bound, b: &Bound, choose: fn(f64, f64) -> f64) -> Bound {
    let ((al, ah), (bl, bh)) = (a.ends(), b.ends());
    Bound::between(choose(al, bl), choose(ah, bh)).or_nan(a.may_be_nan() || b.may_be_nan())
}
