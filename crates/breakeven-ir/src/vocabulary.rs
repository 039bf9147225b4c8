//! Rows from elsewhere written out in rows of the table, for devices that have compiled code for those alone.

use std::collections::HashMap;

use crate::{Body, DType, Expr, ExprBuilder, Inst, Item, Kind, MAPS, MapDef, Prim, Row, Unsupported};

/// For each primitive and element type the row of the table that is that primitive and nothing else.
#[derive(Clone, Debug)]
pub struct Vocabulary(HashMap<(Prim, DType), Row>);

impl Vocabulary {
    /// Reads the table.
    pub fn of_table() -> Vocabulary {
        let at = |def: &'static MapDef, dtype: DType| Some(((alone(def, dtype)?, dtype), Row(def)));
        let of = |def: &'static MapDef| def.family.dtypes().into_iter().filter_map(move |dtype| at(def, dtype));
        Vocabulary(MAPS.iter().flat_map(of).collect())
    }

    /// `expr` in rows of the table, and its parameters, among which its constants are now.
    ///
    /// # Errors
    /// Where a row needs a primitive that no row of the table is.
    pub fn write(&self, expr: &Expr, params: &[f64]) -> Result<(Expr, Vec<f64>), Unsupported> {
        let mut writer = Writer { words: self, builder: ExprBuilder::default(), params: Vec::new(), steps: Vec::new() };
        for &(item, dtype) in expr.items() {
            let step = match item {
                Item::Row(row, ids) if row.index().is_none() => {
                    let operands: Vec<u16> =
                        ids[..row.args.len()].iter().map(|&id| writer.steps[id as usize]).collect();
                    let value = row.args.iter().zip(ids).find(|(kind, _)| **kind != Kind::M);
                    let at = value.map_or(DType::Bool, |(_, id)| expr.items()[id as usize].1);
                    writer.row(row, at, &operands)?
                }
                item => writer.item(item, dtype, expr, params),
            };
            writer.steps.push(step);
        }
        Ok(writer.finish())
    }
}

/// The primitive that a row applies to its arguments in order, if it does nothing else.
fn alone(def: &MapDef, dtype: DType) -> Option<Prim> {
    let body = def.body(dtype);
    let (&(Inst::Prim(prim, ids), _), args) = body.insts().split_last()? else { return None };
    let count = prim.arity();
    let in_order = args.iter().zip(0..).all(|(&(inst, _), i)| inst == Inst::Arg(i));
    let each_once = (0u32..).zip(&ids[..count]).all(|(i, &id)| i == id);
    (args.len() == count && def.args.len() == count && in_order && each_once).then_some(prim)
}

struct Writer<'a> {
    words: &'a Vocabulary,
    builder: ExprBuilder,
    params: Vec<f64>,
    /// For each step of the original, the one that has its value.
    steps: Vec<u16>,
}

