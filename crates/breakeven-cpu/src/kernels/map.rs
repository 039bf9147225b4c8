//! Elementwise work.

use breakeven_ir::{Map, Unsupported};

use super::transpose::Transpose;
use super::{Bound, Machine, views};
use crate::domain::{Axes, Block, Domain, Order};
use crate::program::{Program, Scratch};

/// An expression over a domain.
#[derive(Debug)]
pub(crate) struct CpuMap {
    program: Program,
    domain: Domain,
    out: Axes,
    inputs: Vec<Axes>,
    transpose: Option<Transpose>,
    nanoseconds: f64,
}

impl CpuMap {
    pub fn new(machine: &Machine, kernel: &Map, nanoseconds: f64) -> Result<CpuMap, Unsupported> {
        let program = Program::new(&machine.natives, &kernel.expr, &kernel.params)?;
        let operands = views([&kernel.out].into_iter().chain(&kernel.inputs));
        let rank = kernel.out.layout.shape.rank();
        let (domain, mut axes) = Domain::new(&operands, 0..rank, Order::Free);
        let inputs = axes.split_off(1);
        let out = axes.remove(0);
        let copied = inputs.first().filter(|_| program.identity);
        let transpose = copied.and_then(|input| Transpose::new(&domain, &out, input));
        Ok(CpuMap { program, domain, out, inputs, transpose, nanoseconds })
    }

    /// # Safety
    /// As [`super::Compiled::run`].
    pub unsafe fn run(&self, machine: &Machine, bound: Bound<'_>) {
        if let Some(transpose) = &self.transpose {
            return machine.split(transpose.units(), self.nanoseconds, |units| {
                for unit in units {
                    let sides = ((&self.out, bound.output(0)), (&self.inputs[0], bound.input(0)));
                    // SAFETY: operands hold the domain; tiles do not overlap.
                    unsafe { transpose.copy(unit, &self.domain, sides.0, sides.1) };
                }
            });
        }
        machine.split(self.domain.blocks(), self.nanoseconds, |blocks| {
            let mut room = Room::new(&self.program, self.inputs.len() + 1);
            for which in blocks {
                // SAFETY: blocks of one domain do not overlap.
                unsafe { self.block(&self.domain.block(which), bound, &mut room) };
            }
        });
    }

    unsafe fn block(&self, block: &Block, bound: Bound<'_>, room: &mut Room) {
        // SAFETY: operands hold the domain; every temporary holds a block.
        unsafe {
            for (k, axes) in self.inputs.iter().enumerate() {
                room.args[k] = if let Some(place) = self.domain.direct(axes, block) {
                    bound.input(k).wrapping_offset(place * axes.width as isize)
                } else {
                    let temp = room.temp(k + 1);
                    self.domain.gather(axes, bound.input(k), block, temp);
                    temp
                };
            }
            let out = bound.output(0);
            if let Some(place) = self.domain.direct(&self.out, block) {
                let to = out.wrapping_offset(place * self.out.width as isize);
                self.program.run(&room.args, to, block.n, &mut room.scratch);
            } else {
                let temp = room.temp(0);
                self.program.run(&room.args, temp, block.n, &mut room.scratch);
                self.domain.scatter(&self.out, out, block, temp);
            }
        }
    }
}

/// What one thread needs to run a program: temporaries, made when they are first needed, and places of arguments.
#[derive(Debug)]
pub(super) struct Room {
    pub scratch: Scratch,
    pub args: Vec<*const u8>,
    temps: Vec<Option<Scratch>>,
}

impl Room {
    pub fn new(program: &Program, temps: usize) -> Room {
        let none = std::iter::repeat_with(|| None);
        Room {
            scratch: program.scratch(),
            args: vec![std::ptr::null(); temps.max(1)],
            temps: none.take(temps).collect(),
        }
    }

    /// A block of memory.
    pub fn temp(&mut self, index: usize) -> *mut u8 {
        self.temps[index].get_or_insert_with(|| Scratch::new(1)).start()
    }
}
