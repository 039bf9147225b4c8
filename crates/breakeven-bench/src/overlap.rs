//! Two branches of one graph that two devices could compute at once: one product of large matrices, and many small steps that
//! depend on each other and cannot be one kernel. What the CPU's branch costs when it is hidden behind the GPU's.

use std::cell::RefCell;
use std::time::Duration;

use breakeven::{DType, DeviceId, Engine, HostBytes, Result, Spec, Tensor};
use breakeven_bench::{Samples, stretches};

/// Rows and columns of the product.
const SIDE: usize = 4096;
/// Steps of the small branch, each the softmax of a few columns.
const STEPS: usize = 500;
const ROUNDS: usize = 12;
const WARM_UP: Duration = Duration::from_millis(400);

/// Where the product runs and where the steps run.
struct Way {
    name: &'static str,
    product: Place,
    steps: Place,
}

/// Where a branch runs.
#[derive(Clone, Copy)]
enum Place {
    /// It does not.
    Not,
    /// Where the engine puts it.
    Free,
    /// There.
    On(DeviceId),
}

/// Prints the time of each way to place the branches.
pub fn all(engine: &Engine, gpu: DeviceId) -> Result<()> {
    let (host, gpu) = (Place::On(DeviceId::HOST), Place::On(gpu));
    let ways = [
        Way { name: "the product alone, GPU", product: gpu, steps: Place::Not },
        Way { name: "the steps alone, CPU", product: Place::Not, steps: host },
        Way { name: "the steps alone, GPU", product: Place::Not, steps: gpu },
        Way { name: "both, all on the GPU", product: gpu, steps: gpu },
        Way { name: "both, by hand on each", product: gpu, steps: host },
        Way { name: "both, automatic", product: Place::Free, steps: Place::Free },
    ];
    let [a, b, x] = [(SIDE, SIDE), (SIDE, SIDE), (512, 4)].map(|(rows, columns)| numbers(engine, rows, columns));
    let want = [&product(&a, &b).on(DeviceId::HOST), &steps(&x).on(DeviceId::HOST)].map(Tensor::to_vec::<f32>);
    let [product_wanted, steps_wanted] = want;
    let wanted = [product_wanted?, steps_wanted?];
    let carried_out: Vec<RefCell<Vec<Duration>>> = ways.iter().map(|_| RefCell::default()).collect();
    let run = |(way, carried_out): (&Way, &RefCell<Vec<Duration>>)| -> Result<()> {
        let branch = |place: Place, tensor: &dyn Fn() -> Tensor| match place {
            Place::Not => None,
            Place::Free => Some(tensor()),
            Place::On(device) => Some(tensor().on(device)),
        };
        let branches = [branch(way.product, &|| product(&a, &b)), branch(way.steps, &|| steps(&x))];
        let report = engine.run(&branches.iter().flatten().collect::<Vec<_>>())?;
        carried_out.borrow_mut().push(report.elapsed);
        for (tensor, want) in branches.iter().zip(&wanted).filter_map(|(t, w)| Some((t.as_ref()?, w))) {
            check(way.name, &tensor.to_vec::<f32>()?, want);
        }
        Ok(())
    };
    let all = || ways.iter().zip(&carried_out);
    all().try_for_each(&run)?;
    let mut calls: Vec<_> = all().map(|way| move || run(way).expect("it was checked")).collect();
    let mut things: Vec<&mut dyn FnMut()> = calls.iter_mut().map(|call| call as &mut dyn FnMut()).collect();
    let times = stretches(ROUNDS, WARM_UP, &mut things);
    drop(calls);
    let ms = |samples: &Samples| samples.lower_quartile().as_secs_f64() * 1e3;
    println!(
        "  a product of {SIDE}^3 and {STEPS} small steps that depend on each other, ms, and of it carrying out the plan:"
    );
    for ((way, carried_out), samples) in all().zip(&times) {
        println!("    {:<24} {:>8.2} {:>8.2}", way.name, ms(samples), ms(&Samples::new(carried_out.take())));
    }
    Ok(())
}

/// The sum of each row of the product, so that reading it costs nothing.
fn product(a: &Tensor, b: &Tensor) -> Tensor {
    a.matmul(b).sum(-1)
}

fn steps(x: &Tensor) -> Tensor {
    (0..STEPS).fold(x.clone(), |x, _| (x * 3.0).softmax(0))
}

fn numbers(engine: &Engine, rows: usize, columns: usize) -> Tensor {
    let value = |i: usize| ((i as u32).wrapping_mul(2_654_435_761) >> 8) as f32 / (1 << 24) as f32 - 0.5;
    let bytes = HostBytes::from_vec((0..rows * columns).map(value).collect::<Vec<_>>());
    engine.from_bytes(bytes, Spec::new(DType::F32, [rows, columns]))
}

/// Stops where a way is wrong: its time would mean nothing.
fn check(name: &str, got: &[f32], want: &[f32]) {
    let size = want.iter().fold(1.0f32, |most, x| most.max(x.abs()));
    let wrong = got.iter().zip(want).find(|(got, want)| (**got - **want).abs() > 1e-4 * size);
    assert!(wrong.is_none() && got.len() == want.len(), "{name} is wrong: {wrong:?}");
}
