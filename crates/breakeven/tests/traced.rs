//! Runs that are traced: each step is in one event, on the CPU, on a simulated device and on software GPUs, and viewers can read it.

mod adapters;
mod sim;

use std::collections::BTreeMap;
use std::sync::Arc;

use breakeven::{DeviceId, Engine, Lane, Report, RunTrace, Tensor, TraceEvent};
use breakeven_device::Device;
use breakeven_device::sim::{SimClock, SimDevice};
use breakeven_plan::{Plan, Step};
use serde_json::Value;

/// Kernels of several kinds, two of them alike and independent.
fn work(engine: &Engine) -> Vec<Tensor> {
    let ramp = |n: usize| engine.from_vec((0..n).map(|i| (i % 7) as f32 - 3.0).collect::<Vec<_>>(), [n / 64, 64]);
    let (x, w) = (ramp(2048), ramp(4096));
    let hidden = x.matmul(&w).relu();
    vec![hidden.softmax(-1), hidden.sum(0), ramp(640).exp(), ramp(640).square()]
}

fn traced(engine: &Engine, outputs: &[Tensor]) -> Report {
    let want: Vec<Vec<f32>> = work(engine).iter().map(|t| t.on(DeviceId(0)).to_vec().unwrap()).collect();
    let report = engine.read_traced(&outputs.iter().collect::<Vec<_>>()).unwrap();
    for (output, want) in outputs.iter().zip(want) {
        let got: Vec<f32> = output.to_vec().unwrap();
        assert!(got.iter().zip(&want).all(|(g, w)| (g - w).abs() <= 1e-5 * w.abs().max(1.0)), "{got:?}, not {want:?}");
    }
    report
}

/// Each step of the plan is in one event, and launches of kernels are named by their decisions.
fn check_steps(plan: &Plan, trace: &RunTrace) {
    let mut times = vec![0; plan.steps.len()];
    for event in trace.events() {
        event.steps.iter().for_each(|&step| times[step] += 1);
    }
    assert!(times.iter().all(|&n| n == 1), "{times:?} of {:#?}\n{:#?}", plan.steps, trace.events());
    assert_eq!(plan.decided.len(), plan.steps.iter().filter(|step| matches!(step, Step::Run { .. })).count());
    for event in kernels(trace) {
        let is_named = |what: &str| plan.decisions.iter().any(|decision| what.contains(&decision.what));
        assert!(is_named(&event.name) && event.reason.is_some() && !event.steps.is_empty(), "{event:?}");
        assert!(event.steps.iter().all(|&step| matches!(plan.steps[step], Step::Run { .. })), "{event:?}");
    }
}

fn kernels(trace: &RunTrace) -> Vec<&TraceEvent> {
    trace.events().iter().filter(|event| event.lane == Lane::Kernels).collect()
}

/// What every reader of the format needs, and that events of one thread follow each other or lie within each other.
fn check_file(text: &str) -> Vec<Value> {
    let file: Value = serde_json::from_str(text).unwrap();
    let all = file["traceEvents"].as_array().unwrap().clone();
    let mut open: BTreeMap<(u64, u64), Vec<f64>> = BTreeMap::new();
    let mut named: Vec<(String, u64, u64)> = Vec::new();
    for event in &all {
        let (pid, tid) = (event["pid"].as_u64().unwrap(), event["tid"].as_u64().unwrap());
        match event["ph"].as_str().unwrap() {
            "M" => {
                let name = event["name"].as_str().unwrap();
                let is_order = name.ends_with("sort_index") && event["args"]["sort_index"].is_u64();
                assert!(is_order || event["args"]["name"].is_string(), "{event}");
                named.push((name.to_owned(), pid, tid));
            }
            "X" => {
                let (start, length) = (event["ts"].as_f64().unwrap(), event["dur"].as_f64().unwrap());
                assert!(start >= 0.0 && length >= 0.0 && event["name"].is_string() && event["args"].is_object());
                let is_named = |what: &str| named.contains(&(what.to_owned(), pid, tid));
                assert!(is_named("process_name") && is_named("thread_name"), "{event}");
                let stack = open.entry((pid, tid)).or_default();
                // Microseconds of nanoseconds are sums that may end in another last digit.
                stack.retain(|end| *end > start + 1e-6);
                assert!(stack.iter().all(|end| start + length <= end + 1e-6), "{event} goes on after what it is in");
                stack.push(start + length);
            }
            other => panic!("an event of kind {other}"),
        }
    }
    all.into_iter().filter(|event| event["ph"] == "X").collect()
}

