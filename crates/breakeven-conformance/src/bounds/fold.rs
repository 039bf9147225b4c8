//! Reductions over intervals.

use breakeven_ir::{DType, Fold, ReduceRows, Scalar};

use super::bound::smallest_normal;
use super::expr::Meaning;
use super::slack::Slack;
use super::{Bound, Rules, load};

/// All outputs of a reduction.
pub fn reduce(kernel: &ReduceRows, inputs: &[&[u8]], rules: Rules) -> Vec<Vec<Bound>> {
    let pre_args = kernel.pre.args().len();
    let (pre_params, post_params) = kernel.params.split_at(kernel.pre.params());
    let pre = Meaning::new(&kernel.pre, pre_params, rules, true);
    let post = Meaning::new(&kernel.post, post_params, rules, true);
    let columns: Vec<Vec<Bound>> = kernel.inputs.iter().zip(inputs).map(|(o, b)| load(o, b, rules)).collect();
    let inner = kernel.inner.elements();
    let mut outs = vec![Vec::with_capacity(kernel.outer.elements()); kernel.outs.len()];
    for o in 0..kernel.outer.elements() {
        let element = |i: usize| pre.of(&columns[..pre_args].iter().map(|c| c[o * inner + i]).collect::<Vec<_>>());
        let row: Vec<Bound> = (0..inner).map(element).collect();
        let folded = fold(kernel.fold, &row, kernel.pre.dtype(), rules);
        for (out, value) in outs.iter_mut().zip(folded) {
            let extras = columns[pre_args..].iter().map(|c| c[o]);
            let args: Vec<Bound> = [value.zero_of_any_sign()].into_iter().chain(extras).collect();
            out.push(if kernel.fold == Fold::Moments { post.of(&args[..1]) } else { post.of(&args) });
        }
    }
    outs
}

fn fold(fold: Fold, row: &[Bound], dtype: DType, rules: Rules) -> Vec<Bound> {
    if dtype.is_integer() && matches!(fold, Fold::Sum | Fold::Prod) {
        return vec![whole(fold, row, dtype)];
    }
    let flush = if rules.gpu { row.len() as f64 * smallest_normal(dtype) } else { 0.0 };
    vec![match fold {
        Fold::Sum => sum(row, 1.0, dtype, flush).widen_any(dtype),
        Fold::Mean if row.is_empty() => Bound::NAN,
        Fold::Mean => sum(row, row.len() as f64, dtype, flush).widen_any(dtype),
        Fold::Prod => product(row, flush, dtype),
        Fold::Max => extreme(row, f64::max),
        Fold::Min => extreme(row, f64::min),
        Fold::ArgMax => place(row, |x| x),
        Fold::ArgMin => place(row, |x| -x),
        Fold::All => truth(row, |all| all.iter().all(|&b| b)),
        Fold::Any => truth(row, |all| all.iter().any(|&b| b)),
        Fold::Moments => return moments(row, dtype, flush),
    }]
}

impl Bound {
    /// Rounded to `dtype`, half a unit outwards.
    pub fn widen_any(self, dtype: DType) -> Bound {
        self.widen(dtype, 1, breakeven_ir::Tolerance::EXACT)
    }
}

/// Exact where the elements are; otherwise between the ends that they may have, unless those wrap around.
fn whole(fold: Fold, row: &[Bound], dtype: DType) -> Bound {
    let start = i128::from(fold == Fold::Prod);
    let wrapped = |x: i128| if let Scalar::I(x) = Scalar::I(x).cast(dtype) { x } else { 0 };
    let both = |a: i128, b: i128| if fold == Fold::Sum { a + b } else { a.wrapping_mul(b) };
    let ends: Vec<(i128, i128)> = row.iter().map(Bound::whole_ends).collect();
    if ends.iter().all(|(low, high)| low == high) {
        let exact = ends.iter().fold(start, |a, &(x, _)| wrapped(both(a, x)));
        return Bound::exactly(Scalar::I(exact));
    }
    let between = ends.iter().try_fold((start, start), |a, x| {
        let corners = if fold == Fold::Sum {
            [a.0 + x.0, a.1 + x.1, a.0 + x.0, a.1 + x.1]
        } else {
            [a.0 * x.0, a.0 * x.1, a.1 * x.0, a.1 * x.1]
        };
        let (low, high) = (*corners.iter().min()?, *corners.iter().max()?);
        (wrapped(low) == low && wrapped(high) == high).then_some((low, high))
    });
    between.map_or_else(|| Bound::any_whole(dtype), |(low, high)| Bound::wholes(low, high))
}

