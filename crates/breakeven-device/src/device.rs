//! The seam between plans and machines.

use std::any::Any;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use breakeven_ir::{Caps, Kernel, Unsupported};

use crate::{
    Binding, Buffer, Deadline, DeviceError, HostBytes, Lent, MemoryKind, PoolClass, PoolCounters, Result, Segment,
    Timing,
};

/// A driver: finds devices and opens them, also again after a loss.
pub trait Backend: Send + Sync {
    /// Short name: `cpu`, `wgpu`, `cuda`.
    fn name(&self) -> &'static str;
    /// What is there, usable or not.
    fn list(&self) -> Vec<DeviceInfo>;
    /// Open device `index` of [`Backend::list`], once more after it was lost.
    fn open(&self, index: usize) -> Result<Arc<dyn Device>>;
    /// The time by which openings are counted.
    fn now(&self) -> Duration;
    /// Let this much time pass before the next opening is tried.
    fn pause(&self, time: Duration) {
        std::thread::sleep(time);
    }
}

/// One queue and its memory. Nothing but [`Device::wait`] blocks, and [`Device::read_into`], which waits.
pub trait Device: Send + Sync + fmt::Debug {
    /// What it is.
    fn info(&self) -> &DeviceInfo;

    /// What it can hold and bind.
    fn caps(&self) -> &Caps;

    /// Whether it can run `kernel`; if not, why not.
    fn supports(&self, kernel: &Kernel) -> std::result::Result<(), Unsupported>;

    /// How it makes the products of a kernel that need not be of the highest [`Precision`](breakeven_ir::Precision), in words
    /// for explanations: "bf16 products, vdpbf16ps". `None` where it computes them as at the highest all the same.
    fn lowers(&self, _kernel: &Kernel) -> Option<&'static str> {
        None
    }

    /// Scratch memory it wants for `kernel`, in bytes.
    fn workspace_bytes(&self, _kernel: &Kernel) -> u64 {
        0
    }

    /// Memory for `bytes`, padded to a multiple of 16 and of unknown content.
    fn alloc(&self, bytes: u64, kind: MemoryKind) -> Result<Buffer>;

    /// Host bytes as a buffer in place, read-only, where the device works in the host's memory.
    fn import(&self, _bytes: &HostBytes) -> Option<Buffer> {
        None
    }

    /// A buffer's bytes in place, where the device works in the host's memory. The buffer must not be written again.
    fn export(&self, _buffer: &Buffer) -> Option<HostBytes> {
        None
    }

    /// Compile a segment once: pipelines, bind groups, thunks.
    fn prepare(&self, segment: &Segment) -> Result<Arc<dyn Prepared>>;

    /// As [`Device::prepare`], and looks again and again whether anybody still wants it, for as long as there is more to compile;
    /// [`DeviceError::Cancelled`] once nobody does.
    fn prepare_while(&self, segment: &Segment, _is_wanted: &(dyn Fn() -> bool + Sync)) -> Result<Arc<dyn Prepared>> {
        self.prepare(segment)
    }

    /// Whether [`Device::prepare`] has something to compile for `segment`, which may take its driver seconds: whoever asks can do it on
    /// a thread of its own and have the work done elsewhere meanwhile. False where all of it was compiled before, and where nothing
    /// else could be done on the device meanwhile.
    fn compiles(&self, _segment: &Segment) -> bool {
        false
    }

    /// Run a prepared segment on `lane`, after the tickets in `after` (of this device) are done. `Err(Busy)` is
    /// back-pressure: nothing was submitted.
    fn submit(&self, work: &Arc<dyn Prepared>, binding: Binding, lane: Lane, after: &[Ticket]) -> Result<Ticket>;

    /// Run a prepared segment, which neither uploads nor downloads, at once and on the caller's thread over memory of the
    /// host that is lent for this call: `slots` by number. `None` where the device does not work in the host's memory. It
    /// gives no ticket and asks for no memory to keep books, which is what small work costs else.
    fn run_lent(&self, _work: &Arc<dyn Prepared>, _slots: &mut [Lent<'_>]) -> Option<Result<()>> {
        None
    }

    /// Copies bytes of the host, with as many threads as that is worth.
    ///
    /// # Panics
    /// When there are not as many on both sides.
    fn copy_on_host(&self, from: &[u8], to: &mut [u8]) {
        to.copy_from_slice(from);
    }

    /// As [`Device::copy_on_host`], with other threads than those that compute: what is brought to another device, or from it,
    /// goes beside what this one does meanwhile.
    ///
    /// # Panics
    /// When there are not as many on both sides.
    fn copy_beside(&self, from: &[u8], to: &mut [u8]) {
        self.copy_on_host(from, to);
    }

    /// How a submission stands. Never blocks; makes progress where a driver needs to be asked.
    fn poll(&self, ticket: Ticket) -> Status;

    /// Block until the submission is done or the deadline passes.
    fn wait(&self, ticket: Ticket, deadline: Deadline) -> Result<Timing>;

    /// Block until whatever is submitted now is done, or fail as [`Device::wait`] does. A device that works on the caller's thread has
    /// none.
    fn drain(&self, _deadline: Deadline) -> Result<()> {
        Ok(())
    }

    /// As [`Device::drain`], and looks again and again whether anybody still wants to know; [`DeviceError::Cancelled`] once nobody does. By
    /// default it does not look: whoever ends an engine with such a device that is late waits for it, for five seconds at most.
    fn drain_while(&self, deadline: Deadline, _is_wanted: &dyn Fn() -> bool) -> Result<()> {
        self.drain(deadline)
    }

    /// Whether `buffer` is memory of this very device, and not of one that was open in its place before.
    fn owns(&self, _buffer: &Buffer) -> bool {
        true
    }

    /// Memory held now.
    fn memory(&self) -> Memory;

    /// Its pool by size class, the smallest first; empty where it has none.
    fn pool_classes(&self) -> Vec<PoolClass> {
        Vec::new()
    }

    /// Buffers that copies to the device pass through, and those that copies from it do, by size class, the smallest first; empty where
    /// it has none.
    fn staging_classes(&self) -> [Vec<PoolClass>; 2] {
        Default::default()
    }

    /// What it did so far and what it keeps, in terms of its own: submissions, pipelines made and found again. Empty where it counts
    /// nothing. They only grow, but for what is there "now".
    fn counts(&self) -> Vec<(&'static str, u64)> {
        Vec::new()
    }

    /// Give pooled memory back that has not been used for `age`.
    fn trim(&self, age: Duration);

    /// The device's own clock.
    fn now(&self) -> Duration;

    /// Begins to wake what sleeps while it has nothing to do, and keeps it awake for so long; waits for nothing. True once all of it is
    /// awake; until then whoever is about to measure a run asks again.
    fn rouse(&self, _time: Duration) -> bool {
        true
    }

    /// Brings the first bytes of `buffer`, on which no work is pending elsewhere, straight into the caller's memory, or fails when
    /// the deadline passes, as [`Device::wait`] does. `None` where that is no faster than a download that is copied.
    fn read_into(&self, _buffer: &Buffer, _to: &mut [u8], _deadline: Deadline) -> Option<Result<()>> {
        None
    }

    /// Measures the numbers that its kernels are tuned by, each under its name, with arrays of at most so many bytes, and
    /// works by them from now on. None of them changes a result.
    fn tune(&self, _largest_bytes: u64) -> Result<BTreeMap<String, f64>> {
        Ok(BTreeMap::new())
    }

    /// Works by numbers that [`Device::tune`] gave earlier; what they lack stays, and names that it does not know are ignored.
    fn adopt(&self, _tuned: &BTreeMap<String, f64>) {}
}

