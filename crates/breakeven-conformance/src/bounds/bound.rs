//! The results a device may give for one element, as an interval.

use std::fmt;

use breakeven_ir::{DType, Precision, Scalar, Tolerance};

use super::rounding::{round, step};

/// Any value from `low` to `high`, and NaN where `nan` says so. Nothing but NaN when `low > high`.
///
/// All of a bound's values are of one kind: floats, integers or truth values.
#[derive(Clone, Copy, PartialEq)]
pub struct Bound {
    low: Scalar,
    high: Scalar,
    /// What exact arithmetic gives, or close to it.
    mid: Scalar,
    nan: bool,
}

impl Bound {
    /// Exactly this.
    pub fn exactly(value: Scalar) -> Bound {
        match value {
            Scalar::F(x) if x.is_nan() => Bound::NAN,
            _ => Bound { low: value, high: value, mid: value, nan: false },
        }
    }

    /// Nothing but NaN.
    pub const NAN: Bound = Bound {
        low: Scalar::F(f64::INFINITY),
        high: Scalar::F(f64::NEG_INFINITY),
        mid: Scalar::F(f64::NAN),
        nan: true,
    };

    /// Any float at all.
    pub const ANY: Bound =
        Bound { low: Scalar::F(f64::NEG_INFINITY), high: Scalar::F(f64::INFINITY), mid: Scalar::F(0.0), nan: true };

    /// Floats from `low` to `high`; a NaN end stands for no limit at all.
    pub fn between(low: f64, high: f64) -> Bound {
        if low.is_nan() || high.is_nan() {
            return Bound::ANY;
        }
        let mid = if low == high { low } else { low / 2.0 + high / 2.0 };
        Bound { low: Scalar::F(low), high: Scalar::F(high), mid: Scalar::F(mid), nan: false }
    }

    /// Integers from `low` to `high`.
    pub fn wholes(low: i128, high: i128) -> Bound {
        let mid = i128::midpoint(low, high);
        Bound { low: Scalar::I(low), high: Scalar::I(high), mid: Scalar::I(mid), nan: false }
    }

    /// Any integer of this type.
    pub fn any_whole(dtype: DType) -> Bound {
        let end = |x: f64| if let Scalar::I(x) = Scalar::F(x).cast(dtype) { x } else { 0 };
        Bound::wholes(end(f64::NEG_INFINITY), end(f64::INFINITY))
    }

    /// Lowest and highest value of integers.
    pub fn whole_ends(&self) -> (i128, i128) {
        match (self.low, self.high) {
            (Scalar::I(low), Scalar::I(high)) => (low, high),
            other => unreachable!("{other:?} are not integers"),
        }
    }

    /// The same, or NaN if `nan`.
    pub fn or_nan(self, nan: bool) -> Bound {
        Bound { nan: self.nan || nan, ..self }
    }

    /// What either allows, around what the first does.
    pub fn or(self, other: Bound) -> Bound {
        let nan = self.nan || other.nan;
        if self.is_nan_only() {
            return Bound { nan, ..other };
        }
        if other.is_nan_only() {
            return Bound { nan, ..self };
        }
        Bound { low: least(self.low, other.low), high: most(self.high, other.high), mid: self.mid, nan }
    }

    /// Lowest and highest value, as floats.
    pub fn ends(&self) -> (f64, f64) {
        (self.low.to_f64(), self.high.to_f64())
    }

    /// NaN is allowed.
    pub fn may_be_nan(&self) -> bool {
        self.nan
    }

    /// Nothing else is allowed.
    pub fn is_nan_only(&self) -> bool {
        self.nan && matches!((self.low, self.high), (Scalar::F(l), Scalar::F(h)) if l > h)
    }

    /// One value is allowed.
    pub fn is_exact(&self) -> bool {
        self.is_nan_only() || (!self.nan && self.low.to_f64() == self.high.to_f64())
    }

