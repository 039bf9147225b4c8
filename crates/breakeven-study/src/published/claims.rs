//! What others claimed of GPUs, and whether rows bear it out.

use super::part::{deciding, longest};
use crate::breakeven::grouped;
use crate::units::{ratio, time};
use crate::{CellSummary, Mode, SCALAR, Status, Target};

/// A claim: that one thing is so many times faster than another at a size.
#[derive(Debug, Clone, Copy)]
pub struct Claim {
    /// Whose it is.
    pub who: &'static str,
    /// Where it can be read.
    pub address: &'static str,
    /// In short.
    pub claim: &'static str,
    /// The operations that it is about.
    pub operations: &'static [&'static str],
    /// The sizes in elements that it is about; both ends belong to it.
    pub elements: [u64; 2],
    /// The least and the most that is claimed, as a ratio.
    pub wanted: [f64; 2],
    /// What is compared.
    pub compares: Compares,
}

/// The two sides of a claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Compares {
    /// The GPU with a scalar loop, from the host's memory to the host's.
    GpuWithScalar,
    /// The GPU with the CPU's SIMD, from the host's memory to the host's.
    GpuWithSimd,
    /// The GPU with whatever the CPU does, from the host's memory to the host's.
    GpuWithCpu,
    /// Many small calls with a large one of as many elements, on the GPU: the claim's operations are these two, in that order.
    ManyWithOne,
}

const VECTORS: &[&str] =
    &["add", "dot", "relu", "leaky_relu", "elu", "clip", "sigmoid", "tanh", "silu", "gelu", "softmax", "log_softmax"];
const GOALS: &str = "https://github.com/paiml/trueno/blob/main/benches/gpu_ops.rs";
const EXPECTED: &str = "https://github.com/ooples/AiDotNet/blob/master/docs/GPU_PERFORMANCE_BENCHMARKS.md";

const TRUENO: Claim = Claim {
    who: "Trueno",
    address: GOALS,
    claim: "",
    operations: VECTORS,
    elements: [0, 0],
    wanted: [0.0, 0.0],
    compares: Compares::GpuWithScalar,
};
const AIDOTNET: Claim = Claim { who: "AiDotNet", address: EXPECTED, compares: Compares::GpuWithCpu, ..TRUENO };

/// Every claim that is known here.
pub const CLAIMS: &[Claim] = &[
    Claim { claim: "5-10x over scalar at 10,000", elements: [10_000, 10_000], wanted: [5.0, 10.0], ..TRUENO },
    Claim { claim: "10-30x over scalar at 100,000", elements: [100_000, 100_000], wanted: [10.0, 30.0], ..TRUENO },
    Claim {
        claim: "20-50x over scalar from 1,000,000",
        elements: [1_000_000, u64::MAX],
        wanted: [20.0, 50.0],
        ..TRUENO
    },
    Claim {
        claim: "2-5x over AVX2 at 10,000",
        elements: [10_000, 10_000],
        wanted: [2.0, 5.0],
        compares: Compares::GpuWithSimd,
        ..TRUENO
    },
    Claim {
        claim: "5-15x over AVX2 at 100,000",
        elements: [100_000, 100_000],
        wanted: [5.0, 15.0],
        compares: Compares::GpuWithSimd,
        ..TRUENO
    },
    Claim {
        claim: "10-25x over AVX2 from 1,000,000",
        elements: [1_000_000, u64::MAX],
        wanted: [10.0, 25.0],
        compares: Compares::GpuWithSimd,
        ..TRUENO
    },
    Claim {
        claim: "5x over scalar",
        operations: &["matmul"],
        elements: [10_000, 10_000],
        wanted: [5.0, 5.0],
        ..TRUENO
    },
    Claim {
        claim: "10-30x over scalar",
        operations: &["matmul"],
        elements: [250_000, 250_000],
        wanted: [10.0, 30.0],
        ..TRUENO
    },
    Claim {
        claim: "20-50x over scalar",
        operations: &["matmul"],
        elements: [1_000_000, 1_000_000],
        wanted: [20.0, 50.0],
        ..TRUENO
    },
    Claim {
        who: "SuperVM",
        address: "https://github.com/XujueKing/SuperVM/blob/main/docs/GPU-PERF-SUMMARY.md",
        claim: "GPU faster from 100,000",
        operations: &["add"],
        elements: [100_000, u64::MAX],
        wanted: [1.0, 1.0],
        compares: Compares::GpuWithCpu,
    },
    Claim {
        claim: "500x over the CPU at 2048x2048",
        operations: &["matmul"],
        elements: [4_194_304, 4_194_304],
        wanted: [500.0, 500.0],
        ..AIDOTNET
    },
    Claim {
        claim: "200x over the CPU",
        operations: &["conv2d", "conv2d_16_to_32"],
        // It names no size; smaller images than this nobody would bring to a GPU.
        elements: [100_000, u64::MAX],
        wanted: [200.0, 200.0],
        ..AIDOTNET
    },
    Claim {
        claim: "50x over the CPU at 1,000,000",
        operations: &["add", "mul"],
        elements: [1_000_000, 1_000_000],
        wanted: [50.0, 50.0],
        ..AIDOTNET
    },
    Claim {
        who: "Volta",
        address: "https://github.com/rlarson20/Volta/blob/main/docs/gpu_batch_processing_analysis.md",
        claim: "20 calls on 256 elements take longer than one on 5,120",
        operations: &["many_small_relus", "single_large_relu"],
        elements: [5_120, 5_120],
        wanted: [1.0, 1.0],
        compares: Compares::ManyWithOne,
    },
];

