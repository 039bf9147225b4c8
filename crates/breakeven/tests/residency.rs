//! What is on a device already is not brought there again.

use std::sync::Arc;
use std::time::Duration;

use breakeven::{Device, DeviceId, Engine};
use breakeven_device::sim::{SimClock, SimDevice, SimOptions, SimSpeed};

#[test]
fn weights_are_uploaded_once() {
    let speed = SimSpeed {
        per_submit: Duration::ZERO,
        per_launch: Duration::ZERO,
        per_wait: Duration::ZERO,
        flops_per_second: 1e12,
        bytes_per_second: 1e12,
        link_latency: Duration::ZERO,
        link_bytes_per_second: 1e10,
    };
    let sim: Arc<dyn Device> = Arc::new(SimDevice::new(SimOptions::new("sim", speed), &SimClock::new()));
    let engine = Engine::builder().gpus(false).no_cache().device(sim).build().unwrap();
    let weights = engine.from_vec(vec![0.5f32; 64 * 64], [64, 64]);
    let uploaded = |value: f32| {
        let x = engine.from_vec(vec![value; 64], [1, 64]);
        let y = x.matmul(&weights).relu().on(DeviceId(1));
        let report = engine.run(&[&y]).unwrap();
        assert_eq!(y.to_vec::<f32>().unwrap(), vec![32.0 * value; 64]);
        report.plan.counts.moved_bytes
    };
    assert_eq!(uploaded(1.0), 4 * (64 * 64 + 64), "both operands");
    assert_eq!(uploaded(2.0), 4 * 64, "only what is new");
}
