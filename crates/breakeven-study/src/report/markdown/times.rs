//! What operations take where no second device was measured, so that there is nothing to break even with.

use std::collections::{BTreeMap, BTreeSet};

use super::{table, throughput};
use crate::breakeven::grouped;
use crate::units::{ratio, time};
use crate::{AUTOMATIC, CellSummary, Mode, Run, SCALAR, Source};

/// What an operation takes on a device, or as a plain loop.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Taken {
    /// The operation.
    pub operation: String,
    /// The type of its elements.
    pub dtype: String,
    /// How it is called: from the host's memory and back where that was measured.
    pub mode: Mode,
    /// The device, or [`SCALAR`] for a plain loop.
    pub device: String,
    /// By power of ten what is nearest to it.
    pub sizes: BTreeMap<u32, AtSize>,
}

/// What it takes at a size.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AtSize {
    /// "10,000" or "32x32".
    pub shape: String,
    /// Whether that is the power of ten itself.
    pub is_round: bool,
    /// "1.2 µs, 27.31 GMAC/s"; of a plain loop how many times as long as the CPU it takes instead of its rate: "40 µs, 4.00x".
    pub time: String,
}

/// One entry for each operation and device, where none can be held against another device; otherwise nothing, since break-evens say more.
pub fn taken(run: &Run) -> Vec<Taken> {
    if !is_alone(run) {
        return Vec::new();
    }
    let curves = curves(run);
    let one = |(key, rows): (&Key<'_>, &Vec<&CellSummary>)| {
        let powers: BTreeSet<u32> = rows.iter().map(|row| power(row)).collect();
        let of_size = |size: u32| Some((size, at_size(nearest(rows, size)?, &curves)?));
        let [operation, dtype, device] = [key.operation, key.dtype, key.device].map(str::to_string);
        Taken { operation, dtype, mode: key.mode, device, sizes: powers.into_iter().filter_map(of_size).collect() }
    };
    curves.iter().map(one).collect()
}

/// One row for each operation and device, and columns of sizes.
pub fn times(run: &Run) -> Option<String> {
    let taken = taken(run);
    let sizes: BTreeSet<u32> = taken.iter().flat_map(|taken| taken.sizes.keys().copied()).collect();
    let columns: Vec<String> = sizes.iter().map(|size| grouped(10u64.pow(*size))).collect();
    let header = ["operation", "dtype", "mode", "on"].into_iter().chain(columns.iter().map(String::as_str));
    let line = |taken: &Taken| {
        let place = place(run, &taken.device);
        let first = [taken.operation.clone(), taken.dtype.clone(), taken.mode.to_string(), place];
        let of_size = |size: &u32| taken.sizes.get(size).map(in_column).unwrap_or_default();
        first.into_iter().chain(sizes.iter().map(of_size)).collect::<Vec<String>>()
    };
    let title = "What operations take, by elements (lower quartile; all sizes and ways of calling are in rows.md)";
    table(title, &header.collect::<Vec<_>>(), &taken.iter().map(line).collect::<Vec<_>>())
}

/// "32x32: 1.2 µs, 27.31 GMAC/s", without the shape where it is the column's.
fn in_column(at: &AtSize) -> String {
    if at.is_round { at.time.clone() } else { format!("{}: {}", at.shape, at.time) }
}

/// Whether rows have times and none of them can be held against another device's.
pub fn is_alone(run: &Run) -> bool {
    run.source != Source::Published && run.break_even.is_empty() && run.cells.iter().any(|row| row.q1_ns.is_some())
}

/// A row of the table: plain loops, which are no device, come after what they are held against.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Key<'a> {
    operation: &'a str,
    dtype: &'a str,
    mode: Mode,
    is_plain: bool,
    device: &'a str,
}

type Curves<'a> = BTreeMap<Key<'a>, Vec<&'a CellSummary>>;

fn key(row: &CellSummary) -> Key<'_> {
    let cell = &row.cell;
    Key {
        operation: &cell.operation,
        dtype: &cell.dtype,
        mode: cell.mode,
        is_plain: cell.device == SCALAR,
        device: &cell.device,
    }
}

/// Of each operation one way of calling: from the host's memory and back, which says most where there is no other memory, or what else was measured.
fn curves(run: &Run) -> Curves<'_> {
    let is_shown = |row: &&CellSummary| row.q1_ns.is_some() && row.cell.device != AUTOMATIC;
    let mut modes = BTreeMap::<_, Mode>::new();
    for row in run.cells.iter().filter(is_shown) {
        let mode = modes.entry((&row.cell.operation, &row.cell.dtype)).or_insert(row.cell.mode);
        *mode = if row.cell.mode == Mode::Host { Mode::Host } else { *mode };
    }
    let mut curves = Curves::new();
    for row in run.cells.iter().filter(is_shown) {
        if modes[&(&row.cell.operation, &row.cell.dtype)] == row.cell.mode {
            curves.entry(key(row)).or_default().push(row);
        }
    }
    curves
}

/// The power of ten that is nearest to its elements.
fn power(row: &CellSummary) -> u32 {
    (row.cell.elements.max(1) as f64).log10().round() as u32
}

/// Of the sizes that belong to a power of ten the nearest.
fn nearest<'a>(rows: &[&'a CellSummary], size: u32) -> Option<&'a CellSummary> {
    let distance = |row: &CellSummary| ((row.cell.elements.max(1) as f64).log10() - f64::from(size)).abs();
    let belonging = rows.iter().copied().filter(|row| power(row) == size);
    belonging.min_by(|a, b| distance(a).total_cmp(&distance(b)))
}

/// "cpu, 2 threads".
fn place(run: &Run, device: &str) -> String {
    let environment = &run.manifest.environment;
    let is_cpu = environment.devices.iter().any(|listed| listed.name == device && listed.kind == "cpu");
    match device {
        SCALAR => "a plain loop, 1 thread (so many times the CPU's)".to_string(),
        _ if is_cpu => format!("{device}, {} threads", environment.threads),
        _ => device.to_string(),
    }
}

fn at_size(row: &CellSummary, curves: &Curves<'_>) -> Option<AtSize> {
    let round = 10u64.pow(power(row));
    let is_round = row.cell.shape == round.to_string();
    let shape = row.cell.shape.parse().map_or_else(|_| row.cell.shape.clone(), grouped);
    let rest = if row.cell.device == SCALAR { over_cpu(row, curves).map(ratio) } else { throughput(row) };
    let rest = rest.map(|rest| format!(", {rest}")).unwrap_or_default();
    Some(AtSize { shape, is_round, time: time(row.q1_ns?) + &rest })
}

/// How many times as long as the CPU, vectors and threads together.
fn over_cpu(row: &CellSummary, curves: &Curves<'_>) -> Option<f64> {
    let on_cpu = curves.get(&Key { is_plain: false, device: "cpu", ..key(row) })?;
    let same = on_cpu.iter().find(|other| other.cell.shape == row.cell.shape)?;
    Some(row.q1_ns? / same.q1_ns?)
}
