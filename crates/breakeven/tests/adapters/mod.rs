//! Engines on the software adapters of the machine, which are opened and not measured: they are used where they are named.
#![allow(dead_code, reason = "each test file takes what it needs")]

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use breakeven::{DeviceError, DeviceId, Engine, EngineBuilder, Tensor};
use breakeven_device::{Backend, Device, DeviceInfo};
use breakeven_wgpu::{WgpuBackend, WgpuDevice, WgpuOptions};

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
    let backend = WgpuBackend::new(WgpuOptions::default());
    let index = backend.list().iter().position(|info| info.name.contains("SwiftShader"));
    let index = index.expect("SwiftShader is not among the adapters: install chromium-common and set VK_DRIVER_FILES");
    let device = Arc::new(backend.open_device(index).unwrap());
    (plain().device(device.clone()).build().unwrap(), device)
}

/// The software adapters through a driver that hands out what it opened, so that a test can destroy it.
pub struct Handing {
    backend: WgpuBackend,
    only: usize,
    opened: Mutex<Vec<Arc<WgpuDevice>>>,
}

impl Handing {
    pub fn all() -> Vec<Arc<Handing>> {
        let backend = || WgpuBackend::new(WgpuOptions::default());
        let one = |only| Arc::new(Handing { backend: backend(), only, opened: Mutex::default() });
        backend().software_adapters().into_iter().map(one).collect()
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
        vec![self.backend.list().swap_remove(self.only)]
    }

    fn open(&self, _: usize) -> Result<Arc<dyn Device>, DeviceError> {
        let device = Arc::new(self.backend.open_device(self.only)?);
        self.opened.lock().unwrap_or_else(PoisonError::into_inner).push(device.clone());
        Ok(device)
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

/// Bytes of this process that are in memory.
pub fn resident_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("Linux tells what a process holds");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("it has that line");
    line.trim().trim_end_matches("kB").trim().parse::<u64>().expect("it is a number") * 1024
}