/// A segment compiled for one device.
pub trait Prepared: Any + Send + Sync + fmt::Debug {}

/// One submission of one device, in order of submission.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Ticket(pub u64);

/// Independent queues of one device; on a device with fewer, they share.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Lane {
    /// Kernels.
    Compute,
    /// Host to device.
    CopyIn,
    /// Device to host.
    CopyOut,
}

/// How a submission stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Status {
    /// Not done yet.
    Pending,
    /// Done, its reads filled.
    Done,
    /// It will never be done.
    Failed(DeviceError),
}

/// Memory of a device and what is in flight there: what is live, what its pool holds, and the most there ever was.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Memory {
    /// Counters of its pool.
    pub pool: PoolCounters,
    /// Bytes in use by this process, what the driver holds for itself included; `None` where no driver tells.
    pub used: Option<u64>,
    /// The most this process may use, in bytes, where known: what its driver grants, which may be less when others use the device too, or what
    /// a card has.
    pub budget: Option<u64>,
    /// Submissions not finished.
    pub pending: usize,
    /// Bytes that these move between host and device.
    pub pending_bytes: u64,
}

impl Memory {
    /// Bytes in use: as the driver tells, and no less than the pool has, live and waiting. Some drivers count nothing.
    pub fn used_bytes(&self) -> u64 {
        self.used.unwrap_or(0).max(self.pool.live_bytes + self.pool.pooled_bytes)
    }

    /// Bytes in use that would still be in use if the pool gave back what waits there.
    pub fn held_bytes(&self) -> u64 {
        self.used_bytes().saturating_sub(self.pool.pooled_bytes)
    }

    /// Bytes that more work may have, what waits in the pool included, where a budget is known. One of 0 says nothing.
    pub fn left_bytes(&self) -> Option<u64> {
        let budget = self.budget.filter(|budget| *budget > 0)?;
        Some(budget.saturating_sub(self.held_bytes()))
    }
}

/// What a device is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceInfo {
    /// As the driver calls it.
    pub name: String,
    /// What sort of machine.
    pub kind: DeviceKind,
    /// The backend it came from: `cpu`, `wgpu/vulkan`, `sim`.
    pub backend: String,
    /// Driver and its version; the instruction set of a CPU.
    pub driver: String,
    /// PCI address or another key of the physical device, where known.
    pub address: Option<String>,
    /// Why it cannot be used, when it cannot.
    pub unusable: Option<String>,
}

/// What sort of machine a device is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DeviceKind {
    /// The host's processor.
    Cpu,
    /// A GPU with memory of its own.
    DiscreteGpu,
    /// A GPU that shares the host's memory.
    IntegratedGpu,
    /// A GPU interface on the host's processor: for tests, never chosen automatically.
    Software,
    /// Arithmetic and a virtual clock: for tests.
    Simulated,
    /// Something else.
    Other,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_waits_in_the_pool_is_in_use_and_left_all_the_same() {
        let pool = PoolCounters { live_bytes: 30, pooled_bytes: 20, ..PoolCounters::default() };
        let check = |used, budget, want: (u64, u64, Option<u64>)| {
            let memory = Memory { pool, used, budget, ..Memory::default() };
            assert_eq!((memory.used_bytes(), memory.held_bytes(), memory.left_bytes()), want);
        };
        check(None, None, (50, 30, None));
        check(None, Some(100), (50, 30, Some(70)));
        check(Some(90), Some(100), (90, 70, Some(30)));
        check(Some(130), Some(100), (130, 110, Some(0)));
        check(Some(0), Some(100), (50, 30, Some(70)));
        check(Some(10), Some(0), (50, 30, None));
    }
}
