//! A published table as rows. Only the printed times are taken over; ratios, rates and verdicts are computed anew.

use crate::stats::Sorted;
use crate::summarize::{Row, pair};
use crate::units::parse_time_ns;
use crate::{
    Cell, CellSummary, Environment, Manifest, ManifestSchema, Mode, Noise, NoiseVerdict, Run, Sensed, Source, Status,
    StudyDevice, StudyError,
};

/// A report that somebody published.
#[derive(Debug, Clone, Copy)]
pub struct Report {
    /// Its name among runs.
    pub id: &'static str,
    /// Whose it is.
    pub who: &'static str,
    /// Where it can be read.
    pub address: &'static str,
    /// The day on it; empty if there is none.
    pub date: &'static str,
    /// The processor, as far as the report says.
    pub cpu: &'static str,
    /// What was timed on the CPU's side: its name in rows, and what it is.
    pub host: [&'static str; 2],
    /// What was timed on the other side.
    pub gpu: [&'static str; 2],
    /// The interface through which the GPU was reached.
    pub backend: &'static str,
    /// Its driver, as far as the report says.
    pub driver: &'static str,
    /// How it was called.
    pub mode: Mode,
    /// What has to be known of all its rows.
    pub note: Option<&'static str>,
    /// Lines of "operation | shape | time on the CPU's side | time on the GPU": "15 µs", "4 x 15 µs" for what is printed of one of four tasks, and "-"
    /// where nothing was timed.
    pub rows: &'static str,
}

impl Report {
    /// The report as a run.
    pub fn run(&self) -> Result<Run, StudyError> {
        let pairs: Vec<Vec<CellSummary>> = self.lines().map(|line| self.cells(line)).collect::<Result<_, _>>()?;
        let cells: Vec<CellSummary> = pairs.into_iter().flatten().collect();
        let rows: Vec<Row> = cells.iter().map(row).collect();
        let is_host = |device: &str| device == self.host[0];
        Ok(Run {
            id: self.id.into(),
            source: Source::Published,
            manifest: self.manifest(),
            // Nothing is known of the noise in somebody's table.
            noise: Noise {
                floor: f64::INFINITY,
                sentinel_drift: 0.0,
                throttled: 0,
                throttling_watched: false,
                contended: 0,
                contention_watched: false,
                stolen: None,
                verdict: NoiseVerdict::Unusable,
            },
            sensed: Sensed::default(),
            ceilings: Vec::new(),
            break_even: pair(&rows, is_host).iter().map(|pair| pair.break_even(1)).collect(),
            regret: None,
            resumed: Vec::new(),
            targets: super::held_against(self.who, &cells),
            cells,
        })
    }

    fn lines(&self) -> impl Iterator<Item = &'static str> {
        self.rows.lines().map(str::trim).filter(|line| !line.is_empty())
    }

    /// The cells of a line that were timed.
    fn cells(&self, line: &str) -> Result<Vec<CellSummary>, StudyError> {
        let wrong = || StudyError::Content { path: self.id.into(), why: format!("'{line}' has not four columns") };
        let columns: Vec<&str> = line.split('|').map(str::trim).collect();
        let [operation, shape, host, gpu] = columns[..] else { return Err(wrong()) };
        let elements = elements(shape).ok_or_else(wrong)?;
        let cell = |device: &str| Cell {
            operation: operation.into(),
            elements,
            shape: shape.into(),
            dtype: "f32".into(),
            device: device.into(),
            mode: self.mode,
        };
        let sides = [(self.host, host), (self.gpu, gpu)].into_iter().filter(|(_, time)| *time != "-");
        sides.map(|([name, what], time)| Ok(self.summary(cell(name), task_times_ns(time)?, what))).collect()
    }

    fn summary(&self, cell: Cell, time_ns: f64, what: &str) -> CellSummary {
        let flops = flops(&cell.operation, &cell.shape);
        let published = format!("one published number, from {}", self.address);
        CellSummary {
            samples: 1,
            q1_ns: Some(time_ns),
            median_ns: Some(time_ns),
            dots_ns: vec![time_ns],
            flags: std::iter::once(published).chain(self.note.map(str::to_string)).collect(),
            flops,
            ran: Some(format!("{}, {what}, says {}", cell.device, self.who)),
            ..CellSummary::unmeasured(cell, Status::Ok)
        }
    }

    fn manifest(&self) -> Manifest {
        let device = |[name, device]: [&str; 2], backend: &str, driver: &str, kind: &str| StudyDevice {
            name: name.into(),
            device: device.into(),
            backend: backend.into(),
            driver: driver.into(),
            kind: kind.into(),
        };
        let devices =
            vec![device(self.host, "cpu", "", "cpu"), device(self.gpu, self.backend, self.driver, "discrete")];
        Manifest {
            schema: ManifestSchema {},
            started: if self.date.is_empty() { "not dated".into() } else { format!("{}T00:00:00Z", self.date) },
            version: format!("published by {}", self.who),
            arguments: vec![self.address.into()],
            seed: 1,
            fingerprint: format!("published {}", self.id),
            environment: Environment { cpu: self.cpu.into(), devices, ..Environment::default() },
        }
    }
}

/// "4 x 15 µs" or "15 µs" in nanoseconds.
fn task_times_ns(text: &str) -> Result<f64, StudyError> {
    let Some((tasks, time)) = text.split_once(" x ") else { return parse_time_ns(text) };
    let tasks: u32 = tasks.parse().map_err(|_| StudyError::Word {
        text: text.into(),
        what: "time of several tasks",
        known: "a number of tasks, x, and a time",
    })?;
    Ok(f64::from(tasks) * parse_time_ns(time)?)
}

fn row(summary: &CellSummary) -> Row {
    let times = summary.q1_ns.and_then(|time| Sorted::new(&[time]));
    Row { cell: summary.cell.clone(), status: summary.status, times, work: summary.flops }
}

/// The elements of a shape like "100x100" or "1000"; of several operands, "1x16x64x64 32x16x3x3", those of the largest.
fn elements(shape: &str) -> Option<u64> {
    let of_one = |shape: &str| shape.split('x').try_fold(1u64, |product, side| product.checked_mul(side.parse().ok()?));
    shape.split(' ').map(of_one).try_fold(0, |largest, elements| Some(largest.max(elements?)))
}

/// The arithmetic of a square matrix product; of others nothing is said.
fn flops(operation: &str, shape: &str) -> Option<u64> {
    let side: u64 = shape.split('x').next()?.parse().ok()?;
    (operation == "matmul").then(|| 2 * side.pow(3))
}

#[cfg(test)]
mod tests {
    use super::super::reports;
    use super::*;

    #[test]
    fn every_table_is_read() {
        for report in reports() {
            let run = report.run().unwrap_or_else(|error| panic!("{}: {error}", report.id));
            let untimed = report.lines().filter(|line| line.contains("| - |")).count();
            assert_eq!(run.cells.len(), 2 * report.lines().count() - untimed);
            assert!(run.cells.iter().all(|cell| cell.flags[0].contains("https://github.com/")), "{}", report.id);
        }
    }

    #[test]
    fn times_of_several_tasks_are_added_up() {
        assert_eq!(
            (task_times_ns("4 x 544 µs").ok(), task_times_ns("15 µs").ok()),
            (Some(2_176_000.0), Some(15_000.0))
        );
        assert!(task_times_ns("four x 544 µs").is_err() && task_times_ns("4 x 544").is_err());
    }

    #[test]
    fn shapes_are_counted() {
        assert_eq!(
            [elements("1000"), elements("100x100"), elements("1x16x64x64 32x16x3x3")],
            [Some(1000), Some(10_000), Some(65_536)]
        );
        assert_eq!(elements("1K"), None);
    }
}
