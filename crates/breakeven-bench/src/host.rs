//! Operations from the host's memory to the host's memory: what the CPU takes, what each GPU takes, and where the engine
//! puts them by itself. Every operand is uploaded anew.

use std::time::Duration;

use breakeven::{DType, Deadline, DeviceId, Engine, HostBytes, Result, Spec, Tensor};
use breakeven_bench::{Samples, stretches};

/// Calls that count of each way, at least.
const ROUNDS: usize = 40;
/// Work before each stretch of them: a GPU that stood still has lowered its clock.
pub const WARM_UP: Duration = Duration::from_millis(300);

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

/// Elements of the operations above, and of further additions; rows of square products.
const SIZES: [usize; 4] = [1_000, 10_000, 100_000, 1_000_000];
const ADDITIONS: [usize; 3] = [20_000, 200_000, 2_000_000];
const PRODUCTS: [usize; 3] = [100, 500, 1000];

/// What can be asked for.
pub fn sizes() -> impl Iterator<Item = usize> {
    SIZES.into_iter().chain(ADDITIONS).chain(PRODUCTS)
}

/// Prints a line for each operation and size, with a column for each of `devices`; of `sizes` alone, where there are any.
pub fn all(engine: &Engine, devices: &[(DeviceId, String)], sizes: &[usize]) -> Result<()> {
    let names: Vec<String> = devices.iter().map(|(_, name)| format!("{name:>10}")).collect();
    println!("host to host, us, lower quartile of {ROUNDS} or more:{} {:>10}", names.concat(), "automatic");
    let wanted = |n: &usize| sizes.is_empty() || sizes.contains(n);
    for n in SIZES.into_iter().filter(wanted) {
        for (name, operation) in OPERATIONS {
            row(engine, devices, &format!("{name} {n}"), &[operand(n, &[n]), operand(n, &[n])], operation)?;
        }
    }
    for n in ADDITIONS.into_iter().filter(wanted) {
        row(engine, devices, &format!("add {n}"), &[operand(n, &[n]), operand(n, &[n])], |x| &x[0] + &x[1])?;
    }
    for n in PRODUCTS.into_iter().filter(wanted) {
        let square = [operand(n * n, &[n, n]), operand(n * n, &[n, n])];
        row(engine, devices, &format!("matmul {n}"), &square, |x| x[0].matmul(&x[1]))?;
    }
    Ok(())
}

/// Numbers from -0.5 to 0.5 without a pattern.
pub fn operand(n: usize, shape: &[usize]) -> (HostBytes, Spec) {
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
