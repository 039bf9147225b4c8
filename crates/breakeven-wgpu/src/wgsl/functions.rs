//! Functions that WGSL lacks or does not define for every input, written into a module when they are called.

use breakeven_ir::Prim;

/// What a primitive is called in WGSL text, where it is a function of ours.
pub fn name(prim: Prim) -> String {
    format!("f_{prim:?}").to_lowercase()
}

/// The text of a core primitive that is a function, and the names of the functions it calls.
pub fn core(name: &str) -> Option<(&'static str, &'static [&'static str])> {
    Some(match name {
        "f_isnan" => (IS_NAN, &[]),
        "f_isinf" => (IS_INF, &[]),
        "f_isnegative" => (IS_NEGATIVE, &[]),
        "f_larger" => (LARGER, &["f_isnan"]),
        "f_smaller" => (SMALLER, &["f_isnan"]),
        "f_lt" => (LT, &["f_isnan"]),
        "f_le" => (LE, &["f_isnan"]),
        "f_eq" => (EQ, &["f_isnan"]),
        "f_div" => (DIV, &[]),
        "f_rem" => (REM, &[]),
        "f_ldexp" => (LDEXP, &[]),
        "f_exponent" => (EXPONENT, &[]),
        "f_turn" => (TURN, &[]),
        "i32_div" => (I32_DIV, &[]),
        "u32_div" => (U32_DIV, &[]),
        "i32_rem" => (I32_REM, &[]),
        "u32_rem" => (U32_REM, &[]),
        "f_bits" => (BITS, &[]),
        "f_hold" => (HOLD, &[]),
        _ => return super::conversions::text(name).or_else(|| super::wide::text(name)),
    })
}

/// A float by its bits: WGSL has no literal for NaN and infinity, and a constant expression may not make one.
const BITS: &str = "fn f_bits(bits: u32) -> f32 {
    var held = bits;
    return bitcast<f32>(held);
}
";

/// The value, of which a compiler cannot know that it is unchanged.
const HOLD: &str = "fn f_hold(x: f32) -> f32 {
    return bitcast<f32>(bitcast<u32>(x) ^ args.zero);
}
";

const IS_NAN: &str = "fn f_isnan(x: f32) -> bool {
    return (bitcast<u32>(x) & 0x7fffffffu) > 0x7f800000u;
}
";

const IS_INF: &str = "fn f_isinf(x: f32) -> bool {
    return (bitcast<u32>(x) & 0x7fffffffu) == 0x7f800000u;
}
";

const IS_NEGATIVE: &str = "fn f_isnegative(x: f32) -> bool {
    return (bitcast<u32>(x) >> 31u) != 0u;
}
";

/// Drivers that assume no NaN take `a < b` for the opposite of `a >= b`, and the like.
const LT: &str = "fn f_lt(a: f32, b: f32) -> bool {
    return a < b && !(f_isnan(a) || f_isnan(b));
}
";

const LE: &str = "fn f_le(a: f32, b: f32) -> bool {
    return a <= b && !(f_isnan(a) || f_isnan(b));
}
";

const EQ: &str = "fn f_eq(a: f32, b: f32) -> bool {
    return a == b && !(f_isnan(a) || f_isnan(b));
}
";

/// The nearest quotient, as on a CPU, so that rounding to whole numbers falls alike on all devices: drivers divide by
/// reciprocals, within 2.5 units. What remains of the significands fits 32 bits, though its terms do not, and says how many
/// units are missing. Divisors over 2^126 would be lost, since their reciprocal is denormal.
const DIV: &str = "fn f_div(a: f32, b: f32) -> f32 {
    let scale = select(1.0, 0.25, (bitcast<u32>(b) & 0x7fffffffu) > 0x7e800000u);
    let quotient = (a * scale) / (b * scale);
    let bits = vec3<u32>(bitcast<u32>(a * scale), bitcast<u32>(b * scale), bitcast<u32>(quotient));
    let exponents = (bits >> vec3<u32>(23u)) & vec3<u32>(0xffu);
    if any(exponents - vec3<u32>(1u) >= vec3<u32>(254u)) { return quotient; }
    let parts = (bits & vec3<u32>(0x7fffffu)) | vec3<u32>(0x800000u);
    let shift = (exponents.x + 150u - exponents.y - exponents.z) & 31u;
    let rest = i32((parts.x << shift) - parts.z * parts.y);
    // Below a power of two units are half as large.
    let twice = select(2, 4, parts.z == 0x800000u && rest < 0) * rest;
    let unit = i32(parts.y);
    let missing = i32(twice > unit) + i32(twice > 3 * unit) - i32(twice < -unit) - i32(twice < -3 * unit);
    return bitcast<f32>(bits.z + u32(missing));
}
";

