//! The open device and its memory.

use std::fmt;
use std::mem::ManuallyDrop;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use breakeven_device::{Buffer, DeviceError, DeviceKind, Memory, Pool, PoolCounters, Result, size_class};

use crate::backend::WgpuOptions;
use crate::budget::{Budget, Granted, share};
use crate::counters::Counts;
use crate::errors::{Verdict, guarded, lock};
use crate::in_place;
use crate::kept::DriverCache;
use crate::kernels::Shaping;
use crate::prepared::ALL_GROUPS;
use crate::recent::Room;
use crate::staging::Staging;

/// One opened adapter: what buffers, submissions and pipelines all need.
pub(crate) struct Gpu {
    pub queue: ManuallyDrop<wgpu::Queue>,
    pub device: ManuallyDrop<wgpu::Device>,
    /// What its driver compiled, where that is kept.
    pub cache: Option<Arc<DriverCache>>,
    /// Some drivers crash when their instance goes before their devices.
    _instance: wgpu::Instance,
    pub limits: wgpu::Limits,
    kind: DeviceKind,
    /// Its calls stand in line for one context, as OpenGL's do, where wgpu gives up on whoever waits for longer than six seconds.
    pub has_one_context: bool,
    /// Its own buffers can be mapped.
    pub is_shared: bool,
    pub options: WgpuOptions,
    pub verdict: Verdict,
    pub counts: Counts,
    /// Room for the bind groups of all segments.
    pub groups: Room,
    pub staging: Staging,
    pool: Mutex<Pool<Raw>>,
    pub budget: Budget,
    ids: AtomicU64,
    start: Instant,
    /// When the last submission ended that was recorded, as far as is known.
    pub recorded_until: Mutex<Duration>,
    /// Work was left running: nothing of the device may be dropped, since that would wait for it without limit.
    abandoned: AtomicBool,
    /// So many of the next buffers find the driver out of memory.
    #[cfg(test)]
    refusals: std::sync::atomic::AtomicUsize,
}

/// A buffer of the driver with a number that no other ever has.
#[derive(Debug)]
pub(crate) struct Raw {
    pub id: u64,
    pub buffer: wgpu::Buffer,
    /// How often submissions hold it.
    pub uses: Mutex<usize>,
}

/// Memory behind a [`Buffer`] of this device; goes back to the pool when the last holder lets go.
pub(crate) struct WgpuMemory {
    gpu: Arc<Gpu>,
    raw: Option<Raw>,
    bytes: u64,
}

impl Gpu {
    pub fn new(
        (instance, adapter): (&wgpu::Instance, &wgpu::Adapter),
        (device, queue): (wgpu::Device, wgpu::Queue),
        kind: DeviceKind,
        options: WgpuOptions,
    ) -> Gpu {
        let verdict = Verdict::default();
        verdict.listen(&device);
        let about = adapter.get_info();
        let cache = options.kept.as_ref().and_then(|k| k.open(&device, instance, &about, &verdict));
        let budget = Budget::of(&device, kind);
        let pool_bytes = options.pool_bytes.unwrap_or_else(|| budget.pool_bytes());
        Gpu {
            limits: device.limits(),
            kind,
            has_one_context: about.backend == wgpu::Backend::Gl,
            is_shared: device.features().contains(wgpu::Features::MAPPABLE_PRIMARY_BUFFERS),
            queue: ManuallyDrop::new(queue),
            device: ManuallyDrop::new(device),
            cache,
            _instance: instance.clone(),
            verdict,
            counts: Counts::default(),
            groups: Room::new(ALL_GROUPS),
            staging: Staging::new(&options),
            pool: Mutex::new(Pool::new(pool_bytes, options.pool_age)),
            budget,
            ids: AtomicU64::new(0),
            start: Instant::now(),
            recorded_until: Mutex::default(),
            abandoned: AtomicBool::new(false),
            #[cfg(test)]
            refusals: std::sync::atomic::AtomicUsize::default(),
            options,
        }
    }

    /// What shapes its dispatches.
    pub fn shaping(&self) -> Shaping {
        let features = self.device.features();
        crate::adapter::shaping(&self.limits, features, self.options.terse.unwrap_or(self.kind == DeviceKind::Software))
    }

    /// Time since the device was opened.
    pub fn now(&self) -> Duration {
        self.start.elapsed()
    }

    /// Never drop the device.
    pub fn abandon(&self) {
        self.abandoned.store(true, Relaxed);
    }

    /// Runs calls of wgpu and gives back the error they raise.
    pub fn guarded<T>(&self, act: impl FnOnce() -> T) -> Result<T> {
        self.verdict.check()?;
        guarded(&self.device, &self.verdict, act)
    }

