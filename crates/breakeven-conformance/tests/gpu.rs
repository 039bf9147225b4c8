//! The suite on the adapters of this machine; `cargo xtask test` sees to it that there are two software drivers, which differ
//! in limits, subgroup size and alignment.

use breakeven_conformance::Tier;
use breakeven_device::{Backend, Device};
use breakeven_wgpu::{Limits, WgpuBackend, WgpuDevice, WgpuOptions};

/// The adapter whose name has this word; where there is none, any other. Memory is poisoned with NaN.
fn open(word: &str, limits: Limits) -> Box<WgpuDevice> {
    let backend = WgpuBackend::new(WgpuOptions { limits, poison: true, ..WgpuOptions::default() });
    let all = backend.list();
    let usable = |&i: &usize| all[i].unusable.is_none();
    let found = (0..all.len()).filter(usable).find(|&i| all[i].name.contains(word));
    let index = found.or_else(|| (0..all.len()).find(usable)).unwrap_or_else(|| {
        panic!(
            "there is no usable GPU adapter here, so nothing was tested on one: `cargo xtask test` installs software \
             drivers, and VK_DRIVER_FILES names them to the Vulkan loader; found: {all:?}"
        )
    });
    let device = backend.open_device(index).unwrap_or_else(|e| panic!("{}: {e}", all[index].name));
    println!("{} at {limits:?} limits", device.info().name);
    Box::new(device)
}

mod lavapipe {
    use super::*;
    breakeven_conformance::suite!(open("llvmpipe", Limits::Adapter), Tier::Quick);
}

mod swiftshader {
    use super::*;
    breakeven_conformance::suite!(open("SwiftShader", Limits::Adapter), Tier::Quick);
}

/// What every browser grants.
mod webgpu_limits {
    use super::*;
    breakeven_conformance::suite!(open("SwiftShader", Limits::WebGpuDefault), Tier::Quick);
}
