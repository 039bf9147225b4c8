//! Summaries to make pages of: times follow simple laws and a fixed sequence of jitter, so every page is the same on each run.

use breakeven_study::published::held_against;
use breakeven_study::{CellSummary, Summary, Target};
use serde_json::{Value, json};

/// Text that would be markup, code or the end of an element if it were not taken as text.
pub const NASTY: &str = "</script><script>window.broken = 1</script><b onclick=\"x\">&amp;{{script}}</b>";

/// The time of a call: a part that is always spent, and one for each element.
#[derive(Clone, Copy)]
pub struct Law {
    pub fixed_ns: f64,
    pub each_ns: f64,
}

pub const CPU: Law = Law { fixed_ns: 900.0, each_ns: 0.42 };
pub const GPU: Law = Law { fixed_ns: 21_000.0, each_ns: 0.05 };
pub const SLOW_GPU: Law = Law { fixed_ns: 64_000.0, each_ns: 0.16 };
pub const NEVER: Law = Law { fixed_ns: 40_000.0, each_ns: 0.6 };

pub const SIZES: [u64; 6] = [1_000, 10_000, 100_000, 1_000_000, 4_000_000, 16_000_000];

/// A fixed sequence of numbers between 0 and 1.
struct Jitter(u64);

impl Jitter {
    fn next(&mut self) -> f64 {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.0 >> 40) as f64 / (1u64 << 24) as f64
    }
}

pub fn cell(operation: &str, elements: u64, device: &str, mode: &str, law: Law) -> Value {
    let mut jitter = Jitter(elements ^ device.len() as u64 ^ (operation.len() as u64) << 32);
    let ns = law.fixed_ns + law.each_ns * elements as f64;
    let mut samples: Vec<f64> = (0..40).map(|_| (ns * (1.0 + 0.7 * jitter.next().powi(3))).round()).collect();
    samples.sort_by(f64::total_cmp);
    let is_cpu = device == "cpu";
    let part = |share: f64| if is_cpu { Value::Null } else { json!(ns * share) };
    json!({
        "operation": operation, "elements": elements, "shape": elements.to_string(), "dtype": "f32", "device": device, "mode": mode,
        "status": "ok", "why": null, "samples": 120, "dropped": 2,
        "min_ns": samples[0], "q1_ns": samples[10], "median_ns": samples[20], "p90_ns": samples[36], "p99_ns": null,
        "interval_ns": [samples[8], samples[12]], "dots_ns": samples, "warm_up": "steady", "stop": "narrow", "flags": [],
        "parts": {
            "allocate_ns": part(0.04), "upload_ns": part(0.22), "dispatch_ns": part(0.09),
            "kernel_ns": if is_cpu { json!(ns * 0.93) } else { json!(ns * 0.31) }, "read_ns": part(0.2), "wait_ns": null
        },
        "bytes": 8 * elements, "flops": elements * 4 * (1 + operation.len() as u64 % 7), "predicted_ns": ns * (0.8 + 0.5 * jitter.next()),
        "checksum": "9f2c", "ran": if is_cpu { "cpu avx512" } else { "vulkan gelu_f32 subgroup 32" },
        "pool": { "hits": 118, "misses": 2, "bytes": 16 * elements }
    })
}

pub fn failed(operation: &str, elements: u64, device: &str, status: &str, why: &str) -> Value {
    let mut cell = cell(operation, elements, device, "host", CPU);
    let fields = cell.as_object_mut().expect("an object");
    fields.iter_mut().filter(|(name, _)| name.ends_with("_ns")).for_each(|(_, value)| *value = Value::Null);
    fields.insert("dots_ns".into(), json!([]));
    fields.insert("parts".into(), parts_of_nothing());
    fields.insert("status".into(), json!(status));
    fields.insert("why".into(), json!(why));
    cell
}

fn parts_of_nothing() -> Value {
    let names = ["allocate_ns", "upload_ns", "dispatch_ns", "kernel_ns", "read_ns", "wait_ns"];
    names.into_iter().map(|name| (name.to_string(), Value::Null)).collect::<serde_json::Map<_, _>>().into()
}

/// A row of the break-even table whose crossings are `(elements, side)`.
pub fn row(operation: &str, mode: &str, gpu: &str, crossings: &[(u64, &str)], verdict: &str) -> Value {
    let crossing = |&(at, to): &(u64, &str)| json!({ "elements": at, "low": at * 3 / 4, "high": at * 4 / 3, "to": to });
    let wins_from = crossings.last().filter(|(_, to)| *to == "gpu").map(|&(at, _)| at);
    json!({
        "operation": operation, "dtype": "f32", "mode": mode, "cpu": "cpu", "gpu": gpu, "range": [1_000, 16_000_000],
        "crossings": crossings.iter().map(crossing).collect::<Vec<_>>(), "wins_from": wins_from,
        "band": wins_from.map(|at| [at * 9 / 10, at * 11 / 10]), "gpu_blob": wins_from, "verdict": verdict
    })
}