    /// Values at which a function of the bound is evaluated: its middle first, then its ends, and what lies between of -1, 0
    /// and 1, where the domains of functions end.
    pub fn samples(&self) -> Vec<Scalar> {
        let mut all = Vec::with_capacity(7);
        if !self.is_nan_only() {
            all.push(self.mid);
            let same = |a: Scalar, b: Scalar| match (a, b) {
                (Scalar::F(a), Scalar::F(b)) => a.to_bits() == b.to_bits(),
                _ => a == b,
            };
            all.extend([self.low, self.high].into_iter().filter(|&end| !same(end, self.mid)));
            if let (Scalar::F(low), Scalar::F(high)) = (self.low, self.high) {
                if low.total_cmp(&-0.0).is_le() && high.total_cmp(&0.0).is_ge() {
                    all.extend([Scalar::F(-0.0), Scalar::F(0.0)]);
                }
                all.extend([-1.0, 1.0].into_iter().filter(|&x| low < x && x < high).map(Scalar::F));
            }
        }
        if self.nan {
            all.push(Scalar::F(f64::NAN));
        }
        all
    }

    /// So wide that a function's extremes need not lie near its ends.
    pub fn is_wide(&self) -> bool {
        let (low, high) = self.ends();
        matches!(self.mid, Scalar::F(_)) && high - low > 0.01 * (1.0 + self.mid.to_f64().abs())
    }

    /// So long that a periodic function may turn within it.
    pub fn is_long(&self) -> bool {
        let (low, high) = self.ends();
        matches!(self.mid, Scalar::F(_)) && high - low > 0.1
    }

    /// What lies at this part of the way from the lowest value to the highest, if anything does.
    pub fn inside(&self, part: f64) -> Option<Scalar> {
        match (self.low, self.high) {
            _ if self.is_nan_only() => None,
            (Scalar::F(low), Scalar::F(high)) => Some(Scalar::F(low + part * (high - low))),
            _ => Some(self.mid),
        }
    }

    /// Rounded to `dtype` and widened by a tolerance, of which `ulp` counts.
    pub fn widen(self, dtype: DType, ulp: u32, tolerance: Tolerance) -> Bound {
        let (Scalar::F(low), Scalar::F(high)) = (self.low, self.high) else { return self };
        if self.is_nan_only() {
            return self;
        }
        let end = |x: f64, sign: f64| {
            let exactly_zero = x == 0.0;
            let by_ulp = if exactly_zero { x } else { step(dtype, round(dtype, x), sign as i64 * i64::from(ulp)) };
            if tolerance.abs == 0.0 { by_ulp } else { by_ulp.clamp_outwards(x + sign * tolerance.abs, sign) }
        };
        Bound { low: Scalar::F(end(low, -1.0)), high: Scalar::F(end(high, 1.0)), ..self }
    }

    /// A denormal of `dtype` may be taken for zero in one place and not in another, so for any denormal; zero may have
    /// either sign.
    pub fn flushed(self, dtype: DType) -> Bound {
        let (Scalar::F(low), Scalar::F(high)) = (self.low, self.high) else { return self };
        if self.is_nan_only() || !dtype.is_float() {
            return self;
        }
        let tiny = smallest_normal(dtype);
        let is_denormal = |x: f64| x != 0.0 && x.abs() < tiny;
        if is_denormal(low) || is_denormal(high) {
            let (low, high) = (Scalar::F(low.min(-tiny)), Scalar::F(high.max(tiny)));
            return Bound { low, high, ..self };
        }
        self.zero_of_any_sign()
    }

    /// An operand of a product of this precision as a device may take it: rounded, and denormals as zeros.
    pub fn lowered(self, dtype: DType, precision: Precision) -> Bound {
        if precision == Precision::Highest || self.is_nan_only() {
            return self;
        }
        let flushed = self.flushed(dtype);
        let ((low, high), error) = (flushed.ends(), precision.operand_error(dtype));
        let off = |x: f64, sign: f64| {
            let moved = if x.is_finite() { x + sign * error * x.abs() } else { x };
            // What is rounded up from the largest numbers is infinite.
            if moved.abs() > f64::from(f32::MAX) { f64::INFINITY.copysign(moved) } else { moved }
        };
        Bound { low: Scalar::F(off(low, -1.0)), high: Scalar::F(off(high, 1.0)), ..flushed }
    }