/// The claims of `who`, or of all if that is empty, held against `cells`. A claim about several operations gives a target for each that was
/// measured, and one without an answer if none was.
pub fn held_against(who: &str, cells: &[CellSummary]) -> Vec<Target> {
    let mine = CLAIMS.iter().filter(|claim| who.is_empty() || claim.who == who);
    mine.flat_map(|claim| claim.held_against(cells)).collect()
}

impl Claim {
    fn held_against(&self, cells: &[CellSummary]) -> Vec<Target> {
        let answers: Vec<Target> = match self.compares {
            Compares::ManyWithOne => self.many_with_one(cells).into_iter().collect(),
            _ => self.operations.iter().filter_map(|operation| self.gpu_with_host(operation, cells)).collect(),
        };
        if answers.is_empty() { vec![self.target(self.operations[0], None, self.why_none(cells))] } else { answers }
    }

    /// What would have to be measured for an answer.
    fn why_none(&self, cells: &[CellSummary]) -> String {
        let is_measured = |row: &&CellSummary| row.status == Status::Ok && row.q1_ns.is_some();
        let [least, most] = self.elements.map(grouped);
        if cells.is_empty() {
            "nothing was measured".into()
        } else if cells.iter().filter(is_measured).all(is_host) {
            "no GPU was measured".into()
        } else if !self.operations.iter().any(|operation| cells.iter().any(|row| self.is_about(operation, row))) {
            let range = match self.elements {
                [_, u64::MAX] => format!("{least} elements and more"),
                _ if least == most => format!("{least} elements"),
                _ => format!("{least} to {most} elements"),
            };
            format!("{} of {range} was not measured from host to host", self.operations.join(" or "))
        } else {
            "both sides of it were not measured at one size".into()
        }
    }

    fn target(&self, operation: &str, got: Option<f64>, why: String) -> Target {
        Target {
            who: self.who.into(),
            claim: self.claim.into(),
            operation: operation.into(),
            wanted: self.wanted,
            got,
            met: got.map(|got| got >= self.wanted[0]),
            why,
        }
    }