pub fn run(id: &str, source: &str, cells: &[Value], break_even: &[Value]) -> Value {
    let ceiling = |device: &str, flops: f64, memory: f64, link: Option<f64>| {
        json!({ "device": device, "flops": flops, "bytes_per_s": memory, "upload_bytes_per_s": link,
            "read_bytes_per_s": link.map(|rate| rate * 0.6) })
    };
    let device = |name: &str, device: &str, kind: &str| json!({ "name": name, "device": device, "backend": "Vulkan", "driver": "580.159.04", "kind": kind });
    json!({
        "id": id, "source": source,
        "manifest": {
            "schema": "breakeven.manifest/1", "started": "2026-11-29T08:00:00Z", "version": "0.1.0",
            "arguments": ["scan", "--quick"], "seed": 7, "fingerprint": "5be1d0c2a9f04e77",
            "environment": {
                "cpu": "Intel Xeon Platinum 8481C", "cores": 16, "threads": 16, "isa": "avx512", "memory_bytes": 137_438_953_472_u64,
                "os": "Debian 12", "kernel": "6.1.0", "governor": null, "virtual": true,
                "devices": [
                    device("cpu", "Intel Xeon Platinum 8481C", "cpu"), device("vulkan:0", "NVIDIA H200", "discrete"),
                    device("vulkan:1", "AMD Radeon RX 7900", "discrete")
                ]
            }
        },
        "noise": { "floor": 0.012, "sentinel_drift": 0.031, "throttled": 0, "verdict": "quiet" },
        "ceilings": [
            ceiling("cpu", 1.9e11, 3.1e10, None), ceiling("vulkan:0", 5.2e13, 3.9e12, Some(2.4e11)),
            ceiling("vulkan:1", 3.1e13, 7.9e11, Some(9e10))
        ],
        "cells": cells, "break_even": break_even,
        "targets": targets(cells)
    })
}

/// One claim that these rows bear out, one that they do not, and one that they do not answer, as far as there are such.
fn targets(cells: &[Value]) -> Vec<Target> {
    let rows = cells.iter().map(|row| serde_json::from_value(row.clone()).expect("a row"));
    let targets = held_against("", &rows.collect::<Vec<CellSummary>>());
    let is_one: [fn(&&Target) -> bool; 3] =
        [|target| target.met == Some(true), |target| target.met == Some(false), |target| target.got.is_none()];
    is_one.into_iter().filter_map(|is_one| targets.iter().find(is_one).cloned()).collect()
}

pub fn summary(runs: &[Value]) -> Summary {
    serde_json::from_value(json!({ "schema": "breakeven.summary/1", "runs": runs })).expect("the fixture is a summary")
}

/// Two GPUs, crossings of all kinds, gaps, failures, two dtypes and text that looks like markup.
pub fn rich_run(id: &str, source: &str) -> Value {
    let mut cells = Vec::new();
    for &elements in &SIZES {
        for operation in ["gelu", "add", "softmax", NASTY] {
            let gpu = match operation {
                "add" => NEVER,
                "softmax" if elements > 300_000 => Law { each_ns: 0.9, ..NEVER },
                "softmax" => Law { fixed_ns: 1_800.0, each_ns: 0.05 },
                _ => GPU,
            };
            cells.push(cell(operation, elements, "cpu", "host", CPU));
            cells.push(cell(operation, elements, "vulkan:0", "host", gpu));
            let misses = operation == "softmax" && elements == 100_000;
            if !misses && operation != NASTY {
                cells.push(cell(operation, elements, "vulkan:1", "host", SLOW_GPU));
            }
        }
        cells.push(cell("gelu", elements, "cpu", "resident", CPU));
        cells.push(cell("gelu", elements, "vulkan:0", "resident", Law { fixed_ns: 8_000.0, each_ns: 0.002 }));
        let mut half = cell("gelu", elements, "cpu", "host", CPU);
        half["dtype"] = json!("f16");
        cells.push(half);
    }
    cells.push(failed("softmax", 100_000, "vulkan:1", "timeout", "no answer within 2 s; the process was ended"));
    cells.push(failed("gelu", 64_000_000, "vulkan:0", "lost", "device lost during submit 41"));
    cells.push(failed(NASTY, 1_000, "vulkan:1", "wrong", NASTY));
    cells.push(failed("add", 64_000_000, "vulkan:1", "unsupported", "buffers of at most 128 MiB"));
    let both = [(2_400, "gpu"), (310_000, "cpu")];
    let rows = [
        row("gelu", "host", "vulkan:0", &[(54_300, "gpu")], "GPU from 54,300 elements (40,700 to 72,400)"),
        row("gelu", "host", "vulkan:1", &[(243_000, "gpu")], "GPU from 243,000 elements (182,000 to 324,000)"),
        row("gelu", "resident", "vulkan:0", &[(17_000, "gpu")], "GPU from 17,000 elements (12,800 to 22,700)"),
        row("add", "host", "vulkan:0", &[], "none in [1,000, 16,000,000]: CPU at every size"),
        row("add", "host", "vulkan:1", &[(243_000, "gpu")], "GPU from 243,000 elements (182,000 to 324,000)"),
        row("softmax", "host", "vulkan:0", &both, "GPU from 2,400 to 310,000 elements only"),
        row(NASTY, "host", "vulkan:0", &[(54_300, "gpu")], NASTY),
    ];
    run(id, source, &cells, &rows)
}

