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
    // Copies by themselves run no kernel, whatever the kernel would do.
    let is_copy = row.cell.mode == Mode::Copy;
    let (time_ns, bytes) = (row.q1_ns?, moved(row)? as f64);
    let flops = if is_copy { 0.0 } else { row.flops.unwrap_or(0) as f64 };
    let least = |work: f64, rate: Option<f64>, bound| rate.map(|rate| (work / rate * 1e9, bound));
    let roofs = [
        least(flops, ceiling.flops, Bound::Compute).filter(|_| !is_copy),
        least(bytes, ceiling.bytes_per_s, Bound::Memory).filter(|_| !is_copy),
        transfer_ns(row, ceiling).map(|least_ns| (least_ns, Bound::Transfer)),
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

/// Bytes that the row is about: those that copies copy, or those that kernels read and write.
fn moved(row: &CellSummary) -> Option<u64> {
    match (row.cell.mode, row.copied) {
        (Mode::Copy, Some(copied)) => Some(copied.upload_bytes + copied.read_bytes),
        _ => row.bytes,
    }
}

/// The least time of what a call copies: up, and then back, since a result cannot leave before its operands are there. `None` if it copies
/// nothing or a ceiling that it needs was not measured.
fn transfer_ns(row: &CellSummary, ceiling: &Ceiling) -> Option<f64> {
    let Some(copied) = row.copied else { return transfer_of_old_ns(row, ceiling) };
    let least = |bytes: u64, rate: Option<f64>| if bytes == 0 { Some(0.0) } else { Some(bytes as f64 / rate? * 1e9) };
    let up = least(copied.upload_bytes, ceiling.upload_bytes_per_s)?;
    let back = least(copied.read_bytes, ceiling.read_bytes_per_s)?;
    (up + back > 0.0).then_some(up + back)
}

/// Runs of versions that did not write down what was copied: bytes of the kernels, by the faster of both directions, since these are not
/// told apart and a roof may not lie too low.
fn transfer_of_old_ns(row: &CellSummary, ceiling: &Ceiling) -> Option<f64> {
    let is_copied = matches!(row.cell.mode, Mode::Host | Mode::Upload | Mode::Copy | Mode::Cold | Mode::First);
    let rates = [ceiling.upload_bytes_per_s, ceiling.read_bytes_per_s].into_iter().flatten();
    let fastest = rates.reduce(f64::max).filter(|_| is_copied)?;
    Some(row.bytes? as f64 / fastest * 1e9)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Cell, Copied, Status};

    fn row(mode: Mode, flops: u64, bytes: u64, copied: Option<Copied>) -> CellSummary {
        let (operation, shape, dtype) = ("matmul".into(), String::new(), "f32".into());
        let cell = Cell { operation, elements: 1, shape, dtype, device: "vulkan:0".into(), mode };
        let times = CellSummary { q1_ns: Some(4000.0), ..CellSummary::unmeasured(cell, Status::Ok) };
        CellSummary { flops: Some(flops), bytes: Some(bytes), copied, ..times }
    }

    /// A call's bytes over the bus are not those that its kernel reads and writes: a sum reads all and returns one number.
    #[test]
    fn transfers_are_those_that_were_copied() {
        let ceiling = Ceiling {
            bytes_per_s: Some(1e12),
            upload_bytes_per_s: Some(1e10),
            read_bytes_per_s: Some(1e9),
            ..Ceiling::unmeasured("vulkan:0")
        };
        let check = |mode, copied: [u64; 2], ceiling: &Ceiling, expected: Option<(Bound, f64)>| {
            let copied = Copied { upload_bytes: copied[0], read_bytes: copied[1] };
            let found = reached(&row(mode, 0, 20_000, Some(copied)), ceiling);
            assert_eq!(found.map(|found| (found.bound, found.least_ns.round())), expected, "{mode} {copied:?}");
        };
        check(Mode::Host, [20_000, 4], &ceiling, Some((Bound::Transfer, 2004.0)));
        check(Mode::Host, [20_000, 2_000], &ceiling, Some((Bound::Transfer, 4000.0)));
        check(Mode::Upload, [20_000, 0], &ceiling, Some((Bound::Transfer, 2000.0)));
        check(Mode::Resident, [0, 0], &ceiling, Some((Bound::Memory, 20.0)));
        let one_way = Ceiling { read_bytes_per_s: None, bytes_per_s: None, ..ceiling.clone() };
        check(Mode::Upload, [20_000, 0], &one_way, Some((Bound::Transfer, 2000.0)));
        check(Mode::Host, [20_000, 4], &one_way, None);
        // Copies by themselves: the kernel's bytes and arithmetic take no part.
        let copied = Some(Copied { upload_bytes: 10_000, read_bytes: 1_000 });
        let found = reached(&row(Mode::Copy, 1 << 40, 20_000, copied), &ceiling).expect("everything is known");
        assert_eq!((found.bound, found.least_ns, found.bytes_per_s), (Bound::Transfer, 2000.0, 11_000.0 / 4e-6));
    }

    #[test]
    fn the_lowest_roof_bounds_a_row() {
        let ceiling = Ceiling {
            flops: Some(1e12),
            bytes_per_s: Some(1e11),
            upload_bytes_per_s: Some(1e10),
            ..Ceiling::unmeasured("vulkan:0")
        };
        let check = |mode, flops, bytes, bound, least_ns: f64| {
            let reached = reached(&row(mode, flops, bytes, None), &ceiling).expect("everything is known");
            assert_eq!((reached.bound, reached.least_ns.round()), (bound, least_ns));
            assert_eq!(reached.share, reached.least_ns / 4000.0);
        };
        check(Mode::Resident, 2_000_000, 1000, Bound::Compute, 2000.0);
        check(Mode::Resident, 1000, 100_000, Bound::Memory, 1000.0);
        check(Mode::Host, 1000, 20_000, Bound::Transfer, 2000.0);
    }
}
