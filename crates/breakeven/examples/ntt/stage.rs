//! One stage of the transform as a custom operation: all its butterflies, for the CPU and for GPUs.

use breakeven::{CallError, CustomInputs, CustomOp, CustomOutputs, DType, Spec, Wgsl};

use crate::field::{INVERSE, PRIME};

/// The stage whose butterflies lie `width` apart in its result: `width` is its parameter, and it reads `n` points and the
/// first `n / 2` powers of a root of unity, shifted.
///
/// For `i = p * width + q`, points `i` and `i + n / 2` become points `2 * p * width + q` and `width` after it, so that the
/// last stage leaves everything in order and nobody has to sort.
pub fn stage() -> CustomOp {
    let butterflies = |inputs: &[&Spec], _: &[&Spec]| inputs[1].shape.elements() as u64;
    let code = Wgsl::counted(BUTTERFLY, butterflies).with_functions(FIELD).storing_all();
    CustomOp::new("ntt_stage", rule)
        .params([DType::U32])
        .flops(move |inputs, outputs| OPERATIONS * butterflies(inputs, outputs))
        .cpu(on_the_cpu)
        .wgsl(code)
}

/// Arithmetic operations of a butterfly, in WGSL.
const OPERATIONS: u64 = 50;

fn rule(inputs: &[&Spec]) -> Result<Vec<Spec>, CallError> {
    let wrong = || Err(CallError::new("ntt_stage", "takes points and half as many roots, both u32 and of rank 1"));
    let [points, roots] = inputs else { return wrong() };
    let words = points.dtype == DType::U32 && roots.dtype == DType::U32;
    let fits = points.shape.rank() == 1 && points.shape.elements() == 2 * roots.shape.elements();
    if words && fits { Ok(vec![(*points).clone()]) } else { wrong() }
}

fn on_the_cpu(inputs: &CustomInputs<'_>, outputs: &mut CustomOutputs<'_>) {
    let (points, roots, width) = (inputs.get::<u32>(0), inputs.get::<u32>(1), inputs.param(0) as usize);
    let (first, second) = points.split_at(points.len() / 2);
    let pairs = first.chunks_exact(width).zip(second.chunks_exact(width));
    let out = outputs.take::<u32>(0).chunks_exact_mut(2 * width);
    for (p, ((a, b), out)) in pairs.zip(out).enumerate() {
        let (sums, rest) = out.split_at_mut(width);
        for q in 0..width {
            let sum = a[q] + b[q];
            sums[q] = sum.min(sum.wrapping_sub(PRIME));
            rest[q] = divided(u64::from(a[q] + PRIME - b[q]) * u64::from(roots[p * width]));
        }
    }
}

/// `product / 2^32` in the field, for a product below the prime times `2^32`.
fn divided(product: u64) -> u32 {
    let quotient = u64::from((product as u32).wrapping_mul(INVERSE));
    let (upper, taken) = ((product >> 32) as u32, ((quotient * u64::from(PRIME)) >> 32) as u32);
    let difference = upper.wrapping_sub(taken);
    difference.min(difference.wrapping_add(PRIME))
}

const BUTTERFLY: &str = "
    let width = param0();
    let p = i / width;
    let a = load0(i);
    let b = load0(i + input1_len());
    let place = p * width + i;
    store0(place, min(a + b, a + b - PRIME));
    store0(place + width, divided_product(a + PRIME - b, load1(p * width)));
";

const FIELD: &str = "
    const PRIME = 2013265921u;
    const INVERSE = 2281701377u;

    fn high(a: u32, b: u32) -> u32 {
        let first = (a >> 16u) * (b & 65535u) + (((a & 65535u) * (b & 65535u)) >> 16u);
        let second = (a & 65535u) * (b >> 16u) + (first & 65535u);
        return (a >> 16u) * (b >> 16u) + (first >> 16u) + (second >> 16u);
    }

    fn divided_product(a: u32, b: u32) -> u32 {
        let difference = high(a, b) - high(a * b * INVERSE, PRIME);
        return min(difference, difference + PRIME);
    }
";
