//! Where the time of each row went, what memory and plans it took, and how near it came to what the device can do.

use super::{introduced, table};
use crate::roofline::{Bound, reached};
use crate::units::{bytes, rate, time};
use crate::{CellSummary, Parts, Run};

pub fn parts(run: &Run) -> Option<String> {
    let measured = run.cells.iter().filter(|row| row.parts != Parts::default());
    let row = |row: &CellSummary| {
        let parts = &row.parts;
        let times =
            [parts.allocate_ns, parts.upload_ns, parts.dispatch_ns, parts.kernel_ns, parts.read_ns, parts.wait_ns];
        let times = times.into_iter().chain([row.q1_ns]).map(|part| part.map(time).unwrap_or_default());
        std::iter::once(row.cell.to_string()).chain(times).collect()
    };
    let header = ["row", "allocate", "upload", "submit", "kernel", "read back", "wait", "whole call"];
    let title = "Where the time went (lower quartiles; kernels by the device's clock)";
    introduced(table(title, &header, &measured.map(row).collect::<Vec<_>>()), NO_SUM)
}

/// Parts are seen by a longer way ([`crate::Flag::InParts`]), and whoever waits for a device waits for its kernels and copies too.
const NO_SUM: &str = "Parts do not add up to the whole call: they are of calls that were taken apart step by step and take longer by that, the whole call of others that were \
timed from outside alone (copies by themselves are their two parts). Waiting for a device also holds its kernels and what it copies back.";

/// What a call copies, what the pool of the device did, and what was made anew.
pub fn memory(run: &Run) -> Option<String> {
    let row = |row: &CellSummary| {
        if row.pool.is_none() && row.made.is_none() && row.copied.is_none() {
            return None;
        }
        let copied = row.copied.map(|copied| [copied.upload_bytes, copied.read_bytes].map(|count| bytes(count as f64)));
        let [upload, read] = copied.unwrap_or_default();
        let buffers = row.pool.map(|pool| [pool.hits.to_string(), pool.misses.to_string(), bytes(pool.bytes as f64)]);
        let [found, new, held] = buffers.unwrap_or_default();
        let plans = row.made.map(|made| format!("{} in {} calls", made.plans, made.calls)).unwrap_or_default();
        let pipelines = row.made.and_then(|made| made.pipelines).map(|count| count.to_string()).unwrap_or_default();
        Some(vec![row.cell.to_string(), upload, read, found, new, held, plans, pipelines])
    };
    let header = [
        "row",
        "to the device, a call",
        "to the host, a call",
        "buffers from the pool",
        "buffers made",
        "memory held",
        "plans made",
        "pipelines compiled",
    ];
    table("Copies, memory and caches", &header, &run.cells.iter().filter_map(row).collect::<Vec<_>>())
}

pub fn roofs(run: &Run) -> Option<String> {
    let row = |row: &CellSummary| {
        let ceiling = run.ceilings.iter().find(|ceiling| ceiling.device == row.cell.device)?;
        let reached = reached(row, ceiling)?;
        let bound = match reached.bound {
            Bound::Compute => "arithmetic",
            Bound::Memory => "memory",
            Bound::Transfer => "the way to the device",
        };
        let moved = rate(reached.bytes_per_s, "B");
        let share = format!("{:.0}%", reached.share * 100.0);
        Some(vec![row.cell.to_string(), rate(reached.flops_per_s, "FLOP"), moved, share, bound.to_string()])
    };
    let header = ["row", "arithmetic", "bytes", "of its roof", "bounded by"];
    table(
        "Rooflines, against ceilings measured in this run",
        &header,
        &run.cells.iter().filter_map(row).collect::<Vec<_>>(),
    )
}
