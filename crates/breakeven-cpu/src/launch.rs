//! One launch of a segment: where its operands lie, which is looked at before it runs.

use std::ptr::null_mut;

use breakeven_device::{DeviceError, Result};
use breakeven_ir::{Kernel, Launch, Operand};
use smallvec::{SmallVec, smallvec};

use crate::kept::{Order, Panels, panels};
use crate::kernels::{Bound as Operands, Compiled, Machine, compile};
use crate::program::Scratch;
use crate::segment::Bound;
use crate::slots::{Refusal, Slot};

/// Operands of one launch that are placed without asking for memory.
const FEW: usize = 8;

/// A kernel, and what its operands are.
#[derive(Debug)]
pub(crate) struct CpuLaunch {
    kernel: Compiled,
    /// Inputs, then outputs.
    places: Box<[Place]>,
    inputs: usize,
}

/// One operand of a launch: what must be true of its buffer, and where its first element lies.
#[derive(Debug)]
struct Place {
    slot: usize,
    span: u64,
    offset: usize,
    align: usize,
    /// An input that may lie in the memory of output 0: that of a map whose layout is the output's.
    may_share: bool,
}

impl Place {
    fn new(operand: &Operand, slot: usize) -> Place {
        let width = operand.dtype.bytes();
        let offset = operand.layout.offset * width;
        Place { slot, span: operand.span_bytes(), offset, align: width, may_share: false }
    }
}

impl CpuLaunch {
    pub fn new(machine: &Machine, launch: &Launch) -> Result<CpuLaunch> {
        let out = launch.kernel.outputs()[0];
        let alike = |o: &Operand| {
            matches!(launch.kernel, Kernel::Map(_)) && o.layout == out.layout && o.dtype.bytes() == out.dtype.bytes()
        };
        let inputs = launch.kernel.inputs().into_iter().zip(&launch.inputs);
        let outputs = launch.kernel.outputs().into_iter().zip(&launch.outputs);
        let inputs = inputs.map(|(o, &slot)| Place { may_share: alike(o), ..Place::new(o, slot) });
        Ok(CpuLaunch {
            kernel: compile(machine, &launch.kernel)?,
            inputs: inputs.len(),
            places: inputs.chain(outputs.map(|(o, &slot)| Place::new(o, slot))).collect(),
        })
    }

    pub fn kernel(&self) -> &Compiled {
        &self.kernel
    }

    /// The slots of its operands, and whether they are written.
    pub fn slots(&self) -> impl Iterator<Item = (usize, bool)> {
        self.places.iter().enumerate().map(|(at, place)| (place.slot, at >= self.inputs))
    }

    #[inline]
    pub fn run(&self, machine: &Machine, bound: &Bound<'_>) -> Result<()> {
        let mut few = [null_mut(); FEW];
        match few.get_mut(..self.places.len()) {
            Some(operands) => self.run_at(operands, machine, bound),
            None => self.run_many(machine, bound),
        }
    }

    #[cold]
    fn run_many(&self, machine: &Machine, bound: &Bound<'_>) -> Result<()> {
        self.run_at(&mut vec![null_mut(); self.places.len()], machine, bound)
    }

    /// Runs it, where `operands` has room for the place of each.
    #[inline(always)]
    fn run_at(&self, operands: &mut [*mut u8], machine: &Machine, bound: &Bound<'_>) -> Result<()> {
        let mut copies = Vec::new();
        self.place(operands, bound, &mut copies)?;
        let panels = if self.kernel.keeps().is_some() { self.packed(machine, bound, operands) } else { None };
        let packed = panels.as_ref().map(Panels::start);
        // SAFETY: every operand's span lies in its memory, which is the run's as the kernel needs it, and is aligned to its
        // elements; no input lies in memory that is written but where it may. Panels are those of what the second input holds.
        unsafe { self.kernel.run(machine, Operands::new(operands, self.inputs, packed)) }
    }

    /// Where its operands lie, without its being run: as many as it has.
    pub fn placed(&self, bound: &Bound<'_>, copies: &mut Vec<Scratch>) -> Result<SmallVec<[*mut u8; FEW]>> {
        let mut operands = smallvec![null_mut(); self.places.len()];
        self.place(&mut operands, bound, copies)?;
        Ok(operands)
    }

