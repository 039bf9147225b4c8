//! Code generated at run time: a fragment of an expression as one loop whose values stay in registers.
//!
//! The instructions are those that the compiled loops of rows use, so results are the same bit by bit. What has no form
//! here (functions, integers of other widths, more values than registers) stays a loop of its own.

mod assembler;
mod casts;
mod composed;
mod emitter;
mod memory;
mod primitives;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use breakeven_ir::{DType, Inst};

use crate::Isa;
use emitter::{Emitter, POINTERS};
pub(crate) use memory::CodeLedger;
use memory::CodeMemory;

/// Instructions that code is generated for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Target {
    Avx2,
    Avx512,
}

impl Target {
    /// The target that computes as the loops of `isa` do.
    pub fn of(isa: Isa) -> Option<Target> {
        match isa {
            _ if !cfg!(target_arch = "x86_64") => None,
            Isa::Avx2 => Some(Target::Avx2),
            Isa::Avx512 => Some(Target::Avx512),
            Isa::Scalar | Isa::Baseline => None,
        }
    }

    /// Bytes of the longest register.
    fn bytes(self) -> usize {
        match self {
            Target::Avx2 => 32,
            Target::Avx512 => 64,
        }
    }
}

/// Instructions that a copy of the body has at least, for which the loop around it is repeated.
const LONG_BODY: usize = 24;

/// What one loop computes: instructions in order, arguments numbered from 0, and the values that it stores.
#[derive(Debug)]
pub(crate) struct Fragment<'a> {
    pub insts: Vec<(Inst, DType)>,
    pub outputs: Vec<u32>,
    /// How many arguments there are.
    pub args: usize,
    /// Arguments that are the same for all elements.
    pub uniform: Vec<bool>,
    pub params: &'a [f64],
    /// How often each value is read.
    uses: Vec<u32>,
}

impl<'a> Fragment<'a> {
    pub fn new(insts: Vec<(Inst, DType)>, outputs: &[u32], uniform: Vec<bool>, params: &'a [f64]) -> Fragment<'a> {
        let (insts, outputs) = in_core_primitives(insts, outputs);
        let mut uses = vec![0; insts.len()];
        for (inst, _) in &insts {
            match inst {
                Inst::Prim(prim, ids) => {
                    for &id in &ids[..prim.arity()] {
                        uses[id as usize] += 1;
                    }
                }
                Inst::Cast(id) => uses[*id as usize] += 1,
                Inst::Arg(_) | Inst::Param(_) | Inst::Const(_) => {}
            }
        }
        for &id in &outputs {
            uses[id as usize] += 1;
        }
        Fragment { insts, outputs, args: uniform.len(), uniform, params, uses }
    }

    /// Arguments and outputs.
    fn operands(&self) -> usize {
        self.args + self.outputs.len()
    }

    /// The number that a value is wherever it is read, in its type.
    fn number(&self, id: u32) -> Option<f64> {
        let (inst, dtype) = self.insts[id as usize];
        let c = match inst {
            Inst::Const(c) => c,
            Inst::Param(i) => self.params[i as usize],
            _ => return None,
        };
        match dtype {
            DType::F64 | DType::I64 | DType::U64 => Some(c),
            DType::F32 => Some(f64::from(c as f32)),
            DType::I32 => Some(f64::from(c as i32)),
            DType::U32 => Some(f64::from(c as u32)),
            _ => None,
        }
    }

    /// The bits of that number.
    fn constant(&self, id: u32) -> Option<u64> {
        let c = self.number(id)?;
        Some(match self.insts[id as usize].1 {
            DType::F64 => c.to_bits(),
            DType::F32 => u64::from((c as f32).to_bits()),
            DType::I32 => u64::from(c as i32 as u32),
            DType::I64 => c as i64 as u64,
            DType::U64 => c as u64,
            _ => u64::from(c as u32),
        })
    }

    /// Elements of one chunk: as many as a register holds of the widest type.
    fn lanes(&self, target: Target) -> Option<usize> {
        let widths = || self.insts.iter().map(|(_, dtype)| dtype.bytes());
        let widest = widths().max()?.max(4);
        // Truth values are as wide as the numbers of AVX2, so there is one width.
        let mixed = target == Target::Avx2 && widest == 8 && widths().any(|width| !matches!(width, 1 | 8));
        (!mixed).then(|| target.bytes() / widest)
    }

    /// There is code for it.
    pub fn is_assembled(&self, target: Target) -> bool {
        self.assemble(target, false).is_some()
    }

    /// The code, and how many chunks its first loop takes at a time.
    fn assemble(&self, target: Target, streams: bool) -> Option<(Vec<u8>, usize, usize)> {
        let lanes = self.lanes(target)?;
        let work = self.insts.iter().filter(|(inst, _)| matches!(inst, Inst::Prim(..) | Inst::Cast(_))).count();
        let unroll = [4, 2, 1].into_iter().find(|copies| copies * (work + self.operands()) <= LONG_BODY).unwrap_or(1);
        // The first round finds out what is asked for and how many registers are left for it.
        let mut draft = Emitter::new(self, target, lanes);
        draft.emit(&[], 1, streams).ok()?;
        let held = draft.asked.len().min(draft.spare as usize);
        let mut emitter = Emitter::new(self, target, lanes);
        emitter.emit(&draft.asked[..held], unroll, streams).ok()?;
        Some((emitter.asm.finish(), lanes, unroll))
    }
}

/// The same with functions of f32 written out.
fn in_core_primitives(insts: Vec<(Inst, DType)>, outputs: &[u32]) -> (Vec<(Inst, DType)>, Vec<u32>) {
    let mut all = Vec::with_capacity(insts.len());
    let mut place: Vec<u32> = Vec::with_capacity(insts.len());
    for (inst, dtype) in insts {
        let inst = inst.moved(&place);
        let definition = match inst {
            Inst::Prim(prim, ids) if dtype == DType::F32 => prim.definition().map(|body| (body, ids)),
            _ => None,
        };
        let Some((body, ids)) = definition else {
            place.push(all.len() as u32);
            all.push((inst, dtype));
            continue;
        };
        let mut within: Vec<u32> = Vec::with_capacity(body.insts().len());
        for &(inst, dtype) in body.insts() {
            if let Inst::Arg(k) = inst {
                within.push(ids[k as usize]);
            } else {
                within.push(all.len() as u32);
                all.push((inst.moved(&within), dtype));
            }
        }
        place.extend(within.last());
    }
    (all, outputs.iter().map(|&id| place[id as usize]).collect())
}

/// The loop of a fragment.
#[derive(Debug)]
pub(crate) struct Generated {
    memory: Arc<CodeMemory>,
    lanes: usize,
    unroll: usize,
    /// Bytes of an element of each operand; 0 for what is the same for all elements.
    widths: Vec<usize>,
    args: usize,
    target: Target,
}

/// As [`Entry`], where there is no code for it.
#[cfg(not(target_arch = "x86_64"))]
type Entry = unsafe extern "C" fn(*const *const u8, usize, usize, u32);

/// Places of operands, elements of the repeated loop, elements of whole chunks, mask of the last chunk.
#[cfg(target_arch = "x86_64")]
type Entry = unsafe extern "sysv64" fn(*const *const u8, usize, usize, u32);

/// Room for the last chunk of each operand where no mask can leave out elements.
#[derive(Clone, Copy)]
#[repr(align(64))]
struct Padded([u8; 64]);

impl Generated {
    /// Operands that a loop has at most.
    pub const OPERANDS: usize = POINTERS.len();

