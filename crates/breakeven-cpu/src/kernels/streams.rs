//! Trying out whether an output is better written past the caches.

use breakeven_ir::{DType, Expr, ExprBuilder, Fold, Kernel, Layout, Map, Operand, ReduceRows, Unsupported};

use super::map::CpuMap;
use super::{Bound, Compiled, Machine, compile};
use crate::program::Scratch;

/// An output that is written in both ways and then read, as somebody will.
#[derive(Debug)]
pub(crate) struct StreamTrial {
    /// Through the caches, and past them.
    writes: [CpuMap; 2],
    reads: Compiled,
    /// Input, output and sum.
    memory: [Scratch; 3],
}

impl StreamTrial {
    /// Of an output of so many bytes.
    pub fn new(machine: &Machine, bytes: u64) -> Result<StreamTrial, Unsupported> {
        let elements = bytes as usize / 4;
        let mut b = ExprBuilder::default();
        let (x, p) = (b.arg(DType::F32), b.param(DType::F32));
        let larger = b.row(breakeven_ir::Row::named("maximum").expect("a row of the table"), DType::F32, &[x, p]);
        let map = Map::dense(b.finish(larger), vec![0.5], [elements]);
        let sum = ReduceRows {
            fold: Fold::Sum,
            outer: [1].into(),
            inner: [elements].into(),
            pre: Expr::identity(DType::F32),
            post: Expr::identity(DType::F32),
            params: Vec::new(),
            inputs: vec![Operand::new(DType::F32, Layout::dense([1, elements]))],
            outs: vec![Operand::new(DType::F32, Layout::dense([1]))],
        };
        let nanoseconds = machine.nanoseconds(&Kernel::Map(map.clone()));
        let write = |streams: bool| Ok(CpuMap::new(machine, &map, nanoseconds)?.with_streams(streams));
        let mut memory = [bytes as usize, bytes as usize, 64].map(Scratch::of_bytes);
        // SAFETY: the scratch holds as many elements.
        unsafe { memory[0].start().cast::<f32>().write_bytes(0, elements) };
        Ok(StreamTrial {
            writes: [write(false)?, write(true)?],
            reads: compile(machine, &Kernel::Reduce(sum))?,
            memory,
        })
    }

    /// Once.
    pub fn run(&mut self, machine: &Machine, streams: bool) {
        let [from, to, sum] = self.memory.each_mut().map(Scratch::start);
        // SAFETY: each place holds its operand and is written by this call alone.
        unsafe {
            let writes = &self.writes[usize::from(streams)];
            writes.run(machine, Bound::new(&[from, to], 1, None));
            let read = self.reads.run(machine, Bound::new(&[to, sum], 1, None));
            read.expect("no custom operation is in it");
        }
    }
}