    /// What its kernel takes, of what was `placed` for it.
    pub fn operands<'a>(&self, placed: &'a [*mut u8]) -> Operands<'a> {
        Operands::new(placed, self.inputs, None)
    }

    #[inline(always)]
    fn place(&self, operands: &mut [*mut u8], bound: &Bound<'_>, copies: &mut Vec<Scratch>) -> Result<()> {
        for (at, to) in operands.iter_mut().enumerate() {
            *to = if at < self.inputs { self.input(at, bound, copies) } else { self.output(at, bound) }
                .map_err(|refusal| refusal.of(&self.places[at]))?;
        }
        Ok(())
    }

    /// Where input `at` lies, in a copy where host bytes are not aligned to its elements.
    #[inline(always)]
    fn input(&self, at: usize, bound: &Bound<'_>, copies: &mut Vec<Scratch>) -> std::result::Result<*mut u8, Refusal> {
        let place = &self.places[at];
        let memory = bound.memory(place.slot)?;
        place.check(memory)?;
        // It may lie in the memory of the first output.
        let mut others = self.places.iter().skip(self.inputs + usize::from(place.may_share));
        others.try_for_each(|other| memory.apart_from(bound.memory(other.slot)?))?;
        Ok(place.aligned(memory.start(), copies).cast_mut())
    }

    /// Where operand `at` lies, an output.
    #[inline(always)]
    fn output(&self, at: usize, bound: &Bound<'_>) -> std::result::Result<*mut u8, Refusal> {
        let place = &self.places[at];
        let memory = bound.memory(place.slot)?;
        place.check(memory)?;
        let mut others = self.places[..at].iter().skip(self.inputs);
        others.try_for_each(|other| memory.apart_from(bound.memory(other.slot)?))?;
        Ok(memory.write()?.wrapping_add(place.offset))
    }

    /// The second input of a product as it was packed before, or is now.
    #[inline(never)]
    fn packed(&self, machine: &Machine, bound: &Bound<'_>, operands: &[*mut u8]) -> Option<Panels> {
        let (product, keeps) = self.kernel.keeps()?;
        let order = Order { start: self.places[1].offset, ..keeps.order };
        let memory = bound.memory(self.places[1].slot).ok()?;
        panels(&machine.store, (memory, order), keeps.bytes(), |to| {
            // SAFETY: the operand's span lies in its memory, which is the run's, and there is room for the panels.
            unsafe { product.pack(machine, keeps, operands[1], to) };
        })
    }
}

impl Place {
    #[inline]
    fn check(&self, memory: &Slot<'_>) -> std::result::Result<(), Refusal> {
        if self.span <= memory.bytes() as u64 { Ok(()) } else { Err(Refusal::Short(memory.bytes())) }
    }

    /// The first element, in a copy where host bytes are not aligned to the elements.
    #[inline]
    fn aligned(&self, start: *const u8, copies: &mut Vec<Scratch>) -> *const u8 {
        // Widths are powers of two, and the processor's division takes longer than all else here.
        if start.addr() & (self.align - 1) == 0 || self.span == 0 {
            return start.wrapping_add(self.offset);
        }
        self.copied(start, copies)
    }

    #[cold]
    fn copied(&self, start: *const u8, copies: &mut Vec<Scratch>) -> *const u8 {
        let mut copy = Scratch::of_bytes(self.span as usize);
        // SAFETY: the operand's span was checked against its memory, and the copy is as long.
        unsafe { std::ptr::copy_nonoverlapping(start, copy.start(), self.span as usize) };
        let place = copy.start().wrapping_add(self.offset);
        copies.push(copy);
        place
    }
}

impl Refusal {
    /// As an error about an operand.
    #[cold]
    fn of(self, place: &Place) -> DeviceError {
        match self {
            Refusal::Short(bytes) => {
                let text =
                    format!("slot {} holds {bytes} bytes, and its operand reaches to {}", place.slot, place.span);
                DeviceError::Driver(text)
            }
            other => other.into(),
        }
    }
}
