//! From what was recorded to what is reported: every number of a summary is computed here, from raw samples.

use std::collections::{BTreeMap, BTreeSet};

use crate::breakeven::{Curves, Point};
use crate::folder::{Recorded, RecordedCell};
use crate::stats::{self, Dropped, Interval, Kept, Random, Sorted};
use crate::{BreakEven, Ceiling, CellSummary, Mode, Noise, Parts, Run, Sample, Sensed, Source, Status, Target, regret};

/// Bytes that no cache of a processor holds.
const LARGER_THAN_CACHES: u64 = 1 << 30;
/// The device of cells whose place the engine chose.
pub const AUTOMATIC: &str = "auto";
/// The "device" of a plain loop on one thread, which claims are held against and which is no device.
pub const SCALAR: &str = "scalar";

/// The most raw samples of a cell that a summary shows.
const DOTS: usize = 40;

/// The summary of a run called `id`, with what `targets` makes of its cells.
pub fn summarize(
    recorded: &Recorded,
    id: &str,
    source: Source,
    targets: impl Fn(&[CellSummary]) -> Vec<Target>,
) -> Run {
    let seed = recorded.manifest.seed;
    let kept: Vec<(Kept, &RecordedCell)> =
        recorded.cells.iter().map(|cell| (Kept::of(&cell.samples).settled(), cell)).collect();
    let cells: Vec<CellSummary> = kept.iter().map(|(kept, cell)| cell_summary(kept, cell, seed)).collect();
    let noise = noise(recorded, &kept);
    Run {
        id: id.into(),
        source,
        manifest: recorded.manifest.clone(),
        resumed: recorded.resumed.clone(),
        noise,
        sensed: Sensed::over(&recorded.sensors),
        ceilings: recorded.ceilings.iter().map(|ceiling| raised(ceiling, &cells)).collect(),
        break_even: break_evens(recorded, &kept, seed),
        regret: regret::regret(&kept, noise.floor, |device| is_cpu(recorded, device)),
        targets: targets(&chosen_hardware(recorded, &cells)),
        cells,
    }
}

/// The rows that a claim about hardware can be held against: not those whose device the engine chose, nor those of devices made of software.
fn chosen_hardware(recorded: &Recorded, cells: &[CellSummary]) -> Vec<CellSummary> {
    let devices = &recorded.manifest.environment.devices;
    let is_software = |name: &str| devices.iter().any(|device| device.name == name && device.kind == "software");
    let counts = |row: &&CellSummary| row.cell.device != AUTOMATIC && !is_software(&row.cell.device);
    cells.iter().filter(counts).cloned().collect()
}

/// What a device reached in its own measurement, or in a row where that was more: a ceiling is the most that was seen. Data in a cache moves
/// faster than in memory, so bytes are raised by rows alone that are larger than any cache. The ceiling of arithmetic is one of f32: half the
/// width may have twice the rate. Copies by themselves run no kernel, whatever the kernel would do.
fn raised(ceiling: &Ceiling, cells: &[CellSummary]) -> Ceiling {
    let of_it = || cells.iter().filter(|row| row.cell.device == ceiling.device && row.cell.mode != Mode::Copy);
    let is_f32 = |row: &&CellSummary| row.cell.dtype == "f32";
    let rate = |row: &CellSummary, work: Option<u64>| Some(work? as f64 / row.min_ns? * 1e9);
    let most = |known: Option<f64>, rates: &mut dyn Iterator<Item = f64>| Some(rates.fold(known?, f64::max));
    let is_large = |row: &&CellSummary| row.bytes.is_some_and(|bytes| bytes > LARGER_THAN_CACHES);
    Ceiling {
        flops: most(ceiling.flops, &mut of_it().filter(is_f32).filter_map(|row| rate(row, row.flops))),
        bytes_per_s: most(ceiling.bytes_per_s, &mut of_it().filter(is_large).filter_map(|row| rate(row, row.bytes))),
        ..ceiling.clone()
    }
}