const LARGER: &str = "fn f_larger(a: f32, b: f32) -> f32 {
    let x = select(b, a, a > b);
    return select(select(x, b, f_isnan(b)), a, f_isnan(a));
}
";

const SMALLER: &str = "fn f_smaller(a: f32, b: f32) -> f32 {
    let x = select(b, a, a < b);
    return select(select(x, b, f_isnan(b)), a, f_isnan(a));
}
";

/// Exact, by long division of the significands; at most 277 steps.
const REM: &str = "fn f_rem(x: f32, y: f32) -> f32 {
    let bits = bitcast<u32>(x);
    let sign = bits & 0x80000000u;
    let ax = bits & 0x7fffffffu;
    let ay = bitcast<u32>(y) & 0x7fffffffu;
    if ay == 0u || ax >= 0x7f800000u || ay > 0x7f800000u {
        var nan = 0x7fc00000u;
        return bitcast<f32>(nan);
    }
    if ax < ay { return x; }
    var ex = i32(ax >> 23u);
    var ey = i32(ay >> 23u);
    var mx = (ax & 0x7fffffu) | 0x800000u;
    var my = (ay & 0x7fffffu) | 0x800000u;
    if ex == 0 {
        let shift = countLeadingZeros(ax) - 8u;
        mx = ax << shift;
        ex = 1 - i32(shift);
    }
    if ey == 0 {
        let shift = countLeadingZeros(ay) - 8u;
        my = ay << shift;
        ey = 1 - i32(shift);
    }
    for (var step = 0; step < 280; step++) {
        if ex <= ey { break; }
        if mx >= my { mx -= my; }
        mx = mx << 1u;
        ex -= 1;
    }
    if mx >= my { mx -= my; }
    if mx == 0u { return bitcast<f32>(sign); }
    let shift = countLeadingZeros(mx) - 8u;
    mx = mx << shift;
    ex -= i32(shift);
    if ex > 0 { return bitcast<f32>(sign | (u32(ex) << 23u) | (mx & 0x7fffffu)); }
    return bitcast<f32>(sign | (mx >> u32(1 - ex)));
}
";

/// In integers where the result or the operand is not normal, so that it is right on devices that flush denormals.
const LDEXP: &str = "fn f_ldexp(x: f32, power: f32) -> f32 {
    let bits = bitcast<u32>(x);
    var e = i32((bits >> 23u) & 255u);
    if e == 255 || (bits & 0x7fffffffu) == 0u { return x; }
    let n = i32(clamp(power, -400.0, 400.0));
    if e != 0 && e + n > 0 && e + n < 255 { return bitcast<f32>(bits + (u32(n) << 23u)); }
    let sign = bits & 0x80000000u;
    var m = (bits & 0x7fffffu) | 0x800000u;
    if e == 0 {
        let shift = countLeadingZeros(bits & 0x7fffffu) - 8u;
        m = (bits & 0x7fffffu) << shift;
        e = 1 - i32(shift);
    }
    e += n;
    if e >= 255 {
        var infinite = sign | 0x7f800000u;
        return bitcast<f32>(infinite);
    }
    if e > 0 { return bitcast<f32>(sign | (u32(e) << 23u) | (m & 0x7fffffu)); }
    let drop = u32(min(1 - e, 25));
    let kept = m >> drop;
    let rest = m & ((1u << drop) - 1u);
    let half = 1u << (drop - 1u);
    let up = rest > half || (rest == half && (kept & 1u) == 1u);
    return bitcast<f32>(sign | (kept + select(0u, 1u, up)));
}
";

const EXPONENT: &str = "fn f_exponent(x: f32) -> f32 {
    let bits = bitcast<u32>(x) & 0x7fffffffu;
    let e = i32(bits >> 23u);
    return f32(select(e - 127, -118 - i32(countLeadingZeros(bits)), e == 0));
}
";

