//! The suite on the adapters of this machine; `cargo xtask test` sees to it that there are two software drivers, which differ
//! in limits, subgroup size and alignment.

mod devices;

use breakeven_conformance::Tier;
use breakeven_wgpu::Limits;
use devices::{gpu, opengl};

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

/// A part: the driver compiles one text after another, and needs minutes for those of scans alone. They and the rest are in the whole.
mod opengl {
    use super::*;
    breakeven_conformance::suite! { @each cfg(test); opengl(), Tier::Quick;
    attentions 60, casts 20, convs 300, copies 100, fused 60, gathers 60, scatters 200, sorts 200, values 60 }
    breakeven_conformance::suite! { @case cfg(test); opengl();
    f01_tanh_saturates, f03_nan_survives_extremes, f08_denormals_are_kept,
    r01_long_sums, r02_first_of_equals, r06_rows_of_minus_infinity, r07_nan_reaches_its_whole_row, r15_barriers_hold,
    m02_every_batch_has_its_own_strides, m04_views_multiply, m13_tails_of_every_length,
    m18_one_buffer_read_twice_and_written, p04_poison_stays_out, l04_the_adapters_own_limits,
    l07_more_inputs_than_bindings, g01_moments_of_another_axis, g02_fused_rows_are_all_right }
}

mod opengl_whole {
    use super::*;
    breakeven_conformance::suite!(
        ignored "takes many minutes of a core: cargo test -p breakeven-conformance --test gpu opengl_whole -- --ignored",
        opengl(), Tier::Quick
    );
}