fn check(report: &Report) -> RunTrace {
    let trace = report.trace().expect("it was asked for").clone();
    check_steps(&report.plan, &trace);
    let written = check_file(&trace.to_chrome_json());
    assert_eq!(written.len(), trace.events().len());
    assert!(trace.events().iter().any(|event| event.name == "plan" && event.device.is_none()));
    trace
}

#[test]
fn nothing_is_recorded_unless_that_is_asked_for() {
    let engine = Engine::builder().gpus(false).no_cache().build().unwrap();
    let outputs = work(&engine);
    assert!(engine.run(&outputs.iter().collect::<Vec<_>>()).unwrap().trace().is_none());
}

#[test]
fn the_cpu_tells_when_each_kernel_ran() {
    let engine = Engine::builder().gpus(false).no_cache().threads(2).build().unwrap();
    for _ in 0..2 {
        let report = traced(&engine, &work(&engine));
        let trace = check(&report);
        assert_eq!((trace.dropped_times(), kernels(&trace).len()), (0, report.plan.decided.len()));
        let of_kernels: f64 = kernels(&trace).iter().map(|event| event.duration.as_secs_f64()).sum();
        assert!(of_kernels > 0.0 && of_kernels <= report.elapsed.as_secs_f64());
        assert!(trace.events().iter().all(|event| !event.is_by_device && event.lane != Lane::Untold));
    }
}

/// The CPU sends a value on, and both halves of that are told, one as the step.
#[test]
fn a_device_by_its_own_clock_and_what_goes_from_one_to_another() {
    let sim: Arc<dyn Device> = Arc::new(SimDevice::new(sim::options(&[]), &SimClock::new()));
    let builder = Engine::builder().gpus(false).no_cache().cpu_profile(sim::hopeless());
    let engine = builder.measured_device(sim, sim::unbeatable()).build().unwrap();
    let outputs = work(&engine);
    let first = outputs[0].on(DeviceId(0));
    let report =
        traced(&engine, &[(&first + 0.0).on(sim::GPU), outputs[1].clone(), outputs[2].clone(), outputs[3].clone()]);
    let trace = check(&report);
    let copies: Vec<usize> =
        (0..report.plan.steps.len()).filter(|&step| matches!(report.plan.steps[step], Step::Copy { .. })).collect();
    assert!(!copies.is_empty(), "{}", report.plan);
    for copy in copies {
        assert!(trace.events().iter().any(|event| event.part_of.contains(&copy) && event.steps.is_empty()), "{copy}");
    }
    let of_sim: Vec<_> = kernels(&trace).into_iter().filter(|event| event.device == Some(sim::GPU)).cloned().collect();
    assert!(!of_sim.is_empty() && of_sim.iter().all(|event| event.is_by_device && event.predicted_seconds.is_some()));
}

#[test]
fn gpus_tell_the_time_of_each_launch_where_they_measure_it() {
    for engine in adapters::engines() {
        let report = traced(&engine, &work(&engine).iter().map(|t| t.on(adapters::GPU)).collect::<Vec<_>>());
        let trace = check(&report);
        let name = engine.devices()[1].info.name.clone();
        if name.contains("llvmpipe") {
            let told: usize = kernels(&trace).iter().map(|event| event.steps.len()).sum();
            assert_eq!((told, trace.dropped_times()), (report.plan.decided.len(), 0), "{trace:#?}");
            assert!(kernels(&trace).iter().all(|event| event.is_by_device && !event.duration.is_zero()));
            let moved = trace.events().iter().filter(|event| event.lane == Lane::Copies && event.bytes > 0);
            assert!(moved.count() > 0, "{trace:#?}");
        }
        for name in ["bind memory", "submit", "wait"] {
            assert!(trace.events().iter().any(|event| event.name == name), "{name}: {trace:#?}");
        }
        let elapsed = trace.events().iter().map(|event| event.start + event.duration).max();
        let planning = trace.events()[0].duration;
        assert!(elapsed.is_some_and(|all| all <= report.elapsed + planning), "{elapsed:?}, {planning:?}, {report}");
    }
}
