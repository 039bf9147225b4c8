//! Decisions: why a kernel runs where it does.

use breakeven_ir::NodeId;
use serde::{Deserialize, Serialize};

use crate::{Cost, DeviceId, Trust};

/// Why a device was chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Reason {
    /// The caller said so.
    Pinned,
    /// What it reads is there, and moving it costs more than another device would gain.
    Resident,
    /// The cheapest way to cut the graph over devices.
    Cut,
    /// A plan over several devices was not predicted better than one device by enough.
    Guard,
    /// There is no other device that may be chosen by itself.
    CpuFirst,
    /// No other device has been measured for it.
    Unmeasured,
    /// No other device can run it.
    Unsupported,
    /// It does not fit the memory of another device.
    Memory,
    /// An earlier plan was frozen.
    Frozen,
    /// Another plan was predicted to be faster; how long this one takes is looked at now and then.
    Probe,
    /// Another plan was predicted to be faster, and this one was seen to be.
    Observed,
    /// Another plan was chosen, and is still being compiled; this one serves meanwhile.
    Compiling,
}

impl Reason {
    /// As explanations name it.
    pub fn code(self) -> &'static str {
        match self {
            Reason::Pinned => "pinned",
            Reason::Resident => "resident",
            Reason::Cut => "cut",
            Reason::Guard => "guard",
            Reason::CpuFirst => "cpu-first",
            Reason::Unmeasured => "unmeasured",
            Reason::Unsupported => "unsupported",
            Reason::Memory => "memory",
            Reason::Frozen => "frozen",
            Reason::Probe => "probe",
            Reason::Observed => "observed",
            Reason::Compiling => "compiling",
        }
    }
}

/// What a kernel would cost on one device, with the moves it would cause there as things are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Parts {
    /// Bringing what it reads.
    pub copy: f64,
    /// Launching it, and handing over the batch that it begins.
    pub dispatch: f64,
    /// Running it.
    pub kernel: f64,
    /// Waiting for its result, where it is read.
    pub sync: f64,
}

impl Parts {
    /// All of them.
    pub fn seconds(&self) -> f64 {
        self.copy + self.dispatch + self.kernel + self.sync
    }
}

/// What would make a kernel cheaper on another device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Flip {
    /// The device that would win.
    pub device: DeviceId,
    /// It would, if everything that the kernel reads and everyone who reads it were there.
    pub if_resident: bool,
    /// It would with this many times the work, sizes and copies alike; `None` where no size within a factor of a
    /// million makes it.
    pub at_times: Option<f64>,
}

/// A kernel as several launches.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Split {
    /// So many.
    pub launches: usize,
    /// Why, in words: which limit of the device one launch would be past, or that the device has no such kernel and runs those that it is
    /// made of.
    pub because: String,
}

/// Why one kernel runs where it does.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Decision {
    /// Nodes of the graph that it computes, ascending, as indices.
    pub nodes: Vec<u32>,
    /// What it is, in words.
    pub what: String,
    /// How its products are made, where they need not be of the highest precision.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub products: Option<String>,
    /// Where it runs.
    pub device: DeviceId,
    /// How it is split there; `None` where it is one launch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub split: Option<Split>,
    /// Elements of the largest result among the launches it is split into; all of them where it is not split.
    pub largest_launch: u64,
    /// Why there.
    pub reason: Reason,
    /// Predicted seconds there; `None` where unmeasured.
    pub predicted: Option<Parts>,
    /// How sure the prediction is.
    pub cost: Option<Cost>,
    /// The next best device and what the kernel would cost there.
    pub runner_up: Option<(DeviceId, Parts)>,
    /// Why other devices were out of the question.
    pub excluded: Vec<(DeviceId, String)>,
    /// How far the profile behind the estimate is trusted.
    pub source: Trust,
    /// What would have to be different for the runner-up to win.
    pub flip: Option<Flip>,
}

impl Decision {
    /// Ids of [`Decision::nodes`].
    pub fn node_ids(&self) -> impl Iterator<Item = NodeId> + '_ {
        self.nodes.iter().map(|&id| NodeId(id))
    }

    /// How much worse the runner-up is, as a share of the choice; negative where the choice served other kernels.
    pub fn margin(&self) -> Option<f64> {
        let (chosen, other) = (self.predicted?.seconds(), self.runner_up?.1.seconds());
        (chosen > 0.0).then_some(other / chosen - 1.0)
    }
}
