//! What the engine's own work on a graph of many small operations costs, on the CPU:
//! `cargo run --release -p breakeven --example many -- [part of a name] [calls]`.

use std::time::Instant;

use breakeven::{Engine, Tensor};

/// Blocks of calls; the lower quartile is printed.
const BLOCKS: usize = 40;

fn main() -> breakeven::Result<()> {
    let engine = Engine::builder().gpus(false).no_cache().threads(1).build()?;
    let one = engine.tensor(&[1.0f32; 256], [256]);
    let parts: Vec<Tensor> = (0..20u8).map(|i| engine.tensor(&[f32::from(i); 256], [256])).collect();
    let columns = engine.tensor(&[0.5f32; 64], [16, 4]);
    let add = || parts.iter().map(|part| part + &one).collect::<Vec<_>>();
    let steps = |count: usize| (0..count).fold(columns.clone(), |x, _| (x * 3.0).softmax(0));
    time("20 additions of 256, run", 20, || {
        let sums = add();
        engine.run(&sums.iter().collect::<Vec<_>>()).expect("it runs");
        assert!(sums[19].to_vec::<f32>().expect("it ran")[255] == 20.0, "a sum is wrong");
    });
    time("20 additions of 256 in one, read", 20, || {
        let sums = add();
        let all = breakeven::concat(&sums.iter().collect::<Vec<_>>(), 0).to_vec::<f32>().expect("it runs");
        assert!(all[256 * 20 - 1] == 20.0, "a sum is wrong");
    });
    time("500 steps of 16 x 4, read", 500, || {
        let last = steps(500).to_vec::<f32>().expect("it runs");
        assert!(last.iter().all(|x| *x == 0.0625), "a step is wrong");
    });
    Ok(())
}

/// Prints the microseconds of one call of so many operations, if the name is asked for.
fn time(name: &str, operations: usize, mut call: impl FnMut()) {
    let mut args = std::env::args().skip(1);
    if args.next().is_some_and(|part| !name.contains(&part)) {
        return;
    }
    let calls = args.next().and_then(|calls| calls.parse().ok()).unwrap_or(4000 / operations);
    let mut block = || {
        let start = Instant::now();
        (0..calls).for_each(|_| call());
        start.elapsed().as_secs_f64() * 1e6 / calls as f64
    };
    let mut blocks: Vec<f64> = (0..BLOCKS).map(|_| block()).collect();
    blocks.sort_by(f64::total_cmp);
    let quartile = blocks[BLOCKS / 4];
    println!("{name:<36} {quartile:>9.2} us, {:>7.0} ns an operation", quartile * 1e3 / operations as f64);
}
