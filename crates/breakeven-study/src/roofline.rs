//! What a row reached of what its device can do, against ceilings that were measured in the same run.

use crate::{Ceiling, CellSummary, Mode};

/// What holds a row back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bound {
    /// Arithmetic.
    Compute,
    /// The device's own memory.
    Memory,
    /// The way between host and device.
    Transfer,
}

/// A row under its roofs.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Reached {
    /// Arithmetic operations a second, 0 if it does none.
    pub flops_per_s: f64,
    /// Bytes a second that it must at least have moved.
    pub bytes_per_s: f64,
    /// Arithmetic operations for each byte.
    pub flops_per_byte: f64,
    /// The least time that the ceilings allow.
    pub least_ns: f64,
    /// That time over the measured one, 0 to 1. Above 1, data came from a cache, or was not moved.
    pub share: f64,
    /// The ceiling that gives the least time.
    pub bound: Bound,
}

/// What `row` reached under `ceiling`, which must be that of its device; `None` if it has no time, no known work, or no ceiling applies.
pub fn reached(row: &CellSummary, ceiling: &Ceiling) -> Option<Reached> {
    let (time_ns, bytes) = (row.q1_ns?, row.bytes? as f64);
    let flops = row.flops.unwrap_or(0) as f64;
    let is_copied = matches!(row.cell.mode, Mode::Host | Mode::Upload | Mode::Copy | Mode::Cold | Mode::First);
    let least = |work: f64, rate: Option<f64>, bound| rate.map(|rate| (work / rate * 1e9, bound));
    let roofs = [
        least(flops, ceiling.flops, Bound::Compute).filter(|_| row.cell.mode != Mode::Copy),
        least(bytes, ceiling.bytes_per_s, Bound::Memory),
        least(bytes, transfer(ceiling), Bound::Transfer).filter(|_| is_copied),
    ];
    let (least_ns, bound) = roofs.into_iter().flatten().max_by(|a, b| a.0.total_cmp(&b.0))?;
    Some(Reached {
        flops_per_s: flops / time_ns * 1e9,
        bytes_per_s: bytes / time_ns * 1e9,
        flops_per_byte: flops / bytes,
        least_ns,
        share: least_ns / time_ns,
        bound,
    })
}

/// The faster of both directions: bytes of a row are not told apart by direction, and a roof may not lie too low.
fn transfer(ceiling: &Ceiling) -> Option<f64> {
    [ceiling.upload_bytes_per_s, ceiling.read_bytes_per_s].into_iter().flatten().reduce(f64::max)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Cell, Status};

    #[test]
    fn the_lowest_roof_bounds_a_row() {
        let ceiling = Ceiling {
            flops: Some(1e12),
            bytes_per_s: Some(1e11),
            upload_bytes_per_s: Some(1e10),
            ..Ceiling::unmeasured("vulkan:0")
        };
        let check = |mode, flops, bytes, bound, least_ns: f64| {
            let (operation, shape, dtype) = ("matmul".into(), String::new(), "f32".into());
            let cell = Cell { operation, elements: 1, shape, dtype, device: "vulkan:0".into(), mode };
            let row = CellSummary {
                q1_ns: Some(4000.0),
                flops: Some(flops),
                bytes: Some(bytes),
                ..CellSummary::unmeasured(cell, Status::Ok)
            };
            let reached = reached(&row, &ceiling).expect("everything is known");
            assert_eq!((reached.bound, reached.least_ns.round()), (bound, least_ns));
            assert_eq!(reached.share, reached.least_ns / 4000.0);
        };
        check(Mode::Resident, 2_000_000, 1000, Bound::Compute, 2000.0);
        check(Mode::Resident, 1000, 100_000, Bound::Memory, 1000.0);
        check(Mode::Host, 1000, 20_000, Bound::Transfer, 2000.0);
    }
}
