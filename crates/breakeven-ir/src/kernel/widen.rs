//! Kernels of 16-bit floats as kernels of f32: a device then needs two conversions for each of them and no arithmetic.

use std::borrow::Cow;

use super::{ConvKernel, Kernel, MatMul, ReduceRows, RowWiseKernel};
use crate::narrow::nearest;
use crate::{DType, Expr, ExprBuilder, Item, Map};

/// What an expression meets at its ends.
#[derive(Clone, Copy)]
struct Ends {
    /// Its first argument was computed, not loaded.
    first_is_computed: bool,
    /// Its result is computed with, not stored.
    result_is_computed_with: bool,
}

const LOADED_AND_STORED: Ends = Ends { first_is_computed: false, result_is_computed_with: false };
const BEFORE: Ends = Ends { result_is_computed_with: true, ..LOADED_AND_STORED };
const AFTER: Ends = Ends { first_is_computed: true, ..LOADED_AND_STORED };

impl Kernel {
    /// The same work with f16 and bf16 in memory alone: they become f32 where they are loaded, every row computes in f32,
    /// and the result is rounded once where it is stored. In between only a cast that the user wrote rounds to 16 bits.
    /// Parameters are rounded to the type of their row first. Operands keep their types; a copy stays one.
    pub fn widened(&self) -> Cow<'_, Kernel> {
        if !self.has_halves() {
            return Cow::Borrowed(self);
        }
        Cow::Owned(match self {
            Kernel::Map(k) => Kernel::Map(Map {
                expr: expr(&k.expr, LOADED_AND_STORED),
                params: params(&[&k.expr], &k.params),
                ..k.clone()
            }),
            Kernel::Reduce(k) => Kernel::Reduce(ReduceRows {
                pre: expr(&k.pre, BEFORE),
                post: expr(&k.post, AFTER),
                params: params(&[&k.pre, &k.post], &k.params),
                ..k.clone()
            }),
            Kernel::RowWise(k) => Kernel::RowWise(RowWiseKernel {
                pre: expr(&k.pre, BEFORE),
                post: expr(&k.post, AFTER),
                params: params(&[&k.pre, &k.post], &k.params),
                ..k.clone()
            }),
            Kernel::MatMul(k) => Kernel::MatMul(MatMul {
                post: expr(&k.post, AFTER),
                params: params(&[&k.post], &k.params),
                ..k.clone()
            }),
            Kernel::Conv(k) => Kernel::Conv(ConvKernel {
                post: expr(&k.post, AFTER),
                params: params(&[&k.post], &k.params),
                ..k.clone()
            }),
            Kernel::Attention(_)
            | Kernel::Gather(_)
            | Kernel::Scatter(_)
            | Kernel::Scan(_)
            | Kernel::Custom(_)
            | Kernel::Sort(_) => self.clone(),
        })
    }

    fn has_halves(&self) -> bool {
        self.exprs().iter().flat_map(|e| e.items()).any(|&(_, dtype)| dtype.is_half())
    }

    /// Its expressions, in the order in which they take parameters.
    pub fn exprs(&self) -> Vec<&Expr> {
        match self {
            Kernel::Map(k) => vec![&k.expr],
            Kernel::Reduce(k) => vec![&k.pre, &k.post],
            Kernel::RowWise(k) => vec![&k.pre, &k.post],
            Kernel::MatMul(k) => vec![&k.post],
            Kernel::Conv(k) => vec![&k.post],
            Kernel::Attention(_)
            | Kernel::Gather(_)
            | Kernel::Scatter(_)
            | Kernel::Scan(_)
            | Kernel::Custom(_)
            | Kernel::Sort(_) => vec![],
        }
    }
}

/// The type in which values of `dtype` are computed.
fn wide(dtype: DType) -> DType {
    if dtype.is_half() { DType::F32 } else { dtype }
}

fn expr(of: &Expr, ends: Ends) -> Expr {
    if of.is_identity() && !ends.first_is_computed && !ends.result_is_computed_with {
        return of.clone();
    }
    let mut b = ExprBuilder::default();
    let mut places: Vec<u16> = Vec::with_capacity(of.items().len());
    let last = of.items().len() - 1;
    for (at, &(item, dtype)) in of.items().iter().enumerate() {
        let is_stored = at == last && !ends.result_is_computed_with;
        let place = match item {
            Item::Arg(0) if ends.first_is_computed => b.arg(wide(dtype)),
            Item::Arg(_) => {
                let loaded = b.arg(dtype);
                b.cast(loaded, wide(dtype))
            }
            Item::Param(_) => b.param(wide(dtype)),
            Item::Cast(id) => {
                let rounded = b.cast(places[id as usize], dtype);
                if is_stored { rounded } else { b.cast(rounded, wide(dtype)) }
            }
            Item::Row(row, ids) => {
                let operands: Vec<u16> = ids[..row.args.len()].iter().map(|&id| places[id as usize]).collect();
                b.row(row, wide(dtype), &operands)
            }
        };
        places.push(if is_stored { b.cast(place, dtype) } else { place });
    }
    let result = places[last];
    b.finish(result)
}