/// Rows are taken as they were measured, also before their times settled: what is dropped there is a part of what differs.
fn noise(recorded: &Recorded, kept: &[(Kept, &RecordedCell)]) -> Noise {
    let ok = recorded.cells.iter().filter(|cell| cell.facts.status == Status::Ok);
    let rows = ok.map(|cell| Kept::of(&cell.samples).rounds());
    let rows: Vec<Vec<Vec<f64>>> = rows.chain([sentinel_rounds(recorded)]).collect();
    let rows = rows.iter().map(Vec::as_slice);
    // Without a row that is long enough nothing is known of the noise, so nothing can be concluded.
    let floor = stats::floor(rows).unwrap_or(f64::INFINITY);
    let rounds = recorded.sentinels.iter().map(|sentinel| (sentinel.round, sentinel.wall_ns as f64));
    let sentinel_drift = stats::drift(rounds);
    let throttled = kept.iter().map(|(kept, _)| kept.dropped.throttled).sum();
    let throttling_watched = recorded.sensors.iter().any(|reading| reading.throttlings.is_some());
    let timed = || recorded.cells.iter().map(|cell| &cell.facts).filter(|facts| facts.status == Status::Ok);
    let contended = timed().filter(|facts| stats::is_contended(facts.waited)).count();
    let stolen = stats::stolen(&recorded.sensors);
    let taken = (contended as f64 / timed().count().max(1) as f64).max(stolen.unwrap_or(0.0));
    Noise {
        floor,
        sentinel_drift,
        throttled,
        throttling_watched,
        contended: contended as u64,
        contention_watched: timed().any(|facts| facts.waited.is_some()),
        stolen,
        verdict: stats::verdict(floor, sentinel_drift, taken),
    }
}

/// The sentinel's times, round by round.
fn sentinel_rounds(recorded: &Recorded) -> Vec<Vec<f64>> {
    let mut rounds = BTreeMap::<u32, Vec<f64>>::new();
    for sentinel in &recorded.sentinels {
        rounds.entry(sentinel.round).or_default().push(sentinel.wall_ns as f64);
    }
    rounds.into_values().collect()
}

fn cell_summary(kept: &Kept, cell: &RecordedCell, seed: u64) -> CellSummary {
    let facts = &cell.facts;
    let row = CellSummary {
        why: facts.why.clone(),
        dropped: kept.dropped.samples(),
        stop: facts.stop,
        bytes: facts.bytes,
        flops: facts.flops,
        predicted_ns: facts.predicted_ns,
        checksum: facts.checksum.clone(),
        ran: facts.ran.clone(),
        pool: facts.pool,
        made: facts.made,
        copied: facts.copied,
        waited: facts.waited,
        ..CellSummary::unmeasured(cell.cell.clone(), facts.status)
    };
    match Sorted::of_rounds(&kept.rounds()) {
        Some(sorted) if facts.status == Status::Ok => timed(row, kept, &sorted, facts.degenerate, seed),
        // What went well and has no sample earns no time, and a reader is told.
        None if facts.status == Status::Ok => CellSummary { flags: vec!["no sample counts".into()], ..row },
        _ => row,
    }
}

/// `row` with its times.
fn timed(row: CellSummary, kept: &Kept, sorted: &Sorted, degenerate: Option<f64>, seed: u64) -> CellSummary {
    let mut flags = stats::flags(row.cell.elements, sorted.min_ns(), degenerate);
    if kept.is_throttled() {
        flags.push("throttled throughout".into());
    }
    if let Some(waited) = row.waited.filter(|waited| stats::is_contended(Some(*waited))) {
        flags.push(format!("beside other work: a thread waited for a core for {:.0}% of the time", 100.0 * waited));
    }
    if let Dropped { kernel_times: dropped @ 1.., .. } = kept.dropped {
        flags.push(format!("{dropped} kernel times of the device's clock were unusable"));
    }
    let mut random = Random::new(seed);
    CellSummary {
        samples: sorted.times_ns().len() as u64,
        min_ns: Some(sorted.min_ns()),
        q1_ns: Some(sorted.q1_ns()),
        median_ns: Some(sorted.median_ns()),
        p90_ns: sorted.p90_ns(),
        p99_ns: sorted.p99_ns(),
        interval_ns: Some(stats::of_quantile(sorted, 0.25, Interval::Percent95, &mut random)),
        dots_ns: sorted.dots_ns(DOTS),
        warm_up: stats::classify(&kept.wall_ns()),
        flags,
        parts: parts(&kept.samples),
        ..row
    }
}