/// Rest and quadrant together, by Payne and Hanek: the product of the significand with the 96 bits of 2/pi that
/// matter, in integers.
const TURN: &str = "fn f_turn_product(a: u32, b: u32) -> vec2<u32> {
    let low = (a & 0xffffu) * (b & 0xffffu);
    let m1 = (a >> 16u) * (b & 0xffffu);
    let m2 = (a & 0xffffu) * (b >> 16u);
    let mid = (low >> 16u) + (m1 & 0xffffu) + (m2 & 0xffffu);
    return vec2<u32>((mid << 16u) | (low & 0xffffu), (a >> 16u) * (b >> 16u) + (m1 >> 16u) + (m2 >> 16u) + (mid >> 16u));
}
fn f_turn_word(i: u32) -> u32 {
    var table = array<u32, 8>(0x00000000u, 0x28be60dbu, 0x9391054au, 0x7f09d5f4u, 0x7d4d3770u, 0x36d8a566u, 0x4f10e410u,
        0x7f9458eau);
    return table[i];
}
// The product of a significand with the bits of 2/pi that matter at its power of two, modulo 4, in 64 bits.
fn f_turn_bits(significand: u32, power: u32) -> vec2<u32> {
    let i = power >> 5u;
    let shift = power & 31u;
    var high = f_turn_word(i);
    var mid = f_turn_word(i + 1u);
    var low = f_turn_word(i + 2u);
    if shift > 0u {
        high = (high << shift) | (mid >> (32u - shift));
        mid = (mid << shift) | (low >> (32u - shift));
        low = (low << shift) | (f_turn_word(i + 3u) >> (32u - shift));
    }
    let p0 = f_turn_product(significand, low);
    let p1 = f_turn_product(significand, mid);
    let word = p1.x + p0.y;
    return vec2<u32>(word, p1.y + select(0u, 1u, word < p0.y) + significand * high);
}
// pi/2 times a fraction of 62 bits.
fn f_turn_scaled(below: u32, top: u32) -> f32 {
    var lead = countLeadingZeros(top);
    if top == 0u { lead = 32u + countLeadingZeros(below); }
    var a = top;
    var b = below;
    if lead >= 32u {
        a = below;
        b = 0u;
    }
    let left = lead & 31u;
    if left > 0u {
        a = (a << left) | (b >> (32u - left));
        b = b << left;
    }
    let first = f32(a >> 8u);
    let second = f32(((a & 255u) << 16u) | (b >> 16u));
    let scaled = first * 1.5707963 + (first * -4.3711388e-8 + second * 9.362677e-8);
    return scaled * bitcast<f32>((105u - lead) << 23u);
}
fn f_turn(x: f32) -> vec2<f32> {
    let bits = bitcast<u32>(x);
    let magnitude = bits & 0x7fffffffu;
    if magnitude >= 0x7f800000u {
        var nan = 0x7fc00000u;
        return vec2<f32>(bitcast<f32>(nan), 0.0);
    }
    if magnitude <= 0x3f490fdau { return vec2<f32>(x, 0.0); }
    let whole = f_turn_bits(((bits & 0x7fffffu) | 0x800000u) << 8u, (magnitude >> 23u) - 126u);
    var quadrant = whole.y >> 30u;
    var below = whole.x;
    var top = whole.y & 0x3fffffffu;
    let back = (top & 0x20000000u) != 0u;
    if back {
        quadrant += 1u;
        below = ~below + 1u;
        top = (~top + select(0u, 1u, below == 0u)) & 0x3fffffffu;
    }
    let negative = (bits >> 31u) != 0u;
    let rest = f_turn_scaled(below, top);
    quadrant = select(quadrant, 4u - (quadrant & 3u), negative) & 3u;
    return vec2<f32>(select(rest, -rest, back != negative), f32(quadrant));
}
";

const I32_DIV: &str = "fn i32_div(a: i32, b: i32) -> i32 {
    if b == 0 { return 0; }
    if b == -1 { return -a; }
    return a / b;
}
";

const U32_DIV: &str = "fn u32_div(a: u32, b: u32) -> u32 {
    if b == 0u { return 0u; }
    return a / b;
}
";

const I32_REM: &str = "fn i32_rem(a: i32, b: i32) -> i32 {
    if b == 0 || b == -1 { return 0; }
    return a - (a / b) * b;
}
";

const U32_REM: &str = "fn u32_rem(a: u32, b: u32) -> u32 {
    if b == 0u { return 0u; }
    return a % b;
}
";