    /// Of the sizes that the claim is about, the one at which the GPU does worst: a claim about sizes is one about each of them.
    fn gpu_with_host(&self, operation: &str, cells: &[CellSummary]) -> Option<Target> {
        let rows = || cells.iter().filter(|row| self.is_about(operation, row));
        let pairs = rows().filter(|row| !is_host(row)).filter_map(|gpu| {
            let hosts = rows().filter(|row| self.is_baseline(row) && row.cell.shape == gpu.cell.shape);
            // What is named as a scalar loop is one; what a library does on the CPU is at least that.
            Some((gpu, hosts.max_by_key(|row| row.cell.device == SCALAR)?))
        });
        // With several GPUs, the best at each size.
        let mut best = std::collections::BTreeMap::<&str, (&CellSummary, &CellSummary)>::new();
        for (gpu, host) in pairs {
            let place = best.entry(&gpu.cell.shape).or_insert((gpu, host));
            if gpu.q1_ns < place.0.q1_ns {
                *place = (gpu, host);
            }
        }
        let advantage = |(gpu, host): &(&CellSummary, &CellSummary)| Some(host.q1_ns? / gpu.q1_ns?);
        let worst =
            best.into_values().min_by(|a, b| advantage(a).partial_cmp(&advantage(b)).expect("times are finite"))?;
        let target = self.target(operation, advantage(&worst), self.why(worst.0, worst.1, cells));
        // A baseline that is faster than the claim's proves it where it is met all the same, and says nothing where it is not.
        let is_other = self.compares == Compares::GpuWithScalar && worst.1.cell.device != SCALAR;
        Some(if is_other && target.met == Some(false) { Target { met: None, ..target } } else { target })
    }

    fn is_about(&self, operation: &str, row: &CellSummary) -> bool {
        let cell = &row.cell;
        let [least, most] = self.elements;
        cell.operation == operation
            && cell.mode == Mode::Host
            && (least..=most).contains(&cell.elements)
            && row.status == Status::Ok
            && row.q1_ns.is_some()
    }

    /// Whether the claim can be held against a row of the host: a scalar loop is no baseline for claims over SIMD or over the CPU.
    fn is_baseline(&self, row: &CellSummary) -> bool {
        is_host(row) && (row.cell.device != SCALAR || self.compares == Compares::GpuWithScalar)
    }

    /// Both times, and what decides between them.
    fn why(&self, gpu: &CellSummary, host: &CellSummary, cells: &[CellSummary]) -> String {
        let at = |row: &CellSummary| format!("{} {}", row.cell.device, row.q1_ns.map(time).unwrap_or_default());
        let other = match (self.compares, host.cell.device.as_str()) {
            (Compares::GpuWithScalar, SCALAR) | (Compares::GpuWithCpu, _) => "",
            (Compares::GpuWithScalar, _) => "; this is over SIMD and all threads, not over a scalar loop",
            (Compares::GpuWithSimd, "cpu") => "; the CPU used SIMD and its threads",
            _ => "",
        };
        let decides = deciding(gpu, host, self.wanted[0], cells);
        format!("{} elements, host to host: {}, {}; {decides}{other}", grouped(gpu.cell.elements), at(host), at(gpu))
    }

    fn many_with_one(&self, cells: &[CellSummary]) -> Option<Target> {
        let row = |operation: &str, device: Option<&str>| {
            let is_it = |row: &&CellSummary| {
                self.is_about(operation, row) && !is_host(row) && device.is_none_or(|device| row.cell.device == device)
            };
            cells.iter().find(is_it)
        };
        let many = row(self.operations[0], None)?;
        let one = row(self.operations[1], Some(&many.cell.device))?;
        let (many_ns, one_ns) = (many.q1_ns?, one.q1_ns?);
        let (device, times) = (&many.cell.device, ratio(many_ns / one_ns));
        let [of_many, of_one] = [many, one].map(|row| longest(row, cells));
        let why = format!(
            "on {device}: {} and {}, {times}; of the many, {of_many}; of the one, {of_one}",
            time(many_ns),
            time(one_ns)
        );
        Some(self.target(self.operations[0], Some(many_ns / one_ns), why))
    }
}

fn is_host(row: &CellSummary) -> bool {
    ["cpu", SCALAR, "torchsharp", "tensorflow"].contains(&row.cell.device.as_str())
}
