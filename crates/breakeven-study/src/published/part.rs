//! Which part of a GPU's call decides whether it is as fast as somebody claimed, from what was measured of that call.

use crate::units::time;
use crate::{CellSummary, Mode, Status};

/// A part of a call: what it is, as the begin of a sentence, and its time.
struct Part {
    takes: &'static str,
    ns: f64,
}

/// What decides whether `gpu` is `wanted` times faster than `host`: its longest part where that alone decides it, else all of them. `cells` are
/// those of the run, in which rows of copies or kernels by themselves may stand.
pub(super) fn deciding(gpu: &CellSummary, host: &CellSummary, wanted: f64, cells: &[CellSummary]) -> String {
    let parts = parts(gpu, cells);
    let (Some(longest), Some(gpu_ns), Some(host_ns)) = (parts.first(), gpu.q1_ns, host.q1_ns) else {
        return NOT_KNOWN.into();
    };
    let left_ns = host_ns / wanted;
    let left = if wanted > 1.0 { format!("the {} that {}x leaves", time(left_ns), wanted) } else { all_of(host) };
    match longest.ns {
        _ if gpu_ns <= left_ns && wanted <= 1.0 => format!("the longest part: {}", longest.said()),
        _ if gpu_ns <= left_ns => format!("the longest part: {} of {left}", longest.said()),
        ns if ns > host_ns => format!("{}, longer than {}", longest.said(), all_of(host)),
        ns if ns > left_ns => format!("{}, longer than {left}", longest.said()),
        _ => format!("no part alone is longer than {left}: {}", list(&parts)),
    }
}

/// The longest part of a call, in words.
pub(super) fn longest(row: &CellSummary, cells: &[CellSummary]) -> String {
    parts(row, cells).first().map_or(NOT_KNOWN.into(), Part::said)
}

const NOT_KNOWN: &str = "where the GPU's time went is not known";

fn all_of(host: &CellSummary) -> String {
    format!("all of {}", host.cell.device)
}

fn list(parts: &[Part]) -> String {
    parts.iter().map(Part::said).collect::<Vec<_>>().join(", ")
}

impl Part {
    /// "the copies alone take 55 µs".
    fn said(&self) -> String {
        format!("{} {}", self.takes, time(self.ns))
    }
}

/// The parts that are known, the longest first. Copies and kernels by themselves tell more than those of a call that was taken apart.
fn parts(row: &CellSummary, cells: &[CellSummary]) -> Vec<Part> {
    let known = &row.parts;
    let copied = known.upload_ns.zip(known.read_ns).map(|(up, back)| up + back);
    let kernel = by_itself(row, Mode::Kernel, cells).or(known.kernel_ns);
    // Whoever waits for a device waits for its kernels and transfers too: what is known of these is not told twice.
    let (alone, staged) = (by_itself(row, Mode::Copy, cells), "copying on the host takes");
    let copies = alone.or(copied);
    let of_copies = if alone.is_some() { "the copies alone take" } else { staged };
    let wait = known.wait_ns.map(|wait| wait - known.kernel_ns.unwrap_or(0.0) - alone.or(known.read_ns).unwrap_or(0.0));
    let waiting = match (known.kernel_ns, alone) {
        (None, None) => "waiting for the device, its kernel and transfers among that, takes",
        (None, Some(_)) => "waiting for the device, its kernel among that, takes",
        (Some(_), None) => "waiting for the device, transfers among that, takes",
        (Some(_), Some(_)) => "waiting for the device, beside its kernel and copies, takes",
    };
    let all = [
        (of_copies, copies),
        ("the kernel alone takes", kernel),
        ("submitting alone takes", known.dispatch_ns),
        ("getting memory alone takes", known.allocate_ns),
        (waiting, wait),
    ];
    let part = |(takes, ns): (&'static str, Option<f64>)| Some(Part { takes, ns: ns.filter(|ns| *ns > 0.0)? });
    let mut parts: Vec<Part> = all.into_iter().filter_map(part).collect();
    parts.sort_by(|a, b| b.ns.total_cmp(&a.ns));
    parts
}

/// The time of the row that is `row` in another mode.
fn by_itself(row: &CellSummary, mode: Mode, cells: &[CellSummary]) -> Option<f64> {
    let cell = crate::Cell { mode, ..row.cell.clone() };
    cells.iter().find(|other| other.cell == cell && other.status == Status::Ok)?.q1_ns
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Cell, Parts};

    fn row(device: &str, mode: Mode, q1_ns: f64, parts: Parts) -> CellSummary {
        let (operation, shape, dtype) = ("add".into(), "1000000".into(), "f32".into());
        let cell = Cell { operation, elements: 1_000_000, shape, dtype, device: device.into(), mode };
        CellSummary { q1_ns: Some(q1_ns), parts, ..CellSummary::unmeasured(cell, Status::Ok) }
    }

    #[test]
    fn the_part_that_decides_is_named() {
        let check = |gpu_ns: f64, parts: Parts, host_ns: f64, wanted: f64, others: &[CellSummary], expected: &str| {
            let (gpu, host) =
                (row("vulkan:0", Mode::Host, gpu_ns, parts), row("cpu", Mode::Host, host_ns, Parts::default()));
            assert_eq!(deciding(&gpu, &host, wanted, others), expected);
        };
        let parts = Parts {
            upload_ns: Some(7e5),
            read_ns: Some(5e5),
            kernel_ns: Some(2e5),
            dispatch_ns: Some(3e4),
            wait_ns: Some(7.5e5),
            allocate_ns: None,
        };
        check(1.5e6, parts, 4e5, 10.0, &[], "copying on the host takes 1.2 ms, longer than all of cpu");
        check(1.5e6, parts, 4e5, 1.0, &[], "copying on the host takes 1.2 ms, longer than all of cpu");
        check(1.5e6, parts, 4e6, 10.0, &[], "copying on the host takes 1.2 ms, longer than the 400 µs that 10x leaves");
        check(1.5e6, parts, 4e6, 1.0, &[], "the longest part: copying on the host takes 1.2 ms");
        check(
            1.5e6,
            parts,
            4e7,
            20.0,
            &[],
            "the longest part: copying on the host takes 1.2 ms of the 2 ms that 20x leaves",
        );
        let each = "copying on the host takes 1.2 ms, the kernel alone takes 200 µs, waiting for the device, transfers among that, takes 50 µs, \
                    submitting alone takes 30 µs";
        check(1.5e6, parts, 1.3e6, 1.0, &[], &format!("no part alone is longer than all of cpu: {each}"));
        // By themselves, on this device and not on another.
        let kernel = row("vulkan:0", Mode::Kernel, 9e5, Parts::default());
        let others = [
            row("vulkan:1", Mode::Copy, 9e9, Parts::default()),
            row("vulkan:0", Mode::Copy, 8e5, Parts::default()),
            kernel,
        ];
        check(1.5e6, parts, 4e5, 10.0, &others, "the kernel alone takes 900 µs, longer than all of cpu");
        check(1.5e6, parts, 4e5, 10.0, &others[..2], "the copies alone take 800 µs, longer than all of cpu");
        check(1.5e6, Parts::default(), 4e5, 10.0, &[], NOT_KNOWN);
    }
}