/// Parameters as their rows hold them.
fn params(exprs: &[&Expr], params: &[f64]) -> Vec<f64> {
    let mut held = params.to_vec();
    let mut before = 0;
    for expr in exprs {
        for &(item, dtype) in expr.items() {
            if let Item::Param(i) = item
                && dtype.is_half()
            {
                let place = &mut held[before + i as usize];
                *place = nearest(dtype, *place);
            }
        }
        before += expr.params();
    }
    held
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Fold, Layout, Operand, Row};

    fn steps(expr: &Expr) -> String {
        let one = |(item, dtype): &(Item, DType)| match item {
            Item::Arg(i) => format!("arg{i}:{dtype}"),
            Item::Param(i) => format!("param{i}:{dtype}"),
            Item::Cast(of) => format!("{of}->{dtype}"),
            Item::Row(row, ids) => format!("{}{:?}:{dtype}", row.name, &ids[..row.args.len()]),
        };
        expr.items().iter().map(one).collect::<Vec<_>>().join(" ")
    }

    fn widened(expr: Expr, params: Vec<f64>) -> (String, Vec<f64>) {
        let kernel = Kernel::Map(Map::dense(expr, params, 4));
        let Kernel::Map(map) = kernel.widened().into_owned() else { unreachable!("a map stays one") };
        (steps(&map.expr), map.params)
    }

    fn row(name: &str) -> Row {
        Row::named(name).expect("a row of the table")
    }

    #[test]
    fn rows_run_at_f32_and_are_stored_once() {
        let (text, params) = widened(Expr::row(row("leaky_relu"), DType::F16), vec![0.1]);
        assert_eq!(text, "arg0:f16 0->f32 param0:f32 leaky_relu[1, 2]:f32 3->f16");
        assert_eq!(params, [f64::from(half::f16::from_f32(0.1).to_f32())]);
        let (text, _) = widened(Expr::row(row("less"), DType::BF16), vec![]);
        assert_eq!(text, "arg0:bf16 0->f32 arg1:bf16 2->f32 less[1, 3]:bool");
    }

    #[test]
    fn a_cast_in_a_chain_rounds() {
        let mut b = ExprBuilder::default();
        let x = b.arg(DType::F32);
        let x = b.row(row("exp"), DType::F32, &[x]);
        let x = b.cast(x, DType::F16);
        let x = b.row(row("neg"), DType::F16, &[x]);
        let (text, _) = widened(b.finish(x), vec![]);
        assert_eq!(text, "arg0:f32 exp[0]:f32 1->f16 2->f32 neg[3]:f32 4->f16");
    }

    #[test]
    fn a_cast_at_an_end_is_one_cast() {
        let mut b = ExprBuilder::default();
        let x = b.arg(DType::I32);
        let x = b.cast(x, DType::BF16);
        assert_eq!(widened(b.finish(x), vec![]).0, "arg0:i32 0->bf16");
        let mut b = ExprBuilder::default();
        let x = b.arg(DType::F16);
        let x = b.cast(x, DType::F32);
        assert_eq!(widened(b.finish(x), vec![]).0, "arg0:f16 0->f32");
    }

    #[test]
    fn copies_and_wider_types_are_left_alone() {
        let copy = Kernel::Map(Map::dense(Expr::identity(DType::F16), vec![], 4));
        assert_eq!(*copy.widened(), copy);
        let wide = Kernel::Map(Map::dense(Expr::row(row("exp"), DType::F64), vec![], 4));
        assert!(matches!(wide.widened(), Cow::Borrowed(_)));
    }

    #[test]
    fn a_fold_loads_and_stores_halves_and_folds_f32() {
        let kernel = Kernel::Reduce(ReduceRows {
            fold: Fold::Sum,
            outer: 2.into(),
            inner: 3.into(),
            pre: Expr::identity(DType::F16),
            post: Expr::identity(DType::F16),
            params: vec![],
            inputs: vec![Operand::new(DType::F16, Layout::dense([2, 3]))],
            outs: vec![Operand::new(DType::F16, Layout::dense(2))],
        });
        let Kernel::Reduce(k) = kernel.widened().into_owned() else { unreachable!("a fold stays one") };
        assert_eq!((steps(&k.pre).as_str(), steps(&k.post).as_str()), ("arg0:f16 0->f32", "arg0:f32 0->f16"));
    }

    #[test]
    fn widening_twice_is_widening_once() {
        let map = Kernel::Map(Map::dense(Expr::row(row("leaky_relu"), DType::BF16), vec![0.1], 4));
        let once = map.widened();
        assert_eq!(once.widened(), once);
    }
}
