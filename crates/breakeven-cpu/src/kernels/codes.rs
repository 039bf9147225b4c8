//! Trying out what generating code takes, and what it saves.

use std::time::Instant;

use breakeven_ir::{DType, Expr, ExprBuilder, Row, Unsupported};

use super::Machine;
use crate::domain::BLOCK;
use crate::program::{Program, Scratch, Way};

/// Runs of each way, of which the fastest counts.
const RUNS: u32 = 10;

/// A chain of light rows over one block that is in the cache, as most chains are.
#[derive(Debug)]
pub(crate) struct CodeTrial {
    program: Program,
    args: [Scratch; 2],
    out: Scratch,
}

impl CodeTrial {
    /// A chain without code; `None` where none is generated.
    pub fn new(machine: &Machine) -> Result<Option<CodeTrial>, Unsupported> {
        if machine.natives.target.is_none() {
            return Ok(None);
        }
        let program = Program::new(machine, &chain(), &[])?;
        let [mut x, mut y, out] = [(); 3].map(|()| Scratch::new(1));
        for place in [&mut x, &mut y] {
            // SAFETY: the scratch holds a block of any type.
            unsafe { place.start().write_bytes(0, BLOCK * size_of::<f32>()) };
        }
        Ok(Some(CodeTrial { program, args: [x, y], out }))
    }

    /// Nanoseconds that row by row is estimated to take longer than code.
    pub fn estimate_ns(&self) -> f64 {
        self.program.loss_ns(BLOCK)
    }

    /// Nanoseconds in which its code is generated, the first time.
    pub fn generate(&self, machine: &Machine) -> f64 {
        let start = Instant::now();
        self.program.generate(machine, false);
        start.elapsed().as_nanos() as f64
    }

    /// Nanoseconds that it takes by code less than row by row; `None` where the system refuses memory for code.
    pub fn saved_ns(&mut self) -> Option<f64> {
        let CodeTrial { program, args, out } = self;
        let args = args.each_ref().map(|x| x.slot(0));
        let code = program.way(false);
        // SAFETY: arguments and output hold a block, and are nobody else's.
        let mut time = |way: Way<'_>| unsafe { way.fastest_ns(&args, out, RUNS) };
        matches!(code, Way::Code(..)).then(|| time(Way::Rows(program)) - time(code))
    }
}

/// `max(((x - y)^2 + x) y, 0)`.
fn chain() -> Expr {
    let row = |name| Row::named(name).expect("a row of the table");
    let mut b = ExprBuilder::default();
    let (x, y) = (b.arg(DType::F32), b.arg(DType::F32));
    let difference = b.row(row("sub"), DType::F32, &[x, y]);
    let square = b.row(row("square"), DType::F32, &[difference]);
    let sum = b.row(row("add"), DType::F32, &[square, x]);
    let product = b.row(row("mul"), DType::F32, &[sum, y]);
    let result = b.row(row("relu"), DType::F32, &[product]);
    b.finish(result)
}
