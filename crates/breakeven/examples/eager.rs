//! What one small operation costs end to end: `cargo run --release -p breakeven --example eager -- [part of a name]`.

use std::hint::black_box;
use std::time::Instant;

use breakeven::{Draft, Engine};

/// Elements of each operand.
const ELEMENTS: usize = 1000;
/// Calls in one timed block.
const CALLS: u32 = 1000;
/// Blocks; the lower quartile is printed.
const BLOCKS: usize = 200;

fn main() -> breakeven::Result<()> {
    let engine = Engine::builder().gpus(false).no_cache().threads(1).build()?;
    let data: Vec<f32> = (0..ELEMENTS).map(|i| i as f32 / ELEMENTS as f32).collect();
    let (a, b) = (engine.tensor(&data, [ELEMENTS]), engine.tensor(&data, [ELEMENTS]));
    let mut out = vec![0f32; ELEMENTS];
    let deadline = engine.deadline();
    time("a + b, only written down", || drop(black_box(&a + &b)));
    time("(a + b).read_into(..)", || (&a + &b).read_into(&mut out, deadline).expect("it runs"));
    check(&out);
    let mut rate = 0.0;
    time("(a * rate).read_into(..), another rate", || {
        rate += 1e-3;
        (&a * rate).read_into(&mut out, deadline).expect("it runs");
    });
    assert!(out.iter().zip(&data).all(|(product, a)| *product == a * rate as f32), "a product is wrong");
    time("(a + b).to_vec()", || out = (&a + &b).to_vec().expect("it runs"));
    check(&out);
    time("engine.run(&[&(a + b)])", || drop(engine.run(&[&(&a + &b)]).expect("it runs")));
    time("sum of 1,000, read", || _ = black_box(a.sum(..).item::<f32>().expect("it runs")));
    time("dot of 1,000, only written", || drop(black_box(a.dot(&b))));
    time("dot of 1,000, read", || _ = black_box(a.dot(&b).item::<f32>().expect("it runs")));
    time("dot of 1,000, run", || drop(engine.run(&[&a.dot(&b)]).expect("it runs")));
    let chain = || (&a + &b).relu().exp();
    time("three operations, run", || drop(engine.run(&[&chain()]).expect("it runs")));
    let draft = Draft::new(&[&a]).expect("its value is there");
    let program = draft.finish(&[&(&draft.stand_ins()[0] + &b)])?;
    out.fill(0.0);
    let mut run = || program.run_into(&[&a], &mut [&mut out], deadline).expect("it runs");
    drop(program.call(&[&a])?[0].to_vec::<f32>()?);
    time("Program::run_into", &mut run);
    check(&out);
    Ok(())
}

fn check(out: &[f32]) {
    let wrong = out.iter().enumerate().find(|(i, sum)| **sum != 2.0 * (*i as f32 / ELEMENTS as f32));
    assert_eq!(wrong, None, "a sum is wrong");
}

/// Prints the nanoseconds of one call, if the name is asked for; it is called once in any case.
fn time(name: &str, mut call: impl FnMut()) {
    call();
    if std::env::args().nth(1).is_some_and(|part| !name.contains(&part)) {
        return;
    }
    let mut block = || {
        let start = Instant::now();
        (0..CALLS).for_each(|_| call());
        start.elapsed().as_nanos() as f64 / f64::from(CALLS)
    };
    let mut blocks: Vec<f64> = (0..BLOCKS).map(|_| block()).collect();
    blocks.sort_by(f64::total_cmp);
    println!("{name:28} {:7.0} ns", blocks[BLOCKS / 4]);
}
