//! Products of polynomials over a prime field, by number-theoretic transforms: what no tensor library has, out of a row and an
//! operation of one's own, on every device of the machine.
//!
//! ```text
//! cargo run --release -p breakeven --example ntt
//! ```

mod field;
mod stage;
mod transform;

use std::time::{Duration, Instant};

use breakeven::{Deadline, DeviceId, DeviceState, Engine, Example, Tensor};
use field::{PRIME, product};
use stage::stage;
use transform::Transform;

/// Points of the transforms that are timed, as powers of two.
const SIZES: [u32; 4] = [10, 14, 17, 20];

type Failure = Box<dyn std::error::Error>;

fn main() -> Result<(), Failure> {
    let engine = Engine::builder().software(true).build()?;
    engine.ready(Deadline::after(Duration::from_mins(2)))?;
    let devices: Vec<(DeviceId, String)> = engine
        .devices()
        .into_iter()
        .filter(|device| device.state == DeviceState::Ready)
        .map(|device| (device.id, format!("{} ({})", device.name, device.info.name)))
        .collect();
    check(&engine, &devices)?;
    measure(&engine)?;
    for size in SIZES {
        race(&engine, &devices, 1 << size)?;
    }
    Ok(())
}

/// Both ways on every device against the schoolbook.
fn check(engine: &Engine, devices: &[(DeviceId, String)]) -> Result<(), Failure> {
    let points = 512;
    let (a, b) = (polynomial(points / 2, 1), polynomial(points / 2, 2));
    let want = schoolbook(&a, &b);
    for (device, name) in devices {
        for (way, op) in [("rows", None), ("custom operation", Some(stage()))] {
            let transform = Transform::new(engine, points, op);
            let product = transform.multiply(&padded(engine, &a, points), &padded(engine, &b, points));
            let got: Vec<u32> = product.on(*device).to_vec()?;
            if got[..want.len()] != want {
                return Err(format!("{name}: the product by {way} is not that of the schoolbook").into());
            }
        }
        println!("{name}: {} coefficients are those of the schoolbook, by rows and by a custom operation", want.len());
    }
    Ok(())
}

/// From here on the stage is placed by its own times.
fn measure(engine: &Engine) -> Result<(), Failure> {
    let sizes = [10, 14, 18, 20].map(|size| 1usize << size);
    let inputs = sizes.map(|points| [padded(engine, &[], points), padded(engine, &[], points / 2)]);
    let inputs: Vec<[&Tensor; 2]> = inputs.iter().map(|[points, roots]| [points, roots]).collect();
    let examples: Vec<Example<'_>> = inputs.iter().map(|inputs| Example { inputs, params: &[16.0] }).collect();
    Ok(engine.calibrate_custom(&stage(), &examples)?)
}

/// One product on each device and where the plan puts it.
fn race(engine: &Engine, devices: &[(DeviceId, String)], points: usize) -> Result<(), Failure> {
    println!("\n{points} points:");
    for (way, op) in [("rows", None), ("custom operation", Some(stage()))] {
        let transform = Transform::new(engine, points, op);
        let a = padded(engine, &polynomial(points / 2, 3), points);
        let b = padded(engine, &polynomial(points / 2, 4), points);
        let multiply = |place: Option<DeviceId>| {
            let product = transform.multiply(&a, &b);
            place.map_or(product.clone(), |device| product.on(device))
        };
        for (device, name) in devices {
            println!("  {way:16} {:>10.2?}  on {name}", time(|| multiply(Some(*device)))?);
        }
        println!("  {way:16} {:>10.2?}  wherever the plan says", time(|| multiply(None))?);
        let plan = engine.explain(&[&multiply(None)])?.to_string();
        plan.lines().take(2).for_each(|line| println!("      {line}"));
    }
    Ok(())
}

