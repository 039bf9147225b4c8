//! Trouble that users of other libraries reported (`data/cases.jsonl`), each on this device with the right value.
//!
//! Here are the cases that one kernel or one planned graph shows; those that need the engine are tests of `breakeven`.

mod floats;
mod graphs;
mod limits;
mod matmul;
mod on;
mod reductions;

pub use floats::{
    f01_tanh_saturates, f02_activations_do_not_overflow, f03_nan_survives_extremes, f05_nan_is_found,
    f07_zero_keeps_its_sign, f08_denormals_are_kept, f11_nothing_times_infinity_is_nan,
};
pub use graphs::{
    g01_moments_of_another_axis, g02_fused_rows_are_all_right, g08_long_chains_and_one_operand_twice,
    l07_more_inputs_than_bindings,
};
pub use limits::{l01_more_than_65535_groups, l04_the_adapters_own_limits, l05_sizes_past_4_gib};
pub use matmul::{
    m01_repeated_batches, m02_every_batch_has_its_own_strides, m04_views_multiply, m05_nothing_comes_out_zero,
    m07_copies_between_views, m10_sides_are_not_swapped, m11_vectors_multiply, m12_many_terms,
    m13_tails_of_every_length, m18_one_buffer_read_twice_and_written, p04_poison_stays_out,
};
pub use on::On;
pub use reductions::{
    r01_long_sums, r02_first_of_equals, r05_nothing_to_fold, r06_rows_of_minus_infinity, r07_nan_reaches_its_whole_row,
    r09_far_from_zero, r11_five_axes, r13_same_bits_every_time, r14_no_lane_count, r15_barriers_hold,
};
