//! Element types, and how Rust's own types correspond to them.

use std::fmt;

use bytemuck::{CheckedBitPattern, NoUninit};
use half::{bf16, f16};

/// The type of one element. A device says which of them it supports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum DType {
    /// IEEE binary64.
    F64,
    /// IEEE binary32.
    F32,
    /// IEEE binary16.
    F16,
    /// The upper half of a binary32.
    BF16,
    /// 64-bit two's complement integer; the type of indices on the host.
    I64,
    /// 32-bit two's complement integer.
    I32,
    /// 16-bit two's complement integer.
    I16,
    /// 8-bit two's complement integer.
    I8,
    /// 64-bit unsigned integer.
    U64,
    /// 32-bit unsigned integer.
    U32,
    /// 16-bit unsigned integer.
    U16,
    /// 8-bit unsigned integer.
    U8,
    /// One byte, 0 or 1.
    Bool,
}

impl DType {
    /// Every element type, widest floats first.
    pub const ALL: [DType; 13] = [
        DType::F64,
        DType::F32,
        DType::F16,
        DType::BF16,
        DType::I64,
        DType::I32,
        DType::I16,
        DType::I8,
        DType::U64,
        DType::U32,
        DType::U16,
        DType::U8,
        DType::Bool,
    ];

    /// Bytes of one element, the same on every device.
    pub const fn bytes(self) -> usize {
        match self {
            Self::F64 | Self::I64 | Self::U64 => 8,
            Self::F32 | Self::I32 | Self::U32 => 4,
            Self::F16 | Self::BF16 | Self::I16 | Self::U16 => 2,
            Self::I8 | Self::U8 | Self::Bool => 1,
        }
    }

    /// True for binary floating point.
    pub const fn is_float(self) -> bool {
        matches!(self, Self::F64 | Self::F32 | Self::F16 | Self::BF16)
    }

    /// True for the floats of 16 bits, which are stored as such and computed as f32.
    pub const fn is_half(self) -> bool {
        matches!(self, Self::F16 | Self::BF16)
    }

    /// True for integers; false for `Bool`.
    pub const fn is_integer(self) -> bool {
        !self.is_float() && !matches!(self, Self::Bool)
    }

    /// The narrowest type in which values of both types meet; `docs/dtypes.md` has the table.
    ///
    /// A float with an integer gives the float; two floats the wider, f16 with bf16 f32. Two integers give the wider; a
    /// signed one with an unsigned one of its width or more gives the next wider signed type, which is i64 for u64. Bool
    /// gives the other type.
    pub const fn common(self, other: DType) -> DType {
        match (self.is_float(), other.is_float()) {
            (true, true) if self.bytes() == 2 && other.bytes() == 2 && self as u8 != other as u8 => DType::F32,
            (true, false) => self,
            (false, true) => other,
            _ if self.is_signed() == other.is_signed() => self.wider(other),
            _ if matches!(self, DType::Bool) => other,
            _ if matches!(other, DType::Bool) => self,
            _ if self.is_signed() => self.over(other),
            _ => other.over(self),
        }
    }

    /// True for floats and for integers with a sign.
    const fn is_signed(self) -> bool {
        !matches!(self, Self::U64 | Self::U32 | Self::U16 | Self::U8 | Self::Bool)
    }

    /// The wider of two types of one sort; bool is narrower than any.
    const fn wider(self, other: DType) -> DType {
        if other.bytes() > self.bytes() || matches!(self, DType::Bool) { other } else { self }
    }

    /// The signed integer `self`, or the next wider one that holds what the unsigned `other` does.
    const fn over(self, other: DType) -> DType {
        match (self.bytes() > other.bytes(), other.bytes()) {
            (true, _) => self,
            (false, 1) => DType::I16,
            (false, 2) => DType::I32,
            (false, _) => DType::I64,
        }
    }

    /// Lower-case name, as in numpy.
    pub const fn name(self) -> &'static str {
        match self {
            Self::F64 => "f64",
            Self::F32 => "f32",
            Self::F16 => "f16",
            Self::BF16 => "bf16",
            Self::I64 => "i64",
            Self::I32 => "i32",
            Self::I16 => "i16",
            Self::I8 => "i8",
            Self::U64 => "u64",
            Self::U32 => "u32",
            Self::U16 => "u16",
            Self::U8 => "u8",
            Self::Bool => "bool",
        }
    }
}

impl fmt::Display for DType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// A Rust type that is stored as one [`DType`].
pub trait Element: NoUninit + CheckedBitPattern + Default + PartialEq + fmt::Debug + Send + Sync + 'static {
    /// The element type it is stored as.
    const DTYPE: DType;

    /// The elements as bytes that may be written; `None` where not every byte is an element's.
    fn bytes_mut(elements: &mut [Self]) -> Option<&mut [u8]>;
}

macro_rules! element {
    ($($rust:ty => $dtype:ident),+ $(,)?) => {$(
        impl Element for $rust {
            const DTYPE: DType = DType::$dtype;
            fn bytes_mut(elements: &mut [Self]) -> Option<&mut [u8]> {
                Some(bytemuck::cast_slice_mut(elements))
            }
        }
    )+};
}
element!(f64 => F64, f32 => F32, f16 => F16, bf16 => BF16, i64 => I64, i32 => I32, i16 => I16, i8 => I8,
    u64 => U64, u32 => U32, u16 => U16, u8 => U8);

impl Element for bool {
    const DTYPE: DType = DType::Bool;
    fn bytes_mut(_: &mut [bool]) -> Option<&mut [u8]> {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_element_is_as_wide_as_its_dtype() {
        fn check<T: Element>() {
            assert_eq!(size_of::<T>(), T::DTYPE.bytes(), "{}", T::DTYPE);
        }
        check::<f64>();
        check::<f16>();
        check::<bf16>();
        check::<i64>();
        check::<u8>();
        check::<bool>();
    }
}
