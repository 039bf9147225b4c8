//! The driver: finds adapters and opens them.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::{Duration, Instant};

use breakeven_device::{Backend, Copier, Device, DeviceError, DeviceInfo, DeviceKind, Result};

use crate::errors::ready;
use crate::{Graphics, KeptPipelines, WgpuDevice, adapter};

/// Which limits a device is opened with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Limits {
    /// The adapter's own.
    #[default]
    Adapter,
    /// Those that every WebGPU implementation grants.
    WebGpuDefault,
}

/// How devices are opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WgpuOptions {
    /// Through which interface adapters are looked for. Where none is named, all are asked but OpenGL, and that where the others
    /// have no adapter.
    pub graphics: Option<Graphics>,
    /// Which limits they get.
    pub limits: Limits,
    /// Fill memory with NaN before it is given out.
    pub poison: bool,
    /// Keep wgpu's bounds checks in shaders, which cost about a tenth of a matrix product.
    pub checked: bool,
    /// Measure kernel time where the device can.
    pub timestamps: bool,
    /// Bytes between host and device that may be in flight.
    pub in_flight_bytes: u64,
    /// Submissions that may be in flight.
    pub in_flight_submissions: usize,
    /// Bytes that each pool keeps waiting; where this is not said, a quarter of the card's memory, or 4 GiB where that is not told, and 1 GiB of
    /// the host's memory for copies in either direction.
    pub pool_bytes: Option<u64>,
    /// How long it keeps what nobody asks for, as long as anything is done on the device.
    pub pool_age: Duration,
    /// Whether the host writes and reads the device's own memory where it lies, where both share it, instead of copies by the device.
    /// Where this is not said, if that changes nothing for the device and the host caches that memory, as Vulkan tells: so for drivers
    /// that compile for the processor. Never on a card.
    pub in_place: Option<bool>,
    /// Bytes from which on what was read is not copied but lent: the memory that the device wrote is handed out, and comes back
    /// when nobody looks at it any more.
    pub lend_from: u64,
    /// Bytes that may be lent; beyond them, reads are copied.
    pub lent_bytes: u64,
    /// Pipelines that are kept for who asks for them next; those that a prepared segment holds may be more.
    pub pipelines: usize,
    /// Bytes of their texts together.
    pub pipeline_text_bytes: u64,
    /// Bytes of an upload that are staged and sent at a time, so that the device fetches them while the next are staged; the most that a
    /// read into the caller's memory brings at a time.
    pub chunk_bytes: u64,
    /// Who copies between the host's memory and staging memory.
    pub copier: Copier,
    /// How long a wait asks again and again before it blocks: blocking costs a wake-up.
    pub spin: Duration,
    /// How long closing a device waits for its work; what is unfinished then is left to the driver.
    pub close: Duration,
    /// Whether loops stay loops in shaders; where this is not said, for drivers that compile for the processor, which take ten times as
    /// long over what is written out.
    pub terse: Option<bool>,
    /// Where what drivers compile is kept from one process to the next, if anywhere.
    pub kept: Option<KeptPipelines>,
}

impl Default for WgpuOptions {
    fn default() -> WgpuOptions {
        WgpuOptions {
            graphics: None,
            limits: Limits::Adapter,
            poison: false,
            checked: false,
            timestamps: true,
            in_flight_bytes: 1 << 30,
            in_flight_submissions: 256,
            pool_bytes: None,
            pool_age: Duration::from_mins(1),
            in_place: None,
            // A copy of so many takes about as long as lending them costs on both ends, and memory that others hold is memory
            // that the next read has to do without.
            lend_from: 64 << 10,
            lent_bytes: 1 << 30,
            // Several times what a large model needs, each of some tens of kilobytes.
            pipelines: 512,
            pipeline_text_bytes: 16 << 20,
            // At the 55 GB/s of the fastest links such a piece takes 300 us, several times what a submission does, and its first
            // one is a small part of an upload that is worth cutting.
            chunk_bytes: 16 << 20,
            copier: Copier::default(),
            spin: Duration::from_micros(200),
            close: Duration::from_secs(2),
            terse: None,
            kept: None,
        }
    }
}

/// All adapters that wgpu finds.
pub struct WgpuBackend {
    instance: wgpu::Instance,
    adapters: Vec<(wgpu::Adapter, DeviceInfo)>,
    options: WgpuOptions,
    start: Instant,
}

impl WgpuBackend {
    /// Looks for adapters. A machine without a graphics driver has none, which is no error.
    pub fn new(options: WgpuOptions) -> WgpuBackend {
        let (instance, found) = match options.graphics {
            Some(graphics) => search(graphics.bits()),
            None => match search(wgpu::Backends::all() - wgpu::Backends::GL) {
                (_, none) if none.is_empty() => search(wgpu::Backends::GL),
                found => found,
            },
        };
        let adapters = found.into_iter().map(|a| {
            let info = adapter::info(&a, options.limits);
            (a, info)
        });
        let adapters = adapters.collect();
        WgpuBackend { instance, adapters, options, start: Instant::now() }
    }

    /// Indices of the adapters that are programs on the host's processor, such as lavapipe and `SwiftShader`.
    pub fn software_adapters(&self) -> Vec<usize> {
        let software = |i: &usize| self.adapters[*i].1.kind == DeviceKind::Software;
        (0..self.adapters.len()).filter(software).collect()
    }

    /// Opens adapter `index`, as a device of this crate.
    pub fn open_device(&self, index: usize) -> Result<WgpuDevice> {
        let (adapter, info) = self.adapters.get(index).ok_or_else(|| {
            DeviceError::Driver(format!("there are {} adapters, so none is {index}", self.adapters.len()))
        })?;
        match &info.unusable {
            Some(reason) => Err(DeviceError::Driver(format!("{} is not usable: {reason}", info.name))),
            None => WgpuDevice::open(&self.instance, adapter, info.clone(), self.options.clone()),
        }
    }
}

/// What these interfaces show. A driver that panics shows nothing.
fn search(backends: wgpu::Backends) -> (wgpu::Instance, Vec<wgpu::Adapter>) {
    let mut descriptor = wgpu::InstanceDescriptor::new_without_display_handle();
    descriptor.flags = wgpu::InstanceFlags::empty();
    descriptor.backends = backends;
    let instance = wgpu::Instance::new(descriptor);
    let find = || ready(instance.enumerate_adapters(backends)).unwrap_or_default();
    let found = catch_unwind(AssertUnwindSafe(find)).unwrap_or_default();
    (instance, found)
}

impl Backend for WgpuBackend {
    fn name(&self) -> &'static str {
        "wgpu"
    }

    fn list(&self) -> Vec<DeviceInfo> {
        self.adapters.iter().map(|(_, info)| info.clone()).collect()
    }

    fn open(&self, index: usize) -> Result<Arc<dyn Device>> {
        Ok(Arc::new(self.open_device(index)?))
    }

    fn now(&self) -> Duration {
        self.start.elapsed()
    }
}

impl fmt::Debug for WgpuBackend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.adapters.iter().map(|(_, info)| &info.name)).finish()
    }
}
