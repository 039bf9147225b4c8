//! Custom operations through the engine: placed, explained, measured, and contained when they fail.

mod sim;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use breakeven::{CustomOp, DType, DeviceId, DeviceState, Engine, Example, Spec, Tensor, Wgsl};
use breakeven_device::sim::{SimClock, SimDevice};
use breakeven_device::{Deadline, Device};

/// A slow CPU and a fast simulated device, as far as the planner is told.
fn engine() -> Engine {
    let device: Arc<dyn Device> = Arc::new(SimDevice::new(sim::options(&[]), &SimClock::new()));
    let builder = Engine::builder().gpus(false).no_cache().cpu_profile(sim::rates(1e3));
    builder.measured_device(device, sim::rates(1e15)).build().unwrap()
}

/// An engine with every software adapter of the machine.
fn gpus() -> (Engine, Vec<DeviceId>) {
    let engine = Engine::builder().software(true).no_cache().build().unwrap();
    engine.ready(Deadline::after(Duration::from_mins(5))).unwrap();
    let gpus: Vec<DeviceId> =
        engine.devices().iter().filter(|d| d.id.0 > 0 && d.state == DeviceState::Ready).map(|d| d.id).collect();
    assert!(!gpus.is_empty(), "there is no GPU and no software adapter: {:?}", engine.notes());
    (engine, gpus)
}

#[allow(clippy::unnecessary_wraps, reason = "a shape rule may refuse")]
fn same(inputs: &[&Spec]) -> Result<Vec<Spec>, breakeven::CallError> {
    Ok(vec![inputs[0].clone()])
}

/// Each element and the one before it, `by` times.
fn echo() -> CustomOp {
    CustomOp::new("echo", same)
        .params([DType::F32])
        .cpu(|inputs, outputs| {
            let (x, out, by) = (inputs.get::<f32>(0), outputs.take::<f32>(0), inputs.param(0) as f32);
            for i in 0..x.len() {
                out[i] = x[i] + by * if i > 0 { x[i - 1] } else { 0.0 };
            }
        })
        .wgsl(
            Wgsl::for_each_element("let main = before(i);\nreturn load0(i) + param0() * main;")
                .with_functions("fn before(i: u32) -> f32 { return select(0.0, load0(i - 1u), i > 0u); }"),
        )
}

fn ramp(engine: &Engine, n: usize) -> Tensor {
    engine.from_vec((0..n).map(|i| (i % 9) as f32).collect::<Vec<f32>>(), [n])
}

fn echoed(x: &Tensor, op: &CustomOp) -> Tensor {
    let [y] = x.custom(op, &[], &[2.0]);
    y
}

#[test]
fn it_runs_on_every_device_among_other_operations() {
    let (engine, gpus) = gpus();
    let op = echo();
    for device in [DeviceId(0)].into_iter().chain(gpus) {
        let x = ramp(&engine, 1000).reshape([20, 50]).t().flip(0);
        let y = (echoed(&(&x + 1.0), &op).t() * 0.5).sum(0);
        let dense = engine.from_vec((x + 1.0).to_vec::<f32>().unwrap(), [50, 20]);
        let values = dense.to_vec::<f32>().unwrap();
        let at = |i: usize| values[i] + if i > 0 { 2.0 * values[i - 1] } else { 0.0 };
        let want: Vec<f32> = (0..50).map(|row| (0..20).map(|c| at(row * 20 + c) * 0.5).sum()).collect();
        assert_eq!(y.on(device).to_vec::<f32>().unwrap(), want, "{device:?}");
    }
}

#[test]
fn it_is_explained_by_its_name_and_priced_by_its_own_times_once_measured() {
    let (engine, op) = (engine(), echo());
    let explained = |n: usize| engine.explain(&[&echoed(&ramp(&engine, n), &op)]).unwrap().to_string();
    assert!(explained(64).contains("custom echo giving [64], priced as a map since it was not measured"));
    let (small, large) = (ramp(&engine, 64), ramp(&engine, 4096));
    let examples = [Example { inputs: &[&small], params: &[2.0] }, Example { inputs: &[&large], params: &[2.0] }];
    engine.calibrate_custom(&op, &examples).unwrap();
    assert!(!explained(64).contains("priced as a map"));
    let profile = engine.profile();
    assert!(profile.devices.iter().all(|device| device.customs["echo"].memory.knots().len() == 2));
}

#[test]
fn two_of_one_name_are_two() {
    let engine = engine();
    let adds = |amount: f32| {
        CustomOp::new("adds", same).cpu(move |inputs, outputs| {
            for (x, out) in inputs.get::<f32>(0).iter().zip(outputs.take::<f32>(0)) {
                *out = x + amount;
            }
        })
    };
    for (op, want) in [(adds(1.0), [2.0]), (adds(10.0), [11.0])] {
        let [y] = engine.tensor(&[1.0], [1]).custom(&op, &[], &[]);
        assert_eq!(y.to_vec::<f32>().unwrap(), want);
    }
}

