//! Which device repeated work on resident operands ends on, and what either takes: the engine's choice beside both by hand, in turns.
//!
//! `cargo run --release -p breakeven --example choice`

use std::time::{Duration, Instant};

use breakeven::{Deadline, DeviceId, DeviceReport, DeviceState, Engine, Tensor};

/// Name, elements, and what is computed of two operands of so many.
type Case = (&'static str, usize, fn(&[Tensor]) -> Tensor);

const CASES: &[Case] = &[
    ("elu", 177_828, |x| x[0].elu(1.0)),
    ("silu", 562_342, |x| x[0].silu()),
    ("dot", 1_000_000, |x| x[0].dot(&x[1])),
    ("exp", 1_000_000, |x| x[0].exp()),
    ("tanh", 1_000_000, |x| x[0].tanh()),
    ("softmax", 1_000_000, |x| x[0].softmax(-1)),
];
/// Turns of each way.
const TURNS: usize = 5;

fn main() -> breakeven::Result<()> {
    let engine = Engine::detect()?;
    engine.ready(Deadline::after(Duration::from_mins(2)))?;
    let is_ready = |device: &DeviceReport| device.state == DeviceState::Ready;
    let devices: Vec<DeviceId> = engine.devices().into_iter().filter(is_ready).map(|device| device.id).collect();
    for (name, n, write) in CASES {
        let kept: Vec<Tensor> = (0..2)
            .map(|k| engine.from_vec((0..*n).map(|i| (i * 7 + k) as f32 % 17.0 / 17.0 - 0.5).collect(), [*n]))
            .collect();
        println!("{name} of {n}, resident");
        for _ in 0..TURNS {
            for device in &devices {
                turn(&engine, Some(*device), &|| write(&kept))?;
            }
            turn(&engine, None, &|| write(&kept))?;
        }
        println!("{}", engine.explain(&[&write(&kept)])?);
    }
    Ok(())
}

/// Calls for 40 ms; the lower quartile, and where they ran.
fn turn(engine: &Engine, device: Option<DeviceId>, write: &dyn Fn() -> Tensor) -> breakeven::Result<()> {
    let (begun, mut times, mut used) = (Instant::now(), Vec::new(), Vec::<(String, usize, f64)>::new());
    while begun.elapsed() < Duration::from_millis(40) {
        let y = device.map_or_else(write, |device| write().on(device));
        let called = Instant::now();
        let report = engine.run(&[&y])?;
        let took = called.elapsed().as_secs_f64() * 1e6;
        times.push(took);
        let on = report.devices_used().join("+");
        match used.last_mut().filter(|(last, ..)| *last == on) {
            Some((_, count, sum)) => (*count, *sum) = (*count + 1, *sum + took),
            None => used.push((on, 1, took)),
        }
    }
    times.sort_by(f64::total_cmp);
    let runs: Vec<String> = used
        .iter()
        .take(12)
        .map(|(on, count, sum)| format!("{count} on {on} ({:.0} us)", sum / *count as f64))
        .collect();
    println!(
        "  {}: {} calls, a quarter below {:.1} us, {}",
        device.map_or("by itself".to_owned(), |id| format!("device {}", id.0)),
        times.len(),
        times[times.len() / 4],
        runs.join(", ")
    );
    Ok(())
}
