//! Reproducible values to compute with.

use breakeven_ir::{DType, Scalar};

/// Numbers that kernels get wrong: where exponentials over- and underflow, denormals, both zeros, and what is no number.
pub const SPECIAL: &[f64] = &[
    f64::NAN,
    f64::INFINITY,
    f64::NEG_INFINITY,
    1e-40,
    -1e-40,
    1e30,
    -1e30,
    0.0,
    -0.0,
    1.0,
    -1.0,
    3.402_823_466e38,
    -3.402_823_466e38,
    88.8,
    -88.8,
    -103.0,
    0.5,
    2.5,
    -2.5,
    8_388_609.0,
    -1e-30,
];

/// The same for f16, whose range is narrow: its largest numbers, the least that rounds to infinity, and its denormals.
pub const SPECIAL_F16: &[f64] = &[
    f64::NAN,
    f64::INFINITY,
    f64::NEG_INFINITY,
    65_504.0,
    -65_504.0,
    65_520.0,
    256.0,
    5.960_464_477_539_063e-8,
    -5.960_464_477_539_063e-8,
    6.097_555_160_522_461e-5,
    6.103_515_625e-5,
    0.0,
    -0.0,
    1.0,
    -1.0,
    11.09,
    -17.4,
    0.5,
    2.5,
    -2.5,
    2049.0,
];

/// Whole numbers that kernels get wrong: ends of every width, shift counts outside it, and 0 to divide by.
pub const SPECIAL_WHOLE: &[f64] = &[
    0.0,
    1.0,
    -1.0,
    2.0,
    3.0,
    7.0,
    8.0,
    31.0,
    32.0,
    33.0,
    63.0,
    64.0,
    127.0,
    -128.0,
    255.0,
    256.0,
    32_767.0,
    -32_768.0,
    65_535.0,
    2_147_483_647.0,
    -2_147_483_648.0,
    4_294_967_295.0,
    9.3e18,
    -9.3e18,
];

/// The special numbers of a type.
pub fn special(dtype: DType) -> &'static [f64] {
    match dtype {
        DType::Bool => &[0.0, 1.0],
        DType::F16 => SPECIAL_F16,
        d if d.is_float() => SPECIAL,
        _ => SPECIAL_WHOLE,
    }
}

/// A counter-based generator: the same numbers on every machine.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// A stream of its own for each seed.
    pub fn new(seed: u64) -> Random {
        Random(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15).wrapping_add(0x1234_5678))
    }

    /// The next 64 bits (splitmix64).
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// From 0 up to, not including, 1.
    pub fn unit(&mut self) -> f64 {
        (self.bits() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// A whole number below `end`.
    pub fn below(&mut self, end: usize) -> usize {
        (self.bits() % end.max(1) as u64) as usize
    }

    /// One of these.
    pub fn pick<'a, T>(&mut self, of: &'a [T]) -> &'a T {
        &of[self.below(of.len())]
    }
}

/// Values of mixed size: most in -4..4, some within 1, some tiny, some in the hundreds. Whole numbers in -100..100.
pub fn values(dtype: DType, count: usize, seed: u64) -> Vec<Scalar> {
    let mut random = Random::new(seed.wrapping_add(977));
    let mut one = || {
        let x = 2.0 * random.unit() - 1.0;
        let scale = match random.below(8) {
            0..4 => 4.0,
            4 | 5 => 1.0,
            6 => 1e-3,
            _ => 150.0,
        };
        match dtype {
            DType::Bool => Scalar::B(x > 0.0),
            DType::U8 | DType::U16 | DType::U32 | DType::U64 => Scalar::I((x.abs() * 255.0) as i128),
            d if d.is_integer() => Scalar::I((x * 100.0) as i128),
            d => Scalar::of(d, x * scale),
        }
    };
    (0..count).map(|_| one()).collect()
}

/// Floats in `low..high`.
pub fn between(low: f64, high: f64, count: usize, seed: u64) -> Vec<Scalar> {
    let mut random = Random::new(seed.wrapping_add(31));
    (0..count).map(|_| Scalar::F(low + (high - low) * random.unit())).collect()
}
