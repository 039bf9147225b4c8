//! Convolutions over intervals.

use breakeven_ir::{ConvKernel, Scalar};

use super::expr::Meaning;
use super::matmul::sum;
use super::{Bound, Rules, load};

/// The output in row-major order.
pub fn conv(kernel: &ConvKernel, inputs: &[&[u8]], rules: Rules) -> Vec<Bound> {
    let x = load(&kernel.x, inputs[0], rules);
    let weight = load(&kernel.weight, inputs[1], rules);
    let extras: Vec<Vec<Bound>> = kernel.inputs.iter().zip(&inputs[2..]).map(|(o, x)| load(o, x, rules)).collect();
    let post = Meaning::new(&kernel.post, &kernel.params, rules, true);
    let zero = Bound::exactly(Scalar::of(kernel.x.dtype, 0.0));
    let (out, seen, own) = (&kernel.out.layout.shape, &kernel.x.layout.shape, &kernel.weight.layout.shape);
    let one = |e: usize| {
        let index = coordinates(e, out);
        let terms = (0..kernel.terms()).map(|term| {
            let inner = coordinates(term, &own[2..]);
            let place = kernel.seen(&index[ConvKernel::LEAD..], &inner[1..]);
            let lead = [index[0], index[1], inner[0]];
            let at = place.map(|place| row_major(lead.into_iter().chain(place), seen));
            let factor = [index[1], index[2]].into_iter().chain(inner.iter().copied());
            (at.map_or(&zero, |at| &x[at]), &weight[row_major(factor, own)])
        });
        let sum = sum(terms, kernel.terms(), kernel.accumulator(), rules.gpu);
        post.of(&[sum.zero_of_any_sign()].into_iter().chain(extras.iter().map(|x| x[e])).collect::<Vec<_>>())
    };
    (0..out.elements()).map(one).collect()
}

fn row_major(index: impl Iterator<Item = usize>, shape: &[usize]) -> usize {
    index.zip(shape).fold(0, |at, (i, n)| at * n + i)
}

fn coordinates(e: usize, shape: &[usize]) -> Vec<usize> {
    let steps = (0..shape.len()).map(|axis| shape[axis + 1..].iter().product::<usize>());
    steps.zip(shape).map(|(step, n)| e / step % n).collect()
}
