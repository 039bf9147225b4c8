//! `summary.json`: everything computed from a run, and all that reports are made of.

use serde::{Deserialize, Serialize};

use crate::schema::SummarySchema;
use crate::{Cell, Manifest, Opening, Regret, Sensed, Status};

/// One run, or several side by side.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    /// Kind and version of the file.
    pub schema: SummarySchema,
    /// The runs, never pooled.
    pub runs: Vec<Run>,
}

/// One run on one machine.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Run {
    /// Its name: when, where, and a few digits against collisions.
    pub id: String,
    /// Where its numbers come from.
    pub source: Source,
    /// How it was made.
    pub manifest: Manifest,
    /// Who went on with it after it was interrupted.
    #[serde(default)]
    pub resumed: Vec<Opening>,
    /// How quiet the machine was.
    pub noise: Noise,
    /// How fast its clocks ran and how hot it was.
    #[serde(default)]
    pub sensed: Sensed,
    /// The most that each device reached in this run.
    pub ceilings: Vec<Ceiling>,
    /// All cells, whatever became of them.
    pub cells: Vec<CellSummary>,
    /// Where the faster device changes.
    pub break_even: Vec<BreakEven>,
    /// What the engine's own choice of devices costs; null where it was not measured beside devices by hand.
    #[serde(default)]
    pub regret: Option<Regret>,
    /// What others claimed, held against these cells.
    pub targets: Vec<Target>,
}

/// Where numbers come from. Only measured ones are ours.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Source {
    /// Timed on the machine of the manifest.
    Measured,
    /// Taken from somebody's report.
    Published,
    /// Computed by the simulated device's clock.
    Simulated,
}

/// How quiet the machine was.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Noise {
    /// The relative difference that two measurements of the same code show: 0.012 is 1.2%. Infinite where it is not known, so that nothing is
    /// above it; in files that is null.
    #[serde(with = "unbounded")]
    pub floor: f64,
    /// How much the sentinel's time moved from the fastest to the slowest round, relative to the fastest.
    pub sentinel_drift: f64,
    /// Samples that were dropped because a clock was lowered.
    pub throttled: u64,
    /// Whether counts of lowered clocks were there to be read. Without them, no sample dropped says nothing.
    #[serde(default)]
    pub throttling_watched: bool,
    /// Rows with a time that were measured beside other work, so that a thread waited for a core.
    #[serde(default)]
    pub contended: u64,
    /// Whether such waiting was there to be read. Without it, no row that waited says nothing.
    #[serde(default)]
    pub contention_watched: bool,
    /// The share of all cores' time that a hypervisor gave to others; null where the system does not tell.
    #[serde(default)]
    pub stolen: Option<f64>,
    /// What follows from these.
    pub verdict: NoiseVerdict,
}

/// A number that is null in files where nothing bounds it.
mod unbounded {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    #[allow(clippy::trivially_copy_pass_by_ref, reason = "serde calls it so")]
    pub fn serialize<S: Serializer>(number: &f64, serializer: S) -> Result<S::Ok, S::Error> {
        number.is_finite().then_some(number).serialize(serializer)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<f64, D::Error> {
        Ok(Option::deserialize(deserializer)?.unwrap_or(f64::INFINITY))
    }
}

/// Whether differences can be trusted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum NoiseVerdict {
    /// Differences of a few percent can be seen.
    Quiet,
    /// Only large differences can be seen.
    Noisy,
    /// Nothing can be concluded.
    Unusable,
}

/// The most that a device reached in a run, by which rooflines are drawn. What was not measured is null.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Ceiling {
    /// The device's name.
    pub device: String,
    /// Operations on f32 a second.
    pub flops: Option<f64>,
    /// Bytes a second of its own memory, read and written.
    pub bytes_per_s: Option<f64>,
    /// Bytes a second from the host.
    pub upload_bytes_per_s: Option<f64>,
    /// Bytes a second to the host.
    pub read_bytes_per_s: Option<f64>,
}

impl Ceiling {
    /// The ceilings of `device` before anything was measured.
    pub fn unmeasured(device: impl Into<String>) -> Ceiling {
        Ceiling {
            device: device.into(),
            flops: None,
            bytes_per_s: None,
            upload_bytes_per_s: None,
            read_bytes_per_s: None,
        }
    }
}

/// What was found for one cell. Times are null unless the status is `ok`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CellSummary {
    /// What was measured.
    #[serde(flatten)]
    pub cell: Cell,
    /// How that ended.
    pub status: Status,
    /// Why it ended otherwise than well.
    pub why: Option<String>,
    /// Samples that were used.
    pub samples: u64,
    /// Samples that were not.
    pub dropped: u64,
    /// The fastest.
    pub min_ns: Option<f64>,
    /// The lower quartile, which is the time of the cell wherever one number is needed.
    pub q1_ns: Option<f64>,
    /// The median.
    pub median_ns: Option<f64>,
    /// Reached by nine of ten; null below 50 samples.
    pub p90_ns: Option<f64>,
    /// Reached by 99 of 100; null below 500 samples.
    pub p99_ns: Option<f64>,
    /// Where the lower quartile lies with 95% confidence.
    pub interval_ns: Option<[f64; 2]>,
    /// Up to 40 raw samples, evenly drawn.
    pub dots_ns: Vec<f64>,
    /// How the samples moved in time; null where there are too few to tell.
    pub warm_up: Option<WarmUp>,
    /// Why measuring stopped.
    pub stop: Option<Stop>,
    /// What a reader should know.
    pub flags: Vec<String>,
    /// Where the time went.
    pub parts: Parts,
    /// Bytes that it must at least read and write.
    pub bytes: Option<u64>,
    /// Arithmetic operations that it must at least do.
    pub flops: Option<u64>,
    /// What the profile foretold.
    pub predicted_ns: Option<f64>,
    /// Of the output, in hexadecimal.
    pub checksum: Option<String>,
    /// What really ran: device, driver, path.
    pub ran: Option<String>,
    /// The device's pool of buffers over the samples.
    pub pool: Option<Pool>,
    /// What was made anew over the samples; null in runs of versions that did not count it.
    #[serde(default)]
    pub made: Option<Made>,
    /// What a call copies; null in runs of versions that did not write it down.
    #[serde(default)]
    pub copied: Option<Copied>,
    /// Share of its time for which a thread was ready and had no core; null where that was not written down.
    #[serde(default)]
    pub waited: Option<f64>,
}

