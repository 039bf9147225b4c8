//! The engine on every GPU of the machine, software ones included. Without any, these tests fail and say so.

use std::time::Duration;

use breakeven::{Deadline, DeviceId, DeviceState, Engine, Tensor};

/// An engine with all GPUs open, and their numbers.
fn engine() -> (Engine, Vec<DeviceId>) {
    let engine = Engine::builder().software(true).no_cache().build().unwrap();
    engine.ready(Deadline::after(Duration::from_mins(5))).unwrap();
    let devices = engine.devices();
    let gpus: Vec<DeviceId> = devices.iter().filter(|d| d.id.0 > 0).map(|d| d.id).collect();
    let unusable: Vec<_> = devices.iter().filter(|d| d.state != DeviceState::Ready).collect();
    assert!(unusable.is_empty(), "these devices cannot be used: {unusable:#?}");
    assert!(!gpus.is_empty(), "there is no GPU and no software adapter: {:?}", engine.notes());
    (engine, gpus)
}

fn ramp(engine: &Engine, shape: &[usize]) -> Tensor {
    let n: usize = shape.iter().product();
    engine.from_vec((0..n).map(|i| (i % 17) as f32 * 0.125 - 1.0).collect::<Vec<_>>(), shape)
}

fn assert_close(got: &[f32], want: &[f32], what: &str) {
    assert_eq!(got.len(), want.len());
    for (i, (g, w)) in got.iter().zip(want).enumerate() {
        assert!((g - w).abs() <= 1e-5 * w.abs().max(1.0), "{what} [{i}]: got {g}, want {w}");
    }
}

#[test]
fn the_same_work_gives_the_same_values_on_every_device() {
    let (engine, gpus) = engine();
    let (x, w) = (ramp(&engine, &[33, 20]), ramp(&engine, &[7, 20]));
    let hidden = x.linear(&w, Some(&ramp(&engine, &[7]))).gelu();
    let results =
        [hidden.softmax(-1), hidden.layer_norm(None, None, 1e-5).t(), hidden.sum(0), hidden.flip(1).slice(0, 3..9)];
    for (i, result) in results.iter().enumerate() {
        let want = result.on(DeviceId(0)).to_vec::<f32>().unwrap();
        for &gpu in &gpus {
            assert_close(&result.on(gpu).to_vec::<f32>().unwrap(), &want, &format!("result {i} on {gpu:?}"));
        }
    }
}
