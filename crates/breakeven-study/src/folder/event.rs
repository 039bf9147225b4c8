//! One line of `events.jsonl`.

use serde::{Deserialize, Serialize};

use crate::schema::EventsSchema;
use crate::{Ceiling, Cell, Copied, Made, Opening, Pool, Status, Stop};

/// Something that happened, and when.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// Since the run began. Goes on over interruptions as the runner likes; nothing is computed from it.
    pub at_ns: u64,
    /// What happened.
    #[serde(flatten)]
    pub event: Event,
}

/// What can happen in a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "lowercase")]
pub enum Event {
    /// A process began to write. A resumed run has several.
    Opened {
        /// Kind and version of the two logs.
        schema: EventsSchema,
        /// Who writes; not there in runs of versions that did not write it down.
        #[serde(default)]
        by: Option<Opening>,
    },
    /// A cell's samples will carry this number.
    Begun {
        /// The number, new for each attempt.
        id: u32,
        /// The cell.
        cell: Cell,
    },
    /// A cell is done, and all its samples are written.
    Finished {
        /// The number that its samples carry.
        id: u32,
        /// How many samples that are.
        samples: u64,
        /// What else was found.
        #[serde(flatten)]
        facts: Box<Facts>,
    },
    /// The sentinel ran: the same code in each round, to see the machine drift.
    Sentinel {
        /// The round, from 0.
        round: u32,
        /// Its wall time.
        wall_ns: u64,
    },
    /// The most that a device reached, measured in this run.
    Ceiling(Ceiling),
    /// What the machine's own sensors said.
    Sensors(Reading),
    /// Something that a reader should know.
    Note {
        /// A sentence.
        text: String,
    },
    /// The run ended.
    Stopped {
        /// "done", or what ended it.
        why: String,
    },
}

/// What sensors said at a moment. What has no file is null, and named in `absent`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Reading {
    /// When: "before add f32".
    pub when: String,
    /// Clocks of the slowest and the fastest core, in hertz.
    pub cpu_hz: Option<[u64; 2]>,
    /// How often cores or packages lowered their clock since the machine started, because of heat or power.
    pub throttlings: Option<u64>,
    /// The hottest of the machine's own thermal zones.
    pub celsius: Option<f64>,
    /// Time of all cores; not there in runs of versions that did not write it down.
    #[serde(default)]
    pub processor: Option<ProcessorTime>,
    /// GPUs whose drivers tell.
    pub gpus: Vec<GpuReading>,
    /// What there is no file of.
    pub absent: Vec<String>,
}

/// Time of all cores since the machine started, in the system's ticks.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessorTime {
    /// All of it, idle or not.
    pub all_ticks: u64,
    /// What a hypervisor gave to others while this machine wanted it.
    pub stolen_ticks: u64,
}

/// What a GPU's sensors said.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct GpuReading {
    /// As the system calls it: "card0".
    pub name: String,
    /// Its clock in hertz.
    pub hz: Option<u64>,
    /// The hottest of its sensors.
    pub celsius: Option<f64>,
}

/// What was found for a cell beside its samples.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Facts {
    /// How it ended.
    pub status: Status,
    /// Why it ended otherwise than well.
    #[serde(default)]
    pub why: Option<String>,
    /// Why measuring stopped.
    #[serde(default)]
    pub stop: Option<Stop>,
    /// Bytes that it must at least read and write.
    #[serde(default)]
    pub bytes: Option<u64>,
    /// Arithmetic operations that it must at least do.
    #[serde(default)]
    pub flops: Option<u64>,
    /// What the profile foretold.
    #[serde(default)]
    pub predicted_ns: Option<f64>,
    /// Of the output, in hexadecimal.
    #[serde(default)]
    pub checksum: Option<String>,
    /// What really ran: device, driver, path.
    #[serde(default)]
    pub ran: Option<String>,
    /// The device's pool of buffers over the samples.
    #[serde(default)]
    pub pool: Option<Pool>,
    /// What was made anew over the samples.
    #[serde(default)]
    pub made: Option<Made>,
    /// What a call copies between the host and devices.
    #[serde(default)]
    pub copied: Option<Copied>,
    /// Share of the output's elements that are zero, denormal or not finite, from 0 to 1: such data is not what was meant to be measured.
    #[serde(default)]
    pub degenerate: Option<f64>,
    /// Share of the time of its turns, from 0 to 1, for which a thread of the measuring process was ready and had no core: other work had them, or
    /// more threads of its own than there are cores.
    #[serde(default)]
    pub waited: Option<f64>,
}

impl Facts {
    /// A cell that ended with `status` because of `why`, of which nothing else is known.
    pub fn failed(status: Status, why: impl Into<String>) -> Facts {
        Facts { why: Some(why.into()), ..Facts::of(status) }
    }

    /// A cell for which there was no time; nothing is wrong with it.
    pub fn left_out(why: impl Into<String>) -> Facts {
        Facts { stop: Some(Stop::Budget), ..Facts::failed(Status::Skipped, why) }
    }

    /// Whether there was no time for it.
    pub fn is_left_out(&self) -> bool {
        self.status == Status::Skipped && self.stop == Some(Stop::Budget)
    }

    /// A cell that ended with `status`, of which nothing else is known.
    pub fn of(status: Status) -> Facts {
        Facts {
            status,
            why: None,
            stop: None,
            bytes: None,
            flops: None,
            predicted_ns: None,
            checksum: None,
            ran: None,
            pool: None,
            made: None,
            copied: None,
            degenerate: None,
            waited: None,
        }
    }
}
