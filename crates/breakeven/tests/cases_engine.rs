//! Collected cases that only an engine can meet; those of single kernels run on every device in `breakeven-conformance`.

use std::time::Duration;

use breakeven::{DType, Deadline, DeviceId, DeviceState, Engine, Error};

const CPU: DeviceId = DeviceId(0);

/// An engine with the machine's adapters, held to the limits of WebGPU, and one of them.
fn engine_with_gpu() -> (Engine, DeviceId) {
    let engine = Engine::builder().software(true).webgpu_limits(true).no_cache().build().unwrap();
    engine.ready(Deadline::after(Duration::from_mins(5))).unwrap();
    let devices = engine.devices();
    let gpu = devices.iter().find(|d| d.id != CPU && d.state == DeviceState::Ready);
    let gpu = gpu.unwrap_or_else(|| panic!("there is no usable GPU adapter here: {devices:#?}")).id;
    (engine, gpu)
}

/// How often the device had to make new memory.
fn misses(engine: &Engine, device: DeviceId) -> u64 {
    engine.devices()[device.0].memory.expect("the device is open").pool.misses
}

/// Tensors larger than one binding (128 MiB by default) come out as zeros.
#[test]
fn l03_more_than_one_binding_holds() {
    let (engine, gpu) = engine_with_gpu();
    let n = (1 << 25) + 1;
    let ramp = |scale: f32| engine.from_vec((0..n).map(move |i| (i % 1000) as f32 * scale).collect::<Vec<_>>(), [n]);
    let sum = (ramp(1.0) + ramp(0.5)).on(gpu);
    let plan = engine.explain(&[&sum]).unwrap();
    // More than two where a busy machine was found to be slow.
    let split = plan.decisions[0].split.as_ref().expect("it is more than one launch");
    assert!(
        split.because.starts_with("an operand spans 134217732 bytes, more than a launch can see (134"),
        "{split:?}"
    );
    assert!(plan.to_string().contains(&format!(" in {} launches, since {}", split.launches, split.because)), "{plan}");
    let got = sum.to_vec::<f32>().unwrap();
    let wrong = (0..n).find(|&i| got[i] != (i % 1000) as f32 * 1.5);
    assert_eq!(wrong.map(|i| (i, got[i])), None);
}

/// Running out of memory is fatal.
#[test]
fn l09_more_than_there_is() {
    let (with_gpu, gpu) = engine_with_gpu();
    let huge = with_gpu.full(DType::F32, 1.0, [1 << 38]).exp().on(gpu);
    let error = with_gpu.run(&[&huge]).unwrap_err();
    let told = "takes 1099511627776 bytes and the largest buffer";
    assert!(matches!(&error, Error::Placement(why) if why.contains(told)), "{error:?}");
    assert_eq!(with_gpu.tensor(&[1.0], [1]).on(gpu).relu().to_vec::<f32>().unwrap(), [1.0]);
}

#[test]
fn an_engine_gives_back_what_its_devices_keep_for_later() {
    let (engine, gpu) = engine_with_gpu();
    for device in [CPU, gpu] {
        let kept = || engine.device(device).unwrap().memory().pool.pooled_bytes;
        let ones = (engine.from_vec(vec![0.0f32; 5000], [5000]) + 1.0).on(device).to_vec::<f32>().unwrap();
        assert!(ones == vec![1.0; 5000] && kept() > 0, "{} bytes are kept", kept());
        engine.trim(Duration::ZERO);
        assert_eq!(kept(), 0);
    }
}

/// A pool at a hidden ceiling makes a warm loop stall.
#[test]
fn p07_a_warm_loop_takes_no_new_memory() {
    let (engine, gpu) = engine_with_gpu();
    for device in [CPU, gpu] {
        let weight = engine.from_vec((0..64 * 64).map(|i| (i % 13) as f32 * 0.01).collect::<Vec<_>>(), [64, 64]);
        let bias = engine.from_vec(vec![0.5f32; 64], [64]);
        let net = |i: usize| {
            let x = engine.from_vec(vec![i as f32 * 0.01; 7 * 64], [7, 64]);
            x.linear(&weight, Some(&bias)).gelu().linear(&weight, None).softmax(-1).on(device).to_vec::<f32>().unwrap()
        };
        (0..50).for_each(|i| assert_eq!(net(i).len(), 7 * 64));
        let warm = misses(&engine, device);
        (0..250).for_each(|i| drop(net(i)));
        assert_eq!(misses(&engine, device), warm, "new memory after 50 turns");
    }
}
