//! The elementwise operations. **To add one, add one row here.**
//!
//! The tensor method, every device's kernel, fusion, the cost estimate, the documentation and the conformance cases
//! all come from the row.

use crate::row::{MapDef, Tolerance};

/// Calls `$then!` with every row: doc, `name: Family(arguments) -> result [tolerance] = body;`
///
/// Families are the traits of `value`; arguments are `V` (a value), `M` (a truth value) or `P` (a parameter: one
/// number for all elements, passed as data). A trailing `_` keeps a name clear of Rust's keywords.
#[macro_export]
macro_rules! for_each_map {
    ($then:ident) => {
        $then! {
            /// `a + b`
            add: Number(a: V, b: V) -> V [Tolerance::EXACT] = a + b;
            /// `a - b`
            sub: Number(a: V, b: V) -> V [Tolerance::EXACT] = a - b;
            /// `a * b`
            mul: Number(a: V, b: V) -> V [Tolerance::EXACT] = a * b;
            /// `a / b`; for integers rounded towards zero, and 0 where `b` is 0.
            div: Number(a: V, b: V) -> V [Tolerance::EXACT.gpu(1)] = a / b;
            /// Remainder of `a / b` rounded towards zero: it has the sign of `a`. 0 where an integer `b` is 0.
            rem: Number(a: V, b: V) -> V [Tolerance::EXACT] = a % b;
            /// The larger of both; NaN when either is NaN.
            maximum: Number(a: V, b: V) -> V [Tolerance::EXACT] = a.larger(b);
            /// The smaller of both; NaN when either is NaN.
            minimum: Number(a: V, b: V) -> V [Tolerance::EXACT] = a.smaller(b);
            /// `-x`
            neg: Number(x: V) -> V [Tolerance::EXACT] = -x;
            /// `|x|`
            abs: Number(x: V) -> V [Tolerance::EXACT] = x.abs();
            /// -1, 0 or 1; NaN stays NaN.
            sign: Number(x: V) -> V [Tolerance::EXACT] = {
                let zero = x.lit(0.0);
                V::pick(zero.lt(x), x.lit(1.0), V::pick(x.lt(zero), x.lit(-1.0), x))
            };
            /// `x * x`
            square: Number(x: V) -> V [Tolerance::EXACT] = x * x;
            /// `x` held between `low` and `high`; NaN stays NaN.
            clip: Number(x: V, low: P, high: P) -> V [Tolerance::EXACT] = x.larger(low).smaller(high);
            /// `max(x, 0)`; NaN stays NaN.
            relu: Number(x: V) -> V [Tolerance::EXACT] = x.larger(x.lit(0.0));
            /// `a` where `mask` holds, else `b`.
            where_: Any(mask: M, a: V, b: V) -> V [Tolerance::EXACT] = V::pick(mask, a, b);
            /// `a == b`
            equal: Any(a: V, b: V) -> M [Tolerance::EXACT] = a.eq(b);
            /// `a != b`; true when either is NaN.
            not_equal: Any(a: V, b: V) -> M [Tolerance::EXACT] = !a.eq(b);
            /// `a < b`
            less: Number(a: V, b: V) -> M [Tolerance::EXACT] = a.lt(b);
            /// `a <= b`
            less_equal: Number(a: V, b: V) -> M [Tolerance::EXACT] = a.le(b);
            /// `a > b`
            greater: Number(a: V, b: V) -> M [Tolerance::EXACT] = b.lt(a);
            /// `a >= b`
            greater_equal: Number(a: V, b: V) -> M [Tolerance::EXACT] = b.le(a);

            /// Both hold.
            logical_and: Logic(a: M, b: M) -> M [Tolerance::EXACT] = a & b;
            /// Either holds.
            logical_or: Logic(a: M, b: M) -> M [Tolerance::EXACT] = a | b;
            /// Exactly one holds.
            logical_xor: Logic(a: M, b: M) -> M [Tolerance::EXACT] = a ^ b;
            /// It does not hold.
            logical_not: Logic(a: M) -> M [Tolerance::EXACT] = !a;

            /// Bitwise and.
            bit_and: Integer(a: V, b: V) -> V [Tolerance::EXACT] = a & b;
            /// Bitwise or.
            bit_or: Integer(a: V, b: V) -> V [Tolerance::EXACT] = a | b;
            /// Bitwise exclusive or.
            bit_xor: Integer(a: V, b: V) -> V [Tolerance::EXACT] = a ^ b;
            /// Bitwise complement.
            bit_not: Integer(x: V) -> V [Tolerance::EXACT] = !x;
            /// `a * 2^b` modulo the width; the shift count is taken modulo the width.
            shift_left: Integer(a: V, b: V) -> V [Tolerance::EXACT] = a << b;
            /// `a / 2^b` rounded down (arithmetic for signed types); the shift count is taken modulo the width.
            shift_right: Integer(a: V, b: V) -> V [Tolerance::EXACT] = a >> b;

            /// Random bits: the first word of Threefry-2x32-20 (Salmon et al. 2011) of counter `(x, 0)` under the key
            /// `(low, high)`, two u32 numbers. The same on every device.
            threefry: Word(x: V, low: P, high: P) -> V [Tolerance::EXACT] = $crate::math::threefry(x, low, high);

            /// Nearest integer towards negative infinity.
            floor: Float(x: V) -> V [Tolerance::EXACT] = x.floor();
            /// Nearest integer towards positive infinity.
            ceil: Float(x: V) -> V [Tolerance::EXACT] = x.ceil();
            /// Nearest integer, halves to even.
            round: Float(x: V) -> V [Tolerance::EXACT] = x.round();
            /// Nearest integer towards zero.
            trunc: Float(x: V) -> V [Tolerance::EXACT] = x.trunc();
            /// Square root; NaN below zero.
            sqrt: Float(x: V) -> V [Tolerance::EXACT.gpu(5)] = x.sqrt();
            /// `1 / sqrt(x)`
            rsqrt: Float(x: V) -> V [Tolerance::ulp(2).gpu(7)] = x.sqrt().recip();
            /// `1 / x`
            recip: Float(x: V) -> V [Tolerance::EXACT.gpu(3)] = x.recip();
            /// `a^b`, special values as IEEE 754 `pow`: `0^0` and `1^NaN` are 1.
            pow: Float(a: V, b: V) -> V [Tolerance::ulp(3).gpu(16)] = a.pow(b);
            /// `e^x`
            exp: Float(x: V) -> V [Tolerance::ulp(2)] = x.exp();
            /// `2^x`
            exp2: Float(x: V) -> V [Tolerance::ulp(2)] = x.exp2();
            /// `e^x - 1`, without cancellation near 0.
            expm1: Float(x: V) -> V [Tolerance::ulp(2)] = x.expm1();
            /// Natural logarithm.
            ln: Float(x: V) -> V [Tolerance::ulp(2)] = x.ln();
            /// Logarithm to base 2.
            log2: Float(x: V) -> V [Tolerance::ulp(2)] = x.log2();
            /// Logarithm to base 10.
            log10: Float(x: V) -> V [Tolerance::ulp(2)] = x.log10();
            /// `ln(1 + x)`, without cancellation near 0.
            log1p: Float(x: V) -> V [Tolerance::ulp(2)] = x.log1p();
            /// Sine of radians.
            sin: Float(x: V) -> V [Tolerance::ulp(3).gpu(8)] = x.sin();
            /// Cosine of radians.
            cos: Float(x: V) -> V [Tolerance::ulp(3).gpu(8)] = x.cos();
            /// Tangent of radians.
            tan: Float(x: V) -> V [Tolerance::ulp(4).gpu(12)] = x.tan();
            /// Arc sine, in radians.
            asin: Float(x: V) -> V [Tolerance::ulp(3).gpu(8)] = x.asin();
            /// Arc cosine, in radians.
            acos: Float(x: V) -> V [Tolerance::ulp(2).gpu(8)] = x.acos();
            /// Arc tangent, in radians.
            atan: Float(x: V) -> V [Tolerance::ulp(2).gpu(5)] = x.atan();
            /// Angle of the point (`b`, `a`), in radians, in (-pi, pi].
            atan2: Float(a: V, b: V) -> V [Tolerance::ulp(2).gpu(6)] = a.atan2(b);
            /// Hyperbolic sine.
            sinh: Float(x: V) -> V [Tolerance::ulp(2)] = x.sinh();
            /// Hyperbolic cosine.
            cosh: Float(x: V) -> V [Tolerance::ulp(2)] = x.cosh();
            /// Hyperbolic tangent.
            tanh: Float(x: V) -> V [Tolerance::ulp(3)] = x.tanh();
            /// Error function.
            erf: Float(x: V) -> V [Tolerance::ulp(3).gpu(4)] = x.erf();
            /// `x` where positive, else `slope * x`.
            leaky_relu: Float(x: V, slope: P) -> V [Tolerance::EXACT] = V::pick(x.lt(x.lit(0.0)), x * slope, x);
            /// `x` where positive, else `alpha * (e^x - 1)`.
            elu: Float(x: V, alpha: P) -> V [Tolerance::ulp(3)] = V::pick(x.lt(x.lit(0.0)), x.expm1() * alpha, x);
            /// Self-normalising exponential unit, with the constants of Klambauer et al. 2017.
            selu: Float(x: V) -> V [Tolerance::ulp(3)] =
                V::pick(x.lt(x.lit(0.0)), x.expm1() * 1.758_099_340_847_376_8, x * 1.050_700_987_355_480_5);
            /// `x` where positive, else `alpha * (e^(x / alpha) - 1)`.
            celu: Float(x: V, alpha: P) -> V [Tolerance::ulp(3).gpu(10).abs(1e-36)] =
                V::pick(x.lt(x.lit(0.0)), (x / alpha).expm1() * alpha, x);
            /// Logistic function, `1 / (1 + e^-x)`.
            sigmoid: Float(x: V) -> V [Tolerance::ulp(3)] = {
                let power = (-x.abs()).exp();
                V::pick(x.lt(x.lit(0.0)), power, x.lit(1.0)).quotient(power + 1.0)
            };
            /// `clip(slope * x + offset, 0, 1)`; ONNX takes 0.2 and 0.5, torch 1/6 and 0.5.
            hard_sigmoid: Float(x: V, slope: P, offset: P) -> V [Tolerance::ulp(2).abs(5e-7)] =
                x.mul_add(slope, offset).larger(x.lit(0.0)).smaller(x.lit(1.0));
            /// `x * clip(x + 3, 0, 6) / 6`; -0 at -inf.
            hard_swish: Float(x: V) -> V [Tolerance::ulp(3)] =
                x.larger(x.lit(-4.0)) * ((x + 3.0).larger(x.lit(0.0)).smaller(x.lit(6.0)) * (1.0 / 6.0));
            /// `x * sigmoid(x)`, also called swish; -0 at -inf.
            silu: Float(x: V) -> V [Tolerance::ulp(6).gpu(10)] = {
                // e^-|x| as a square, so that it is not denormal where the result is not.
                let root = (x.abs() * -0.5).exp();
                let part = V::pick(x.lt(x.lit(0.0)), root, x.lit(1.0));
                x.held(-4000.0, f64::INFINITY) * part * part.quotient(root.mul_add(root, x.lit(1.0)))
            };
            /// Gaussian error linear unit, `x * (1 + erf(x / sqrt 2)) / 2`; -0 at -inf.
            gelu: Float(x: V) -> V [Tolerance::ulp(4).abs(1e-7)] =
                x.held(-4000.0, f64::INFINITY) * 0.5 * (x * -std::f64::consts::FRAC_1_SQRT_2).erfc();
            /// Gaussian error linear unit, tanh form: `x * sigmoid(2 * sqrt(2 / pi) * (x + 0.044715 * x^3))`; -0 at -inf.
            gelu_tanh: Float(x: V) -> V [Tolerance::ulp(4).abs(1e-7)] = {
                let x = x.held(-4000.0, f64::INFINITY);
                let turn = (x * x).mul_add(x.lit(0.044_715), x.lit(1.0)) * x * 0.797_884_560_802_865_4;
                let root = (-turn.abs()).exp();
                let part = V::pick(x.lt(x.lit(0.0)), root, x.lit(1.0));
                x * part * part.quotient(root.mul_add(root, x.lit(1.0)))
            };
            /// `x * tanh(softplus(x))`; -0 at -inf.
            mish: Float(x: V) -> V [Tolerance::ulp(6)] = {
                // With p = e^x: tanh(ln(1 + p)) = p * (p + 2) / (p * (p + 2) + 2); p as a square, as in silu.
                let held = x.held(-4000.0, f64::INFINITY);
                let root = (held.smaller(x.lit(20.0)) * 0.5).exp();
                let more = root.mul_add(root, x.lit(2.0));
                let part = held * (root * more).quotient((root * root).mul_add(more, x.lit(2.0))) * root;
                V::pick(x.lit(20.0).lt(x), x, part)
            };
            /// `ln(1 + e^x)`
            softplus: Float(x: V) -> V [Tolerance::ulp(2)] = x.larger(x.lit(0.0)) + (-x.abs()).exp().log1p();
            /// `x / (1 + |x|)`; -1 and 1 at the infinities.
            softsign: Float(x: V) -> V [Tolerance::ulp(2).gpu(4)] = {
                let x = x.larger(x.lit(-1e30)).smaller(x.lit(1e30));
                x / (x.abs() + 1.0)
            };
            /// It is NaN.
            is_nan: Float(x: V) -> M [Tolerance::EXACT] = x.is_nan();
            /// It is infinite, either sign.
            is_inf: Float(x: V) -> M [Tolerance::EXACT] = x.is_inf();
        }
    };
}

