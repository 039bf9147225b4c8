//! Expressions as generated loops: as many rows in one as there is code for, with the loops of other rows in between.

use std::sync::Arc;

use breakeven_ir::{Builder, DType, Expr, Inst, Item, Term};

use crate::jit::{CodeLedger, Fragment, Generated, Target};
use crate::natives::{Natives, RowFn};
use crate::program::{SLOT, Scratch, native};

/// Where a step finds an operand or puts a result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Arg(u16),
    Param(u16),
    Temp(u16),
    Out,
}

#[derive(Debug)]
enum Step {
    /// Arguments, then outputs.
    Code(Generated, Vec<Place>),
    Row(RowFn, [Place; 3], Place),
}

/// A compiled expression, other than row by row.
#[derive(Debug)]
pub(crate) struct Fused {
    steps: Vec<Step>,
    temps: usize,
    /// Arguments that are given as one element.
    uniform: Vec<bool>,
    /// It is one loop that takes all arguments in their order.
    is_whole: bool,
}

/// What to generate code for.
#[derive(Clone, Copy)]
pub(crate) struct Wanted<'a> {
    pub natives: &'a Natives,
    pub expr: &'a Expr,
    pub params: &'a [f64],
    /// Arguments that are the same for all elements of a call.
    pub uniform: &'a [bool],
    pub target: Target,
    pub ledger: &'a Arc<CodeLedger>,
    /// The output bypasses the caches.
    pub streams: bool,
}

impl Fused {
    /// `None` where no two rows share a loop, or the system gives no memory for code.
    pub fn new(wanted: &Wanted<'_>) -> Option<Fused> {
        let all = vec![true; wanted.expr.items().len()];
        let parts = Parts::new(wanted.expr, &all);
        if let Some(whole) = parts.fused(wanted) {
            return Some(whole);
        }
        let has_code = |at: usize| {
            let mut only = vec![false; at + 1];
            only[at] = true;
            matches!(wanted.expr.items()[at].0, Item::Row(..) | Item::Cast(_))
                && fragment(wanted, &only, &[at]).0.is_assembled(wanted.target)
        };
        let mut light: Vec<bool> = (0..all.len()).map(has_code).collect();
        let parts = Parts::new(wanted.expr, &light);
        // A loop of one row gains nothing.
        for stage in (0..=parts.last).step_by(2) {
            let members = parts.members(stage);
            if let [only] = members[..] {
                light[only] = false;
            }
        }
        if !light.contains(&true) {
            return None;
        }
        Parts::new(wanted.expr, &light).fused(wanted)
    }

    /// True where a call may compute any number of elements.
    pub fn takes_any_length(&self) -> bool {
        matches!(self.steps[..], [Step::Code(..)])
    }

    /// The loop that is all of it, and takes every argument, then the output.
    #[inline]
    pub fn whole(&self) -> Option<&Generated> {
        match &self.steps[..] {
            [Step::Code(code, _)] if self.is_whole => Some(code),
            _ => None,
        }
    }

    /// Argument `k` is one element.
    pub fn takes_one(&self, k: usize) -> bool {
        self.uniform[k]
    }

    /// Memory that one caller of [`Fused::run`] needs.
    pub fn scratch(&self) -> Scratch {
        Scratch::new(self.temps)
    }

    /// Computes `n` elements.
    ///
    /// # Safety
    /// As [`crate::program::Way::run`].
    pub unsafe fn run(&self, params: &Scratch, args: &[*const u8], out: *mut u8, n: usize, scratch: &mut Scratch) {
        let temps = scratch.start();
        let place = |place: Place| match place {
            Place::Arg(i) => args[i as usize],
            Place::Param(i) => params.slot(i as usize),
            Place::Temp(i) => temps.wrapping_add(i as usize * SLOT).cast_const(),
            Place::Out => out.cast_const(),
        };
        for step in &self.steps {
            // SAFETY: arguments hold `n` elements by the caller's contract, slots hold a block.
            unsafe {
                match step {
                    Step::Row(run, from, to) => run(&from.map(place), place(*to).cast_mut(), n),
                    Step::Code(code, places) => {
                        let mut at = [std::ptr::null(); Generated::OPERANDS];
                        for (at, &from) in at.iter_mut().zip(places) {
                            *at = place(from);
                        }
                        code.run(&at[..places.len()], n);
                    }
                }
            }
        }
    }
}

