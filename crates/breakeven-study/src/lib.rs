//! What measurements say: samples, statistics, break-even points, verdicts, run folders, reports.
//!
//! Nothing here touches a device, a clock or a process. Functions are pure, but for `folder`, which reads and writes run folders. All times are
//! in nanoseconds and end in `_ns`; rates and ratios are computed from raw samples where they are shown, and never stored by hand.

#![forbid(unsafe_code)]

pub mod breakeven;
mod cell;
mod error;
pub mod folder;
mod manifest;
pub mod merge;
pub mod published;
mod regret;
pub mod report;
pub mod roofline;
mod sample;
mod schema;
mod sensed;
pub mod stats;
mod summarize;
mod summary;
pub mod units;
pub mod verdict;

pub use cell::{Cell, Mode, Status};
pub use error::StudyError;
pub use manifest::{Environment, Manifest, Opening, StudyDevice};
pub use regret::{Regret, Regretted};
pub use sample::{Flag, Flags, Sample};
pub use schema::{ComparisonSchema, EventsSchema, ManifestSchema, Schema, SummarySchema};
pub use sensed::{Sensed, SensedGpu};
pub use summarize::{AUTOMATIC, SCALAR, sizes_to_add, summarize};
pub use summary::{
    BreakEven, Ceiling, CellSummary, Copied, Crossing, Made, Noise, NoiseVerdict, Parts, Pool, Run, Side, Source, Stop,
    Summary, Target, WarmUp,
};
