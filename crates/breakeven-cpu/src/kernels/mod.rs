//! The kernels: each is compiled once and then run over memory that was checked when it was bound.

mod epilogue;
mod gather;
mod map;
mod matmul;
mod reduce;
mod row_wise;

use breakeven_ir::{DType, Kernel, Layout, Operand, Unsupported, Work};

use crate::Tuning;
use crate::natives::Natives;
use crate::team::Team;
use gather::CpuGather;
use map::CpuMap;
use matmul::CpuMatMul;
use reduce::CpuReduce;
use row_wise::CpuRowWise;

/// What kernels run on.
#[derive(Debug)]
pub(crate) struct Machine {
    pub natives: Natives,
    pub team: Team,
    pub tuning: Tuning,
}

/// A kernel ready to run.
#[derive(Debug)]
pub(crate) enum Compiled {
    Map(CpuMap),
    Reduce(Box<CpuReduce>),
    RowWise(CpuRowWise),
    MatMul(CpuMatMul),
    Gather(CpuGather),
    /// It writes nothing.
    Nothing,
}

/// Compiles `kernel`, or says why not.
pub(crate) fn compile(machine: &Machine, kernel: &Kernel) -> Result<Compiled, Unsupported> {
    let halves = |o: &&&Operand| matches!(o.dtype, DType::F16 | DType::BF16);
    if let Some(operand) = kernel.inputs().iter().chain(&kernel.outputs()).find(halves) {
        return Err(Unsupported(format!("the CPU has no kernels for {}", operand.dtype)));
    }
    let compiled = match kernel {
        Kernel::Map(k) => Compiled::Map(CpuMap::new(machine, k, kernel.work())?),
        Kernel::Reduce(k) => Compiled::Reduce(Box::new(CpuReduce::new(machine, k, kernel.work())?)),
        Kernel::RowWise(k) => Compiled::RowWise(CpuRowWise::new(machine, k, kernel.work())?),
        Kernel::MatMul(k) => Compiled::MatMul(CpuMatMul::new(machine, k, kernel.work())?),
        Kernel::Gather(k) => Compiled::Gather(CpuGather::new(machine, k, kernel.work())),
    };
    let writes = kernel.outputs().iter().any(|o| !o.layout.shape.is_empty());
    Ok(if writes { compiled } else { Compiled::Nothing })
}

impl Compiled {
    /// # Safety
    /// `inputs` and `outputs` must point to element `[0, 0, ..]` of each operand, in memory that holds its whole span,
    /// is aligned to its elements, and is written by nobody else meanwhile. Outputs must not overlap inputs, but a map's
    /// output may lie exactly where an input lies.
    pub unsafe fn run(&self, machine: &Machine, inputs: &[*const u8], outputs: &[*mut u8]) {
        let bound = Bound { inputs, outputs };
        // SAFETY: the same contract.
        unsafe {
            match self {
                Compiled::Map(k) => k.run(machine, bound),
                Compiled::Reduce(k) => k.run(machine, bound),
                Compiled::RowWise(k) => k.run(machine, bound),
                Compiled::MatMul(k) => k.run(machine, bound),
                Compiled::Gather(k) => k.run(machine, bound),
                Compiled::Nothing => {}
            }
        }
    }
}

/// Where the operands of a launch lie.
#[derive(Clone, Copy)]
pub(crate) struct Bound<'a> {
    inputs: &'a [*const u8],
    outputs: &'a [*mut u8],
}

// SAFETY: the memory is reserved for the launch, whose parts write disjoint elements.
unsafe impl Sync for Bound<'_> {}
// SAFETY: as above.
unsafe impl Send for Bound<'_> {}

impl Bound<'_> {
    fn input(&self, index: usize) -> *const u8 {
        self.inputs[index]
    }

    fn output(&self, index: usize) -> *mut u8 {
        self.outputs[index]
    }
}

impl Machine {
    /// Into how many parts work of so many nanoseconds is worth cutting: a few for each thread, none too small.
    fn parts(&self, nanoseconds: f64) -> usize {
        let threads = self.team.threads();
        if threads == 1 {
            return 1;
        }
        ((nanoseconds / self.tuning.part_ns) as usize).clamp(1, 4 * threads)
    }

    /// Nanoseconds that one thread takes for elementwise work.
    fn nanoseconds(&self, work: Work) -> f64 {
        work.flops as f64 * self.tuning.ns_per_flop + work.bytes as f64 * self.tuning.ns_per_byte
    }

    /// Calls `work` with ranges that together make `0..units`.
    fn split(&self, units: usize, nanoseconds: f64, work: impl Fn(std::ops::Range<usize>) + Sync) {
        let parts = self.parts(nanoseconds).min(units);
        if parts <= 1 {
            return work(0..units);
        }
        let edge = |part: usize| (units as u128 * part as u128 / parts as u128) as usize;
        self.team.run(parts, &|part| work(edge(part)..edge(part + 1)));
    }
}

/// Operands as a domain wants them.
fn views<'a>(operands: impl IntoIterator<Item = &'a Operand>) -> Vec<(&'a Layout, usize)> {
    operands.into_iter().map(|o| (&o.layout, o.dtype.bytes())).collect()
}
