//! The kernels: each is compiled once and then run over memory that was checked when it was bound.

mod attention;
mod codes;
mod conv;
mod custom;
mod cut;
mod epilogue;
mod gather;
mod map;
mod matmul;
mod products;
mod reduce;
mod row_wise;
mod scan;
mod scatter;
mod sort;
mod streams;
mod transpose;

use std::ops::Range;
use std::sync::{Arc, OnceLock};

use breakeven_device::DeviceError;
use breakeven_ir::{DType, Expr, Item, Kernel, Layout, MatMul, Operand, Precision, Row, RowWise, Unsupported};
use smallvec::{SmallVec, smallvec};

use crate::caches::Caches;
use crate::copying;
use crate::gemm::{Gemm, Lower, Packing, measure_packing};
use crate::jit::CodeLedger;
use crate::memory::Store;
use crate::natives::Natives;
use crate::spare::Spare;
use crate::team::Team;
use crate::tuned::Tuned;
use crate::{Bf16Isa, CpuOptions, Isa, Tuning};
use attention::CpuAttention;
pub(crate) use codes::CodeTrial;
use conv::CpuConv;
use custom::CpuCustom;
use gather::CpuGather;
use map::CpuMap;
pub(crate) use matmul::{CpuMatMul, Keeps};
use reduce::CpuReduce;
use row_wise::CpuRowWise;
use scan::CpuScan;
use scatter::CpuScatter;
use sort::CpuSort;
pub(crate) use streams::StreamTrial;

/// What kernels run on.
#[derive(Debug)]
pub(crate) struct Machine {
    isa: Isa,
    bf16: Option<Bf16Isa>,
    /// Looked for when a product first may be made of bf16, since tiles are asked of the system.
    lower: OnceLock<Option<Lower>>,
    pub natives: Natives,
    pub team: Team,
    /// Threads that copy for other devices, beside which the team may compute.
    pub copiers: Team,
    /// What generated code there is.
    pub code: Arc<CodeLedger>,
    pub tuning: Tuning,
    /// Those of its numbers that may change.
    pub tuned: Tuned,
    pub spare: Spare,
    pub caches: Caches,
    /// The device's memory, for what is kept from launch to launch.
    pub store: Store,
}

/// Primitives that an element of a running fold takes as long as.
const SCAN_FLOPS: f64 = 4.0;

/// A kernel ready to run.
#[derive(Debug)]
pub(crate) enum Compiled {
    Map(CpuMap),
    Reduce(Box<CpuReduce>),
    Scan(CpuScan),
    RowWise(Box<CpuRowWise>),
    Sort(CpuSort),
    MatMul(Box<CpuMatMul>),
    Conv(Box<CpuConv>),
    Attention(Box<CpuAttention>),
    Gather(CpuGather),
    Scatter(CpuScatter),
    Custom(CpuCustom),
    /// It writes nothing.
    Nothing,
}

/// Compiles `kernel`, or says why not.
pub(crate) fn compile(machine: &Machine, kernel: &Kernel) -> Result<Compiled, Unsupported> {
    let kernel = &*kernel.widened();
    let ns = machine.nanoseconds(kernel);
    let compiled = match kernel {
        Kernel::Map(k) => Compiled::Map(CpuMap::new(machine, k, ns)?),
        Kernel::Reduce(k) => Compiled::Reduce(Box::new(CpuReduce::new(machine, k, ns)?)),
        Kernel::Scan(k) => Compiled::Scan(CpuScan::new(k, ns)?),
        Kernel::RowWise(k) => Compiled::RowWise(Box::new(CpuRowWise::new(machine, k, ns)?)),
        Kernel::Sort(k) => Compiled::Sort(CpuSort::new(k, ns)),
        Kernel::MatMul(k) => Compiled::MatMul(Box::new(CpuMatMul::new(machine, k, ns)?)),
        Kernel::Attention(k) => Compiled::Attention(Box::new(CpuAttention::new(machine, k, ns)?)),
        Kernel::Conv(k) => Compiled::Conv(Box::new(CpuConv::new(machine, k, ns)?)),
        Kernel::Scatter(k) => Compiled::Scatter(CpuScatter::new(k, ns)?),
        Kernel::Gather(k) => Compiled::Gather(CpuGather::new(k, ns)),
        Kernel::Custom(k) => Compiled::Custom(CpuCustom::new(k)?),
    };
    let writes = kernel.outputs().iter().any(|o| !o.layout.shape.is_empty());
    Ok(if writes { compiled } else { Compiled::Nothing })
}

