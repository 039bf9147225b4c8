//! What a child process is asked to do, and what it answers: one line of JSON each.

use breakeven_study::folder::Facts;
use breakeven_study::{Ceiling, Cell, Environment, Mode, Sample};
use serde::{Deserialize, Serialize};

/// What one child process does.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "task", rename_all = "kebab-case")]
pub enum Task {
    /// Says what machine this is, and the most that its devices reach.
    Look(Look),
    /// Measures cells in turns.
    Measure(Measure),
    /// Makes the first call of a process: one cell, one sample.
    Cold(Measure),
    /// Gives every cell one block of samples each time it is told to go on, for two programs that take turns.
    Turns(Measure),
}

impl Task {
    /// Whether it is told when to go on; whatever is not, the parent gives nothing more, and holds the pipe open as long as it lives.
    pub fn takes_turns(&self) -> bool {
        matches!(self, Task::Turns(_))
    }

    /// What concerns the engine.
    pub fn setting(&self) -> &Setting {
        match self {
            Task::Look(look) => &look.setting,
            Task::Measure(task) | Task::Cold(task) | Task::Turns(task) => &task.setting,
        }
    }

    /// Devices by name; all that may be used when there are none.
    pub fn devices(&self) -> &[String] {
        match self {
            Task::Look(look) => &look.devices,
            Task::Measure(task) | Task::Cold(task) | Task::Turns(task) => &task.devices,
        }
    }
}

/// What is to be looked at.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Look {
    /// Devices by name; all when there are none.
    pub devices: Vec<String>,
    /// Whether what the devices reach is measured too, and not their names alone.
    pub ceilings: bool,
    /// How the engine is built.
    pub setting: Setting,
}

/// One operation that a fresh process measures at some sizes, on all devices in turns.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Measure {
    /// Name of the operation.
    pub operation: String,
    /// Type of its operands' elements: "f32".
    pub dtype: String,
    /// Sizes, in the order in which they are measured.
    pub sizes: Vec<usize>,
    /// Devices by name, `auto` for wherever the engine puts the work; all that may be used when there are none.
    pub devices: Vec<String>,
    /// Whether a plain loop on one thread is measured too, where there is one.
    pub scalar: bool,
    /// How it is called.
    pub modes: Vec<Mode>,
    /// Cells that are left out: they are finished, or ended an earlier process.
    pub without: Vec<Cell>,
    /// Of the order of turns and of the operands.
    pub seed: u64,
    /// How long and how often.
    pub effort: Effort,
    /// How the engine is built.
    pub setting: Setting,
}

/// How much time measuring may take.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Effort {
    /// Rounds at least; each gives every cell a turn, in random order.
    pub rounds: u32,
    /// Samples of a turn.
    pub block: u32,
    /// Milliseconds that the cells of one size may take together before no further round begins.
    pub budget_ms: u64,
    /// Milliseconds of untimed work before the samples of a turn on a GPU, which lowers its clock when it rests; a quarter of
    /// that on the CPU, which is awake sooner.
    pub warm_up_ms: u64,
    /// Milliseconds that one call may take before its cell counts as hung.
    pub deadline_ms: u64,
    /// How much longer calls are made by waiting, relative to what they take: 0.1 is 10%. To test whether a comparison finds it.
    pub slowed: f64,
    /// Milliseconds that a child may say nothing: drivers, compilers and calibration come before its first word.
    pub silence_ms: u64,
    /// The longest call that there is time for: cells whose calls take longer are left out. None leaves out nothing.
    #[serde(default)]
    pub limit: Option<Limit>,
}

/// The longest call that a study has time for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limit {
    /// Milliseconds of the call.
    pub call_ms: u64,
    /// Seconds of the study from which that follows.
    pub study_s: u64,
    /// It holds for plain loops alone.
    #[serde(default)]
    pub only_plain_loops: bool,
}

/// What of the command line concerns the engine.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Setting {
    /// Threads of the CPU; as the environment says when none.
    pub threads: Option<usize>,
    /// Whether drivers that compute on the host's processor take part.
    pub software: bool,
    /// Interface of GPUs: "vulkan".
    pub backend: Option<String>,
    /// A simulated device and its clock instead of those of the machine.
    #[serde(default)]
    pub simulated: bool,
}

/// What a child says, in the order in which it happens.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "line", rename_all = "kebab-case")]
pub enum Line {
    /// This cell is being worked on: if nothing more comes, it is the one to blame.
    Begun {
        /// Which.
        cell: Cell,
    },
    /// Everything that was found about a cell.
    Done {
        /// Which.
        cell: Cell,
        /// How it ended, and what else was found.
        facts: Box<Facts>,
        /// All its samples, flagged ones among them.
        samples: Vec<Sample>,
    },
    /// The machine, and the devices that take part.
    Machine {
        /// What it is.
        environment: Environment,
    },
    /// The most that a device reached.
    Ceiling {
        /// Of which device, and what.
        ceiling: Ceiling,
    },
    /// A block of samples of a cell in its turn.
    Turn {
        /// Which cell.
        cell: Cell,
        /// Nanoseconds of each call that did not fail.
        wall_ns: Vec<u64>,
        /// Why it has no time: the result is wrong, or calls failed.
        wrong: Option<String>,
    },
    /// It waits to be told to go on.
    Ready,
    /// What the same piece of plain arithmetic took now: tells whether the machine is still the same.
    Sentinel {
        /// The round, from 0.
        round: u32,
        /// Nanoseconds.
        wall_ns: u64,
    },
    /// Something that a reader of the run should know.
    Note {
        /// In a sentence.
        text: String,
    },
}