impl Writer<'_> {
    /// A step that stays as it is.
    fn item(&mut self, item: Item, dtype: DType, expr: &Expr, params: &[f64]) -> u16 {
        match item {
            Item::Arg(_) => self.builder.arg(dtype),
            Item::Param(i) => self.param(dtype, params[i as usize]),
            Item::Cast(id) => self.builder.cast(self.steps[id as usize], dtype),
            Item::Row(row, ids) => {
                let ids = &ids[..row.args.len()];
                let value = row.args.iter().zip(ids).find(|(kind, _)| **kind != Kind::M);
                let at = value.map_or(DType::Bool, |(_, id)| expr.items()[*id as usize].1);
                let operands: Vec<u16> = ids.iter().map(|&id| self.steps[id as usize]).collect();
                self.builder.row(row, at, &operands)
            }
        }
    }

    fn param(&mut self, dtype: DType, value: f64) -> u16 {
        self.params.push(value);
        self.builder.param(dtype)
    }

    /// A row from elsewhere at `dtype`.
    fn row(&mut self, row: Row, dtype: DType, operands: &[u16]) -> Result<u16, Unsupported> {
        let body = row.body(dtype);
        let tensors = row.arity();
        if self.builder.len() + 2 * body.insts().len() > usize::from(u16::MAX) {
            return Err(Unsupported(format!("`{}` is too long to be run as rows of the table", row.name)));
        }
        let mut places: Vec<u16> = Vec::with_capacity(body.insts().len());
        for &(inst, dtype) in body.insts() {
            let step = match inst {
                Inst::Arg(i) => operands[i as usize],
                Inst::Param(i) => operands[tensors + i as usize],
                Inst::Const(value) => self.param(dtype, value),
                Inst::Cast(id) => self.builder.cast(places[id as usize], dtype),
                Inst::Prim(prim, ids) => self.prim(row, &body, prim, ids, &places)?,
            };
            places.push(step);
        }
        Ok(*places.last().expect("a body has a result"))
    }

    fn prim(&mut self, row: Row, body: &Body, prim: Prim, ids: [u32; 3], places: &[u16]) -> Result<u16, Unsupported> {
        // What is picked has the type, not the mask that picks.
        let at = body.insts()[ids[usize::from(prim == Prim::Pick)] as usize].1;
        let word = |prim: Prim| {
            let missing = || format!("`{}` needs {prim:?} of {at}, which no row of the table is alone", row.name);
            self.words.0.get(&(prim, at)).copied().ok_or_else(|| Unsupported(missing()))
        };
        let [a, b, c] = ids.map(|id| places[id as usize]);
        if prim == Prim::MulAdd {
            let (mul, add) = (word(Prim::Mul)?, word(Prim::Add)?);
            let product = self.builder.row(mul, at, &[a, b]);
            return Ok(self.builder.row(add, at, &[product, c]));
        }
        if prim == Prim::Nearest {
            let (mul, round) = (word(Prim::Mul)?, word(Prim::Round)?);
            let product = self.builder.row(mul, at, &[a, b]);
            return Ok(self.builder.row(round, at, &[product]));
        }
        let word = word(if prim == Prim::Quotient { Prim::Div } else { prim })?;
        Ok(self.builder.row(word, at, &[a, b, c][..prim.arity()]))
    }

    /// The result must be the last step: it is written once more where a row gives back one of its arguments.
    fn finish(mut self) -> (Expr, Vec<f64>) {
        let result = *self.steps.last().expect("an expression has a result");
        if usize::from(result) + 1 == self.builder.len() {
            return (self.builder.finish(result), self.params);
        }
        let result = self.builder.again(result);
        (self.builder.finish(result), self.params)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Scalar, Tolerance};

    crate::row! {
        /// Distance on a circle of `round` steps, which takes every kind of step to write.
        static APART = apart: Float(a: V, b: V, round: P) -> V [Tolerance::ulp(4)] = {
            let way = (a - b).abs();
            let short = V::pick(way.lt(round * 0.5), way, round - way);
            short.mul_add(short.lit(2.0), short.exp().ln())
        };
    }
    crate::row! {
        /// Its first argument.
        static FIRST = first: Any(a: V, b: V) -> V [Tolerance::EXACT] = {
            let _ = b;
            a
        };
    }
    crate::row! {
        /// Half of it, by a way that the table does not have.
        static HALF = half: Float(x: V) -> V [Tolerance::EXACT] = x.ldexp(x.lit(-1.0));
    }

    #[test]
    fn what_is_written_out_means_the_same() {
        let words = Vocabulary::of_table();
        let expr = Expr::row(APART, DType::F64);
        let (written, params) = words.write(&expr, &[12.0]).unwrap();
        let is_known = |(item, _): &(Item, DType)| !matches!(item, Item::Row(row, _) if row.index().is_none());
        assert!(written.items().iter().all(is_known));
        for (a, b) in [(1.0, 11.5), (3.0, 4.25), (0.0, 6.0), (7.0, 7.0)] {
            let args = [Scalar::F(a), Scalar::F(b)];
            let (want, got) = (expr.lower().eval(&args, &[12.0]), written.lower().eval(&args, &params));
            assert!((want.to_f64() - got.to_f64()).abs() <= 1e-15 * want.to_f64().abs(), "{want:?} {got:?}");
        }
    }

    #[test]
    fn an_argument_may_be_the_result() {
        let (written, _) = Vocabulary::of_table().write(&Expr::row(FIRST, DType::I32), &[]).unwrap();
        assert_eq!(written.lower().eval(&[Scalar::I(3), Scalar::I(4)], &[]), Scalar::I(3));
        assert_eq!(written.args().len(), 2);
    }

    #[test]
    fn what_no_row_is_alone_is_named() {
        let why = Vocabulary::of_table().write(&Expr::row(HALF, DType::F32), &[]).unwrap_err();
        assert_eq!(why.0, "`half` needs Ldexp of f32, which no row of the table is alone");
    }
}
