//! Elementwise work.

use std::ops::Range;

use breakeven_ir::{Map, Unsupported};
use smallvec::{SmallVec, smallvec};

use super::transpose::Transpose;
use super::{Bound, Machine, views};
use crate::domain::{Axes, BLOCK, Block, Domain, Order};
use crate::program::{Program, Scratch, Way};

/// Outputs that bypass the caches start at a multiple of the longest register.
const STREAM_ALIGN: usize = 64;

/// An expression over a domain.
#[derive(Debug)]
pub(crate) struct CpuMap {
    program: Program,
    domain: Domain,
    out: Axes,
    inputs: Vec<Axes>,
    transpose: Option<Transpose>,
    lie: Lie,
    /// It is one block of operands that lie without gaps, or are one element.
    short: bool,
    /// Every operand starts with its first element.
    forward: bool,
    /// The output is large enough to bypass the caches.
    streams: bool,
    nanoseconds: f64,
}

/// How the operands lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Lie {
    /// All without gaps.
    Dense,
    /// Without gaps or as one element.
    Flat,
    Anyhow,
}

impl CpuMap {
    pub fn new(machine: &Machine, kernel: &Map, nanoseconds: f64) -> Result<CpuMap, Unsupported> {
        let operands = views([&kernel.out].into_iter().chain(&kernel.inputs));
        let rank = kernel.out.layout.shape.rank();
        let (domain, mut axes) = Domain::new(&operands, 0..rank, Order::Free);
        let inputs = axes.split_off(1);
        let out = axes.remove(0);
        let uniform = inputs.iter().map(|axes| domain.is_one_in_blocks(axes)).collect();
        let program = Program::with_uniform(machine, &kernel.expr, &kernel.params, uniform)?;
        let copied = inputs.first().filter(|_| program.identity);
        let transpose = copied.and_then(|input| Transpose::new(&domain, &out, input));
        let all = |is: &dyn Fn(&Axes) -> bool| out.dense && inputs.iter().all(is);
        let lie = match (all(&|axes| axes.dense), all(&|axes| axes.dense || domain.is_one(axes))) {
            (true, _) => Lie::Dense,
            (_, true) => Lie::Flat,
            _ => Lie::Anyhow,
        };
        let flat = lie != Lie::Anyhow;
        let streams = flat && (domain.elements() * out.width) as u64 >= machine.tuned.stream_bytes();
        let short = flat && !streams && transpose.is_none() && domain.elements() <= BLOCK;
        let forward = out.start == 0 && inputs.iter().all(|axes| axes.start == 0);
        Ok(CpuMap { program, domain, out, inputs, transpose, lie, short, forward, streams, nanoseconds })
    }

    /// The same whose output bypasses the caches, or does not.
    pub fn with_streams(self, streams: bool) -> CpuMap {
        CpuMap { streams: streams && self.lie != Lie::Anyhow, short: self.short && !streams, ..self }
    }

    /// # Safety
    /// As [`super::Compiled::run`].
    pub unsafe fn run(&self, machine: &Machine, bound: Bound<'_>) {
        if self.short {
            // SAFETY: the same contract.
            return unsafe { self.run_short(machine, bound) };
        }
        if let Some(transpose) = &self.transpose {
            return machine.split(transpose.units(), self.nanoseconds, |units| {
                for unit in units {
                    let sides = ((&self.out, bound.output(0)), (&self.inputs[0], bound.input(0)));
                    // SAFETY: operands hold the domain; tiles do not overlap.
                    unsafe { transpose.copy(unit, &self.domain, sides.0, sides.1) };
                }
            });
        }
        let start = bound.output(0).wrapping_offset(self.out.start * self.out.width as isize);
        let head = if self.streams { self.head(start) } else { None };
        self.program.expect(machine, self.domain.elements(), head.is_some());
        if head.is_some_and(|head| head > 0) {
            self.program.expect(machine, self.domain.elements(), false);
        }
        let (plain, way) = (self.program.way(false), self.program.way(head.is_some()));
        let head = head.unwrap_or(0);
        if self.is_at_once(way) && (head == 0 || self.is_at_once(plain)) {
            // SAFETY: the same contract.
            return unsafe { self.at_once(machine, bound, head, plain, way) };
        }
        // SAFETY: the same contract.
        unsafe { self.by_blocks(machine, bound, if head == 0 { way } else { plain }) };
    }

    /// All of it by one call of generated code, where it is that short and there is code: what a launch takes beside its loop
    /// is most of it then. False where it was not run.
    ///
    /// # Safety
    /// As [`CpuMap::run`].
    #[inline]
    pub unsafe fn run_code(&self, bound: Bound<'_>) -> bool {
        if self.short
            && self.forward
            && let Some(code) = self.program.code()
        {
            // SAFETY: operands hold the domain; those that are one element are so for the code too.
            unsafe { code.run(bound.operands, self.domain.elements()) };
            return true;
        }
        false
    }

    /// What is so short that deciding how to run it would take longer.
    ///
    /// # Safety
    /// As [`CpuMap::run`].
    unsafe fn run_short(&self, machine: &Machine, bound: Bound<'_>) {
        let elements = self.domain.elements();
        self.program.expect(machine, elements, false);
        let way = self.program.way(false);
        // SAFETY: the same contract.
        unsafe {
            if self.is_at_once(way) {
                self.run_of(0..elements, bound, way);
            } else {
                self.by_blocks(machine, bound, way);
            }
        }
    }

