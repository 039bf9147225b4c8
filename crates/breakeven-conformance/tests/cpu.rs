//! The suite on the CPU: plain scalar code, each instruction set this machine has, one thread and several.

use breakeven_conformance::Tier;
use breakeven_cpu::{CpuDevice, CpuOptions, Isa, Tuning};

/// Memory is poisoned with NaN. Where this machine lacks `isa`, the next less able one it has.
fn open(isa: Isa, threads: usize) -> Box<CpuDevice> {
    let isa = Isa::ALL.into_iter().rev().find(|i| *i <= isa && i.is_available()).unwrap_or(Isa::Scalar);
    // Parts so small that every job of the suite is split among the threads.
    let tuning = Tuning { part_ns: 50.0, ..Tuning::default() };
    let options = CpuOptions { threads: Some(threads), isa: Some(isa), poison: true, tuning };
    Box::new(CpuDevice::new(options).expect("this machine has these instructions"))
}

mod scalar {
    use super::*;
    breakeven_conformance::suite!(open(Isa::Scalar, 1), Tier::Full);
}

mod baseline {
    use super::*;
    breakeven_conformance::suite!(open(Isa::Baseline, 1), Tier::Quick);
}

mod avx2 {
    use super::*;
    breakeven_conformance::suite!(open(Isa::Avx2, 1), Tier::Quick);
}

mod best {
    use super::*;
    breakeven_conformance::suite!(open(Isa::best(), 3), Tier::Full);
}
