//! Volta, <https://github.com/rlarson20/Volta>: a suite whose groups fail when they run after each other, so that it published no times.

use super::table::Report;
use crate::Mode;

/// Its analysis of why the group of many small operations fails after the others. There is no row to take over.
pub const BATCHES: Report = Report {
    id: "published-volta",
    who: "Volta",
    address: "https://github.com/rlarson20/Volta/blob/main/docs/gpu_batch_processing_analysis.md",
    date: "",
    cpu: "Apple M2",
    host: ["cpu", "Apple M2"],
    gpu: ["wgpu", "the GPU of an Apple M2"],
    backend: "metal",
    driver: "not named",
    mode: Mode::Resident,
    note: Some("the report has no times: its groups time out when they run after each other"),
    rows: "",
};
