//! The error function and its complement.

use super::polynomial;
use crate::Float;

/// Where `erfc` is taken to have reached 0; it is 3e-9 there.
const END: f64 = 4.2;

/// `erf(x)` for `|x| <= 1`.
#[inline(always)]
fn erf_near<V: Float>(x: V) -> V {
    let z = x * x;
    let c = [
        7.919_187_9e-5,
        -8.030_509_3e-4,
        5.190_716_6e-3,
        -2.685_512_2e-2,
        1.128_361_8e-1,
        -3.761_262_9e-1,
        1.283_791_7e-1,
    ];
    polynomial(z, c).mul_add(x, x)
}

/// `erfc(a)` for `a` in 1..=END, as the fourth power of a polynomial: it falls as fast as the function does.
#[inline(always)]
fn erfc_far<V: Float>(a: V) -> V {
    let c = [
        9.695_353_4e-6,
        -1.936_620_6e-4,
        1.492_683_4e-3,
        -4.969_011e-3,
        3.014_186e-3,
        1.562_818_8e-2,
        1.536_538_3e-2,
        -1.174_227_9e-1,
        -2.834_926_4e-1,
        1.000_337_5,
    ];
    let root = polynomial(a, c);
    let square = root * root;
    square * square
}

/// Error function.
#[inline(always)]
pub fn erf<V: Float>(x: V) -> V {
    let a = x.held(-END, END).abs();
    let one = x.lit(1.0);
    V::pick(a.lt(one), erf_near(x), (one - erfc_far(a)).signed_like(x))
}

/// `1 - erf(x)` within 3e-7 of the truth; above 0 the error falls with the function, but is not one of few ULP.
#[inline(always)]
pub fn erfc<V: Float>(x: V) -> V {
    let a = x.held(-END, END).abs();
    // The fourth power of a polynomial once more, of one degree more since it begins at 0.
    let c = [
        2.085_673_5e-6,
        -2.684_956_7e-5,
        7.756_772_4e-5,
        3.833_875_3e-4,
        -2.264_682_9e-3,
        -8.729_791e-4,
        1.840_311_5e-2,
        1.554_221_6e-2,
        -1.193_804_7e-1,
        -2.820_938_6e-1,
        1.0,
    ];
    let root = polynomial(a, c);
    let square = root * root;
    let tail = V::pick(a.lt(a.lit(END)), square * square, a.lit(0.0));
    V::pick(x.is_negative(), x.lit(2.0) - tail, tail)
}