/// The lower quartile of each part that was measured.
fn parts(samples: &[Sample]) -> Parts {
    let quartile = |part: fn(&Sample) -> Option<u64>| {
        let mut times: Vec<u64> = samples.iter().filter_map(part).collect();
        times.sort_unstable();
        // A part may be zero: the host's clock has steps.
        times.get((times.len().checked_sub(1)? as f64 * 0.25).round() as usize).map(|time| *time as f64)
    };
    Parts {
        allocate_ns: quartile(|sample| sample.allocate_ns),
        upload_ns: quartile(|sample| sample.upload_ns),
        dispatch_ns: quartile(|sample| sample.dispatch_ns),
        kernel_ns: quartile(|sample| sample.kernel_ns),
        read_ns: quartile(|sample| sample.read_ns),
        wait_ns: quartile(|sample| sample.wait_ns),
    }
}

fn is_cpu(recorded: &Recorded, device: &str) -> bool {
    let listed = recorded.manifest.environment.devices.iter().find(|listed| listed.name == device);
    listed.map_or(device == "cpu", |listed| listed.kind == "cpu")
}

/// One break-even for each operation, dtype and mode that were measured on the CPU and on another device.
fn break_evens(recorded: &Recorded, kept: &[(Kept, &RecordedCell)], seed: u64) -> Vec<BreakEven> {
    let rows = rows(kept);
    let devices = &recorded.manifest.environment.devices;
    let is_software = |name: &str| devices.iter().any(|device| device.name == name && device.kind == "software");
    let mut found: Vec<BreakEven> =
        pair(&rows, |device| is_cpu(recorded, device)).into_iter().map(|pair| pair.break_even(seed)).collect();
    for finding in found.iter_mut().filter(|finding| is_software(&finding.gpu)) {
        finding.verdict.push_str(" (a software device, not a GPU)");
    }
    found
}

/// For each operation and type, up to `count` sizes in elements whose measurement would tell most of where the faster device changes.
pub fn sizes_to_add(recorded: &Recorded, count: usize) -> BTreeMap<(String, String), BTreeSet<u64>> {
    let kept: Vec<(Kept, &RecordedCell)> =
        recorded.cells.iter().map(|cell| (Kept::of(&cell.samples).settled(), cell)).collect();
    let rows = rows(&kept);
    let mut sizes = BTreeMap::<_, BTreeSet<u64>>::new();
    for pair in pair(&rows, |device| device == "cpu") {
        let cell = &pair.cpu[0].cell;
        let Some(curves) = Curves::new(pair.points()) else { continue };
        let found = curves.sizes_to_add(&curves.crossings(recorded.manifest.seed), count);
        sizes.entry((cell.operation.clone(), cell.dtype.clone())).or_default().extend(found);
    }
    sizes
}

/// The rows that may take part in break-evens: not those where the engine chose the device itself, nor plain loops, which are no devices.
fn rows(kept: &[(Kept, &RecordedCell)]) -> Vec<Row> {
    let rows = kept.iter().filter(|(_, cell)| ![AUTOMATIC, SCALAR].contains(&cell.cell.device.as_str()));
    rows.filter_map(|(kept, cell)| Row::of(kept, cell)).collect()
}

/// A row that may take part in break-evens, with or without a time.
pub(crate) struct Row {
    pub cell: crate::Cell,
    pub status: Status,
    pub times: Option<Sorted>,
    pub work: Option<u64>,
}