/// The shortest of a few, host to host; the first, which compiles, does not count.
fn time(work: impl Fn() -> Tensor) -> Result<Duration, Failure> {
    work().to_vec::<u32>()?;
    let mut best = Duration::MAX;
    for _ in 0..5 {
        let start = Instant::now();
        work().to_vec::<u32>()?;
        best = best.min(start.elapsed());
    }
    Ok(best)
}

/// Coefficients that look like chance.
fn polynomial(count: usize, seed: u64) -> Vec<u32> {
    let mut state = seed;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((state >> 32) % u64::from(PRIME)) as u32
    };
    (0..count).map(|_| next()).collect()
}

fn padded(engine: &Engine, coefficients: &[u32], points: usize) -> Tensor {
    let mut all = coefficients.to_vec();
    all.resize(points, 0);
    engine.from_vec(all, [points])
}

fn schoolbook(a: &[u32], b: &[u32]) -> Vec<u32> {
    let mut sums = vec![0u64; a.len() + b.len() - 1];
    for (i, &x) in a.iter().enumerate() {
        for (j, &y) in b.iter().enumerate() {
            sums[i + j] = (sums[i + j] + u64::from(product(x, y))) % u64::from(PRIME);
        }
    }
    sums.into_iter().map(|sum| sum as u32).collect()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use breakeven::{DType, Device, Spec};
    use breakeven_conformance::{OwnCustom, OwnRow, Tier};
    use breakeven_ir::Scalar;

    use super::*;

    fn devices() -> (Engine, Vec<Arc<dyn Device>>) {
        let engine = Engine::builder().software(true).no_cache().build().unwrap();
        engine.ready(Deadline::after(Duration::from_mins(5))).unwrap();
        let open: Vec<Arc<dyn Device>> = engine.devices().iter().filter_map(|d| engine.device(d.id)).collect();
        assert!(open.len() > 1, "there is no GPU and no software adapter: {:?}", engine.notes());
        (engine, open)
    }

    fn elements(count: usize, seed: u64) -> Vec<Scalar> {
        let edges = [0, 1, PRIME - 1];
        let all = edges.into_iter().chain(polynomial(count, seed));
        all.take(count).map(|x| Scalar::I(i128::from(x))).collect()
    }

    #[test]
    fn products_are_those_of_the_schoolbook_on_every_device() {
        let (engine, open) = devices();
        let devices: Vec<_> = (0..open.len()).map(|id| (DeviceId(id), format!("{id}"))).collect();
        check(&engine, &devices).unwrap();
    }

    #[test]
    fn rows_pass_the_conformance_suite() {
        let (_engine, open) = devices();
        for row in [field::ADD, field::SUB, field::MUL] {
            for device in &open {
                let inputs = |_: DType, n: usize| vec![elements(n, 5), elements(n, 6)];
                let counts = OwnRow { row, params: &[], inputs: &inputs }.check(&**device, Tier::Quick);
                assert!(counts.launches >= 40 && counts.refused == 0, "{counts}");
            }
        }
    }

    #[test]
    fn a_row_multiplies_in_the_field() {
        let body = field::MUL.body(DType::U32);
        for (a, b) in polynomial(1000, 7).into_iter().zip(polynomial(1000, 8)) {
            let args = [a, field::shifted(b)].map(|x| Scalar::I(i128::from(x)));
            assert_eq!(body.eval(&args, &[]), Scalar::I(i128::from(product(a, b))));
        }
    }

    #[test]
    fn the_stage_passes_the_conformance_suite() {
        let (_engine, open) = devices();
        let op = stage();
        for device in &open {
            for (points, width) in [(2, 1.0), (64, 8.0), (4096, 2048.0), (4096, 1.0)] {
                let spec = |n: usize| Spec::new(DType::U32, [n]);
                let inputs = vec![(spec(points), elements(points, 9)), (spec(points / 2), elements(points / 2, 10))];
                let counts = OwnCustom { op: &op, params: &[width], inputs }.check(&**device);
                assert!(counts.launches >= 6 && counts.refused == 0, "{counts}");
            }
        }
    }
}
