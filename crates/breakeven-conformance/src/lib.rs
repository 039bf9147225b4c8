//! The suite that every device must pass: one call per device, no test written twice.
//!
//! [`suite!`] makes the tests of a device. Every kernel runs on views, aliased and in-place buffers, at lengths around the
//! seams and with special values; unwritten and padding bytes are poisoned, and each element is held against an interval
//! that follows from the inputs that the kernel really received ([`bounds`]).
#![forbid(unsafe_code)]

mod bench;
mod bounds;
mod case;
mod compare;
mod counts;
mod data;
pub mod graphs;
mod suite;
mod tier;
mod views;

pub use bench::{Bench, run};
pub use bounds::{Bound, Rules, bounds};
pub use case::Case;
pub use compare::compare;
pub use counts::Counts;
pub use data::{Random, between, special, values as sample};
pub use suite::graphs as random_graphs;
pub use suite::{casts, copies, fused, gathers, graph_on, maps, matmuls, reductions, row_wise, specials, values};
pub use tier::Tier;
pub use views::{all as views, distinct as distinct_views};

/// The tests of one device: `suite!(open(), Tier::Full)`. One test for each area, which runs at least as many kernels as
/// stand here, so that nothing passes by not running.
#[macro_export]
macro_rules! suite {
    ($device:expr, $tier:expr) => {
        $crate::suite! { @each $device, $tier;
            maps 3000, specials 100, values 60, casts 20, copies 100, fused 60, reductions 500, row_wise 200, matmuls 100, gathers 60,
            random_graphs 300 }
    };
    (@each $device:expr, $tier:expr; $($area:ident $least:literal),+) => {$(
        #[test]
        fn $area() {
            let device = $device;
            let mut bench = $crate::Bench::new(&*device);
            $crate::$area(&mut bench, $tier);
            let counts = bench.finish();
            println!("{}: {counts}", stringify!($area));
            assert!(counts.launches >= $least, "{} kernels were to run at least, but: {counts}", $least);
        }
    )+};
}
