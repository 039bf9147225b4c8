//! The shortest program: one operation on the CPU, and how long after the start of `main` its result was there.

use std::time::Instant;

use breakeven::Engine;

fn main() -> breakeven::Result<()> {
    let started = Instant::now();
    let engine = Engine::detect()?;
    let sum = (engine.tensor(&[1.0, 2.0, 3.0], [3]) + 1.0).to_vec::<f32>()?;
    let elapsed = started.elapsed();
    assert_eq!(sum, [2.0, 3.0, 4.0]);
    println!("first result after {:.3} ms", elapsed.as_secs_f64() * 1e3);
    Ok(())
}
