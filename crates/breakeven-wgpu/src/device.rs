//! The device: one queue of one adapter.

use std::any::Any;
use std::fmt;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use breakeven_device::{
    Binding, Buffer, Deadline, Device, DeviceError, DeviceInfo, DeviceKind, Lane, Memory, MemoryKind, PoolClass,
    Prepared, ReadCell, Result, Segment, Status, Ticket, Timing,
};
use breakeven_ir::{Caps, Kernel, Unsupported};

use crate::backend::WgpuOptions;
use crate::errors::{lock, panic_text, ready};
use crate::flight::Flight;
use crate::in_place;
use crate::kernels::{launch_of, lowers, plan};
use crate::memory::{Gpu, WgpuMemory};
use crate::pipeline::Pipelines;
use crate::prepared::WgpuPrepared;
use crate::straight::{piece_of, read_into};
use crate::submit::{link_bytes, raws, read, shared_slots, submit};
use crate::{Counters, adapter};

/// One opened adapter.
pub struct WgpuDevice {
    info: DeviceInfo,
    caps: Caps,
    flight: Mutex<Flight>,
    pipelines: Pipelines,
    gpu: Arc<Gpu>,
}

/// How long the driver may say that all work is done before it has called every callback.
const GRACE: Duration = Duration::from_millis(500);

/// How long a wait stays inside the driver before it is looked whether anybody still wants it.
const LOOK: Duration = Duration::from_millis(50);

impl WgpuDevice {
    pub(crate) fn open(
        instance: &wgpu::Instance,
        adapter: &wgpu::Adapter,
        info: DeviceInfo,
        options: WgpuOptions,
    ) -> Result<WgpuDevice> {
        let features = adapter::features(adapter, &options);
        let experimental_features = if features.contains(adapter::CORES) {
            // SAFETY: cooperative matrices are used by our own texts alone, as Vulkan's extension says they may be: by whole
            // workgroups in uniform control flow, over workgroup memory that the loads and stores stay within.
            unsafe { wgpu::ExperimentalFeatures::enabled() }
        } else {
            wgpu::ExperimentalFeatures::disabled()
        };
        let descriptor = wgpu::DeviceDescriptor {
            label: Some("breakeven"),
            required_features: features,
            experimental_features,
            required_limits: adapter::wanted(adapter.limits(), options.limits),
            memory_hints: wgpu::MemoryHints::Performance,
            ..Default::default()
        };
        let refused = |reason: String| DeviceError::Driver(format!("{} cannot be opened: {reason}", info.name));
        let opened = catch_unwind(AssertUnwindSafe(|| ready(adapter.request_device(&descriptor))))
            .map_err(|panic| refused(panic_text(panic.as_ref())))?
            .ok_or_else(|| refused("the driver does not answer at once".to_owned()))?
            .map_err(|e| refused(e.to_string()))?;
        let pipelines = Pipelines::new(&options);
        let gpu = Gpu::new((instance, adapter), opened, info.kind, options);
        let caps = Caps { memory_bytes: gpu.budget.card_bytes(), ..adapter::caps(&gpu.limits) };
        Ok(WgpuDevice { info, caps, flight: Mutex::default(), pipelines, gpu: Arc::new(gpu) })
    }

    /// What it did so far.
    pub fn counters(&self) -> Counters {
        let counters = self.gpu.counts.read(&self.gpu.staging);
        self.pipelines.count(Counters { bind_groups_kept: self.gpu.groups.kept() as u64, ..counters })
    }

    /// Gives the device up as if it were lost, for tests of what happens then.
    pub fn destroy(&self) {
        self.gpu.device.destroy();
        self.gpu.verdict.lose("it was destroyed");
        self.settle();
    }

    pub(crate) fn gpu(&self) -> &Arc<Gpu> {
        &self.gpu
    }

    /// The WGSL text of each dispatch that `kernel` becomes.
    pub fn texts(&self, kernel: &Kernel) -> std::result::Result<Vec<String>, Unsupported> {
        let plan = plan(&launch_of(kernel), &self.gpu.shaping())?;
        Ok(plan.dispatches.into_iter().map(|d| d.text).collect())
    }