/// Which rows run together: those of one even stage in one loop, those of odd stages by themselves.
struct Parts<'a> {
    expr: &'a Expr,
    /// The stage of each item; `None` for arguments and parameters.
    stage: Vec<Option<usize>>,
    last: usize,
}

impl<'a> Parts<'a> {
    fn new(expr: &'a Expr, light: &[bool]) -> Parts<'a> {
        let mut stage: Vec<Option<usize>> = Vec::with_capacity(light.len());
        for (at, (item, _)) in expr.items().iter().enumerate() {
            let odd = usize::from(!light[at]);
            let after = |id: &u16| stage[*id as usize].map_or(odd, |s| s + usize::from(s % 2 != odd));
            let here = operands(item).iter().map(after).max();
            stage.push(here);
        }
        let last = stage.iter().flatten().copied().max().unwrap_or(0);
        Parts { expr, stage, last }
    }

    fn members(&self, stage: usize) -> Vec<usize> {
        (0..self.stage.len()).filter(|&at| self.stage[at] == Some(stage)).collect()
    }

    /// The last stage that reads each item; beyond all for the result.
    fn last_reads(&self) -> Vec<usize> {
        let mut last = vec![0; self.stage.len()];
        for (at, (item, _)) in self.expr.items().iter().enumerate() {
            for &id in operands(item) {
                last[id as usize] = last[id as usize].max(self.stage[at].unwrap_or(0));
            }
        }
        if let Some(result) = last.last_mut() {
            *result = usize::MAX;
        }
        last
    }

    fn fused(&self, wanted: &Wanted<'_>) -> Option<Fused> {
        let mut uniform = wanted.uniform.to_vec();
        for (at, (item, _)) in self.expr.items().iter().enumerate() {
            if self.stage[at].is_some_and(|s| s % 2 == 1) {
                for &id in operands(item) {
                    if let Item::Arg(k) = self.expr.items()[id as usize].0 {
                        uniform[k as usize] = false;
                    }
                }
            }
        }
        let wanted = &Wanted { uniform: &uniform, ..*wanted };
        let reads = self.last_reads();
        let result = self.stage.len() - 1;
        self.stage[result]?;
        let mut places = Places::new(self.expr, result);
        let mut steps = Vec::new();
        for stage in 0..=self.last {
            let members = self.members(stage);
            if stage % 2 == 0 && !members.is_empty() {
                let outputs: Vec<usize> = members.iter().copied().filter(|&at| reads[at] > stage).collect();
                let mut inside = vec![false; result + 1];
                for &at in &members {
                    inside[at] = true;
                }
                let (fragment, inputs) = fragment(wanted, &inside, &outputs);
                let streams = wanted.streams && outputs.contains(&result);
                let code = Generated::new(&fragment, wanted.target, wanted.ledger, streams)?;
                let from = inputs.iter().map(|&at| places.of(at));
                let from: Vec<Place> = from.collect();
                let to = outputs.iter().map(|&at| places.make(at));
                steps.push(Step::Code(code, from.into_iter().chain(to).collect()));
            } else {
                for at in members {
                    steps.push(self.row(wanted, at, &mut places)?);
                }
            }
            places.free(&reads, stage);
        }
        let all = (0..uniform.len()).map(|k| Place::Arg(k as u16)).chain([Place::Out]);
        let is_whole = matches!(&steps[..], [Step::Code(_, places)] if all.eq(places.iter().copied()));
        Some(Fused { steps, temps: places.count as usize, uniform, is_whole })
    }

    fn row(&self, wanted: &Wanted<'_>, at: usize, places: &mut Places) -> Option<Step> {
        let (item, dtype) = self.expr.items()[at];
        let (run, from) = match item {
            Item::Row(row, ids) => (native(wanted.natives, self.expr, row, ids, dtype).ok()?, ids),
            Item::Cast(id) => (wanted.natives.cast(self.expr.items()[id as usize].1, dtype), [id; 3]),
            Item::Arg(_) | Item::Param(_) => return None,
        };
        Some(Step::Row(run, from.map(|id| places.of(id as usize)), places.make(at)))
    }
}

/// Items that an item reads.
fn operands(item: &Item) -> &[u16] {
    match item {
        Item::Row(row, ids) => &ids[..row.args.len()],
        Item::Cast(id) => std::slice::from_ref(id),
        Item::Arg(_) | Item::Param(_) => &[],
    }
}

/// Where items are while steps are listed.
struct Places {
    at: Vec<Option<Place>>,
    free: Vec<u16>,
    count: u16,
    result: usize,
}

impl Places {
    fn new(expr: &Expr, result: usize) -> Places {
        let leaf = |(item, _): &(Item, DType)| match item {
            Item::Arg(i) => Some(Place::Arg(*i)),
            Item::Param(i) => Some(Place::Param(*i)),
            _ => None,
        };
        Places { at: expr.items().iter().map(leaf).collect(), free: Vec::new(), count: 0, result }
    }

