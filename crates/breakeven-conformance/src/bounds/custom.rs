//! Custom operations: what their CPU closure gives, within the tolerance that they state.

use breakeven_ir::{Custom, Scalar};

use super::{Bound, Rules};

/// # Panics
/// When the operation has no CPU closure, or that panics: there is nothing to compare with.
pub fn custom(k: &Custom, inputs: &[&[u8]], rules: Rules) -> Vec<Vec<Bound>> {
    let mut outs: Vec<Vec<u8>> = k.outs.iter().map(|o| vec![0; o.span_bytes() as usize]).collect();
    let mut places: Vec<&mut [u8]> = outs.iter_mut().map(Vec::as_mut_slice).collect();
    k.run(inputs, &mut places).unwrap_or_else(|why| panic!("{}: {why}", k.op.name()));
    let tolerance = k.op.tolerance();
    let ulp = if rules.gpu { tolerance.gpu_ulp } else { tolerance.ulp };
    let all = k.outs.iter().zip(&outs);
    all.map(|(o, bytes)| {
        let one = |at| {
            let bound = Bound::exactly(Scalar::load(o.dtype, bytes, at)).widen(o.dtype, ulp, tolerance);
            if rules.gpu { bound.flushed(o.dtype) } else { bound }
        };
        o.layout.positions().map(one).collect()
    })
    .collect()
}
