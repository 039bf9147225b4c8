//! Kernels with too many operands for a device, divided into several that hand each other values.

use std::collections::{BTreeMap, BTreeSet};

use breakeven_ir::{DType, Expr, ExprBuilder, Item, Kernel, Kind, Layout, Map, Operand, Row};

use super::limit::Limit;
use crate::Reason;
use crate::place::Refusal;

/// One of the kernels that another was divided into.
#[derive(Clone, Debug)]
pub(crate) struct Piece {
    pub kernel: Kernel,
    pub inputs: Vec<Bound>,
    pub outputs: Vec<Bound>,
}

/// What an operand of a piece is bound to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Bound {
    /// A value of the program.
    Value(usize),
    /// A value that only the pieces of one kernel know, by number.
    Between(usize),
}

/// Kernels of at most `limit` operands, results counted. Fails where there is no way to have fewer.
pub(crate) fn divide(piece: Piece, limit: usize) -> Result<Vec<Piece>, Refusal> {
    let (mut todo, mut done, mut fresh) = (vec![piece], Vec::new(), 0);
    while let Some(piece) = todo.pop() {
        let operands = piece.inputs.len() + piece.outputs.len();
        if operands <= limit {
            done.push(piece);
            continue;
        }
        let text = || Limit::Operands { operands, most: limit }.to_string();
        let (first, rest) = halves(&piece, limit, fresh).ok_or_else(|| Refusal::new(Reason::Unsupported, text()))?;
        fresh += 1;
        todo.push(rest);
        todo.push(first);
    }
    Ok(done)
}

/// Two kernels instead of one; the first writes value `fresh`, which the second reads.
fn halves(piece: &Piece, limit: usize, fresh: usize) -> Option<(Piece, Piece)> {
    match &piece.kernel {
        Kernel::Map(map) => divide_map(piece, map, limit, fresh),
        _ if has_epilogue(&piece.kernel) => Some(detach_epilogue(piece, fresh)),
        _ => detach_prologue(piece, fresh),
    }
}

fn has_epilogue(kernel: &Kernel) -> bool {
    match kernel {
        Kernel::MatMul(k) => !k.post.is_identity(),
        Kernel::Conv(k) => !k.post.is_identity(),
        Kernel::Reduce(k) => !k.post.is_identity(),
        Kernel::RowWise(k) => !k.post.is_identity(),
        Kernel::Map(_)
        | Kernel::Scan(_)
        | Kernel::Attention(_)
        | Kernel::Gather(_)
        | Kernel::Scatter(_)
        | Kernel::Custom(_)
        | Kernel::Sort(_) => false,
    }
}

/// The expression after the base as a kernel of its own.
fn detach_epilogue(piece: &Piece, fresh: usize) -> (Piece, Piece) {
    let mut kernel = piece.kernel.clone();
    let (post, params, extra, out) = match &mut kernel {
        Kernel::MatMul(k) => {
            let post = take_post(&mut k.post);
            (post, std::mem::take(&mut k.params), std::mem::take(&mut k.inputs), &mut k.out)
        }
        Kernel::Conv(k) => {
            let post = take_post(&mut k.post);
            (post, std::mem::take(&mut k.params), std::mem::take(&mut k.inputs), &mut k.out)
        }
        Kernel::Reduce(k) => {
            let post = take_post(&mut k.post);
            (post, k.params.split_off(k.pre.params()), k.inputs.split_off(k.pre.args().len()), &mut k.outs[0])
        }
        Kernel::RowWise(k) => {
            let post = take_post(&mut k.post);
            (post, k.params.split_off(k.pre.params()), k.inputs.split_off(k.pre.args().len()), &mut k.out)
        }
        Kernel::Map(_)
        | Kernel::Scan(_)
        | Kernel::Attention(_)
        | Kernel::Gather(_)
        | Kernel::Scatter(_)
        | Kernel::Custom(_)
        | Kernel::Sort(_) => {
            unreachable!("it has no epilogue")
        }
    };
    let between = Operand::new(post.args()[0], Layout::dense(out.layout.shape.clone()));
    let out = std::mem::replace(out, between.clone());
    let kept = piece.inputs.len() - extra.len();
    let inputs = [between].into_iter().chain(extra).collect();
    let map = Map { expr: post, params, inputs, out };
    let bound = [Bound::Between(fresh)].into_iter().chain(piece.inputs[kept..].iter().copied()).collect();
    let first = Piece { kernel, inputs: piece.inputs[..kept].to_vec(), outputs: vec![Bound::Between(fresh)] };
    (first, Piece { kernel: Kernel::Map(map), inputs: bound, outputs: piece.outputs.clone() })
}

