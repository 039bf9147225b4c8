//! A run folder: what was measured, kept so that ending the process at any byte loses no finished row.
//!
//! `manifest.json` says where and how, `events.jsonl` what happened in order, `samples.csv` every raw sample, `summary.json` what was computed.
//! The two logs are only ever appended to; the other files are replaced as a whole. A cell counts once its `finished` event is whole: its
//! samples are written before. What a killed process left of a line is dropped with a note, and cut off before anything is appended.

mod event;
mod reader;
mod row;
mod writer;

pub use event::{Event, Facts, GpuReading, ProcessorTime, Reading, Record};
pub use reader::{Recorded, RecordedCell, Sentinel, read, read_summary};
pub use writer::{RunWriter, write_file};

/// Names of the files in a run folder.
pub mod names {
    /// Where and how the run was made.
    pub const MANIFEST: &str = "manifest.json";
    /// What happened, in order.
    pub const EVENTS: &str = "events.jsonl";
    /// Every raw sample.
    pub const SAMPLES: &str = "samples.csv";
    /// What was computed.
    pub const SUMMARY: &str = "summary.json";
}