/// What NaN and infinities among the terms decide, where they do.
fn decided(terms: &[(f64, f64)], nan: bool, nan_only: bool) -> Option<Bound> {
    let sure = |x: f64| terms.iter().any(|&(l, h)| l == x && h == x);
    let maybe = terms.iter().any(|(l, h)| l.is_infinite() || h.is_infinite());
    match (sure(f64::INFINITY), sure(f64::NEG_INFINITY)) {
        _ if nan_only => Some(Bound::NAN),
        (true, true) => Some(Bound::NAN),
        (plus, minus) if plus || minus => {
            let only = terms.iter().all(|&(l, h)| l == h || (l.is_finite() && h.is_finite()));
            let end = if plus { f64::INFINITY } else { f64::NEG_INFINITY };
            Some(if only { Bound::between(end, end).or_nan(nan) } else { Bound::ANY })
        }
        _ if maybe => Some(Bound::ANY),
        _ => None,
    }
}

/// The sum of the terms divided by `count`, computed in `dtype`.
pub fn sum(row: &[Bound], count: f64, dtype: DType, flush: f64) -> Bound {
    let slack = Slack::of(dtype, row.len());
    let terms: Vec<(f64, f64)> = row.iter().filter(|b| !b.is_nan_only()).map(Bound::ends).collect();
    let nan = row.iter().any(Bound::may_be_nan);
    if let Some(bound) = decided(&terms, nan, row.iter().any(Bound::is_nan_only)) {
        return bound;
    }
    let size: f64 = terms.iter().map(|(l, h)| l.abs().max(h.abs())).sum();
    let (low, high) = terms.iter().fold((0.0, 0.0), |(a, b), (l, h)| (a + l, b + h));
    let wrong = slack.sum * size + flush;
    if size > slack.largest {
        return Bound::ANY;
    }
    Bound::between((low - wrong) / count, (high + wrong) / count).or_nan(nan)
}

fn product(row: &[Bound], flush: f64, dtype: DType) -> Bound {
    if row.iter().any(Bound::is_nan_only) {
        return Bound::NAN;
    }
    rounded_product(row.iter().fold(Bound::exactly(Scalar::F(1.0)), times), row.len(), flush, dtype)
}

/// The product of both, without rounding.
pub fn times(at: Bound, factor: &Bound) -> Bound {
    if at.is_nan_only() || factor.is_nan_only() {
        return Bound::NAN;
    }
    let ((a, b), (c, d)) = (at.ends(), factor.ends());
    let ends = [a * c, a * d, b * c, b * d];
    let nan = at.may_be_nan() || factor.may_be_nan() || ends.iter().any(|x| x.is_nan());
    let ends = || ends.iter().copied().filter(|x| !x.is_nan());
    let (low, high) = (ends().fold(f64::INFINITY, f64::min), ends().fold(f64::NEG_INFINITY, f64::max));
    if low > high { Bound::NAN } else { Bound::between(low, high).or_nan(nan) }
}

/// What a device may make of the product `at` of `factors` factors.
pub fn rounded_product(at: Bound, factors: usize, flush: f64, dtype: DType) -> Bound {
    if at.is_nan_only() {
        return at;
    }
    let (low, high) = at.ends();
    let slack = Slack::of(dtype, factors);
    let wrong = |x: f64| if x.is_finite() { x.abs() * slack.product(factors) + flush + 1e-44 } else { 0.0 };
    Bound::between(low - wrong(low), high + wrong(high)).or_nan(at.may_be_nan()).widen_any(dtype)
}

fn extreme(row: &[Bound], choose: fn(f64, f64) -> f64) -> Bound {
    if let [first, ..] = row
        && matches!(first.samples()[0], Scalar::I(_))
    {
        let better = |x: i128, y: i128| if choose(0.0, 1.0) == 1.0 { x.max(y) } else { x.min(y) };
        let ends = row.iter().map(Bound::whole_ends);
        let (low, high) = ends.reduce(|a, b| (better(a.0, b.0), better(a.1, b.1))).expect("not empty");
        return Bound::wholes(low, high);
    }
    if row.iter().any(Bound::is_nan_only) {
        return Bound::NAN;
    }
    let low = row.iter().map(|b| b.ends().0).reduce(choose).expect("an extreme of nothing is a call error");
    let high = row.iter().map(|b| b.ends().1).reduce(choose).expect("not empty");
    Bound::between(low, high).or_nan(row.iter().any(Bound::may_be_nan))
}