/// The type of an argument or result of kind `V`, `M` or `P`, for values of type `$V`.
#[macro_export]
macro_rules! map_type {
    ($V:ty, V) => {
        $V
    };
    ($V:ty, P) => {
        $V
    };
    ($V:ty, M) => {
        <$V as $crate::Number>::Mask
    };
}

/// One row as data: `function` is generic code over the families.
#[doc(hidden)]
#[macro_export]
macro_rules! map_def {
    ($(#[doc = $doc:literal])+ $name:ident: $family:ident($($arg:ident: $kind:ident),+) -> $out:ident
        [$tolerance:expr] = $($function:ident)::+) => {
        $crate::MapDef {
            name: stringify!($name),
            doc: concat!($($doc),+),
            family: $crate::Family::$family,
            args: &[$($crate::Kind::$kind),+],
            out: $crate::Kind::$out,
            tolerance: $tolerance,
            body: |terms: &[$crate::Term<'_>]| {
                let mut next = terms.iter().copied();
                $(let $arg = next.next().expect("as many terms as the row has arguments");)+
                $($function)::+::<$crate::Term<'_>>($($arg),+)
            },
        }
        .checked()
    };
}

macro_rules! table {
    ($($(#[doc = $doc:literal])+
        $name:ident: $family:ident($($arg:ident: $kind:ident),+) -> $out:ident [$tolerance:expr] = $body:expr;)+) => {
        /// The rows as generic code: a device that compiles Rust instantiates them with its lanes.
        pub mod rows {
            #[allow(unused_imports, reason = "not every row needs every family")]
            use crate::{Any, Float, Integer, Logic, Number, Word};
            $($(#[doc = $doc])+
            #[inline(always)]
            #[allow(clippy::inline_always, reason = "a row must dissolve into the loop that runs it")]
            pub fn $name<V: $family>($($arg: map_type!(V, $kind)),+) -> map_type!(V, $out) { $body })+
        }

        /// Every row, in the order of the table.
        pub static MAPS: &[MapDef] = &[$(map_def! {
            $(#[doc = $doc])+ $name: $family($($arg: $kind),+) -> $out [$tolerance] = rows::$name
        }),+];
    };
}
for_each_map!(table);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique() {
        let mut names: Vec<&str> = MAPS.iter().map(|m| m.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), MAPS.len());
    }

    #[test]
    fn every_row_builds_a_body_of_its_type() {
        for def in MAPS {
            let dtype = def.family.dtypes()[0];
            let want = if def.out == crate::Kind::M { crate::DType::Bool } else { dtype };
            assert_eq!(def.body(dtype).dtype(), want, "{}", def.name);
        }
    }
}
