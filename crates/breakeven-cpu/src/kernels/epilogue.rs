//! Epilogues: an expression applied to computed values, with further operands, on the way out.

use breakeven_ir::{Expr, Unsupported};

use super::Machine;
use super::map::Room;
use crate::domain::{Axes, Block, Domain};
use crate::program::Program;

/// The expression and its further operands, whose places in the launch start at `first`.
#[derive(Debug)]
pub(super) struct Epilogue {
    program: Program,
    extras: Vec<Axes>,
    out: Axes,
    first: usize,
}

impl Epilogue {
    pub fn new(
        machine: &Machine,
        expr: &Expr,
        params: &[f64],
        places: (Axes, Vec<Axes>, usize),
    ) -> Result<Epilogue, Unsupported> {
        let (out, extras, first) = places;
        Ok(Epilogue { program: Program::new(machine, expr, params)?, extras, out, first })
    }

    /// Values are written as they are.
    pub fn is_identity(&self) -> bool {
        self.program.identity
    }

    pub fn out(&self) -> &Axes {
        &self.out
    }

    /// Says that so many elements will be written.
    pub fn expect(&self, machine: &Machine, elements: usize) {
        self.program.expect(machine, elements, false);
    }

    pub fn room(&self) -> Room<'_> {
        Room::new(self.program.way(false), self.extras.len() + 2)
    }

    /// Writes one block of at most [`crate::domain::BLOCK`] values that lie at `values`.
    ///
    /// # Safety
    /// `inputs` and `out` must hold the domain, `values` the block; `room` must come from this epilogue.
    pub unsafe fn write(
        &self,
        domain: &Domain,
        block: &Block,
        values: *const u8,
        inputs: &[*const u8],
        out: *mut u8,
        room: &mut Room<'_>,
    ) {
        // SAFETY: the same contract.
        unsafe { self.write_as(domain, block, values, inputs, (&self.out, out), room) };
    }

    /// As [`Epilogue::write`], to an output of other axes.
    ///
    /// # Safety
    /// The same contract.
    pub unsafe fn write_as(
        &self,
        domain: &Domain,
        block: &Block,
        values: *const u8,
        inputs: &[*const u8],
        (axes, out): (&Axes, *mut u8),
        room: &mut Room<'_>,
    ) {
        room.args[0] = values;
        // SAFETY: the caller's contract; every temporary holds a block.
        unsafe {
            for (k, extra) in self.extras.iter().enumerate() {
                let temp = room.temp(k + 1);
                room.args[k + 1] = domain.fetch(extra, inputs[self.first + k], block, temp);
            }
            if let Some(place) = domain.direct(axes, block) {
                let to = out.wrapping_offset(place * axes.width as isize);
                room.run(to, block.n);
            } else {
                let temp = room.temp(0);
                room.run(temp, block.n);
                domain.scatter(axes, out, block, temp);
            }
        }
    }
}