/// What the engine's own choice costs: two rows of many.
pub fn regret() -> Value {
    let row = |operation: &str, chose: &str, best: &str, regret: f64| {
        json!({
            "operation": operation, "elements": 1_000_000, "shape": "1000000", "dtype": "f32", "mode": "host", "chose": chose,
            "chose_ns": 1e5 * (1.0 + regret), "chose_predicted_ns": 9e4, "best": best, "best_ns": 1e5, "best_predicted_ns": null,
            "regret": regret
        })
    };
    json!({
        "cells": 96, "slower": 2, "wrong_device": 1, "median": 0.004, "p90": 0.03, "worst": 1.0,
        "rows": [row("gelu", "cpu", "vulkan:0", 1.0), row("add", "cpu", "cpu", 0.07)],
        "verdict": "left to choose, breakeven was more than 5% slower than the best device by hand in 2 of 96 cells (2.1%); in 1 of \
                    these another device was the better one. Half of all are within 0.4%, nine of ten within 3.0%, the worst 100.0% slower"
    })
}

/// One operation at `sizes` on `devices`.
pub fn small(sizes: &[u64], devices: &[&str]) -> Summary {
    let cells = devices.iter().flat_map(|device| sizes.iter().map(|&size| cell("gelu", size, device, "host", CPU)));
    summary(&[run("2026-11-29T0800-small", "measured", &cells.collect::<Vec<_>>(), &[])])
}

/// Figures of somebody's table: a time and nothing else, one of them without even that, and two devices that are equal.
pub fn bare() -> Summary {
    let mut cells = Vec::new();
    for (elements, ns) in [(0, 900.0), (1_000, 1_000.0), (10_000, 7_000.0)] {
        for device in ["cpu", "vulkan:0"] {
            let mut cell = failed("sum", elements, device, "ok", "");
            cell["q1_ns"] = json!(ns);
            cell["why"] = Value::Null;
            cells.push(cell);
        }
    }
    let mut nothing = failed("sum", 100_000, "cpu", "ok", "");
    nothing["flags"] = json!(["no sample counts"]);
    cells.push(nothing);
    let rows = [row("sum", "host", "vulkan:0", &[], "none in [1,000, 10,000]: both equal at every size")];
    summary(&[run("2026-11-29T0800-bare", "published", &cells, &rows)])
}

/// `count` cells: operations at 20 sizes in 5 modes on 2 devices.
pub fn large(count: usize) -> Summary {
    let modes = ["host", "resident", "first", "cold", "chain-8"];
    let cells = (0..count).map(|index| {
        let (device, law) = if index % 2 == 0 { ("cpu", CPU) } else { ("vulkan:0", GPU) };
        let elements = 1_000 << (index / 2 % 20);
        cell(&format!("operation_{}", index / 200), elements, device, modes[index / 40 % 5], law)
    });
    summary(&[run("2026-11-29T0800-large", "measured", &cells.collect::<Vec<_>>(), &[])])
}

/// 20 operations in 3 modes, on 2 devices.
pub fn many() -> Summary {
    let mut cells = Vec::new();
    let mut rows = Vec::new();
    for index in 0..20 {
        let operation = format!("operation_{index}");
        for mode in ["host", "resident", "chain-8"] {
            for &elements in &SIZES {
                cells.push(cell(&operation, elements, "cpu", mode, CPU));
                cells.push(cell(&operation, elements, "vulkan:0", mode, GPU));
            }
            let verdict = "GPU from 54,300 elements (40,700 to 72,400)";
            rows.push(row(&operation, mode, "vulkan:0", &[(54_300, "gpu")], verdict));
        }
    }
    summary(&[run("2026-11-29T0800-many", "measured", &cells, &rows)])
}