    fn of(&self, at: usize) -> Place {
        self.at[at].expect("what a step reads was computed by an earlier one")
    }

    fn make(&mut self, at: usize) -> Place {
        let place = if at == self.result {
            Place::Out
        } else {
            Place::Temp(self.free.pop().unwrap_or_else(|| {
                self.count += 1;
                self.count - 1
            }))
        };
        self.at[at] = Some(place);
        place
    }

    /// What no stage after `stage` reads makes room.
    fn free(&mut self, reads: &[usize], stage: usize) {
        for (at, place) in self.at.iter_mut().enumerate() {
            if let Some(Place::Temp(temp)) = *place
                && reads[at] <= stage
            {
                self.free.push(temp);
                *place = None;
            }
        }
    }
}

/// The items `inside` as a fragment that stores `outputs`, and the items that are its arguments.
fn fragment<'a>(wanted: &Wanted<'a>, inside: &[bool], outputs: &[usize]) -> (Fragment<'a>, Vec<usize>) {
    let builder = Builder::default();
    let mut inputs: Vec<usize> = Vec::new();
    let mut uniform = Vec::new();
    let mut terms: Vec<Option<Term<'_>>> = vec![None; inside.len()];
    for at in (0..inside.len()).filter(|&at| inside[at]) {
        let (item, dtype) = wanted.expr.items()[at];
        for &id in operands(&item) {
            let id = id as usize;
            if terms[id].is_none() {
                let (source, dtype) = wanted.expr.items()[id];
                let inst = if let Item::Param(i) = source {
                    Inst::Param(i)
                } else {
                    inputs.push(id);
                    uniform.push(matches!(source, Item::Arg(k) if wanted.uniform[k as usize]));
                    Inst::Arg(inputs.len() as u16 - 1)
                };
                terms[id] = Some(builder.push(inst, dtype));
            }
        }
        let known = |id: &u16| terms[*id as usize].expect("operands come first");
        terms[at] = match item {
            Item::Cast(id) => Some(known(&id).cast(dtype)),
            Item::Row(row, _) => Some((row.body)(&operands(&item).iter().map(known).collect::<Vec<_>>())),
            Item::Arg(_) | Item::Param(_) => None,
        };
    }
    let results: Vec<u32> = outputs.iter().map(|&at| terms[at].expect("outputs are inside").id()).collect();
    drop(terms);
    let (insts, outputs) = builder.finish_all(&results);
    (Fragment::new(insts, &outputs, uniform, wanted.params), inputs)
}