impl Compiled {
    /// How its second input is packed where it is used again.
    pub fn keeps(&self) -> Option<(&CpuMatMul, &Keeps)> {
        let Compiled::MatMul(product) = self else { return None };
        product.keeps().map(|keeps| (&**product, keeps))
    }

    /// # Errors
    /// What a custom operation panicked with.
    ///
    /// # Safety
    /// What is bound must point to element `[0, 0, ..]` of each operand, in memory that holds its whole span, is aligned to its
    /// elements, and is written by nobody else meanwhile. Outputs must not overlap inputs, but a map's output may lie exactly
    /// where an input lies. A packed operand must be what [`CpuMatMul::pack`] made of these bytes.
    #[inline]
    pub unsafe fn run(&self, machine: &Machine, bound: Bound<'_>) -> Result<(), DeviceError> {
        // SAFETY: the same contract.
        unsafe {
            match self {
                Compiled::Map(map) if map.run_code(bound) => Ok(()),
                other => other.run_any(machine, bound),
            }
        }
    }

    /// # Safety
    /// As [`Compiled::run`].
    unsafe fn run_any(&self, machine: &Machine, bound: Bound<'_>) -> Result<(), DeviceError> {
        // SAFETY: the same contract.
        unsafe {
            match self {
                Compiled::Map(k) => k.run(machine, bound),
                Compiled::Reduce(k) => k.run(machine, bound),
                Compiled::Scan(k) => k.run(machine, bound),
                Compiled::RowWise(k) => k.run(machine, bound),
                Compiled::Sort(k) => k.run(machine, bound),
                Compiled::MatMul(k) => k.run(machine, bound),
                Compiled::Conv(k) => k.run(machine, bound),
                Compiled::Attention(k) => k.run(machine, bound),
                Compiled::Gather(k) => k.run(machine, bound),
                Compiled::Scatter(k) => k.run(machine, bound),
                Compiled::Custom(k) => return k.run(bound),
                Compiled::Nothing => {}
            }
        }
        Ok(())
    }
}

/// Where the operands of a launch lie.
#[derive(Clone, Copy)]
pub(crate) struct Bound<'a> {
    /// Inputs, then outputs.
    operands: &'a [*const u8],
    inputs: usize,
    /// The right operand of a product, packed.
    packed: Option<*const u8>,
}

// SAFETY: it says where memory lies and touches none of it. Whoever reads or writes there says in a block of their own why they may,
// by the contract of `Compiled::run` and by which elements are their part of the launch.
unsafe impl Sync for Bound<'_> {}
// SAFETY: as above.
unsafe impl Send for Bound<'_> {}

impl<'a> Bound<'a> {
    /// Of so many inputs, with the outputs behind them.
    pub fn new(operands: &'a [*mut u8], inputs: usize, packed: Option<*const u8>) -> Bound<'a> {
        // SAFETY: `*mut u8` and `*const u8` are laid out alike, with the same valid values, and the list stays borrowed for 'a, so that
        // nobody changes it meanwhile. What its entries point to is not touched.
        let operands = unsafe { std::slice::from_raw_parts(operands.as_ptr().cast::<*const u8>(), operands.len()) };
        Bound { operands, inputs, packed }
    }

    /// All inputs.
    fn inputs(&self) -> &'a [*const u8] {
        &self.operands[..self.inputs]
    }

    fn input(&self, index: usize) -> *const u8 {
        self.operands[index]
    }

    fn output(&self, index: usize) -> *mut u8 {
        self.operands[self.inputs + index].cast_mut()
    }
}

impl Machine {
    /// A machine with no code and no spare room yet.
    pub fn new((isa, natives): (Isa, Natives), team: Team, options: &CpuOptions) -> Machine {
        let tuning = options.tuning;
        let (code, store) = (CodeLedger::new(tuning.code_bytes), Store::new(options));
        Machine {
            isa,
            bf16: options.bf16,
            lower: OnceLock::new(),
            natives,
            copiers: Team::new(copying::threads(team.threads()), tuning.spins),
            team,
            code,
            tuned: Tuned::new(&tuning),
            tuning,
            spare: Spare::default(),
            caches: Caches::here(),
            store,
        }
    }