/// Places that may hold the largest of `key`: the first NaN wins, then the lowest place among equals.
fn place(row: &[Bound], key: fn(f64) -> f64) -> Bound {
    let whole = |b: &Bound| match b.samples()[0] {
        Scalar::I(_) => Some(b.whole_ends()).filter(|(low, high)| low == high).map(|(x, _)| x),
        _ => None,
    };
    if let Some(all) = row.iter().map(whole).collect::<Option<Vec<i128>>>().filter(|all| !all.is_empty()) {
        let sign = key(1.0) as i128;
        let best = all.iter().map(|x| sign * x).max().expect("not empty");
        let at = all.iter().position(|x| sign * x == best).expect("it is there");
        return Bound::exactly(Scalar::I(at as i128));
    }
    let keyed = |b: &Bound| {
        let (l, h) = (key(b.ends().0), key(b.ends().1));
        (l.min(h), l.max(h))
    };
    let first_nan = row.iter().position(Bound::is_nan_only);
    let sure = row.iter().filter(|b| !b.may_be_nan()).map(|b| keyed(b).0).fold(f64::NEG_INFINITY, f64::max);
    let mut taken = false;
    let mut may = |(i, b): (usize, &Bound)| {
        if let Some(nan) = first_nan {
            return i == nan || (i < nan && b.may_be_nan());
        }
        let (low, high) = keyed(b);
        let yes = b.may_be_nan() || (high >= sure && !(taken && high == sure));
        // Large integers that differ may be one float.
        taken |= low == sure && !b.may_be_nan() && (whole(b).is_none() || low.abs() < 9e15);
        yes
    };
    let places: Vec<usize> = row.iter().enumerate().filter(|&x| may(x)).map(|(i, _)| i).collect();
    let end = |i: Option<&usize>| Bound::exactly(Scalar::I(*i.expect("some place is best") as i128));
    end(places.first()).or(end(places.last()))
}

fn truth(row: &[Bound], decide: fn(&[bool]) -> bool) -> Bound {
    let ends = |last: bool| -> Vec<bool> {
        let pick = |b: &Bound| b.samples().into_iter().reduce(|x, y| if x.truth() == last { x } else { y });
        row.iter().map(|b| pick(b).is_some_and(Scalar::truth)).collect()
    };
    let one = |last| Bound::exactly(Scalar::B(decide(&ends(last))));
    one(false).or(one(true))
}

/// Mean and variance.
fn moments(row: &[Bound], dtype: DType, flush: f64) -> Vec<Bound> {
    let count = row.len() as f64;
    let special = |b: &Bound| b.may_be_nan() || !b.ends().0.is_finite() || !b.ends().1.is_finite();
    if row.is_empty() || row.iter().any(special) {
        let sure = row.is_empty() || row.iter().any(Bound::is_nan_only);
        let mean = if row.is_empty() { Bound::NAN } else { sum(row, count, dtype, flush) };
        let infinite = row.iter().any(|b| b.ends().0 == b.ends().1 && b.ends().0.is_infinite());
        return vec![mean, if sure || infinite { Bound::NAN } else { Bound::ANY }];
    }
    let m = spread(row, dtype);
    let wrong = 2.0 * Slack::of(dtype, row.len()).sum * m.variance
        + m.centre * m.centre
        + 2.0 * m.variance.sqrt() * m.width
        + m.width * m.width;
    let mean = sum(row, count, dtype, flush).widen_any(dtype);
    let variance = Bound::between((m.variance - wrong - flush).max(0.0), m.variance + wrong + flush);
    vec![mean, variance.widen_any(dtype)]
}

/// Mean and variance of a row, and how far a device may be from the mean.
pub struct Spread {
    /// The mean.
    pub mean: f64,
    /// Mean square distance from it.
    pub variance: f64,
    /// How far the subtracted mean may be off.
    pub centre: f64,
    /// Widest interval of an element.
    pub width: f64,
}

/// Of finite elements, computed in `dtype`.
pub fn spread(row: &[Bound], dtype: DType) -> Spread {
    let count = row.len() as f64;
    let middle = |b: &Bound| b.ends().0 / 2.0 + b.ends().1 / 2.0;
    let mean = row.iter().map(middle).sum::<f64>() / count;
    let variance = row.iter().map(|b| (middle(b) - mean).powi(2)).sum::<f64>() / count;
    let distance = row.iter().map(|b| (middle(b) - mean).abs()).sum::<f64>() / count;
    let width = row.iter().map(|b| b.ends().1 - b.ends().0).fold(0.0, f64::max);
    Spread { mean, variance, centre: Slack::of(dtype, row.len()).centre(mean, distance), width }
}
