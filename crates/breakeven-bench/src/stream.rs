//! Batches that go to a device and come back: one by one, and as a stream at several depths.

use std::time::{Duration, Instant};

use breakeven::{DType, Deadline, DeviceId, Engine, HostBytes, Result, Spec, Tensor};

/// Elements of a batch: 64 MiB.
const ELEMENTS: usize = 16 << 20;
/// Batches of a stretch that is timed.
const BATCHES: usize = 12;

/// Prints the time of a batch for each way; `device` must be open.
pub fn all(engine: &Engine, device: DeviceId) -> Result<()> {
    let value = |i: usize| ((i as u32).wrapping_mul(2_654_435_761) >> 8) as f32 / (1 << 24) as f32 - 0.5;
    // Two sets of bytes in turn, so that none is on the device already.
    let given: Vec<HostBytes> =
        (0..2).map(|b| HostBytes::from_vec((0..ELEMENTS).map(|i| value(i + b)).collect::<Vec<_>>())).collect();
    let work = |batch: usize| -> Tensor {
        let x = engine.from_bytes(given[batch % 2].clone(), Spec::new(DType::F32, [ELEMENTS]));
        (x * 2.0 + 1.0).relu().on(device)
    };
    let mut out = vec![0f32; ELEMENTS];
    let deadline = || Deadline::after(Duration::from_mins(1));
    let is_right = |out: &[f32], batch: usize| {
        (0..ELEMENTS).step_by(65_537).all(|i| out[i] == (value(i + batch % 2) * 2.0 + 1.0).max(0.0))
    };
    let mut best = vec![f64::MAX; 6];
    for _ in 0..3 {
        for (depth, best) in best.iter_mut().enumerate() {
            let begun = Instant::now();
            if depth == 5 {
                for (batch, result) in engine.stream(0..BATCHES, |batch| Ok(work(batch))).enumerate() {
                    let lent = result?.host_bytes()?;
                    assert!(is_right(lent.elements(), batch), "a batch is wrong, so its time means nothing");
                }
            } else if depth == 0 {
                for batch in 0..BATCHES {
                    work(batch).read_into(&mut out, deadline())?;
                    assert!(is_right(&out, batch), "a batch is wrong, so its time means nothing");
                }
            } else {
                for (batch, result) in engine.stream(0..BATCHES, |batch| Ok(work(batch))).depth(depth).enumerate() {
                    result?.read_into(&mut out, deadline())?;
                    assert!(is_right(&out, batch), "a batch is wrong, so its time means nothing");
                }
            }
            *best = best.min(begun.elapsed().as_secs_f64() / BATCHES as f64);
        }
    }
    let ways = ["one by one", "stream, depth 1", "depth 2", "depth 3", "depth 4", "2, in place"];
    println!("  batches of 64 MiB from and to the host's memory, ms each, best of 3 stretches of {BATCHES}:");
    for (way, time) in ways.iter().zip(&best) {
        println!("    {way:<16} {:>7.3}  {:.2}x", time * 1e3, best[0] / time);
    }
    Ok(())
}
