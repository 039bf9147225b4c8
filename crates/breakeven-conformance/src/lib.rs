//! The suite that every device must pass: one call per device, no test written twice.
//!
//! [`suite!`] makes the tests of a device. Every kernel runs on views, aliased and in-place buffers, at lengths around the
//! seams and with special values; unwritten and padding bytes are poisoned, and each element is held against an interval
//! that follows from the inputs that the kernel really received ([`bounds`]).
#![forbid(unsafe_code)]

mod bench;
mod bounds;
mod case;
pub mod cases;
#[doc(hidden)]
pub mod checks;
mod compare;
mod counts;
mod data;
pub mod graphs;
mod own;
mod suite;
mod support;
mod tier;
mod views;

pub use bench::{Bench, run};
pub use bounds::{Bound, Rules, bounds};
pub use case::Case;
pub use checks::Check;
pub use compare::compare;
pub use counts::Counts;
pub use data::{Random, between, special, values as sample};
pub use own::{OwnCustom, OwnRow};
pub use suite::graphs as random_graphs;
pub use suite::{
    attentions, byte_matmuls, casts, convs, copies, fused, gathers, graph_on, lower_matmuls, maps, matmuls, reductions,
    row_wise, scans, scatters, sorts, specials, typed_graph, values,
};
pub use support::{Support, Survey, survey};
pub use tier::Tier;
pub use views::{all as views, distinct as distinct_views};

/// The tests of one device: `suite!(open(), Tier::Full)`. One test for each area, which runs at least as many kernels as
/// stand here, so that nothing passes by not running, and one for each case. `suite!(ignored "why", open(), Tier::Full)`
/// makes the same tests, run on demand; `suite!(@each ...)` and `suite!(@case ...)` make some of them. `suite!(list Tier::Quick)` is an
/// array of all of them by name, as functions of a device ([`Check`]).
#[macro_export]
macro_rules! suite {
    (ignored $why:literal, $device:expr, $tier:expr) => { $crate::suite! { @all tests ignore = $why; $device, $tier } };
    ($device:expr, $tier:expr) => { $crate::suite! { @all tests cfg(test); $device, $tier } };
    (list $tier:expr) => { $crate::suite! { @all checks cfg(test); (), $tier } };
    (@all $how:ident $mark:meta; $device:expr, $tier:expr) => {
        $crate::suite! { @$how $mark; $device, $tier; {
            maps 3000, specials 100, values 60, casts 20, copies 100, fused 60, reductions 500, row_wise 200, scans 300, matmuls 100,
            byte_matmuls 200, lower_matmuls 200, convs 300, attentions 60, sorts 200, scatters 200,
            gathers 60, random_graphs 300
        } {
            f01_tanh_saturates, f02_activations_do_not_overflow, f03_nan_survives_extremes, f05_nan_is_found,
            f07_zero_keeps_its_sign, f08_denormals_are_kept, f11_nothing_times_infinity_is_nan,
            r01_long_sums, r02_first_of_equals, r05_nothing_to_fold, r06_rows_of_minus_infinity,
            r07_nan_reaches_its_whole_row, r09_far_from_zero, r11_five_axes, r13_same_bits_every_time, r14_no_lane_count,
            r15_barriers_hold,
            m01_repeated_batches, m02_every_batch_has_its_own_strides, m04_views_multiply, m05_nothing_comes_out_zero,
            m07_copies_between_views, m10_sides_are_not_swapped, m11_vectors_multiply, m12_many_terms, m13_tails_of_every_length,
            m18_one_buffer_read_twice_and_written, p04_poison_stays_out,
            l01_more_than_65535_groups, l04_the_adapters_own_limits, l05_sizes_past_4_gib, l07_more_inputs_than_bindings,
            g01_moments_of_another_axis, g02_fused_rows_are_all_right, g08_long_chains_and_one_operand_twice
        } }
    };
    (@tests $mark:meta; $device:expr, $tier:expr; { $($areas:tt)+ } { $($cases:tt)+ }) => {
        $crate::suite! { @each $mark; $device, $tier; $($areas)+ }
        $crate::suite! { @case $mark; $device; $($cases)+ }
    };
    (@checks $mark:meta; $device:expr, $tier:expr; { $($area:ident $least:literal),+ } { $($case:ident),+ }) => {
        [
            $((stringify!($area), |device| $crate::checks::area(stringify!($area), device, $least, |b| $crate::$area(b, $tier))),)+
            $((stringify!($case), |device| $crate::cases::$case(device)),)+
        ]
    };
    (@case $mark:meta; $device:expr; $($case:ident),+) => {$(
        #[test]
        #[$mark]
        fn $case() {
            let device = $device;
            $crate::cases::$case(&*device);
        }
    )+};
    (@each $mark:meta; $device:expr, $tier:expr; $($area:ident $least:literal),+) => {$(
        #[test]
        #[$mark]
        fn $area() {
            let device = $device;
            $crate::checks::area(stringify!($area), &*device, $least, |bench| $crate::$area(bench, $tier));
        }
    )+};
}