impl CellSummary {
    /// A cell of which nothing is known but how it ended.
    pub fn unmeasured(cell: Cell, status: Status) -> CellSummary {
        CellSummary {
            cell,
            status,
            why: None,
            samples: 0,
            dropped: 0,
            min_ns: None,
            q1_ns: None,
            median_ns: None,
            p90_ns: None,
            p99_ns: None,
            interval_ns: None,
            dots_ns: Vec::new(),
            warm_up: None,
            stop: None,
            flags: Vec::new(),
            parts: Parts::default(),
            bytes: None,
            flops: None,
            predicted_ns: None,
            checksum: None,
            ran: None,
            pool: None,
            made: None,
            copied: None,
            waited: None,
        }
    }
}

/// How samples of one process moved in time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum WarmUp {
    /// They did not, after the warm-up.
    Steady,
    /// They went on falling or rising.
    Drift,
    /// They jumped between two values.
    Bimodal,
}

/// Why measuring a cell stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Stop {
    /// The interval is narrow enough.
    #[serde(rename = "narrow")]
    Narrow,
    /// More samples no longer make it narrower.
    #[serde(rename = "stable noise")]
    StableNoise,
    /// The time given to the cell was used up; where it is skipped, there was none for it.
    #[serde(rename = "budget")]
    Budget,
}

/// Where the time of a call went: lower quartiles of what was measured; null was not measured.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Parts {
    /// Getting memory.
    pub allocate_ns: Option<f64>,
    /// Copying operands to the device.
    pub upload_ns: Option<f64>,
    /// Encoding and submitting.
    pub dispatch_ns: Option<f64>,
    /// Kernels, by the device's own clock.
    pub kernel_ns: Option<f64>,
    /// Copying the result back.
    pub read_ns: Option<f64>,
    /// Waiting with nothing else to do.
    pub wait_ns: Option<f64>,
}

/// What a pool of buffers did while a cell was measured.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pool {
    /// Buffers that were there.
    pub hits: u64,
    /// Buffers that had to be made.
    pub misses: u64,
    /// Memory of all buffers at the end.
    pub bytes: u64,
}

/// What was made while a cell was measured, and was not there from an earlier call. Warm calls make nothing.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Made {
    /// Calls that found a plan or had one made.
    pub calls: u64,
    /// Plans that were made; the other calls found theirs.
    pub plans: u64,
    /// Pipelines that drivers compiled; null where they are not counted: on the CPU, and where nothing is kept of them.
    pub pipelines: Option<u64>,
}

/// What a call copies between the host's memory and devices.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Copied {
    /// To devices.
    pub upload_bytes: u64,
    /// To the host.
    pub read_bytes: u64,
}

/// Where the GPU starts to pay for an operation, or that it does not.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct BreakEven {
    /// The operation.
    pub operation: String,
    /// Its elements' type.
    pub dtype: String,
    /// How it is called.
    pub mode: crate::Mode,
    /// The device on the one side.
    pub cpu: String,
    /// The device on the other.
    pub gpu: String,
    /// The smallest and the largest size at which both were measured.
    pub range: [u64; 2],
    /// All sizes at which the faster one changes, in order.
    pub crossings: Vec<Crossing>,
    /// The smallest size from which the GPU wins at all larger sizes measured.
    pub wins_from: Option<u64>,
    /// The sizes at which the two are within 5% of each other, around the last crossing.
    pub band: Option<[u64; 2]>,
    /// The offload threshold as GPU-BLOB defines it, over the sizes as listed.
    pub gpu_blob: Option<u64>,
    /// The finding in a sentence, computed from the rows.
    pub verdict: String,
}

/// A size at which the faster device changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Crossing {
    /// The size in elements.
    pub elements: u64,
    /// With 95% confidence not below this.
    pub low: u64,
    /// With 95% confidence not above this.
    pub high: u64,
    /// Which is faster above it.
    pub to: Side,
}

/// One of two devices.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Side {
    /// The host.
    Cpu,
    /// The other.
    Gpu,
}

/// What somebody claimed, held against the rows of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Target {
    /// Whose claim it is.
    pub who: String,
    /// The claim in short.
    pub claim: String,
    /// The operation that it is held against.
    pub operation: String,
    /// The least and the most that was claimed, as a ratio.
    pub wanted: [f64; 2],
    /// What the rows give; null where no row answers.
    pub got: Option<f64>,
    /// Whether the least that was claimed is reached; null where no row answers.
    pub met: Option<bool>,
    /// From which rows, or what is missing.
    pub why: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_summary_of_another_version_is_refused() {
        let text = r#"{"schema":"breakeven.summary/2","runs":[]}"#;
        let why = serde_json::from_str::<Summary>(text).unwrap_err().to_string();
        assert!(why.contains("'breakeven.summary/2'") && why.contains("'breakeven.summary/1'"), "{why}");
    }
}