    /// The way of a product that need not be of the highest precision, and its instructions; `None` where it is
    /// made as others are.
    pub fn lower(&self, product: &MatMul) -> Option<(Gemm, Bf16Isa)> {
        if product.precision == Precision::Highest {
            return None;
        }
        let find = || Lower::new(self.isa, self.bf16.unwrap_or_else(|| Bf16Isa::best(self.isa)));
        self.lower.get_or_init(find).as_ref()?.of(product)
    }

    /// The way of products of floats.
    pub fn gemm(&self, dtype: DType) -> Option<Gemm> {
        self.natives.gemms.get(dtype).map(|gemm| gemm.with_packing(self.tuned.packing(self.caches.first / 2)))
    }

    /// From where on products pack their operands, measured.
    pub fn measure_packing(&self) -> Option<Packing> {
        Some(measure_packing(self.natives.gemms.get(DType::F32)?, cut::tile_columns(self.caches)))
    }

    /// Into how many parts work of so many nanoseconds is worth cutting: as many for each of `threads`, a few where some may
    /// have to help others out, none too small.
    fn parts(&self, nanoseconds: f64, threads: usize) -> usize {
        evenly(((nanoseconds / self.tuned.part_ns()) as usize).clamp(1, 4 * threads), threads)
    }

    /// How many threads work of so many nanoseconds is shared among. Those that sleep are woken when it is worth that, or when
    /// so much was done without them that it would have been.
    fn crew(&self, nanoseconds: f64, (team, threads): (&Team, usize)) -> usize {
        let wanted = self.parts(nanoseconds, threads).min(threads);
        let awake = team.awake(wanted);
        let wake_ns = self.tuned.wake_ns();
        if awake == wanted || nanoseconds >= wake_ns || team.owes(nanoseconds, wake_ns) { wanted } else { awake }
    }

    /// Whether launches of so many nanoseconds each, and `all` together, end sooner where each thread takes some of them than where all
    /// share each.
    pub fn splits_by_launches(&self, nanoseconds: &[f64], all: f64) -> bool {
        let most = self.team.threads();
        let threads = |nanoseconds: f64| self.parts(nanoseconds, most).min(most) as f64;
        if threads(all) < 2.0 {
            return false;
        }
        let longest = nanoseconds.iter().copied().fold(0.0, f64::max);
        let one_by_one: f64 = nanoseconds.iter().map(|&ns| ns / threads(ns)).sum();
        // No later than this, whatever their order: the last to begin may be the longest.
        all / threads(all).min(nanoseconds.len() as f64) + longest < one_by_one
    }

    /// Nanoseconds that one thread takes for `kernel`, roughly.
    pub fn nanoseconds(&self, kernel: &Kernel) -> f64 {
        let outputs = kernel.outputs();
        let elements = outputs[0].layout.shape.elements() as f64;
        let (flops, products) = match kernel {
            Kernel::Map(k) => (self.flops(&k.expr) * elements, 0.0),
            Kernel::Reduce(k) => {
                (self.flops(&k.pre) * elements * k.inner.elements() as f64 + self.flops(&k.post) * elements, 0.0)
            }
            // Each step waits for the one before it.
            Kernel::Scan(_) => (SCAN_FLOPS * elements, 0.0),
            Kernel::RowWise(k) => {
                let exponential = matches!(k.kind, RowWise::Softmax | RowWise::LogSoftmax);
                let each = if exponential { self.exponential_flops() } else { 7.0 };
                ((self.flops(&k.pre) + self.flops(&k.post) + each) * elements, 0.0)
            }
            Kernel::MatMul(k) => (self.flops(&k.post) * elements, 2.0 * elements * k.k as f64 * self.pace(k)),
            Kernel::Conv(k) => (self.flops(&k.post) * elements, 2.0 * elements * k.terms() as f64),
            Kernel::Attention(k) => {
                let scores = (k.batch().iter().product::<usize>() * k.queries() * k.keys()) as f64;
                (self.exponential_flops() * scores, 2.0 * scores * (k.width() + k.value_width()) as f64)
            }
            Kernel::Sort(_) => (kernel.work().flops as f64, 0.0),
            Kernel::Gather(_) | Kernel::Custom(_) => (0.0, 0.0),
            Kernel::Scatter(k) => (k.updates.layout.shape.elements() as f64, 0.0),
        };
        let inputs = kernel.inputs();
        let read = if matches!(kernel, Kernel::Gather(_)) { &inputs[1..] } else { &inputs[..] };
        let bytes: u64 = read.iter().chain(&outputs).map(|o| o.touched_bytes()).sum();
        let tuning = &self.tuning;
        flops * tuning.ns_per_flop + products * tuning.ns_per_product_flop + bytes as f64 * tuning.ns_per_byte
    }

