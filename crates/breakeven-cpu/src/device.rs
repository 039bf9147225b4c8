//! The CPU device: submissions run on the caller's thread and its team, and are done when `submit` returns.

use std::any::Any;
use std::collections::{BTreeMap, VecDeque};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use breakeven_device::{
    Binding, Buffer, Deadline, Device, DeviceError, DeviceInfo, DeviceKind, HostBytes, Lane, Lent, Memory, MemoryKind,
    PoolClass, Prepared, Result, Segment, Status, Ticket, Timing,
};
use breakeven_ir::{Caps, Kernel, Unsupported};
use smallvec::SmallVec;

use crate::kernels::{Machine, compile};
use crate::memory::{CpuMemory, export};
use crate::natives::Natives;
use crate::segment::{Bound, CpuSegment};
use crate::slots::Slot;
use crate::team::Team;
use crate::{CpuOptions, Isa, tuned};

/// Host bytes are taken in place from this alignment on; operands that need more are copied when they are bound.
const IMPORT_ALIGN: usize = 4;

/// Timings that are kept for late waits.
const TIMINGS: usize = 1024;

/// SIMD kernels on threads.
#[derive(Debug)]
pub struct CpuDevice {
    info: DeviceInfo,
    caps: Caps,
    options: CpuOptions,
    machine: Machine,
    tickets: Mutex<Tickets>,
}

#[derive(Debug, Default)]
struct Tickets {
    given: u64,
    timings: VecDeque<Timing>,
}

impl CpuDevice {
    /// Opens the host's processor.
    ///
    /// # Errors
    /// When this machine does not have the instructions that were asked for.
    pub fn new(mut options: CpuOptions) -> Result<CpuDevice> {
        options.threads = Some(options.thread_count());
        let isa = options.isa.unwrap_or_else(Isa::best);
        let natives = Natives::new(isa)
            .ok_or_else(|| DeviceError::Driver(format!("this machine does not have the instructions of {isa}")))?;
        if let Some(bf16) = options.bf16.filter(|bf16| !bf16.is_available(isa)) {
            return Err(DeviceError::Driver(format!("this machine does not have {bf16} beside {isa}")));
        }
        let team = Team::new(options.thread_count(), options.tuning.spins);
        Ok(CpuDevice {
            info: info(&options),
            caps: Caps::host(),
            machine: Machine::new((isa, natives), team, &options),
            options,
            tickets: Mutex::default(),
        })
    }

    /// Instructions its kernels use.
    pub fn isa(&self) -> Isa {
        self.options.isa.unwrap_or_else(Isa::best)
    }

    /// Threads that work on one submission, the caller's included.
    pub fn threads(&self) -> usize {
        self.machine.team.threads()
    }

    /// Bytes of executable memory that code generated for expressions takes now.
    pub fn code_bytes(&self) -> u64 {
        self.machine.code.bytes()
    }

    /// Why expressions run row by row since the system refused executable memory, where it did.
    pub fn code_refused(&self) -> Option<&str> {
        self.machine.code.refused()
    }