    /// Block by block.
    ///
    /// # Safety
    /// As [`CpuMap::run`].
    unsafe fn by_blocks(&self, machine: &Machine, bound: Bound<'_>, way: Way<'_>) {
        machine.split(self.domain.blocks(), self.nanoseconds, |blocks| {
            let mut room = Room::new(way, self.inputs.len() + 1);
            for which in blocks {
                // SAFETY: blocks of one domain do not overlap.
                unsafe { self.block(&self.domain.block(which), bound, &mut room) };
            }
            if self.streams {
                past_caches();
            }
        });
    }

    /// Elements before the first that lies as stores past the caches want it; `None` where none does.
    fn head(&self, start: *mut u8) -> Option<usize> {
        let bytes = start.addr().next_multiple_of(STREAM_ALIGN) - start.addr();
        bytes.is_multiple_of(self.out.width).then(|| (bytes / self.out.width).min(self.domain.elements()))
    }

    /// It may be called for any number of elements.
    fn is_at_once(&self, way: Way<'_>) -> bool {
        let is_whole = |(k, axes): (usize, &Axes)| axes.dense || way.takes_one(k);
        self.lie != Lie::Anyhow
            && way.takes_any_length()
            && (self.lie == Lie::Dense || self.inputs.iter().enumerate().all(is_whole))
    }

    /// Everything without blocks, the first `head` elements in the plain way.
    ///
    /// # Safety
    /// As [`CpuMap::run`].
    unsafe fn at_once(&self, machine: &Machine, bound: Bound<'_>, head: usize, plain: Way<'_>, way: Way<'_>) {
        // SAFETY: operands hold the domain.
        unsafe { self.run_of(0..head, bound, plain) };
        let rest = self.domain.elements() - head;
        machine.split(rest.div_ceil(BLOCK), self.nanoseconds, |blocks| {
            let elements = head + blocks.start * BLOCK..head + (blocks.end * BLOCK).min(rest);
            // SAFETY: parts of one domain do not overlap.
            unsafe { self.run_of(elements, bound, way) };
            if self.streams {
                past_caches();
            }
        });
    }

    /// Many elements at once.
    unsafe fn run_of(&self, elements: Range<usize>, bound: Bound<'_>, way: Way<'_>) {
        if elements.is_empty() {
            return;
        }
        let place = |axes: &Axes| {
            let element = axes.start + if axes.dense { elements.start as isize } else { 0 };
            element * axes.width as isize
        };
        let inputs = self.inputs.iter().enumerate();
        let args: SmallVec<[*const u8; 8]> =
            inputs.map(|(k, axes)| bound.input(k).wrapping_offset(place(axes))).collect();
        let out = bound.output(0).wrapping_offset(place(&self.out));
        // SAFETY: operands hold the domain, and a way that takes any length needs no memory of its own.
        unsafe { way.run(&args, out, elements.len(), &mut Scratch::default()) };
    }

    unsafe fn block(&self, block: &Block, bound: Bound<'_>, room: &mut Room<'_>) {
        // SAFETY: operands hold the domain; every temporary holds a block.
        unsafe {
            for (k, axes) in self.inputs.iter().enumerate() {
                room.args[k] = if room.way.takes_one(k) {
                    bound.input(k).wrapping_offset(self.domain.place(axes, block) * axes.width as isize)
                } else if let Some(place) = self.domain.direct(axes, block) {
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
                room.run(to, block.n);
            } else {
                let temp = room.temp(0);
                room.run(temp, block.n);
                self.domain.scatter(&self.out, out, block, temp);
            }
        }
    }
}

/// Waits until what was written past the caches is where others see it.
fn past_caches() {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: every processor of the architecture has it.
    unsafe {
        std::arch::x86_64::_mm_sfence();
    }
}

/// What one thread needs to run a program: temporaries, made when they are first needed, and places of arguments.
#[derive(Debug)]
pub(super) struct Room<'a> {
    way: Way<'a>,
    scratch: Scratch,
    pub args: SmallVec<[*const u8; 8]>,
    temps: SmallVec<[Option<Scratch>; 4]>,
}

impl<'a> Room<'a> {
    pub fn new(way: Way<'a>, temps: usize) -> Room<'a> {
        let none = std::iter::repeat_with(|| None);
        Room {
            way,
            scratch: way.scratch(),
            args: smallvec![std::ptr::null(); temps.max(1)],
            temps: none.take(temps).collect(),
        }
    }

    /// A block of memory.
    pub fn temp(&mut self, index: usize) -> *mut u8 {
        self.temps[index].get_or_insert_with(|| Scratch::new(1)).start()
    }

    /// Computes `n` elements of the arguments.
    ///
    /// # Safety
    /// As [`Way::run`].
    pub unsafe fn run(&mut self, out: *mut u8, n: usize) {
        // SAFETY: the same contract.
        unsafe { self.way.run(&self.args, out, n, &mut self.scratch) };
    }
}