fn take_post(post: &mut Expr) -> Expr {
    let identity = Expr::identity(post.args()[0]);
    std::mem::replace(post, identity)
}

/// The expression before the base as a kernel of its own.
fn detach_prologue(piece: &Piece, fresh: usize) -> Option<(Piece, Piece)> {
    let mut kernel = piece.kernel.clone();
    let (pre, params, inputs) = match &mut kernel {
        Kernel::Reduce(k) if k.pre.args().len() > 1 => (&mut k.pre, &mut k.params, &mut k.inputs),
        Kernel::RowWise(k) if k.pre.args().len() > 1 => (&mut k.pre, &mut k.params, &mut k.inputs),
        _ => return None,
    };
    let taken = pre.args().len();
    let between = Operand::new(pre.dtype(), Layout::dense(inputs[0].layout.shape.clone()));
    let expr = std::mem::replace(pre, Expr::identity(between.dtype));
    let own: Vec<f64> = params.drain(..expr.params()).collect();
    let reads: Vec<Operand> = inputs.splice(..taken, [between.clone()]).collect();
    let map = Map { expr, params: own, inputs: reads, out: between };
    let (outputs, bound) = (vec![Bound::Between(fresh)], piece.inputs[..taken].to_vec());
    let rest = [Bound::Between(fresh)].into_iter().chain(piece.inputs[taken..].iter().copied()).collect();
    let first = Piece { kernel: Kernel::Map(map), inputs: bound, outputs };
    Some((first, Piece { kernel, inputs: rest, outputs: piece.outputs.clone() }))
}

/// The part of an expression with the most arguments that fits, as a kernel of its own.
fn divide_map(piece: &Piece, map: &Map, limit: usize, fresh: usize) -> Option<(Piece, Piece)> {
    let reads = arguments(&map.expr);
    let last = map.expr.items().len() - 1;
    let fits = |step: &usize| (2..limit).contains(&reads[*step].len());
    let step = (0..last).filter(fits).max_by_key(|&step| (reads[step].len(), step))?;
    let shape = &map.out.layout.shape;
    let mut inside = Rewriter::new(map);
    let result = inside.write(&needed(&map.expr, step, None), step);
    let (expr, params, args) = inside.finish(result);
    let out = Operand::new(expr.dtype(), Layout::dense(shape.clone()));
    let first = Kernel::Map(Map { expr, params, inputs: pick(&map.inputs, &args), out: out.clone() });
    let first = Piece { kernel: first, inputs: pick(&piece.inputs, &args), outputs: vec![Bound::Between(fresh)] };
    let mut outside = Rewriter::new(map);
    outside.given(step, out.dtype);
    let result = outside.write(&needed(&map.expr, last, Some(step)), last);
    let (expr, params, args) = outside.finish(result);
    let inputs = [out].into_iter().chain(pick(&map.inputs, &args)).collect();
    let bound = [Bound::Between(fresh)].into_iter().chain(pick(&piece.inputs, &args)).collect();
    let rest = Kernel::Map(Map { expr, params, inputs, out: map.out.clone() });
    Some((first, Piece { kernel: rest, inputs: bound, outputs: piece.outputs.clone() }))
}

fn pick<T: Clone>(of: &[T], places: &[u16]) -> Vec<T> {
    places.iter().map(|&at| of[at as usize].clone()).collect()
}