#[test]
fn further_outputs_may_be_read_alone_together_or_not_at_all() {
    let op = CustomOp::new("parts", |inputs| {
        let spec = |dtype| Spec::new(dtype, inputs[0].shape.clone());
        Ok(vec![spec(DType::I32), spec(DType::F32), spec(DType::Bool)])
    })
    .cpu(|inputs, outputs| {
        let (whole, rest, is_whole) = (outputs.take::<i32>(0), outputs.take::<f32>(1), outputs.take::<bool>(2));
        for (i, x) in inputs.get::<f32>(0).iter().enumerate() {
            (whole[i], rest[i], is_whole[i]) = (x.floor() as i32, x - x.floor(), *x == x.floor());
        }
    })
    .wgsl(Wgsl::counted(
        "let x = load0(i); store0(i, i32(floor(x))); store1(i, x - floor(x)); store2(i, x == floor(x));",
        |_, outputs| outputs[0].shape.elements() as u64,
    ));
    let (engine, gpus) = gpus();
    for device in [DeviceId(0)].into_iter().chain(gpus) {
        let x = engine.tensor(&[1.5, -0.25, 3.0, 7.75, 2.0], [5]);
        let [whole, rest, is_whole] = x.custom(&op, &[], &[]);
        assert_eq!(rest.on(device).to_vec::<f32>().unwrap(), [0.5, 0.75, 0.0, 0.75, 0.0]);
        let back = (whole.cast(DType::F32) + &rest).on(device);
        assert_eq!(back.to_vec::<f32>().unwrap(), x.to_vec::<f32>().unwrap());
        assert_eq!(is_whole.on(device).to_vec::<bool>().unwrap(), [false, false, true, false, true]);
    }
}

#[test]
fn a_panic_is_an_error_at_the_caller_and_harms_no_device() {
    let op = CustomOp::new("shaky", same).cpu(|inputs, _| panic!("no more than {} elements", inputs.count()));
    let engine = engine();
    for device in [DeviceId(0), DeviceId(1)] {
        let [y] = ramp(&engine, 4).custom(&op, &[], &[]);
        let error = y.on(device).to_vec::<f32>().unwrap_err().to_string();
        assert!(error.contains("the custom operation `shaky` panicked: no more than 1 elements"), "{error}");
    }
    assert!(engine.devices().iter().all(|device| device.state == DeviceState::Ready));
    assert_eq!((ramp(&engine, 4) + 1.0).to_vec::<f32>().unwrap(), [1.0, 2.0, 3.0, 4.0]);
}

#[test]
fn wrong_wgsl_is_told_early_and_the_work_goes_to_the_cpu() {
    let (engine, gpus) = gpus();
    let op = echo().wgsl(Wgsl::for_each_element("return load0(i) + nonsense;"));
    let early = breakeven::compile_wgsl(&op, &[Spec::new(DType::F32, [4])], &[2.0]).unwrap_err().to_string();
    assert!(early.starts_with("echo: its WGSL does not compile: "), "{early}");
    assert!(early.contains("nonsense"), "{early}");
    let y = echoed(&ramp(&engine, 3), &op);
    let forced = y.on(gpus[0]).to_vec::<f32>().unwrap_err().to_string();
    assert!(forced.contains("custom echo") && forced.contains("nonsense"), "{forced}");
    assert_eq!(y.to_vec::<f32>().unwrap(), [0.0, 1.0, 4.0]);
    breakeven::compile_wgsl(&echo(), &[Spec::new(DType::F32, [4])], &[2.0]).unwrap();
}

#[test]
fn what_has_no_closure_runs_where_it_has_code_and_says_why_not_elsewhere() {
    let (engine, gpus) = gpus();
    let op = CustomOp::new("shader_only", same).wgsl(Wgsl::for_each_element("return load0(i) * 2.0;"));
    let [y] = ramp(&engine, 3).custom(&op, &[], &[]);
    assert_eq!(y.on(gpus[0]).to_vec::<f32>().unwrap(), [0.0, 2.0, 4.0]);
    let [y] = ramp(&engine, 3).custom(&op, &[], &[]);
    let nowhere = y.on(DeviceId(0)).to_vec::<f32>().unwrap_err().to_string();
    assert!(nowhere.contains("no CPU closure was given"), "{nowhere}");
}

#[test]
fn a_wrong_call_names_operation_shapes_and_line() {
    let engine = engine();
    let x = ramp(&engine, 4);
    let [y] = x.custom(&echo(), &[], &[]);
    let error = y.check().unwrap_err().to_string();
    assert!(
        error.contains("echo(f32[4]): takes 1 parameters, not 0 (called at ") && error.contains("custom.rs"),
        "{error}"
    );
    let [_, second]: [Tensor; 2] = x.custom(&echo(), &[], &[2.0]);
    assert!(second.check().unwrap_err().to_string().contains("gives 1 outputs, and 2 were asked for"));
}

#[test]
fn it_is_run_once_for_all_its_outputs() {
    let runs = Arc::new(AtomicUsize::new(0));
    let counted = runs.clone();
    let op = CustomOp::new("counted", |inputs| Ok(vec![inputs[0].clone(), inputs[0].clone()])).cpu(move |_, _| {
        counted.fetch_add(1, Ordering::Relaxed);
    });
    let engine = engine();
    let [a, b] = ramp(&engine, 8).custom(&op, &[], &[]);
    assert_eq!((a + b).to_vec::<f32>().unwrap(), [0.0; 8]);
    assert_eq!(runs.load(Ordering::Relaxed), 1);
}