    /// What an element of a softmax takes.
    fn exponential_flops(&self) -> f64 {
        4.0 + Row::named("exp").map_or(0.0, |exp| self.natives.row_flops(exp))
    }

    /// Time of an arithmetic operation in a product, as a share of the usual.
    fn pace(&self, product: &MatMul) -> f64 {
        match self.lower(product) {
            Some((_, Bf16Isa::Tiles)) => self.tuning.ns_per_tile_flop / self.tuning.ns_per_product_flop,
            _ => 1.0,
        }
    }

    /// Core primitives of one element, subexpressions that rows share counted for each.
    pub fn flops(&self, expr: &Expr) -> f64 {
        let one =
            |(item, _): &(Item, DType)| if let Item::Row(row, _) = item { self.natives.row_flops(*row) } else { 0.0 };
        expr.items().iter().map(one).sum()
    }

    /// Calls `work` with ranges that together make `0..units`.
    fn split(&self, units: usize, nanoseconds: f64, work: impl Fn(Range<usize>) + Sync) {
        self.split_by((&self.team, self.team.threads()), units, nanoseconds, work);
    }

    /// As [`Machine::split`], by no more than so many threads of a team.
    pub fn split_by(
        &self,
        (team, threads): (&Team, usize),
        units: usize,
        nanoseconds: f64,
        work: impl Fn(Range<usize>) + Sync,
    ) {
        // What cannot be shared is often so small that asking who is awake would count.
        if units <= 1 {
            return work(0..units);
        }
        let threads = self.crew(nanoseconds, (team, threads));
        let parts = evenly(self.parts(nanoseconds, threads).min(units), threads);
        if threads == 1 || parts <= 1 {
            return work(0..units);
        }
        let edge = |part: usize| (units as u128 * part as u128 / parts as u128) as usize;
        team.run_by(threads, parts, &|part| work(edge(part)..edge(part + 1)));
    }

    /// Calls `work` with every number below `count`, one after the other as threads come for them.
    pub fn one_by_one(&self, count: usize, nanoseconds: f64, work: impl Fn(usize) + Sync) {
        let threads = self.crew(nanoseconds, (&self.team, self.team.threads()));
        self.team.run_by(threads, count, &work);
    }

    /// What `work` gives for each of `units`, in order; each thread makes itself a room for it.
    fn each<R, T: Copy + Default + Send>(
        &self,
        units: usize,
        nanoseconds: f64,
        room: impl Fn() -> R + Sync,
        work: impl Fn(&mut R, usize) -> T + Sync,
    ) -> SmallVec<[T; 8]> {
        let mut all: SmallVec<[T; 8]> = smallvec![T::default(); units];
        // Nobody waits for anybody: threads that take turns at a lock lose more than a small unit takes.
        let places = Places(all.as_mut_ptr());
        self.split(units, nanoseconds, |some| {
            let mut room = room();
            // SAFETY: there is a place for each unit, and each unit is done once.
            some.for_each(|unit| unsafe { places.at(unit).write(work(&mut room, unit)) });
        });
        all
    }
}

/// No more than `parts`, as many for each of `threads`.
fn evenly(parts: usize, threads: usize) -> usize {
    if parts < threads { parts } else { parts - parts % threads }
}

/// Where threads write results of their own.
#[derive(Clone, Copy)]
struct Places<T>(*mut T);

// SAFETY: each place is written by one thread, and read when all are done.
unsafe impl<T: Send> Sync for Places<T> {}

impl<T> Places<T> {
    fn at(&self, place: usize) -> *mut T {
        self.0.wrapping_add(place)
    }
}

/// Operands as a domain wants them.
fn views<'a>(operands: impl IntoIterator<Item = &'a Operand>) -> Vec<(&'a Layout, usize)> {
    operands.into_iter().map(|o| (&o.layout, o.dtype.bytes())).collect()
}
