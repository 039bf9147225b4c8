//! Where the time of a call goes that begins and ends in the host's memory: part by part, and step by step of one call.

use std::time::{Duration, Instant};

use breakeven::{Deadline, DeviceId, Engine, Result, RunTrace, Tensor};
use breakeven_bench::Samples;

use crate::host::{WARM_UP, operand};

/// Prints both of two calls on megabytes: a map and a product.
pub fn all(engine: &Engine, device: DeviceId) -> Result<()> {
    let n = 1_000_000;
    let square = [operand(n, &[1000, 1000]), operand(n, &[1000, 1000])];
    let given = || square.each_ref().map(|(bytes, spec)| engine.from_bytes(bytes.clone(), spec.clone()));
    let relu = || given()[0].relu().on(device);
    let matmul = || {
        let [a, b] = given();
        a.matmul(&b).on(device)
    };
    let mut out = vec![0f32; n];
    for (name, write) in [("relu 1000000", &relu as &dyn Fn() -> Tensor), ("matmul 1000", &matmul)] {
        by_parts(engine, name, write, &mut out)?;
        in_one_call(engine, name, write, &mut out)?;
    }
    Ok(())
}

/// Prints what the host does to bring the operands, to submit, and waits, then the reading of the result by itself.
fn by_parts(engine: &Engine, name: &str, write: &dyn Fn() -> Tensor, out: &mut [f32]) -> Result<()> {
    let (mut rows, begun) = (Vec::new(), Instant::now());
    while begun.elapsed() < 8 * WARM_UP || rows.is_empty() {
        let result = write();
        let report = engine.run(&[&result])?;
        let begun = Instant::now();
        result.host_bytes()?;
        let fetched = begun.elapsed();
        result.read_into(out, Deadline::after(Duration::from_mins(1)))?;
        let copied = begun.elapsed().saturating_sub(fetched);
        let timing = report.submissions[0].1;
        rows.push([timing.upload, timing.dispatch.unwrap_or_default(), timing.wait, fetched, copied]);
    }
    let quartile = |part: usize| us(Samples::new(rows.iter().map(|row| row[part]).collect()).lower_quartile());
    let [upload, dispatch, wait, fetch, copy] = [0, 1, 2, 3, 4].map(quartile);
    println!(
        "  {name} by parts, us: bring {upload:.0}, submit {dispatch:.0}, wait {wait:.0}, fetch {fetch:.0}, copy {copy:.0}"
    );
    Ok(())
}

/// Prints what a call takes that reads its result at once, and of the traced run that is at the lower quartile when each step began,
/// counted from planning on, and how long it took. Writing the call down and the last copy are no steps, and kernels that are traced have a
/// pass of their own.
fn in_one_call(engine: &Engine, name: &str, write: &dyn Fn() -> Tensor, out: &mut [f32]) -> Result<()> {
    let (mut usual, mut traced) = (Vec::new(), Vec::new());
    let deadline = || Deadline::after(Duration::from_mins(1));
    let begun = Instant::now();
    while begun.elapsed() < 8 * WARM_UP || traced.is_empty() {
        let begun = Instant::now();
        write().read_into(out, deadline())?;
        usual.push(begun.elapsed());
        let begun = Instant::now();
        let result = write();
        let report = engine.read_traced(&[&result])?;
        result.read_into(out, deadline())?;
        traced.push((begun.elapsed(), report));
    }
    traced.sort_by_key(|(took, _)| *took);
    let (took, report) = &traced[traced.len() / 4];
    let events = report.trace().map_or(&[][..], RunTrace::events);
    let steps = events.iter().map(|e| format!("    {:>5.0} + {:<5.0}{}", us(e.start), us(e.duration), e.name));
    let usual = us(Samples::new(usual).lower_quartile());
    println!("  {name} in one call: {usual:.0} us; traced {:.0} us:", us(*took));
    steps.for_each(|step| println!("{step}"));
    Ok(())
}

fn us(time: Duration) -> f64 {
    time.as_secs_f64() * 1e6
}
