//! `SuperVM`'s hybrid executor, <https://github.com/XujueKing/SuperVM>: vector addition on the CPU and on a GPU.

use super::table::Report;
use crate::Mode;

/// Medians of five samples, in a report that claims the GPU from about 100,000 elements beside this table.
pub const VECTOR_ADD: Report = Report {
    id: "published-supervm-2025-11-12",
    who: "SuperVM",
    address: "https://github.com/XujueKing/SuperVM/blob/main/docs/GPU-OPTIMIZATION-SUMMARY.md",
    date: "2025-11-12",
    cpu: "not named",
    host: ["cpu", "a processor, not named"],
    gpu: ["dx12", "a GPU, not named"],
    backend: "dx12",
    driver: "not named",
    mode: Mode::Host,
    note: None,
    rows: "
        add | 20000 | 15 µs | 1043 µs
        add | 50000 | 34 µs | 1093 µs
        add | 100000 | 69 µs | 1222 µs
        add | 200000 | 138 µs | 1465 µs
        add | 500000 | 359 µs | 2378 µs
        add | 1000000 | 726 µs | 3742 µs
        add | 2000000 | 1458 µs | 6498 µs",
};

/// Another of its tables, in whole milliseconds; what is printed as 0 is at most 1. Half a millisecond is added to each, the middle of what it may be.
pub const WINDOWS: Report = Report {
    id: "published-supervm-2025-11-12-dx12",
    address: "https://github.com/XujueKing/SuperVM/blob/main/docs/PHASE13-PERFORMANCE-ANALYSIS.md",
    note: Some("printed in whole milliseconds: half a millisecond is added, the middle of what it may be"),
    rows: "
        add | 20000 | 0.5 ms | 15.5 ms
        add | 50000 | 0.5 ms | 4.5 ms
        add | 100000 | 0.5 ms | 1.5 ms
        add | 250000 | 0.5 ms | 2.5 ms
        add | 500000 | 0.5 ms | 3.5 ms
        add | 1000000 | 1.5 ms | 4.5 ms",
    ..VECTOR_ADD
};

/// The compositions of batches by which its bucket cache was tried. It prints the mean of each task; a row is the whole batch, as `scan` measures it.
pub const BATCHES: Report = Report {
    id: "published-supervm-2025-11-12-batches",
    address: "https://github.com/XujueKing/SuperVM/blob/main/docs/GPU-BUCKET-CACHE-PHASE2-RESULTS.md",
    note: Some(
        "printed for each task of a batch: taken as many times as the batch has tasks; nothing was timed on the CPU",
    ),
    rows: "
        batch_uniform_32k | 128000 | - | 4 x 1393 µs
        batch_uniform_64k | 256000 | - | 4 x 907 µs
        batch_similar | 103000 | - | 4 x 703 µs
        batch_alternating | 120000 | - | 4 x 544 µs
        batch_diverse | 360000 | - | 4 x 1188 µs
        batch_large | 4000000 | - | 8 x 2210 µs
        batch_large_alternating | 2304000 | - | 6 x 1988 µs",
    ..VECTOR_ADD
};
