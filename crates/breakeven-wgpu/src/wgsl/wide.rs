//! Arithmetic of 64-bit integers in pairs of words, the low one first.

/// The text of a function, and the names of the functions it calls.
pub fn text(name: &str) -> Option<(&'static str, &'static [&'static str])> {
    Some(match name {
        "i64_add" => (ADD, &[]),
        "i64_sub" => (SUB, &[]),
        "i64_neg" => (NEG, &[]),
        "i64_mul" => (MUL, &[]),
        "i64_lt" => (I64_LT, &[]),
        "u64_lt" => (U64_LT, &[]),
        "i64_abs" => (ABS, &["i64_neg"]),
        "i64_shl" => (SHL, &[]),
        "i64_shr" => (I64_SHR, &[]),
        "u64_shr" => (U64_SHR, &[]),
        "u64_divided" => (DIVIDED, &["i64_sub", "u64_lt"]),
        "u64_div" => (U64_DIV, &["u64_divided"]),
        "u64_rem" => (U64_REM, &["u64_divided"]),
        "i64_div" => (I64_DIV, &["u64_divided", "i64_abs", "i64_neg"]),
        "i64_rem" => (I64_REM, &["u64_divided", "i64_abs", "i64_neg"]),
        _ => return None,
    })
}

const ADD: &str = "fn i64_add(a: vec2<u32>, b: vec2<u32>) -> vec2<u32> {
    let low = a.x + b.x;
    return vec2<u32>(low, a.y + b.y + select(0u, 1u, low < a.x));
}
";

const SUB: &str = "fn i64_sub(a: vec2<u32>, b: vec2<u32>) -> vec2<u32> {
    return vec2<u32>(a.x - b.x, a.y - b.y - select(0u, 1u, a.x < b.x));
}
";

const NEG: &str = "fn i64_neg(a: vec2<u32>) -> vec2<u32> {
    return vec2<u32>(~a.x + 1u, ~a.y + select(0u, 1u, a.x == 0u));
}
";

/// The low 64 bits, from products of 16-bit parts.
const MUL: &str = "fn i64_mul(a: vec2<u32>, b: vec2<u32>) -> vec2<u32> {
    let low = (a.x & 0xffffu) * (b.x & 0xffffu);
    let m1 = (a.x >> 16u) * (b.x & 0xffffu);
    let m2 = (a.x & 0xffffu) * (b.x >> 16u);
    let mid = (low >> 16u) + (m1 & 0xffffu) + (m2 & 0xffffu);
    let high = (a.x >> 16u) * (b.x >> 16u) + (m1 >> 16u) + (m2 >> 16u) + (mid >> 16u);
    return vec2<u32>((mid << 16u) | (low & 0xffffu), high + a.x * b.y + a.y * b.x);
}
";

const I64_LT: &str = "fn i64_lt(a: vec2<u32>, b: vec2<u32>) -> bool {
    return bitcast<i32>(a.y) < bitcast<i32>(b.y) || (a.y == b.y && a.x < b.x);
}
";

const U64_LT: &str = "fn u64_lt(a: vec2<u32>, b: vec2<u32>) -> bool {
    return a.y < b.y || (a.y == b.y && a.x < b.x);
}
";

const ABS: &str = "fn i64_abs(a: vec2<u32>) -> vec2<u32> {
    if (a.y >> 31u) != 0u { return i64_neg(a); }
    return a;
}
";

const SHL: &str = "fn i64_shl(a: vec2<u32>, b: vec2<u32>) -> vec2<u32> {
    let n = b.x & 63u;
    if n == 0u { return a; }
    if n >= 32u { return vec2<u32>(0u, a.x << (n - 32u)); }
    return vec2<u32>(a.x << n, (a.y << n) | (a.x >> (32u - n)));
}
";

const I64_SHR: &str = "fn i64_shr(a: vec2<u32>, b: vec2<u32>) -> vec2<u32> {
    let n = b.x & 63u;
    let high = bitcast<i32>(a.y);
    if n == 0u { return a; }
    if n >= 32u { return vec2<u32>(bitcast<u32>(high >> (n - 32u)), bitcast<u32>(high >> 31u)); }
    return vec2<u32>((a.x >> n) | (a.y << (32u - n)), bitcast<u32>(high >> n));
}
";

const U64_SHR: &str = "fn u64_shr(a: vec2<u32>, b: vec2<u32>) -> vec2<u32> {
    let n = b.x & 63u;
    if n == 0u { return a; }
    if n >= 32u { return vec2<u32>(a.y >> (n - 32u), 0u); }
    return vec2<u32>((a.x >> n) | (a.y << (32u - n)), a.y >> n);
}
";

/// Quotient and rest, a bit at a time; both 0 where `b` is.
const DIVIDED: &str = "fn u64_divided(a: vec2<u32>, b: vec2<u32>) -> vec4<u32> {
    if all(b == vec2<u32>()) { return vec4<u32>(); }
    var rest = vec2<u32>();
    var quotient = a;
    for (var bit = 0; bit < 64; bit++) {
        let carry = rest.y >> 31u;
        rest = vec2<u32>((rest.x << 1u) | (quotient.y >> 31u), (rest.y << 1u) | (rest.x >> 31u));
        quotient = vec2<u32>(quotient.x << 1u, (quotient.y << 1u) | (quotient.x >> 31u));
        if carry != 0u || !u64_lt(rest, b) {
            rest = i64_sub(rest, b);
            quotient.x = quotient.x | 1u;
        }
    }
    return vec4<u32>(quotient, rest);
}
";

const U64_DIV: &str = "fn u64_div(a: vec2<u32>, b: vec2<u32>) -> vec2<u32> {
    return u64_divided(a, b).xy;
}
";

const U64_REM: &str = "fn u64_rem(a: vec2<u32>, b: vec2<u32>) -> vec2<u32> {
    return u64_divided(a, b).zw;
}
";

const I64_DIV: &str = "fn i64_div(a: vec2<u32>, b: vec2<u32>) -> vec2<u32> {
    let quotient = u64_divided(i64_abs(a), i64_abs(b)).xy;
    if ((a.y ^ b.y) >> 31u) != 0u { return i64_neg(quotient); }
    return quotient;
}
";

const I64_REM: &str = "fn i64_rem(a: vec2<u32>, b: vec2<u32>) -> vec2<u32> {
    let rest = u64_divided(i64_abs(a), i64_abs(b)).zw;
    if (a.y >> 31u) != 0u { return i64_neg(rest); }
    return rest;
}
";