    /// Memory of `bytes`, from the pool or new.
    pub fn alloc(self: &Arc<Gpu>, bytes: u64) -> Result<Buffer> {
        self.verdict.check()?;
        let padded = bytes.next_multiple_of(16);
        if padded > self.limits.max_buffer_size {
            return Err(DeviceError::OutOfMemory { wanted: bytes, left: Some(self.limits.max_buffer_size) });
        }
        let pooled = lock(&self.pool).take(bytes);
        let raw = match pooled {
            Some(raw) => raw,
            None => self.create(bytes)?,
        };
        if self.options.poison {
            self.poison(&raw)?;
        }
        Ok(Buffer::new(WgpuMemory { gpu: self.clone(), raw: Some(raw), bytes }, bytes))
    }

    fn create(&self, bytes: u64) -> Result<Raw> {
        let memory = self.memory();
        let over =
            memory.budget.map_or(0, |most| memory.used_bytes().saturating_add(size_class(bytes)).saturating_sub(most));
        // Some drivers give more than there is, and bring it from the host's memory whenever it is used.
        let gone = lock(&self.pool).give_back(over);
        destroy(&gone);
        let usage = wgpu::BufferUsages::STORAGE | wgpu::BufferUsages::COPY_SRC | wgpu::BufferUsages::COPY_DST;
        let mapped = wgpu::BufferUsages::MAP_READ | wgpu::BufferUsages::MAP_WRITE;
        let buffer = self.create_buffer(bytes, if self.is_shared { usage | mapped } else { usage }, false)?;
        lock(&self.pool).made(bytes);
        Ok(Raw { id: self.ids.fetch_add(1, Relaxed), buffer, uses: Mutex::default() })
    }

    fn poison(&self, raw: &Raw) -> Result<()> {
        let nan = vec![0xFF; raw.buffer.size() as usize];
        if in_place::fill(self, raw, &nan)? {
            return Ok(());
        }
        self.guarded(|| self.queue.write_buffer(&raw.buffer, 0, &nan))
    }

    /// A new buffer for `bytes`. When memory runs out, the pools are emptied and it is tried once more.
    pub fn create_buffer(&self, bytes: u64, usage: wgpu::BufferUsages, mapped: bool) -> Result<wgpu::Buffer> {
        let most = self.limits.max_buffer_size / 16 * 16;
        let size = size_class(bytes).min(most.max(bytes.next_multiple_of(16)));
        let descriptor = wgpu::BufferDescriptor { label: None, size, usage, mapped_at_creation: mapped };
        let make = || self.ask_for(&descriptor);
        match make() {
            Err(DeviceError::OutOfMemory { .. }) => {
                self.trim(Duration::ZERO);
                make().map_err(|e| match e {
                    DeviceError::OutOfMemory { .. } => DeviceError::OutOfMemory { wanted: bytes, left: None },
                    other => other,
                })
            }
            other => other,
        }
    }

    fn ask_for(&self, descriptor: &wgpu::BufferDescriptor<'_>) -> Result<wgpu::Buffer> {
        #[cfg(test)]
        self.refuse()?;
        self.guarded(|| self.device.create_buffer(descriptor))
    }

    /// Give back pooled memory that nobody has used for `age`.
    pub fn trim(&self, age: Duration) {
        let before = if age.is_zero() { Duration::MAX } else { self.now().saturating_sub(age) };
        let gone = lock(&self.pool).trim(before);
        destroy(&gone);
        self.staging.trim(before);
        self.budget.ask_again();
    }

    /// The pool by size class.
    pub fn pool_classes(&self) -> Vec<breakeven_device::PoolClass> {
        lock(&self.pool).classes()
    }

    /// Memory held now, but for what is in flight.
    pub fn memory(&self) -> Memory {
        if self.verdict.check().is_err() {
            self.budget.pause();
        }
        let pool = || lock(&self.pool).counters();
        let reserved = || {
            let PoolCounters { live_bytes, pooled_bytes, .. } = pool();
            live_bytes + pooled_bytes
        };
        let Granted { budget, used } = self.budget.at(self.now(), || share(&self.device), reserved);
        Memory { pool: pool(), used, budget, ..Memory::default() }
    }
}

/// Bind groups may still hold the buffers; destroying frees their memory all the same.
fn destroy(gone: &[Raw]) {
    for raw in gone {
        raw.buffer.destroy();
    }
}

impl Drop for Gpu {
    fn drop(&mut self) {
        if self.abandoned.load(Relaxed) || self.verdict.check().is_err() {
            return;
        }
        // SAFETY: neither is touched again: this is the destructor of the only struct that holds them, and nothing after
        // this line reads them. The queue goes first, as it would without `ManuallyDrop`.
        unsafe {
            ManuallyDrop::drop(&mut self.queue);
            ManuallyDrop::drop(&mut self.device);
        }
    }
}

impl fmt::Debug for Gpu {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Gpu({:?})", *self.device)
    }
}

impl WgpuMemory {
    /// The driver's buffer.
    pub fn raw(&self) -> &Raw {
        self.raw.as_ref().expect("memory is taken out only when it is dropped")
    }

