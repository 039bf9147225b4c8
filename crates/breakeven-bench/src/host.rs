//! Operations from the host's memory to the host's memory: what the CPU takes, what each GPU takes, and where the engine
//! puts them by itself. Every operand is uploaded anew.

use std::time::{Duration, Instant};

use breakeven::{DType, Deadline, DeviceId, Engine, HostBytes, Result, Spec, Tensor};
use breakeven_bench::{Samples, stretches};

/// Calls that count of each way.
const ROUNDS: usize = 40;
/// Work before each stretch of them: a GPU that stood still has lowered its clock.
const WARM_UP: Duration = Duration::from_millis(300);

type Operation = (&'static str, fn(&[Tensor]) -> Tensor);

/// The operations of the reports that this project began with.
const OPERATIONS: [Operation; 13] = [
    ("add", |x| &x[0] + &x[1]),
    ("mul", |x| &x[0] * &x[1]),
    ("dot", |x| x[0].dot(&x[1])),
    ("relu", |x| x[0].relu()),
    ("leaky_relu", |x| x[0].leaky_relu(0.01)),
    ("elu", |x| x[0].elu(1.0)),
    ("clip", |x| x[0].clip(-0.2, 0.3)),
    ("sigmoid", |x| x[0].sigmoid()),
    ("tanh", |x| x[0].tanh()),
    ("silu", |x| x[0].silu()),
    ("gelu", |x| x[0].gelu()),
    ("softmax", |x| x[0].softmax(-1)),
    ("log_softmax", |x| x[0].log_softmax(-1)),
];

/// Prints a line for each operation and size, with a column for each of `devices`; of `sizes` alone, where there are any.
pub fn all(engine: &Engine, devices: &[(DeviceId, String)], sizes: &[usize]) -> Result<()> {
    let names: Vec<String> = devices.iter().map(|(_, name)| format!("{name:>10}")).collect();
    println!("host to host, us, lower quartile of {ROUNDS}:{:>8}{} {:>10}", "", names.concat(), "automatic");
    let wanted = |n: &usize| sizes.is_empty() || sizes.contains(n);
    for n in [1_000, 10_000, 100_000, 1_000_000].into_iter().filter(wanted) {
        for (name, operation) in OPERATIONS {
            row(engine, devices, &format!("{name} {n}"), &[operand(n, &[n]), operand(n, &[n])], operation)?;
        }
    }
    for n in [20_000, 200_000, 2_000_000].into_iter().filter(wanted) {
        row(engine, devices, &format!("add {n}"), &[operand(n, &[n]), operand(n, &[n])], |x| &x[0] + &x[1])?;
    }
    for n in [100, 500, 1000].into_iter().filter(wanted) {
        let square = [operand(n * n, &[n, n]), operand(n * n, &[n, n])];
        row(engine, devices, &format!("matmul {n}"), &square, |x| x[0].matmul(&x[1]))?;
    }
    Ok(())
}

/// Prints where the time of a call goes that uploads megabytes: what the host does to bring them, to submit, and waits, then the
/// reading of the result by itself.
pub fn parts(engine: &Engine, device: DeviceId) -> Result<()> {
    let n = 1_000_000;
    let square = [operand(n, &[1000, 1000]), operand(n, &[1000, 1000])];
    for (name, operation) in
        [("relu 1000000", (|x| x[0].relu()) as fn(&[Tensor]) -> Tensor), ("matmul 1000", |x| x[0].matmul(&x[1]))]
    {
        let (mut out, mut rows) = (vec![0f32; n], Vec::new());
        let begun = Instant::now();
        while begun.elapsed() < 8 * WARM_UP {
            let given: Vec<Tensor> = square.iter().map(|(b, s)| engine.from_bytes(b.clone(), s.clone())).collect();
            let result = operation(&given).on(device);
            let report = engine.run(&[&result])?;
            let begun = Instant::now();
            result.host_bytes()?;
            let fetched = begun.elapsed();
            result.read_into(&mut out, Deadline::after(Duration::from_mins(1)))?;
            let copied = begun.elapsed().saturating_sub(fetched);
            let timing = report.submissions[0].1;
            rows.push([timing.upload, timing.dispatch.unwrap_or_default(), timing.wait, fetched, copied]);
        }
        let quartile =
            |part: usize| Samples::new(rows.iter().map(|r| r[part]).collect()).lower_quartile().as_secs_f64() * 1e6;
        let [upload, dispatch, wait, fetch, copy] = [0, 1, 2, 3, 4].map(quartile);
        println!(
            "  {name} by parts, us: bring {upload:.0}, submit {dispatch:.0}, wait {wait:.0}, fetch {fetch:.0}, copy {copy:.0}"
        );
    }
    Ok(())
}

/// Numbers from -0.5 to 0.5 without a pattern.
fn operand(n: usize, shape: &[usize]) -> (HostBytes, Spec) {
    let value = |i: usize| ((i as u32).wrapping_mul(2_654_435_761) >> 8) as f32 / (1 << 24) as f32 - 0.5;
    (HostBytes::from_vec((0..n).map(value).collect::<Vec<_>>()), Spec::new(DType::F32, shape))
}

fn row(
    engine: &Engine,
    devices: &[(DeviceId, String)],
    name: &str,
    operands: &[(HostBytes, Spec)],
    operation: fn(&[Tensor]) -> Tensor,
) -> Result<()> {
    let write = || -> Tensor {
        let given: Vec<Tensor> = operands.iter().map(|(b, s)| engine.from_bytes(b.clone(), s.clone())).collect();
        operation(&given)
    };
    let deadline = || Deadline::after(Duration::from_mins(1));
    let want = write().on(DeviceId::HOST).to_vec::<f32>()?;
    let mut places: Vec<Option<DeviceId>> = devices.iter().map(|(id, _)| Some(*id)).collect();
    places.push(None);
    let on = |place: Option<DeviceId>| place.map_or_else(write, |id| write().on(id));
    for place in &places {
        check(name, &on(*place).to_vec::<f32>()?, &want);
    }
    let mut outs = vec![vec![0f32; want.len()]; places.len()];
    let mut calls: Vec<_> = places
        .iter()
        .zip(&mut outs)
        .map(|(place, out)| move || on(*place).read_into(out, deadline()).expect("it was checked"))
        .collect();
    let mut things: Vec<&mut dyn FnMut()> = calls.iter_mut().map(|call| call as &mut dyn FnMut()).collect();
    let times = stretches(ROUNDS, WARM_UP, &mut things);
    let cell = |samples: &Samples| format!("{:>10.1}", samples.lower_quartile().as_secs_f64() * 1e6);
    let cells: Vec<String> = times.iter().map(cell).collect();
    println!("  {name:<44}{}", cells.join(" "));
    Ok(())
}

/// Stops where a device is wrong: its time would mean nothing.
fn check(name: &str, got: &[f32], want: &[f32]) {
    let size = want.iter().fold(1.0f32, |most, x| most.max(x.abs()));
    let wrong = got.iter().zip(want).find(|(got, want)| (**got - **want).abs() > 1e-5 * size);
    assert!(wrong.is_none() && got.len() == want.len(), "{name} is wrong: {wrong:?}");
}