    /// Zero at either end may have either sign, as after a fold, whose order is the device's own.
    pub fn zero_of_any_sign(self) -> Bound {
        let (Scalar::F(low), Scalar::F(high)) = (self.low, self.high) else { return self };
        let low = if low == 0.0 { -0.0 } else { low };
        let high = if high == 0.0 { 0.0 } else { high };
        Bound { low: Scalar::F(low), high: Scalar::F(high), ..self }
    }

    /// Any denormal as well, where zero is allowed.
    pub fn near_zero(self, dtype: DType) -> Bound {
        let tiny = smallest_normal(dtype);
        let has_zero = self.allows(Scalar::F(0.0), false) && dtype.is_float();
        if has_zero { self.or(Bound::between(-tiny, tiny)) } else { self }
    }

    /// What [`Bound::flushed`] made of a denormal.
    pub fn is_denormal(&self, dtype: DType) -> bool {
        let tiny = smallest_normal(dtype);
        let (low, high) = self.ends();
        matches!(self.mid, Scalar::F(_)) && (low, high) != (0.0, 0.0) && low >= -tiny && high <= tiny
    }

    /// Whether a device may give `value`. With `zero_sign`, -0 and 0 are two values.
    pub fn allows(&self, value: Scalar, zero_sign: bool) -> bool {
        match (value, self.low, self.high) {
            (Scalar::F(x), ..) if x.is_nan() => self.nan,
            (Scalar::F(x), Scalar::F(low), Scalar::F(high)) if zero_sign => {
                low.total_cmp(&x).is_le() && x.total_cmp(&high).is_le()
            }
            (Scalar::F(x), Scalar::F(low), Scalar::F(high)) => low <= x && x <= high,
            (Scalar::I(x), Scalar::I(low), Scalar::I(high)) => low <= x && x <= high,
            (Scalar::B(x), Scalar::B(low), Scalar::B(high)) => x == low || x == high,
            _ => false,
        }
    }
}

/// The smallest positive number that is not a denormal where it is computed: 16-bit floats are, as f32.
pub fn smallest_normal(dtype: DType) -> f64 {
    match dtype {
        DType::F64 => f64::MIN_POSITIVE,
        _ => f64::from(f32::MIN_POSITIVE),
    }
}

trait ClampOutwards {
    fn clamp_outwards(self, other: f64, sign: f64) -> f64;
}

impl ClampOutwards for f64 {
    fn clamp_outwards(self, other: f64, sign: f64) -> f64 {
        if sign < 0.0 { self.min(other) } else { self.max(other) }
    }
}

fn least(a: Scalar, b: Scalar) -> Scalar {
    if goes_before(a, b) { a } else { b }
}

fn most(a: Scalar, b: Scalar) -> Scalar {
    if goes_before(a, b) { b } else { a }
}

fn goes_before(a: Scalar, b: Scalar) -> bool {
    match (a, b) {
        (Scalar::F(a), Scalar::F(b)) => a.total_cmp(&b).is_lt(),
        (Scalar::I(a), Scalar::I(b)) => a < b,
        (Scalar::B(a), Scalar::B(b)) => !a & b,
        _ => unreachable!("a bound has one kind of value"),
    }
}

impl fmt::Display for Bound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_nan_only() {
            return f.write_str("NaN");
        }
        let text = |s: Scalar| match s {
            Scalar::F(x) => format!("{x:?}"),
            Scalar::I(x) => x.to_string(),
            Scalar::B(x) => x.to_string(),
        };
        if self.low == self.high {
            f.write_str(&text(self.low))?;
        } else {
            write!(f, "{}..={}", text(self.low), text(self.high))?;
        }
        if self.nan { f.write_str(" or NaN") } else { Ok(()) }
    }
}