    /// How often submissions hold it, where anybody asks: bytes may be written and read in place.
    pub fn uses(&self) -> Option<&Mutex<usize>> {
        self.gpu.is_shared.then(|| &self.raw().uses)
    }

    /// True when it is memory of this very device.
    pub fn is_of(&self, gpu: &Arc<Gpu>) -> bool {
        Arc::ptr_eq(&self.gpu, gpu)
    }
}

impl Drop for WgpuMemory {
    fn drop(&mut self) {
        if let Some(raw) = self.raw.take() {
            let gone = lock(&self.gpu.pool).put(self.bytes, raw, self.gpu.now());
            destroy(&gone);
        }
    }
}

#[cfg(test)]
mod tests {
    use breakeven_device::{Backend, Binding, Deadline, Device, HostBytes, Lane, MemoryKind, ReadCell};
    use breakeven_device::{Segment, SegmentStep};

    use super::*;
    use crate::errors::typed;
    use crate::{WgpuBackend, WgpuDevice};

    impl Gpu {
        pub(super) fn refuse(&self) -> Result<()> {
            let is_refused = self.refusals.fetch_update(Relaxed, Relaxed, |left| left.checked_sub(1)).is_ok();
            let refused = || wgpu::Error::OutOfMemory { source: "a test says so".into() };
            if is_refused { Err(typed(refused())) } else { Ok(()) }
        }
    }

    /// Every software adapter, which copies as cards do.
    fn devices() -> Vec<WgpuDevice> {
        let backend = WgpuBackend::new(WgpuOptions { in_place: Some(false), ..WgpuOptions::default() });
        assert!(!backend.list().is_empty(), "no software Vulkan adapter: install mesa-vulkan-drivers");
        backend.software_adapters().into_iter().map(|index| backend.open_device(index).unwrap()).collect()
    }

    /// Brings so many bytes to the device and back.
    fn send(device: &WgpuDevice, bytes: usize) -> Result<()> {
        let (read, count) = (ReadCell::new(), bytes as u64);
        let steps =
            vec![SegmentStep::Upload { upload: 0, slot: 0 }, SegmentStep::Download { slot: 0, bytes: count, read: 0 }];
        let binding = Binding {
            buffers: vec![device.alloc(count, MemoryKind::Resident)?],
            uploads: vec![HostBytes::from_vec(vec![7u8; bytes])],
            reads: vec![read.clone()],
            ..Binding::default()
        };
        let ticket = device.submit(&device.prepare(&Segment { steps })?, binding, Lane::Compute, &[])?;
        device.wait(ticket, Deadline::after(Duration::from_mins(1)))?;
        assert_eq!(read.take().unwrap().to_vec(), vec![7; bytes]);
        Ok(())
    }

    fn waiting(device: &WgpuDevice) -> [u64; 3] {
        let [write, read] = device.gpu().staging.counters();
        [device.memory().pool, write, read].map(|pool| pool.pooled_bytes)
    }

    fn live(device: &WgpuDevice) -> [u64; 3] {
        let [write, read] = device.gpu().staging.counters();
        [device.memory().pool, write, read].map(|pool| pool.live_bytes)
    }

    #[test]
    fn a_driver_out_of_memory_gets_back_what_waits_and_is_asked_again() {
        for device in devices() {
            send(&device, 1000).unwrap();
            assert!(waiting(&device).iter().all(|&bytes| bytes > 0), "{:?}", waiting(&device));
            device.gpu().refusals.store(1, Relaxed);
            let buffer = device.alloc(1 << 20, MemoryKind::Resident).unwrap();
            assert_eq!((waiting(&device), live(&device)), ([0; 3], [1 << 20, 0, 0]));
            drop(buffer);
            send(&device, 1 << 20).unwrap();
        }
    }

    #[test]
    fn a_driver_that_stays_out_of_memory_says_how_much_was_wanted() {
        for device in devices() {
            device.gpu().refusals.store(2, Relaxed);
            let told = device.alloc(1000, MemoryKind::Resident).unwrap_err();
            assert_eq!(told, DeviceError::OutOfMemory { wanted: 1000, left: None });
            assert_eq!((waiting(&device), live(&device)), ([0; 3], [0; 3]), "what was not made is not counted");
            send(&device, 1000).unwrap();
        }
    }

    /// What it had staged by then is not counted as in use for ever.
    #[test]
    fn a_submission_that_finds_no_memory_for_its_read_fails_and_the_next_goes_on() {
        for device in devices() {
            let gpu = device.gpu();
            send(&device, 1000).unwrap();
            let taken = gpu.staging.for_read(gpu, 1000).unwrap();
            gpu.refusals.store(2, Relaxed);
            let told = send(&device, 1000).unwrap_err();
            assert_eq!(told, DeviceError::OutOfMemory { wanted: 1000, left: None });
            gpu.staging.put_read(1000, taken, gpu.now());
            assert_eq!(live(&device), [0; 3]);
            send(&device, 1000).unwrap();
        }
    }
}