fn operands(item: Item) -> Vec<u16> {
    match item {
        Item::Arg(_) | Item::Param(_) => Vec::new(),
        Item::Cast(step) => vec![step],
        Item::Row(row, ids) => ids[..row.args.len()].to_vec(),
    }
}

/// For each step, the arguments it depends on.
fn arguments(expr: &Expr) -> Vec<BTreeSet<u16>> {
    let mut reads: Vec<BTreeSet<u16>> = Vec::with_capacity(expr.items().len());
    for &(item, _) in expr.items() {
        let mut of: BTreeSet<u16> = operands(item).into_iter().flat_map(|step| reads[step as usize].clone()).collect();
        if let Item::Arg(arg) = item {
            of.insert(arg);
        }
        reads.push(of);
    }
    reads
}

/// Steps that `root` needs, ascending; what only `given` needs is left out.
fn needed(expr: &Expr, root: usize, given: Option<usize>) -> Vec<usize> {
    let mut is_needed = vec![false; root + 1];
    is_needed[root] = true;
    for step in (0..=root).rev().filter(|&step| Some(step) != given) {
        if is_needed[step] {
            for operand in operands(expr.items()[step].0) {
                is_needed[operand as usize] = true;
            }
        }
    }
    (0..=root).filter(|&step| is_needed[step] && Some(step) != given).collect()
}

/// Writes some steps of an expression as another expression.
struct Rewriter<'a> {
    map: &'a Map,
    builder: ExprBuilder,
    step_of: Vec<u16>,
    args: Vec<u16>,
    params: Vec<f64>,
}

impl<'a> Rewriter<'a> {
    fn new(map: &'a Map) -> Rewriter<'a> {
        let step_of = vec![0; map.expr.items().len()];
        Rewriter { map, builder: ExprBuilder::default(), step_of, args: Vec::new(), params: Vec::new() }
    }

    fn given(&mut self, step: usize, dtype: DType) {
        self.step_of[step] = self.builder.arg(dtype);
    }

    fn write(&mut self, steps: &[usize], result: usize) -> u16 {
        for &step in steps {
            let (item, dtype) = self.map.expr.items()[step];
            self.step_of[step] = match item {
                Item::Arg(arg) => {
                    self.args.push(arg);
                    self.builder.arg(dtype)
                }
                Item::Param(param) => {
                    self.params.push(self.map.params[param as usize]);
                    self.builder.param(dtype)
                }
                Item::Cast(of) => self.builder.cast(self.step_of[of as usize], dtype),
                Item::Row(row, ids) => {
                    let ids: Vec<u16> = ids[..row.args.len()].iter().map(|&id| self.step_of[id as usize]).collect();
                    self.builder.row(row, self.row_dtype(row, item, dtype), &ids)
                }
            };
        }
        self.step_of[result]
    }

    /// The type a row runs at: that of a value or parameter among its operands.
    fn row_dtype(&self, row: Row, item: Item, result: DType) -> DType {
        let kinds = row.args.iter().zip(operands(item));
        let mut values = kinds.filter(|(kind, _)| **kind != Kind::M);
        values.next().map_or(result, |(_, step)| self.map.expr.items()[step as usize].1)
    }

    fn finish(self, result: u16) -> (Expr, Vec<f64>, Vec<u16>) {
        (self.builder.finish(result), self.params, self.args)
    }
}

/// Type and bytes of the values between pieces, by number. Each may be written in parts; the last reaches its end.
pub(crate) fn between(pieces: &[Piece]) -> BTreeMap<usize, (DType, u64)> {
    let mut found = BTreeMap::new();
    for piece in pieces {
        for (bound, operand) in piece.outputs.iter().zip(piece.kernel.outputs()) {
            if let Bound::Between(number) = bound {
                let (_, bytes) = found.entry(*number).or_insert((operand.dtype, 0));
                *bytes = operand.span_bytes().max(*bytes);
            }
        }
    }
    found
}
