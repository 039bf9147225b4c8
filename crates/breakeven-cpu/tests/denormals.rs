//! Denormal numbers are kept, and what that costs is the processor's doing alone.

use std::time::Instant;

use breakeven_cpu::{CpuDevice, CpuOptions};
use breakeven_device::{Device, Lent, Segment, SegmentStep};
use breakeven_ir::{DType, Expr, Kernel, Launch, Map, Row};

const N: usize = 1_000_000;

fn bytes(x: f32) -> Vec<u8> {
    x.to_le_bytes().repeat(N)
}

/// Many processors multiply denormals through microcode, about 150 cycles for a vector of them; a loop of ours that left its
/// vectors for them, or fell back to something else, would take far longer than this bound.
#[test]
fn f08_denormals_cost_what_the_processor_takes_for_them() {
    let device = CpuDevice::new(CpuOptions { threads: Some(1), ..CpuOptions::default() }).expect("the CPU opens");
    let kernel = Kernel::Map(Map::dense(Expr::row(Row::named("mul").expect("a row"), DType::F32), Vec::new(), [N]));
    let launch = Launch { kernel, inputs: vec![0, 1], outputs: vec![2], workspace: None };
    let work =
        device.prepare(&Segment { steps: vec![SegmentStep::Launch(Box::new(launch))] }).expect("it is supported");
    let one = bytes(1.0);
    let best = |x: f32| {
        let (x, mut out) = (bytes(x), bytes(0.0));
        let mut turn = || {
            let started = Instant::now();
            let mut slots = [Lent::Read(&x), Lent::Read(&one), Lent::Write(&mut out)];
            device.run_lent(&work, &mut slots).expect("it works in the host's memory").expect("it runs");
            started.elapsed().as_secs_f64()
        };
        let best = (0..10).map(|_| turn()).fold(f64::INFINITY, f64::min);
        assert_eq!(out, x, "a product with 1");
        best
    };
    let (normal, denormal) = (best(1.0), best(1e-40));
    println!("{N} products: {:.0} us, of denormals {:.0} us", normal * 1e6, denormal * 1e6);
    assert!(denormal < 100.0 * normal, "{denormal} s for denormals, {normal} s for others");
}