impl Row {
    fn of(kept: &Kept, cell: &RecordedCell) -> Option<Row> {
        let is_ok = cell.facts.status == Status::Ok;
        let times = Sorted::of_rounds(&kept.rounds()).filter(|_| is_ok);
        // Of what was not tried, that alone counts which there was no time for.
        (cell.facts.status != Status::Skipped || cell.facts.is_left_out()).then(|| Row {
            cell: cell.cell.clone(),
            status: cell.facts.status,
            times,
            work: cell.facts.flops,
        })
    }
}

/// All rows of an operation, dtype and mode on one CPU and one other device.
pub(crate) struct Pair<'a> {
    cpu: Vec<&'a Row>,
    gpu: Vec<&'a Row>,
}

/// The pairs that `rows` hold, in order of operation, dtype, mode and device.
pub(crate) fn pair(rows: &[Row], is_cpu: impl Fn(&str) -> bool) -> Vec<Pair<'_>> {
    let mut curves = BTreeMap::<_, Vec<&Row>>::new();
    for row in rows {
        let cell = &row.cell;
        let key = (&cell.operation, &cell.dtype, cell.mode, !is_cpu(&cell.device), &cell.device);
        curves.entry(key).or_default().push(row);
    }
    let mut pairs = Vec::new();
    for (key, gpu) in curves.iter().filter(|(key, _)| key.3) {
        for (_, cpu) in
            curves.iter().filter(|(other, _)| (other.0, other.1, other.2, other.3) == (key.0, key.1, key.2, false))
        {
            pairs.push(Pair { cpu: cpu.clone(), gpu: gpu.clone() });
        }
    }
    pairs
}

impl Pair<'_> {
    pub(crate) fn break_even(&self, seed: u64) -> BreakEven {
        let cell = &self.cpu[0].cell;
        let curves = Curves::new(self.points());
        let crossings = curves.as_ref().map(|curves| curves.crossings(seed)).unwrap_or_default();
        let verdict =
            curves.as_ref().map_or("no size was measured on both".into(), |curves| curves.verdict(&crossings));
        BreakEven {
            operation: cell.operation.clone(),
            dtype: cell.dtype.clone(),
            mode: cell.mode,
            cpu: cell.device.clone(),
            gpu: self.gpu[0].cell.device.clone(),
            range: curves.as_ref().map_or([0, 0], Curves::range),
            wins_from: curves.as_ref().and_then(Curves::wins_from),
            band: curves.as_ref().and_then(Curves::band),
            gpu_blob: curves.as_ref().and_then(Curves::gpu_blob),
            crossings,
            verdict: verdict + &self.without_time(),
        }
    }

    /// The sizes that both sides measured well.
    fn points(&self) -> Vec<Point> {
        let partner = |row: &&Row| self.gpu.iter().find(|gpu| gpu.cell.shape == row.cell.shape).copied();
        let point = |row: &&Row| {
            let (cpu, gpu) = (row.times.clone()?, partner(row)?.times.clone()?);
            let work = row.work.unwrap_or(row.cell.elements) as f64;
            Some(Point { elements: row.cell.elements, cpu, gpu, work })
        };
        self.cpu.iter().filter_map(point).collect()
    }

    /// " (2 of 8 sizes failed on vulkan:0)", or nothing. Sizes that a side has no time of are no part of what is found.
    fn without_time(&self) -> String {
        let has_failed = |row: &Row| !matches!(row.status, Status::Ok | Status::Skipped);
        let was_left_out = |row: &Row| row.status == Status::Skipped;
        let all = [self.said(has_failed, "failed"), self.said(was_left_out, "would take too long")].concat();
        if all.is_empty() { String::new() } else { format!(" ({})", all.join(", ")) }
    }

    /// "2 of 8 sizes failed on vulkan:0", for each side that has such rows.
    fn said(&self, is_meant: fn(&Row) -> bool, what: &str) -> Vec<String> {
        let side = |rows: &Vec<&Row>| {
            let count = rows.iter().filter(|row| is_meant(row)).count();
            (count > 0).then(|| format!("{count} of {} sizes {what} on {}", rows.len(), rows[0].cell.device))
        };
        [&self.cpu, &self.gpu].into_iter().filter_map(side).collect()
    }
}
