//! Expressions: rows composed by fusion, the elementwise content of a kernel.

use crate::{Body, Builder, DType, Inst, Kind, Row, Term};

/// One step of an expression; operands are indices of earlier steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Item {
    /// The element that argument `.0` has here.
    Arg(u16),
    /// Parameter `.0`, passed as data.
    Param(u16),
    /// A row of the table: its tensors first, then its parameters, in the order of [`crate::MapDef::args`]. Unused places
    /// repeat the first operand.
    Row(Row, [u16; 3]),
    /// A change of type.
    Cast(u16),
}

/// Steps in order, each with the type of its result; the last one is the result.
///
/// Two equal expressions are the same computation: parameters and sizes are data and not part of it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Expr {
    items: Vec<(Item, DType)>,
    args: Vec<DType>,
    params: u16,
}

impl Expr {
    /// Its one argument, unchanged.
    pub fn identity(dtype: DType) -> Expr {
        let mut b = ExprBuilder::default();
        let x = b.arg(dtype);
        b.finish(x)
    }

    /// One row at `dtype`, applied to its arguments and parameters in order.
    pub fn row(row: Row, dtype: DType) -> Expr {
        let mut b = ExprBuilder::default();
        let one = |k: &Kind| match k {
            Kind::V => b.arg(dtype),
            Kind::M => b.arg(DType::Bool),
            Kind::P => b.param(dtype),
        };
        let operands: Vec<u16> = row.args.iter().map(one).collect();
        let result = b.row(row, dtype, &operands);
        b.finish(result)
    }

    /// The steps and the type of each.
    pub fn items(&self) -> &[(Item, DType)] {
        &self.items
    }

    /// Types of the arguments.
    pub fn args(&self) -> &[DType] {
        &self.args
    }

    /// How many parameters it reads.
    pub fn params(&self) -> usize {
        self.params as usize
    }

    /// Type of the result.
    pub fn dtype(&self) -> DType {
        self.items.last().expect("an expression has a result").1
    }

    /// True when the result is argument 0, unchanged.
    pub fn is_identity(&self) -> bool {
        matches!(self.items.as_slice(), [(Item::Arg(0), _)])
    }

    /// How many rows it applies.
    pub fn rows(&self) -> usize {
        self.items.iter().filter(|(item, _)| matches!(item, Item::Row(..))).count()
    }

    /// The same in scalar primitives, for devices that compile text and for the reference.
    pub fn lower(&self) -> Body {
        let builder = Builder::default();
        let mut terms: Vec<Term<'_>> = Vec::with_capacity(self.items.len());
        for &(item, dtype) in &self.items {
            let term = match item {
                Item::Arg(i) => builder.push(Inst::Arg(i), dtype),
                Item::Param(i) => builder.push(Inst::Param(i), dtype),
                Item::Cast(id) => terms[id as usize].cast(dtype),
                Item::Row(row, ids) => {
                    let operands: Vec<Term<'_>> = ids.iter().map(|&i| terms[i as usize]).collect();
                    (row.0.body)(&operands[..row.args.len()])
                }
            };
            terms.push(term);
        }
        let result = terms.last().expect("an expression has a result").id();
        drop(terms);
        builder.finish(result)
    }

    /// Arithmetic of one element, in core primitives.
    pub fn flops(&self) -> u64 {
        self.lower().flops()
    }
}

/// Writes an expression step by step.
#[derive(Clone, Debug, Default)]
pub struct ExprBuilder {
    items: Vec<(Item, DType)>,
    args: Vec<DType>,
    params: u16,
}

impl ExprBuilder {
    /// The next argument.
    pub fn arg(&mut self, dtype: DType) -> u16 {
        self.args.push(dtype);
        self.push(Item::Arg(self.args.len() as u16 - 1), dtype)
    }

    /// The next parameter.
    pub fn param(&mut self, dtype: DType) -> u16 {
        self.params += 1;
        self.push(Item::Param(self.params - 1), dtype)
    }

    /// A row at `dtype`, applied to earlier steps: tensors first, then parameters.
    pub fn row(&mut self, row: Row, dtype: DType, operands: &[u16]) -> u16 {
        assert_eq!(operands.len(), row.args.len(), "{row:?} takes {} operands", row.args.len());
        let mut ids = [operands[0]; 3];
        ids[..operands.len()].copy_from_slice(operands);
        self.push(Item::Row(row, ids), if row.out == Kind::M { DType::Bool } else { dtype })
    }

    /// An earlier step as another type.
    pub fn cast(&mut self, step: u16, dtype: DType) -> u16 {
        if self.items[step as usize].1 == dtype { step } else { self.push(Item::Cast(step), dtype) }
    }

    /// The steps of `expr`, whose arguments are earlier steps and whose parameters come after those so far; gives its result.
    ///
    /// # Panics
    /// When there are fewer `args` than it takes.
    pub fn expr(&mut self, expr: &Expr, args: &[u16]) -> u16 {
        let mut steps: Vec<u16> = Vec::with_capacity(expr.items.len());
        let first = self.params;
        self.params += expr.params;
        for (item, dtype) in &expr.items {
            steps.push(match item {
                Item::Arg(arg) => args[*arg as usize],
                Item::Param(param) => self.push(Item::Param(first + param), *dtype),
                Item::Row(row, ids) => self.push(Item::Row(*row, ids.map(|id| steps[id as usize])), *dtype),
                Item::Cast(step) => self.cast(steps[*step as usize], *dtype),
            });
        }
        *steps.last().expect("an expression has a result")
    }

    /// An earlier step, written once more.
    pub fn again(&mut self, step: u16) -> u16 {
        let (item, dtype) = self.items[step as usize];
        self.push(item, dtype)
    }

    /// How many steps there are so far.
    pub fn len(&self) -> usize {
        self.items.len()
    }

    /// True before the first step.
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// The expression whose result is step `result`, which must be the last one.
    pub fn finish(self, result: u16) -> Expr {
        assert_eq!(result as usize + 1, self.items.len(), "the result is the last step");
        Expr { items: self.items, args: self.args, params: self.params }
    }

    fn push(&mut self, item: Item, dtype: DType) -> u16 {
        self.items.push((item, dtype));
        u16::try_from(self.items.len() - 1).expect("fusion keeps expressions under 65,536 steps")
    }
}
