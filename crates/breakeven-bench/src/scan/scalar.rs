//! Plain loops on one thread: the baseline that others claim their speed-ups over. The compiler makes of them what it makes of such loops.

/// From operands at a size to the result.
pub type Loop = fn(&[Vec<f32>], usize, &mut [f32]);

/// The loop of an operation by its name, where there is one.
pub fn find(operation: &str) -> Option<Loop> {
    Some(match operation {
        "add" | "single_large_add" => |x, _, out| zip(x, out, |a, b| a + b),
        "mul" => |x, _, out| zip(x, out, |a, b| a * b),
        "relu" | "single_large_relu" => |x, _, out| map(x, out, |x| if x < 0.0 { 0.0 } else { x }),
        "leaky_relu" => |x, _, out| map(x, out, |x| if x < 0.0 { 0.01 * x } else { x }),
        "elu" => |x, _, out| map(x, out, |x| if x < 0.0 { x.exp_m1() } else { x }),
        "clip" => |x, _, out| map(x, out, |x| x.clamp(-0.2, 0.3)),
        "sigmoid" => |x, _, out| map(x, out, sigmoid),
        "tanh" => |x, _, out| map(x, out, f32::tanh),
        "silu" => |x, _, out| map(x, out, |x| x * sigmoid(x)),
        "gelu" => |x, _, out| map(x, out, |x| 0.5 * x * (1.0 + erf(x * std::f32::consts::FRAC_1_SQRT_2))),
        "exp" => |x, _, out| map(x, out, f32::exp),
        "softmax" => |x, _, out| {
            let (most, sum) = most_and_sum(&x[0]);
            map(x, out, |x| (x - most).exp() / sum);
        },
        "log_softmax" => |x, _, out| {
            let (most, sum) = most_and_sum(&x[0]);
            map(x, out, |x| x - most - sum.ln());
        },
        "dot" => |x, _, out| out[0] = x[0].iter().zip(&x[1]).map(|(a, b)| f64::from(a * b)).sum::<f64>() as f32,
        "sum" => |x, _, out| out[0] = sum(&x[0]) as f32,
        "mean" => |x, _, out| out[0] = (sum(&x[0]) / x[0].len() as f64) as f32,
        "max" => |x, _, out| out[0] = x[0].iter().copied().fold(f32::NEG_INFINITY, f32::max),
        "matmul" => |x, n, out| product(&x[0], &x[1], n, out),
        "conv2d" | "conv2d_16_to_32" => convolution,
        _ => return None,
    })
}

fn map(x: &[Vec<f32>], out: &mut [f32], of: impl Fn(f32) -> f32) {
    out.iter_mut().zip(&x[0]).for_each(|(out, x)| *out = of(*x));
}

fn zip(x: &[Vec<f32>], out: &mut [f32], of: impl Fn(f32, f32) -> f32) {
    out.iter_mut().zip(x[0].iter().zip(&x[1])).for_each(|(out, (a, b))| *out = of(*a, *b));
}

fn sigmoid(x: f32) -> f32 {
    1.0 / (1.0 + (-x).exp())
}

/// Abramowitz and Stegun 7.1.26, right to 1.5e-7.
fn erf(x: f32) -> f32 {
    let t = 1.0 / (1.0 + 0.327_591_1 * x.abs());
    let powers = [1.061_405_4, -1.453_152, 1.421_413_8, -0.284_496_72, 0.254_829_6];
    let sum = powers.iter().fold(0.0, |sum, power| sum * t + power) * t;
    (1.0 - sum * (-x * x).exp()).copysign(x)
}

/// In f64, since a sum of a million in f32 by itself is wrong by more than a result may be.
fn sum(x: &[f32]) -> f64 {
    x.iter().map(|x| f64::from(*x)).sum()
}

fn most_and_sum(x: &[f32]) -> (f32, f32) {
    let most = x.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    (most, x.iter().map(|x| f64::from((x - most).exp())).sum::<f64>() as f32)
}

/// Of two square matrices, row by row.
fn product(a: &[f32], b: &[f32], n: usize, out: &mut [f32]) {
    for (row, out) in a.chunks_exact(n).zip(out.chunks_exact_mut(n)) {
        out.fill(0.0);
        for (a, b) in row.iter().zip(b.chunks_exact(n)) {
            out.iter_mut().zip(b).for_each(|(out, b)| *out += a * b);
        }
    }
}

/// Of an image of three channels of `n` by `n` with sixteen filters of three by three.
fn convolution(x: &[Vec<f32>], n: usize, out: &mut [f32]) {
    let (image, filters) = (&x[0], &x[1]);
    let wide = n - 2;
    let taps = 9 * image.len() / (n * n);
    for (filter, out) in filters.chunks_exact(taps).zip(out.chunks_exact_mut(wide * wide)) {
        for (i, out) in out.iter_mut().enumerate() {
            let corner = i / wide * n + i % wide;
            let tap = |k: usize| filter[k] * image[k / 9 * n * n + k % 9 / 3 * n + k % 3 + corner];
            *out = (0..taps).map(tap).sum();
        }
    }
}