    /// The WGSL text of each dispatch that `segment` becomes, in which launches may share one.
    pub fn texts_of(&self, segment: &Segment) -> Result<Vec<String>> {
        WgpuPrepared::texts(&self.gpu, segment)
    }

    /// Asks the driver what has ended and settles that; never blocks on the device.
    fn progress(&self, ask: wgpu::PollType) -> Result<std::result::Result<wgpu::PollStatus, wgpu::PollError>> {
        let asked = if lock(&self.flight).pending() == 0 || self.gpu.verdict.check().is_err() {
            Ok(Ok(wgpu::PollStatus::QueueEmpty))
        } else {
            // A poll panics when the device is lost meanwhile.
            catch_unwind(AssertUnwindSafe(|| self.gpu.device.poll(ask)))
        };
        let status = asked.map_err(|panic| self.gpu.verdict.lose(&panic_text(panic.as_ref())));
        self.settle();
        self.gpu.verdict.check()?;
        status.map_err(|()| DeviceError::Lost { reason: "the driver panicked".to_owned() })
    }

    fn settle(&self) {
        let landed = lock(&self.flight).take_done();
        if !landed.is_empty() {
            self.gpu.budget.resume();
        }
        for (id, landed) in landed {
            let result = landed.settle(&self.gpu);
            let held = lock(&self.flight).end(id, result);
            drop(held);
        }
        if let Err(lost) = self.gpu.verdict.check() {
            let failed = lock(&self.flight).fail_all(&lost);
            drop(failed);
        }
    }

    /// Waits for `ticket` inside the driver, at most `limit`.
    fn block(&self, ticket: Ticket, limit: Duration) -> Result<bool> {
        let Some(index) = lock(&self.flight).index(ticket) else { return Ok(true) };
        let ask = wgpu::PollType::Wait { submission_index: Some(index), timeout: Some(limit) };
        Ok(self.progress(ask)?.is_ok())
    }

    fn admit(&self, bytes: u64) -> Result<()> {
        self.gpu.verdict.check()?;
        // Where nothing was on its way that could be told of it, whoever comes next is.
        self.gpu.verdict.take_untold().map_or(Ok(()), Err)?;
        let options = &self.gpu.options;
        let is_full = || {
            let flight = lock(&self.flight);
            flight.pending() > 0
                && (flight.pending() >= options.in_flight_submissions
                    || flight.bytes() + bytes > options.in_flight_bytes)
        };
        if is_full() {
            drop(self.progress(wgpu::PollType::Poll)?);
            if is_full() {
                return Err(DeviceError::Busy);
            }
        }
        Ok(())
    }

    /// Submits the copy of a part of `buffer` to the host.
    pub(crate) fn submit_read(&self, buffer: &Buffer, part: Range<u64>, cell: &ReadCell) -> Result<Ticket> {
        self.admit(part.end - part.start)?;
        let submission = read(&self.gpu, buffer, part, cell)?;
        Ok(lock(&self.flight).start(submission))
    }

    /// Waits for as long as it is wanted, which is looked at between waits inside the driver.
    fn wait_while(&self, ticket: Ticket, deadline: Deadline, is_wanted: &dyn Fn() -> bool) -> Result<Timing> {
        let start = Instant::now();
        let mut done_since: Option<Instant> = None;
        loop {
            match self.poll(ticket) {
                Status::Failed(e) => return Err(e),
                Status::Done => return Ok(Timing { wait: start.elapsed(), ..lock(&self.flight).timing(ticket) }),
                Status::Pending if deadline.has_passed() => {
                    self.gpu.budget.pause();
                    let pending = lock(&self.flight).pending();
                    return Err(DeviceError::Timeout { waited: deadline.waited(), pending });
                }
                Status::Pending if !is_wanted() => return Err(DeviceError::Cancelled),
                Status::Pending if start.elapsed() < self.gpu.options.spin => std::hint::spin_loop(),
                Status::Pending if self.block(ticket, deadline.remaining().min(LOOK))? => {
                    // Another thread may be about to call the callbacks; the driver may also have lost them.
                    if lock(&self.flight).is_landing(ticket) {
                        done_since = None;
                    } else if done_since.get_or_insert_with(Instant::now).elapsed() > GRACE {
                        self.gpu.verdict.lose("work was reported done and never delivered");
                    }
                    std::thread::yield_now();
                }
                Status::Pending => {}
            }
        }
    }