    /// The loop of `fragment`; `None` where it has none here. With `streams`, outputs bypass the caches, and must start at
    /// a multiple of 64 bytes.
    pub fn new(fragment: &Fragment<'_>, target: Target, ledger: &Arc<CodeLedger>, streams: bool) -> Option<Generated> {
        let (code, lanes, unroll) = fragment.assemble(target, streams)?;
        let mut widths = vec![0; fragment.args];
        for (inst, dtype) in &fragment.insts {
            if let Inst::Arg(k) = inst
                && !fragment.uniform[*k as usize]
            {
                widths[*k as usize] = dtype.bytes();
            }
        }
        widths.extend(fragment.outputs.iter().map(|&id| fragment.insts[id as usize].1.bytes()));
        let memory = CodeMemory::of(&code, ledger)?;
        Some(Generated { memory, lanes, unroll, widths, args: fragment.args, target })
    }

    /// Computes `n` elements.
    ///
    /// # Safety
    /// `places` must hold a place for each argument, then for each output, with `n` elements of its type; an output may
    /// lie exactly where an argument of its width lies.
    #[inline]
    pub unsafe fn run(&self, places: &[*const u8], n: usize) {
        assert_eq!(places.len(), self.widths.len(), "a place for each operand");
        // Both are powers of two.
        let whole = n & !(self.lanes - 1);
        let repeated = n & !(self.lanes * self.unroll - 1);
        let mask = if self.target == Target::Avx512 { (1u32 << (n - whole)) - 1 } else { 0 };
        // SAFETY: the memory holds the code of a function of this type, and the target was detected.
        unsafe {
            let entry: Entry = std::mem::transmute(self.memory.start());
            entry(places.as_ptr(), repeated, whole, mask);
            if self.target == Target::Avx2 && n > whole {
                self.rest(entry, places, whole, n - whole);
            }
        }
    }

    /// The last elements, fewer than a chunk, in copies that hold one.
    ///
    /// # Safety
    /// As [`Generated::run`].
    #[inline(never)]
    unsafe fn rest(&self, entry: Entry, places: &[*const u8], from: usize, n: usize) {
        let mut padded = [Padded([0; 64]); Self::OPERANDS];
        let mut moved = [std::ptr::null(); Self::OPERANDS];
        for (k, (&place, &width)) in places.iter().zip(&self.widths).enumerate() {
            let copy = padded[k].0.as_mut_ptr();
            moved[k] = if width == 0 { place } else { copy.cast_const() };
            if k < self.args && width > 0 {
                // SAFETY: `n` elements lie behind `from`, and fewer than a register's worth fit the copy.
                unsafe { std::ptr::copy_nonoverlapping(place.add(from * width), copy, n * width) };
            }
        }
        // SAFETY: every copy holds a chunk.
        unsafe { entry(moved.as_ptr(), 0, self.lanes, 0) };
        for k in self.args..places.len() {
            let width = self.widths[k];
            // SAFETY: outputs are written by their owner alone.
            unsafe {
                std::ptr::copy_nonoverlapping(padded[k].0.as_ptr(), places[k].cast_mut().add(from * width), n * width);
            };
        }
    }
}
