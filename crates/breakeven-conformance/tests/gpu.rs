//! The suite on the adapters of this machine; `cargo xtask test` sees to it that there are two software drivers, which differ
//! in limits, subgroup size and alignment.

mod devices;

use breakeven_conformance::Tier;
use breakeven_wgpu::Limits;
use devices::gpu;

mod lavapipe {
    use super::*;
    breakeven_conformance::suite!(gpu("llvmpipe", Limits::Adapter), Tier::Full);
}

mod swiftshader {
    use super::*;
    breakeven_conformance::suite!(gpu("SwiftShader", Limits::Adapter), Tier::Quick);
}

/// What every browser grants.
mod webgpu_limits {
    use super::*;
    breakeven_conformance::suite!(gpu("SwiftShader", Limits::WebGpuDefault), Tier::Quick);
}
