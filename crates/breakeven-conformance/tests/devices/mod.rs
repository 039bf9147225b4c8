//! Every device that the suite can open here.
#![allow(dead_code, reason = "each test file opens its own")]

use std::time::Duration;

use breakeven_cpu::{CpuDevice, CpuOptions, Isa, Tuning};
use breakeven_device::sim::{SimClock, SimDevice, SimOptions, SimSpeed};
use breakeven_device::{Backend, Device, DeviceKind};
use breakeven_wgpu::{Graphics, Limits, WgpuBackend, WgpuDevice, WgpuOptions};

/// A device on which no time passes.
pub fn sim() -> Box<SimDevice> {
    let speed = SimSpeed {
        per_submit: Duration::ZERO,
        per_launch: Duration::ZERO,
        per_wait: Duration::ZERO,
        flops_per_second: f64::INFINITY,
        bytes_per_second: f64::INFINITY,
        link_latency: Duration::ZERO,
        link_bytes_per_second: f64::INFINITY,
    };
    Box::new(SimDevice::new(SimOptions::new("sim", speed), &SimClock::new()))
}

/// The CPU with this instruction set; where the machine lacks it, with the next less able one it has. Memory is poisoned.
pub fn cpu(isa: Isa, threads: usize) -> Box<CpuDevice> {
    let isa = Isa::ALL.into_iter().rev().find(|i| *i <= isa && i.is_available()).unwrap_or(Isa::Scalar);
    // Parts so small that every job of the suite is split among the threads.
    let tuning = Tuning { part_ns: 50.0, wake_ns: 0.0, code_ns: 0.0, ..Tuning::default() };
    let options = CpuOptions { threads: Some(threads), isa: Some(isa), poison: true, tuning, ..CpuOptions::default() };
    Box::new(CpuDevice::new(options).expect("this machine has these instructions"))
}

/// The software adapter whose name has this word; on a machine with no software adapter, the one it has. Memory is poisoned.
pub fn gpu(word: &str, limits: Limits) -> Box<WgpuDevice> {
    open(word, limits, None)
}

/// Mesa's OpenGL on the processor, as [`gpu`].
pub fn opengl() -> Box<WgpuDevice> {
    open("llvmpipe", Limits::Adapter, Some(Graphics::Gl))
}

fn open(word: &str, limits: Limits, graphics: Option<Graphics>) -> Box<WgpuDevice> {
    // At the limits of every browser, bytes go the way that they go to cards.
    let in_place = (limits == Limits::WebGpuDefault).then_some(false);
    let backend = WgpuBackend::new(WgpuOptions { graphics, limits, in_place, poison: true, ..WgpuOptions::default() });
    let all = backend.list();
    let usable = |&i: &usize| all[i].unusable.is_none();
    let found = (0..all.len()).filter(usable).find(|&i| all[i].name.contains(word));
    let has_software = all.iter().any(|adapter| adapter.kind == DeviceKind::Software);
    let real = || (0..all.len()).find(usable).filter(|_| !has_software);
    let index = found.or_else(real).unwrap_or_else(|| {
        panic!(
            "{word} is not among the usable GPU adapters here, so nothing was tested on it: `cargo xtask test` installs software \
             drivers, and VK_DRIVER_FILES names them to the Vulkan loader; asked: {graphics:?}, found: {all:?}"
        )
    });
    let device = backend.open_device(index).unwrap_or_else(|e| panic!("{}: {e}", all[index].name));
    println!("{} by {} at {limits:?} limits", device.info().name, device.info().backend);
    Box::new(device)
}
