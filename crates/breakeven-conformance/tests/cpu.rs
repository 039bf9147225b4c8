//! The suite on the CPU: plain scalar code, each instruction set this machine has, one thread and several.

mod devices;

use breakeven_conformance::Tier;
use breakeven_cpu::Isa;
use devices::cpu;

mod scalar {
    use super::*;
    breakeven_conformance::suite!(cpu(Isa::Scalar, 1), Tier::Quick);
}

mod baseline {
    use super::*;
    breakeven_conformance::suite!(cpu(Isa::Baseline, 1), Tier::Quick);
}

mod avx2 {
    use super::*;
    breakeven_conformance::suite!(cpu(Isa::Avx2, 1), Tier::Quick);
}

mod best {
    use super::*;
    breakeven_conformance::suite!(cpu(Isa::best(), 3), Tier::Full);
}