    fn on_loan(&self, work: &Arc<dyn Prepared>, slots: &mut [Lent<'_>]) -> Result<()> {
        let segment = segment_of(work)?;
        let mut made: SmallVec<[CpuMemory; 2]> = SmallVec::new();
        for slot in &*slots {
            if let Lent::Scratch(bytes) | Lent::Kept(bytes, _) = slot {
                made.push(self.machine.store.memory(*bytes)?);
            }
        }
        let (mut bound, mut rest) = (Bound::default(), made.iter_mut());
        for slot in &mut *slots {
            bound.memory.push(match slot {
                Lent::Read(bytes) => Some(Slot::to_read(bytes)),
                Lent::Host(bytes) => Some(Slot::of_host(bytes)),
                Lent::Write(bytes) => Some(Slot::to_write(bytes)),
                Lent::Scratch(_) | Lent::Kept(..) => rest.next().map(Slot::of_own),
            });
        }
        caught(|| segment.run_untimed(&self.machine, &bound))?;
        drop(bound);
        let is_made = |slot: &&mut Lent<'_>| matches!(slot, Lent::Scratch(_) | Lent::Kept(..));
        for (slot, memory) in slots.iter_mut().filter(is_made).zip(made) {
            if let Lent::Kept(_, to) = slot {
                **to = Some(memory.keep());
            }
        }
        Ok(())
    }

    fn tickets(&self) -> MutexGuard<'_, Tickets> {
        self.tickets.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What the device that `options` opens is.
pub(crate) fn info(options: &CpuOptions) -> DeviceInfo {
    let isa = options.isa.unwrap_or_else(Isa::best);
    let unusable = (!isa.is_available()).then(|| format!("this machine does not have the instructions of {isa}"));
    DeviceInfo {
        name: "CPU".to_owned(),
        kind: DeviceKind::Cpu,
        backend: "cpu".to_owned(),
        driver: format!("{isa}, {} threads", options.thread_count()),
        address: None,
        unusable,
    }
}

impl Device for CpuDevice {
    fn lowers(&self, kernel: &Kernel) -> Option<&'static str> {
        if let Kernel::MatMul(product) = kernel { Some(self.machine.lower(product)?.1.products()) } else { None }
    }

    fn info(&self) -> &DeviceInfo {
        &self.info
    }

    fn caps(&self) -> &Caps {
        &self.caps
    }

    fn supports(&self, kernel: &Kernel) -> std::result::Result<(), Unsupported> {
        compile(&self.machine, kernel).map(drop)
    }

    fn alloc(&self, bytes: u64, _: MemoryKind) -> Result<Buffer> {
        self.machine.store.alloc(bytes)
    }

    fn import(&self, bytes: &HostBytes) -> Option<Buffer> {
        let aligned = bytes.as_ptr().addr().is_multiple_of(IMPORT_ALIGN);
        aligned.then(|| Buffer::new(CpuMemory::host(bytes.clone()), bytes.len() as u64))
    }

    fn export(&self, buffer: &Buffer) -> Option<HostBytes> {
        export(buffer)
    }

    fn prepare(&self, segment: &Segment) -> Result<Arc<dyn Prepared>> {
        Ok(Arc::new(CpuSegment::new(&self.machine, segment)?))
    }

    fn submit(&self, work: &Arc<dyn Prepared>, binding: Binding, _: Lane, after: &[Ticket]) -> Result<Ticket> {
        if let Some(ticket) = after.iter().find(|t| self.poll(**t) != Status::Done) {
            return Err(DeviceError::Driver(format!("{ticket:?} was never given out")));
        }
        let segment = segment_of(work)?;
        let timing = caught(|| segment.run_bound(&self.machine, &binding))?;
        let mut tickets = self.tickets();
        if tickets.timings.len() == TIMINGS {
            tickets.timings.pop_front();
        }
        tickets.timings.push_back(timing);
        tickets.given += 1;
        Ok(Ticket(tickets.given - 1))
    }

    fn run_lent(&self, work: &Arc<dyn Prepared>, slots: &mut [Lent<'_>]) -> Option<Result<()>> {
        Some(self.on_loan(work, slots))
    }

    fn copy_on_host(&self, from: &[u8], to: &mut [u8]) {
        self.machine.copy(from, to);
    }

    fn copy_beside(&self, from: &[u8], to: &mut [u8]) {
        self.machine.copy_beside(from, to);
    }

    fn poll(&self, ticket: Ticket) -> Status {
        if ticket.0 < self.tickets().given {
            return Status::Done;
        }
        Status::Failed(DeviceError::Driver(format!("{ticket:?} was never given out")))
    }

    fn wait(&self, ticket: Ticket, _: Deadline) -> Result<Timing> {
        match self.poll(ticket) {
            Status::Failed(error) => Err(error),
            Status::Pending | Status::Done => {
                let tickets = self.tickets();
                let age = (tickets.given - 1 - ticket.0) as usize;
                let place = tickets.timings.len().checked_sub(age + 1);
                Ok(place.and_then(|i| tickets.timings.get(i).copied()).unwrap_or_default())
            }
        }
    }

    fn memory(&self) -> Memory {
        let store = &self.machine.store;
        Memory { pool: store.counters(), budget: store.budget(), ..Memory::default() }
    }

    fn pool_classes(&self) -> Vec<PoolClass> {
        self.machine.store.classes()
    }

    fn trim(&self, age: Duration) {
        self.machine.store.trim(age);
    }

    fn now(&self) -> Duration {
        self.machine.store.now()
    }

    fn rouse(&self, time: Duration) -> bool {
        self.machine.team.rouse(time)
    }

    fn tune(&self, largest_bytes: u64) -> Result<BTreeMap<String, f64>> {
        let measured =
            tuned::measure(&self.machine, largest_bytes).map_err(|why| DeviceError::Driver(why.to_string()))?;
        self.adopt(&measured);
        Ok(measured)
    }

    fn adopt(&self, tuned: &BTreeMap<String, f64>) {
        self.machine.tuned.adopt(tuned);
    }
}

impl Drop for CpuDevice {
    /// Packed copies lie beside their bytes, which others may hold for longer.
    fn drop(&mut self) {
        self.machine.store.trim(Duration::ZERO);
    }
}

fn segment_of(work: &Arc<dyn Prepared>) -> Result<&CpuSegment> {
    let any: &dyn Any = &**work;
    any.downcast_ref().ok_or_else(|| DeviceError::Driver("the segment was prepared elsewhere".to_owned()))
}

/// What `run` gives; a kernel that panics is an error.
fn caught<T>(run: impl FnOnce() -> Result<T>) -> Result<T> {
    catch_unwind(AssertUnwindSafe(run)).unwrap_or_else(|panic| Err(panicked(&*panic)))
}

fn panicked(panic: &(dyn Any + Send)) -> DeviceError {
    let text = panic.downcast_ref::<String>().map(String::as_str).or_else(|| panic.downcast_ref::<&str>().copied());
    DeviceError::Driver(format!("a kernel panicked: {}", text.unwrap_or("without a message")))
}
