//! Powers.

use super::exp::exp2_small;
use super::log::split;
use super::{polynomial, rounded_to};
use crate::Float;

/// `x` as a sum of two numbers of half as many bits. Multiplying by 4096 is exact, so fusing changes nothing.
#[inline(always)]
fn halves<V: Float>(x: V) -> (V, V) {
    let scaled = x * 4096.0;
    let high = (scaled + x) - scaled;
    (high, x - high)
}

/// `log2(x)` of a positive finite `x`, as an unrounded sum of two numbers, to 33 bits.
///
/// With `x = m * 2^e`, `m` is brought within 1/7 of 1 by a factor of 3/4, 1 or 5/4, whose logarithm joins `e`.
/// Everything up to the square of the rest is exact: it is split at fixed places, where products have few bits.
#[inline(always)]
fn log2_long<V: Float>(x: V) -> (V, V) {
    let (f, e) = split(x);
    let one = x.lit(1.0);
    let (above, below) = (x.lit(0.14).lt(f), f.lt(x.lit(-0.113)));
    let factor = V::pick(above, x.lit(0.75), V::pick(below, x.lit(1.25), one));
    // -log2(factor): a part of 15 bits after the point, and the rest.
    let high = V::pick(above, x.lit(LOG2_4_3.0), V::pick(below, x.lit(LOG2_4_5.0), x.lit(0.0)));
    let low = V::pick(above, x.lit(LOG2_4_3.1), V::pick(below, x.lit(LOG2_4_5.1), x.lit(0.0)));
    let short = rounded_to(f, 1024.0);
    // (1 + f) * factor - 1, again as short + rest.
    let rest = (f - short) * factor;
    let short = short.mul_add(factor, factor - one);
    log2_sum(e + high, low, short, rest)
}

/// -log2(3/4) and -log2(5/4), each in two parts.
const LOG2_4_3: (f64, f64) = (0.415_039_062_5, -1.563_228_118_861_9e-6);
const LOG2_4_5: (f64, f64) = (-0.321_929_931_640_625, 1.836_753_262_6e-6);

/// `whole + low + log2(1 + short + rest)`, as an unrounded sum of two numbers.
#[inline(always)]
fn log2_sum<V: Float>(whole: V, low: V, short: V, rest: V) -> (V, V) {
    const LOG2_E_HIGH: f64 = 1.442_382_812_5;
    let f = short + rest;
    let c = [-1.292_888_1e-1, 1.464_608e-1, -1.666_129_2e-1, 1.999_706_3e-1, -2.500_001_8e-1, 3.333_333_7e-1];
    // ln(1 + f) = exact + rest + small
    let exact = short - short * short * 0.5;
    let small = (f * f * f).mul_add(polynomial(f, c), rest * (short + f) * -0.5);
    // exact + rest = a + b, with few bits in each.
    let a = rounded_to(exact + rest, 4096.0);
    let b = (exact - a) + rest;
    // whole + log2(e) * (a + b + small), the largest first, what each sum loses kept.
    let part = a * LOG2_E_HIGH;
    let sum = whole + part;
    let lost = part - (sum - whole);
    let part = b * LOG2_E_HIGH;
    let high = sum + part;
    let lost = lost + (part - (high - sum));
    let rounding = (a + b).mul_add(f.lit(std::f64::consts::LOG2_E - LOG2_E_HIGH), low);
    (high, lost + small.mul_add(f.lit(std::f64::consts::LOG2_E), rounding))
}

/// `|x|^y` where `x` is neither 0 nor infinite.
#[inline(always)]
fn magnitude<V: Float>(x: V, y: V) -> V {
    let (high, low) = log2_long(x.abs());
    // Past 2^32 every power but that of 1 is 0 or infinite.
    let y = y.held(-4_294_967_296.0, 4_294_967_296.0);
    let ((a, b), (c, d)) = (halves(y), halves(high));
    let main = a * c;
    let rest = y.mul_add(low, a.mul_add(d, b * high));
    let main = main.held(-200.0, 200.0);
    let rest = rest.held(-9.0, 9.0);
    let n = (main + rest).round();
    exp2_small((main - n) + rest).ldexp(n)
}

/// `x^y`, special values as IEEE 754 `pow`.
#[inline(always)]
pub fn pow<V: Float>(x: V, y: V) -> V {
    let (zero, one) = (x.lit(0.0), x.lit(1.0));
    let half = y * 0.5;
    let is_whole = y.floor().eq(y);
    let is_odd = is_whole & !half.floor().eq(half);
    let is_zero = x.eq(zero);
    // Zero and infinity go to zero or infinity.
    let edge = V::pick(is_zero ^ y.lt(zero), zero, x.lit(f64::INFINITY));
    let size = V::pick(is_zero | x.is_inf(), edge, magnitude(x, y));
    let signed = V::pick(is_odd & x.is_negative(), -size, size);
    let has_no_value = x.lt(zero) & !x.is_inf() & !is_whole;
    let number = V::pick(has_no_value, x.lit(f64::NAN), signed);
    let value = V::pick(x.is_nan() | y.is_nan(), x + y, number);
    V::pick(y.eq(zero) | x.eq(one), one, value)
}
