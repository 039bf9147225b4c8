//! Engines on the software adapters of the machine, which are opened and not measured: they are used where they are named.
#![allow(dead_code, reason = "each test file takes what it needs")]

mod card;

use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use breakeven::{DeviceError, DeviceId, DeviceProfile, Engine, EngineBuilder, Profile, Tensor};
use breakeven_device::{Backend, Device, DeviceInfo};
use breakeven_wgpu::{WgpuBackend, WgpuDevice, WgpuOptions};

use card::{Card, posed};

pub const GPU: DeviceId = DeviceId(1);

fn plain() -> EngineBuilder {
    Engine::builder().gpus(false).no_cache()
}

/// One engine for each software adapter; device 1 is that.
pub fn engines() -> Vec<Engine> {
    let backend = WgpuBackend::new(WgpuOptions::default());
    let found = backend.software_adapters();
    assert!(!found.is_empty(), "no software Vulkan adapter: install mesa-vulkan-drivers, or set VK_DRIVER_FILES");
    found.iter().map(|&index| plain().device(backend.open(index).unwrap()).build().unwrap()).collect()
}

/// `SwiftShader`, whose kernels take as long as they should and whose waits time out.
pub fn swiftshader() -> (Engine, Arc<WgpuDevice>) {
    swiftshader_of(WgpuOptions::default())
}

pub fn swiftshader_of(options: WgpuOptions) -> (Engine, Arc<WgpuDevice>) {
    let backend = WgpuBackend::new(options);
    let index = backend.list().iter().position(is_swiftshader);
    let index = index.expect("SwiftShader is not among the adapters: install chromium-common and set VK_DRIVER_FILES");
    let device = Arc::new(backend.open_device(index).unwrap());
    (plain().device(device.clone()).build().unwrap(), device)
}

pub fn is_swiftshader(info: &DeviceInfo) -> bool {
    info.name.contains("SwiftShader")
}

/// Such numbers of a driver's first device, so that nothing has to be measured.
pub fn known(backend: &dyn Backend, rates: DeviceProfile) -> Profile {
    let info = backend.list().swap_remove(0);
    Profile { devices: vec![DeviceProfile { name: info.name, driver: info.driver, ..rates }], ..Profile::new("") }
}

/// A software adapter through a driver that hands out what it opened, so that a test can destroy it.
pub struct Handing {
    backend: WgpuBackend,
    only: usize,
    opened: Mutex<Vec<Arc<WgpuDevice>>>,
    /// Whether work that does not name it is placed there.
    poses: bool,
    /// Submissions until the device is destroyed, where it poses.
    pub left: Arc<AtomicU64>,
}

impl Handing {
    pub fn all() -> Vec<Arc<Handing>> {
        let all = WgpuBackend::new(WgpuOptions::default()).software_adapters();
        all.into_iter().map(|only| Arc::new(Handing::of(WgpuBackend::new(WgpuOptions::default()), only))).collect()
    }

    /// Those that pose.
    pub fn cards() -> Vec<Arc<Handing>> {
        let poses = |all| Handing { poses: true, ..Arc::into_inner(all).expect("nobody else has it yet") };
        Handing::all().into_iter().map(poses).map(Arc::new).collect()
    }

    fn of(backend: WgpuBackend, only: usize) -> Handing {
        Handing { backend, only, opened: Mutex::default(), poses: false, left: Arc::default() }
    }

    pub fn opened(&self) -> Vec<Arc<WgpuDevice>> {
        self.opened.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Backend for Handing {
    fn name(&self) -> &'static str {
        "handing"
    }

    fn list(&self) -> Vec<DeviceInfo> {
        let info = self.backend.list().swap_remove(self.only);
        vec![if self.poses { posed(info) } else { info }]
    }

    fn open(&self, _: usize) -> Result<Arc<dyn Device>, DeviceError> {
        let device = Arc::new(self.backend.open_device(self.only)?);
        self.opened.lock().unwrap_or_else(PoisonError::into_inner).push(device.clone());
        if !self.poses {
            return Ok(device);
        }
        let info = posed(device.info().clone());
        Ok(Arc::new(Card { device, info, left: self.left.clone() }))
    }

    fn now(&self) -> Duration {
        self.backend.now()
    }
}

/// A product that takes `SwiftShader` a second or so, in one launch.
pub fn long_work(engine: &Engine) -> Tensor {
    let n = 640;
    let square = |seed: usize| engine.from_vec((0..n * n).map(|i| (i * seed % 7) as f32).collect::<Vec<_>>(), [n, n]);
    square(3).matmul(&square(5)).matmul(&square(11)).on(GPU)
}

pub fn ramp(engine: &Engine, n: usize, from: usize) -> Tensor {
    engine.from_vec((from..from + n).map(|i| (i % 1000) as f32).collect::<Vec<_>>(), [n])
}

/// Bytes of this process that are in memory.
pub fn resident_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("Linux tells what a process holds");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("it has that line");
    line.trim().trim_end_matches("kB").trim().parse::<u64>().expect("it is a number") * 1024
}
