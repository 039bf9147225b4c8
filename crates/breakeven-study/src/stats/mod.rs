//! Statistics of timings: quantiles that were really measured, intervals, what to drop, when to stop, and how noisy the machine is.

mod bootstrap;
mod clean;
mod contention;
mod data;
mod noise;
mod quantile;
mod random;
mod shift;
mod stop;
mod warm_up;

pub use bootstrap::{Interval, of_quantile, of_trimmed_mean};
pub use clean::{Dropped, Kept};
pub use contention::{CONTENDED, CROWDED, is_contended, stolen};
pub use data::{degenerate_share, flags};
pub use noise::{NOISY, UNUSABLE, drift, floor, halves, spread, verdict};
pub use quantile::{P90_SAMPLES, P99_SAMPLES, Sorted};
pub use random::Random;
pub use shift::{Shift, shift};
pub use stop::{StopRule, should_stop};
pub use warm_up::{classify, is_first_round_warming, settled_from};