    /// Copies what a buffer holds from where it lies; false where that cannot be done at once.
    fn read_in_place(&self, buffer: &Buffer, to: &mut [u8]) -> Result<bool> {
        let memory = buffer.memory::<WgpuMemory>().filter(|memory| memory.is_of(&self.gpu));
        // wgpu makes what a shader wrote known to the device alone, and not to the host: software drivers do not tell them apart.
        let is_seen = self.gpu.is_shared && self.info.kind == DeviceKind::Software;
        let Some(memory) = memory.filter(|_| is_seen && to.len() as u64 <= buffer.bytes()) else {
            return Ok(false);
        };
        // Work that has ended holds it until somebody asks.
        drop(self.progress(wgpu::PollType::Poll)?);
        self.gpu.verdict.take_untold().map_or(Ok(()), Err)?;
        in_place::read(&self.gpu, memory.raw(), to)
    }

    /// Waits for unfinished work as long as the options say; true where none is left.
    fn finish(&self) -> bool {
        let deadline = Deadline::after(self.gpu.options.close);
        while !deadline.has_passed() && self.gpu.verdict.check().is_ok() {
            let Some(newest) = lock(&self.flight).newest() else { return true };
            let timeout = Some(deadline.remaining());
            drop(self.progress(wgpu::PollType::Wait { submission_index: Some(newest), timeout }));
        }
        false
    }

    fn prepared(work: &Arc<dyn Prepared>) -> Result<&WgpuPrepared> {
        let any: &dyn Any = &**work;
        any.downcast_ref().ok_or_else(|| DeviceError::Driver("the segment was prepared by another device".into()))
    }
}

impl Device for WgpuDevice {
    fn info(&self) -> &DeviceInfo {
        &self.info
    }

    fn caps(&self) -> &Caps {
        &self.caps
    }

    fn supports(&self, kernel: &Kernel) -> std::result::Result<(), Unsupported> {
        let plan = plan(&launch_of(kernel), &self.gpu.shaping())?;
        plan.dispatches.iter().try_for_each(|dispatch| self.pipelines.check(dispatch))
    }

