//! Functions that change types, in integers where a device may flush denormals or drop NaN.

/// The text of a conversion, and the names of the functions it calls.
pub fn text(name: &str) -> Option<(&'static str, &'static [&'static str])> {
    Some(match name {
        "f32_to_i32" => (F32_TO_I32, &["f_isnan"]),
        "f32_to_u32" => (F32_TO_U32, &["f_isnan"]),
        "f32_to_i64" => (F32_TO_I64, &["f32_magnitude"]),
        "f32_to_u64" => (F32_TO_U64, &["f32_magnitude"]),
        "f32_magnitude" => (F32_MAGNITUDE, &[]),
        "i64_to_f32" => (I64_TO_F32, &["u64_rounded", "i64_neg"]),
        "u64_to_f32" => (U64_TO_F32, &["u64_rounded"]),
        "i64_to_odd" => (I64_TO_ODD, &["u64_rounded", "i64_neg"]),
        "u64_to_odd" => (U64_TO_ODD, &["u64_rounded"]),
        "u64_rounded" => (U64_ROUNDED, &["u32_to_odd"]),
        "i32_to_odd" => (I32_TO_ODD, &["u32_to_odd"]),
        "u32_to_odd" => (U32_TO_ODD, &[]),
        "f16_to_f32" => (F16_TO_F32, &[]),
        "f32_to_f16" => (F32_TO_F16, &[]),
        "f32_to_bf16" => (F32_TO_BF16, &[]),
        _ => return None,
    })
}

const F32_TO_I32: &str = "fn f32_to_i32(x: f32) -> i32 {
    if f_isnan(x) { return 0; }
    if x >= 2147483648.0 { return 2147483647; }
    if x <= -2147483648.0 { return i32(-2147483648); }
    return i32(x);
}
";

const F32_TO_U32: &str = "fn f32_to_u32(x: f32) -> u32 {
    if f_isnan(x) || x <= 0.0 { return 0u; }
    if x >= 4294967296.0 { return 4294967295u; }
    return u32(x);
}
";

/// The whole part of a magnitude below 2^64.
const F32_MAGNITUDE: &str = "fn f32_magnitude(x: f32) -> vec2<u32> {
    let bits = bitcast<u32>(x) & 0x7fffffffu;
    let e = bits >> 23u;
    if e < 127u { return vec2<u32>(0u, 0u); }
    let m = (bits & 0x7fffffu) | 0x800000u;
    if e <= 150u { return vec2<u32>(m >> (150u - e), 0u); }
    let left = e - 150u;
    if left >= 32u { return vec2<u32>(0u, m << (left - 32u)); }
    return vec2<u32>(m << left, m >> (32u - left));
}
";

const F32_TO_I64: &str = "fn f32_to_i64(x: f32) -> vec2<u32> {
    let bits = bitcast<u32>(x);
    let negative = (bits >> 31u) != 0u;
    if (bits & 0x7fffffffu) > 0x7f800000u { return vec2<u32>(0u, 0u); }
    if (bits & 0x7fffffffu) >= 0x5f000000u {
        return select(vec2<u32>(0xffffffffu, 0x7fffffffu), vec2<u32>(0u, 0x80000000u), negative);
    }
    let r = f32_magnitude(x);
    if negative { return vec2<u32>(~r.x + 1u, ~r.y + select(0u, 1u, r.x == 0u)); }
    return r;
}
";

const F32_TO_U64: &str = "fn f32_to_u64(x: f32) -> vec2<u32> {
    let bits = bitcast<u32>(x);
    if bits >= 0x80000000u || bits > 0x7f800000u { return vec2<u32>(0u, 0u); }
    if bits >= 0x5f800000u { return vec2<u32>(0xffffffffu, 0xffffffffu); }
    return f32_magnitude(x);
}
";

