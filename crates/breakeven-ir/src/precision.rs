//! Precision: what a caller gives away of the operands of a product for speed.

use std::fmt;
use std::str::FromStr;

use crate::DType;

/// How exactly a matrix product of floats must be computed, in the words of JAX and of `PyTorch`'s
/// `float32_matmul_precision`. It says what a device *may* do: one that has nothing faster computes at
/// [`Precision::Highest`], and explanations say what ran. Products of f64 and of integers do not depend on it.
///
/// | | operands of f32 keep | operands of f16, bf16 | sums | denormals |
/// |---|---|---|---|---|
/// | `Highest` | all 24 bits | all bits | f32 | as the device keeps them anywhere else |
/// | `High` | 11 bits or more | all bits | f32 | may be taken for 0 |
/// | `Medium` | 8 bits or more | all bits | f32 | may be taken for 0 |
///
/// Bits are significant ones, the leading one counted, with the range of exponents of f32: 11 bits is TF32 or better, such
/// as two bf16 in the place of one f32, and 8 bits is bf16. A product of `k` terms may then be off by
/// `2 e + e^2` times the sum of `|a b|`, with `e` of [`Precision::operand_error`], and by what sums of f32 are off anyway. An
/// operand that is rounded to more than the largest bf16 becomes infinite.
///
/// At `High` and `Medium` numbers smaller than 2^-126 (operands, products and sums) may be taken for zeros of their sign, as
/// the instructions for bf16 and tensor cores do: a denormal operand times a large number is lost then, and times infinity it
/// may give NaN.
///
/// Results depend on the instructions that the device has, as they do at `Highest`, and never on the number of threads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Precision {
    /// Operands are multiplied as they are.
    #[default]
    Highest,
    /// Operands of f32 keep 11 significant bits or more.
    High,
    /// Operands of f32 keep 8 significant bits or more.
    Medium,
}

impl Precision {
    /// All of them, the most exact first.
    pub const ALL: [Precision; 3] = [Precision::Highest, Precision::High, Precision::Medium];

    /// Lower-case name.
    pub const fn name(self) -> &'static str {
        match self {
            Precision::Highest => "highest",
            Precision::High => "high",
            Precision::Medium => "medium",
        }
    }

    /// What it amounts to for operands of `dtype`: [`Precision::Highest`] where it changes nothing.
    #[must_use]
    pub const fn of(self, dtype: DType) -> Precision {
        match (self, dtype) {
            (_, DType::F32) => self,
            // They are multiplied exactly either way, and denormals may be lost.
            (Precision::High | Precision::Medium, DType::F16 | DType::BF16) => Precision::High,
            _ => Precision::Highest,
        }
    }

    /// How far off an operand of `dtype` may be, as a share of itself: that of leaving out all bits that need not be kept at
    /// `High`, which some tensor cores do, and of rounding to the nearest at `Medium`.
    pub const fn operand_error(self, dtype: DType) -> f64 {
        match (self, dtype) {
            (Precision::High, DType::F32) => 1.0 / 1024.0,
            (Precision::Medium, DType::F32) => 1.0 / 256.0,
            _ => 0.0,
        }
    }
}

impl fmt::Display for Precision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Precision {
    type Err = String;

    /// By its name; an error says which names there are.
    fn from_str(text: &str) -> Result<Precision, String> {
        let is_named = |precision: &Precision| precision.name() == text;
        Precision::ALL.into_iter().find(is_named).ok_or_else(|| "highest, high or medium".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_come_back_and_others_do_not() {
        for precision in Precision::ALL {
            assert_eq!(precision.name().parse(), Ok(precision));
        }
        assert_eq!("bf16".parse::<Precision>(), Err("highest, high or medium".to_owned()));
    }

    #[test]
    fn it_amounts_to_nothing_where_nothing_can_be_given_away() {
        assert_eq!(Precision::Medium.of(DType::F32), Precision::Medium);
        assert_eq!(Precision::Medium.of(DType::BF16), Precision::High);
        for dtype in DType::ALL.into_iter().filter(|d| !d.is_half() && *d != DType::F32) {
            assert_eq!(Precision::Medium.of(dtype), Precision::Highest, "{dtype}");
        }
        for dtype in DType::ALL {
            assert_eq!(Precision::Highest.of(dtype), Precision::Highest, "{dtype}");
        }
    }
}