    fn lowers(&self, kernel: &Kernel) -> Option<&'static str> {
        lowers(&kernel.widened(), &self.gpu.shaping())
    }

    fn workspace_bytes(&self, kernel: &Kernel) -> u64 {
        plan(&launch_of(kernel), &self.gpu.shaping()).map_or(0, |plan| plan.scratch)
    }

    fn alloc(&self, bytes: u64, _: MemoryKind) -> Result<Buffer> {
        self.gpu.alloc(bytes)
    }

    fn prepare(&self, segment: &Segment) -> Result<Arc<dyn Prepared>> {
        self.prepare_while(segment, &|| true)
    }

    fn prepare_while(&self, segment: &Segment, is_wanted: &(dyn Fn() -> bool + Sync)) -> Result<Arc<dyn Prepared>> {
        Ok(Arc::new(WgpuPrepared::new(&self.gpu, &self.pipelines, segment, is_wanted)?))
    }

    fn compiles(&self, segment: &Segment) -> bool {
        // Where all calls stand in line, those that compute would wait for the one that compiles.
        !self.gpu.has_one_context && WgpuPrepared::compiles(&self.gpu, &self.pipelines, segment)
    }

    fn copy_on_host(&self, from: &[u8], to: &mut [u8]) {
        self.gpu.options.copier.copy(from, to);
    }

    fn submit(&self, work: &Arc<dyn Prepared>, binding: Binding, _: Lane, after: &[Ticket]) -> Result<Ticket> {
        let work = Self::prepared(work)?;
        if let Some(ticket) = after.iter().find(|t| matches!(lock(&self.flight).status(**t), Status::Failed(_))) {
            return Err(DeviceError::Driver(format!("{ticket:?} failed, which this work comes after")));
        }
        self.admit(link_bytes(work, &binding))?;
        let shared = shared_slots(&raws(&self.gpu, &binding, work.slots)?);
        // Staging memory of parts that the device has fetched meanwhile serves those that follow.
        let sent = |part| {
            lock(&self.flight).start(part);
            drop(self.progress(wgpu::PollType::Poll));
        };
        let submission = match shared {
            Some(slots) => submit(&self.gpu, &*work.merge(&self.gpu, &self.pipelines, slots)?, &binding, sent)?,
            None => submit(&self.gpu, work, &binding, sent)?,
        };
        Ok(lock(&self.flight).start(submission))
    }

    fn poll(&self, ticket: Ticket) -> Status {
        let known = lock(&self.flight).status(ticket);
        if known != Status::Pending {
            return known;
        }
        // A failure to ask is the failure of everything pending, this ticket included.
        drop(self.progress(wgpu::PollType::Poll));
        lock(&self.flight).status(ticket)
    }

    fn wait(&self, ticket: Ticket, deadline: Deadline) -> Result<Timing> {
        self.wait_while(ticket, deadline, &|| true)
    }

    fn drain(&self, deadline: Deadline) -> Result<()> {
        self.drain_while(deadline, &|| true)
    }

    fn drain_while(&self, deadline: Deadline, is_wanted: &dyn Fn() -> bool) -> Result<()> {
        self.gpu.verdict.check()?;
        // What others submit meanwhile is not waited for: there may be no end of it.
        let newest = lock(&self.flight).newest_ticket();
        newest.map_or(Ok(()), |newest| self.wait_while(newest, deadline, is_wanted).map(drop))
    }

    fn owns(&self, buffer: &Buffer) -> bool {
        buffer.memory::<WgpuMemory>().is_some_and(|memory| memory.is_of(&self.gpu))
    }

    fn read_into(&self, buffer: &Buffer, to: &mut [u8], deadline: Deadline) -> Option<Result<()>> {
        match self.read_in_place(buffer, to) {
            Ok(false) => {
                let piece = piece_of(to.len() as u64, self.gpu.options.chunk_bytes)?;
                Some(read_into(self, buffer, to, piece, deadline))
            }
            done => Some(done.map(drop)),
        }
    }

    fn memory(&self) -> Memory {
        let flight = lock(&self.flight);
        let (pending, pending_bytes) = (flight.pending(), flight.bytes());
        drop(flight);
        // A wait that ran out may have said so after another thread saw the work end.
        if pending == 0 && self.gpu.verdict.check().is_ok() {
            self.gpu.budget.resume();
        }
        Memory { pending, pending_bytes, ..self.gpu.memory() }
    }

    fn pool_classes(&self) -> Vec<PoolClass> {
        self.gpu.pool_classes()
    }

    fn staging_classes(&self) -> [Vec<PoolClass>; 2] {
        self.gpu.staging.classes()
    }

    fn counts(&self) -> Vec<(&'static str, u64)> {
        self.counters().named()
    }

    fn trim(&self, age: Duration) {
        self.gpu.trim(age);
        // What was destroyed is given back to the driver by whoever polls next. A device that is lost says so elsewhere.
        let _ = self.progress(wgpu::PollType::Poll);
    }

    fn now(&self) -> Duration {
        self.gpu.now()
    }
}

impl Drop for WgpuDevice {
    /// Waits for unfinished work as long as the options say; then leaves it to the driver, whose own destructors would
    /// wait for ever.
    fn drop(&mut self) {
        if self.finish() {
            if let Some(cache) = &self.gpu.cache {
                cache.save();
            }
            return;
        }
        let left = lock(&self.flight).take_pending();
        if !left.is_empty() {
            self.gpu.abandon();
            std::mem::forget(left);
        }
    }
}

impl fmt::Debug for WgpuDevice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "WgpuDevice({})", self.info.name)
    }
}