/// The nearest f32; where `odd`, one that rounds to a 16-bit float as the integer itself does.
const U64_ROUNDED: &str = "fn u64_rounded(x: vec2<u32>, odd: bool) -> f32 {
    var top = x.x;
    var scale = 1.0;
    if x.y != 0u {
        // The highest 32 bits; a lost bit keeps halves from looking like ties.
        let lead = countLeadingZeros(x.y);
        top = x.y;
        var lost = x.x;
        if lead > 0u {
            top = (x.y << lead) | (x.x >> (32u - lead));
            lost = x.x << lead;
        }
        top = top | select(0u, 1u, lost != 0u);
        scale = bitcast<f32>((159u - lead) << 23u);
    }
    if odd { return u32_to_odd(top) * scale; }
    return f32(top) * scale;
}
";

const I64_TO_F32: &str = "fn i64_to_f32(x: vec2<u32>) -> f32 {
    if (x.y >> 31u) != 0u { return -u64_rounded(i64_neg(x), false); }
    return u64_rounded(x, false);
}
";

const U64_TO_F32: &str = "fn u64_to_f32(x: vec2<u32>) -> f32 {
    return u64_rounded(x, false);
}
";

const I64_TO_ODD: &str = "fn i64_to_odd(x: vec2<u32>) -> f32 {
    if (x.y >> 31u) != 0u { return -u64_rounded(i64_neg(x), true); }
    return u64_rounded(x, true);
}
";

const U64_TO_ODD: &str = "fn u64_to_odd(x: vec2<u32>) -> f32 {
    return u64_rounded(x, true);
}
";

/// What 24 bits cannot hold is kept as one odd bit.
const U32_TO_ODD: &str = "fn u32_to_odd(x: u32) -> f32 {
    if x < 0x1000000u { return f32(x); }
    return f32((x & 0xffffff00u) | select(0u, 0x100u, (x & 0xffu) != 0u));
}
";

const I32_TO_ODD: &str = "fn i32_to_odd(x: i32) -> f32 {
    if x < 0 { return -u32_to_odd(~bitcast<u32>(x) + 1u); }
    return u32_to_odd(bitcast<u32>(x));
}
";

const F16_TO_F32: &str = "fn f16_to_f32(x: u32) -> f32 {
    let m = x & 0x7fffu;
    var bits = (m << 13u) + 0x38000000u;
    if m >= 0x7c00u { bits = (m << 13u) | 0x7f800000u; }
    if m < 0x400u { bits = bitcast<u32>(f32(m) * 5.9604644775390625e-8); }
    return bitcast<f32>(bits | ((x & 0x8000u) << 16u));
}
";

const F32_TO_F16: &str = "fn f32_to_f16(x: f32) -> u32 {
    let bits = bitcast<u32>(x);
    let sign = (bits >> 16u) & 0x8000u;
    let m = bits & 0x7fffffffu;
    if m > 0x7f800000u { return sign | 0x7e00u | ((m >> 13u) & 0x3ffu); }
    if m >= 0x47800000u { return sign | 0x7c00u; }
    if m >= 0x38800000u { return sign | ((m - 0x38000000u + 0xfffu + ((m >> 13u) & 1u)) >> 13u); }
    if m < 0x33000000u { return sign; }
    let drop = 126u - (m >> 23u);
    let whole = (m & 0x7fffffu) | 0x800000u;
    let kept = whole >> drop;
    let rest = whole & ((1u << drop) - 1u);
    let half = 1u << (drop - 1u);
    let up = rest > half || (rest == half && (kept & 1u) == 1u);
    return sign | (kept + select(0u, 1u, up));
}
";

const F32_TO_BF16: &str = "fn f32_to_bf16(x: f32) -> u32 {
    let bits = bitcast<u32>(x);
    if (bits & 0x7fffffffu) > 0x7f800000u { return (bits >> 16u) | 0x40u; }
    return (bits + 0x7fffu + ((bits >> 16u) & 1u)) >> 16u;
}
";
