//! Expressions over intervals: each row is evaluated at the corners of what its operands may be, then widened.

use breakeven_ir::{Body, DType, Expr, Item, Kind, Map, Scalar, Tolerance};

use super::bound::smallest_normal;
use super::rounding::round;
use super::{Bound, Rules, load};

/// An expression ready to be evaluated over intervals.
pub struct Meaning<'a> {
    steps: Vec<Step>,
    params: &'a [f64],
    rules: Rules,
}

struct Step {
    what: What,
    dtype: DType,
    tolerance: Tolerance,
    ulp: u32,
}

enum What {
    Arg(usize),
    Param(usize),
    Cast(usize),
    /// The row, its operands that are tensors, and those that are parameters.
    Row(Body, Vec<usize>, Vec<usize>),
}

impl<'a> Meaning<'a> {
    /// `fused` work is rounded wherever the device likes: each step is at least one unit wide.
    pub fn new(expr: &Expr, params: &'a [f64], rules: Rules, fused: bool) -> Meaning<'a> {
        let dtypes: Vec<DType> = expr.items().iter().map(|&(_, dtype)| dtype).collect();
        let step = |&(item, dtype): &(Item, DType)| {
            let (what, tolerance) = what(item, &dtypes);
            let ulp = if rules.gpu { tolerance.gpu_ulp } else { tolerance.ulp };
            let inner = fused && matches!(what, What::Row(..));
            Step { what, dtype, tolerance, ulp: if inner { ulp.max(1) } else { ulp } }
        };
        Meaning { steps: expr.items().iter().map(step).collect(), params, rules }
    }

    /// What the result may be when the arguments may be these.
    pub fn of(&self, args: &[Bound]) -> Bound {
        let mut values: Vec<Bound> = Vec::with_capacity(self.steps.len());
        for step in &self.steps {
            let value = match &step.what {
                What::Arg(i) => args[*i],
                What::Param(i) => Bound::exactly(self.param(*i, step.dtype)),
                What::Cast(id) => self.settle(cast(values[*id], step.dtype), step),
                What::Row(body, operands, params) => {
                    let operands: Vec<Bound> = operands.iter().map(|&i| values[i]).collect();
                    let params: Vec<f64> = params.iter().map(|&i| values[i].ends().0).collect();
                    let near_zero = self.rules.gpu && operands.iter().any(|b| b.is_denormal(step.dtype));
                    let result = self.settle(corners(body, &operands, &params), step);
                    if near_zero { result.near_zero(step.dtype) } else { result }
                }
            };
            values.push(value);
        }
        *values.last().expect("an expression has a result")
    }

    fn param(&self, index: usize, dtype: DType) -> Scalar {
        match Scalar::of(dtype, self.params[index]) {
            Scalar::F(x) => Scalar::F(round(dtype, x)),
            other => other,
        }
    }

    fn settle(&self, bound: Bound, step: &Step) -> Bound {
        let mut tolerance = step.tolerance;
        if self.rules.gpu && step.ulp > 0 && step.dtype.is_float() {
            // A row of several operations may have flushed what it adds to its result.
            tolerance.abs = tolerance.abs.max(smallest_normal(step.dtype));
        }
        let wide = bound.widen(step.dtype, step.ulp, tolerance);
        if self.rules.gpu { wide.flushed(step.dtype) } else { wide }
    }
}

fn what(item: Item, dtypes: &[DType]) -> (What, Tolerance) {
    match item {
        Item::Arg(i) => (What::Arg(i as usize), Tolerance::EXACT),
        Item::Param(i) => (What::Param(i as usize), Tolerance::EXACT),
        Item::Cast(id) => (What::Cast(id as usize), Tolerance::EXACT),
        Item::Row(row, ids) => {
            let of_kind = |params: bool| -> Vec<usize> {
                let all = row.args.iter().zip(ids).filter(|(k, _)| (**k == Kind::P) == params);
                all.map(|(_, id)| id as usize).collect()
            };
            let value = row.args.iter().zip(ids).find(|(k, _)| **k == Kind::V);
            let dtype = value.map_or(DType::Bool, |(_, id)| dtypes[id as usize]);
            (What::Row(row.body(dtype), of_kind(false), of_kind(true)), row.tolerance)
        }
    }
}

fn cast(bound: Bound, dtype: DType) -> Bound {
    let one = |s: Scalar| match (s, dtype) {
        (Scalar::I(x), DType::F32) => Scalar::F(f64::from(x as f32)),
        _ => s.cast(dtype),
    };
    bound.samples().into_iter().map(|s| Bound::exactly(one(s))).reduce(Bound::or).expect("a bound allows something")
}

fn corners(body: &Body, operands: &[Bound], params: &[f64]) -> Bound {
    if operands.iter().any(Bound::is_wide) && body.dtype().is_float() {
        return Bound::ANY;
    }
    let mut samples: Vec<Vec<Scalar>> = operands.iter().map(Bound::samples).collect();
    meet(operands, &mut samples);
    let count: usize = samples.iter().map(Vec::len).product();
    let at = |mut corner: usize| {
        let args: Vec<Scalar> = samples
            .iter()
            .map(|all| {
                let one = all[corner % all.len()];
                corner /= all.len();
                one
            })
            .collect();
        Bound::exactly(body.eval(&args, params))
    };
    let bound = (0..count).map(at).reduce(Bound::or).expect("a bound allows something");
    let turns = |part: f64| {
        let inside: Option<Vec<Scalar>> = operands.iter().map(|b| b.inside(part)).collect();
        inside.is_some_and(|inside| !bound.allows(body.eval(&inside, params), false))
    };
    let is_long = operands.iter().any(Bound::is_long) && body.dtype().is_float();
    // Between ends that are far apart a periodic function takes any value of its range.
    if is_long && (1..32).any(|i| turns(f64::from(i) / 32.0)) { Bound::ANY } else { bound }
}

/// Adds to the samples of each operand where it may equal another, since a comparison changes there.
fn meet(operands: &[Bound], samples: &mut [Vec<Scalar>]) {
    let ends: Vec<(f64, f64)> = operands.iter().map(Bound::ends).collect();
    for (at, &(low, high)) in ends.iter().enumerate() {
        let others = ends.iter().enumerate().filter(|(other, _)| *other != at).flat_map(|(_, &(a, b))| [a, b]);
        let is_float = matches!(samples[at].first(), Some(Scalar::F(_)));
        samples[at].extend(others.filter(|&x| is_float && low < x && x < high).map(Scalar::F));
    }
}

/// Elementwise work.
pub fn map(kernel: &Map, inputs: &[&[u8]], rules: Rules) -> Vec<Bound> {
    let meaning = Meaning::new(&kernel.expr, &kernel.params, rules, kernel.expr.rows() > 1);
    let columns: Vec<Vec<Bound>> = kernel.inputs.iter().zip(inputs).map(|(o, b)| load(o, b, rules)).collect();
    let row = |i: usize| columns.iter().map(|c| c[i]).collect::<Vec<_>>();
    (0..kernel.elements()).map(|i| meaning.of(&row(i))).collect()
}
