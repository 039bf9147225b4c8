//! Products of bf16, for callers who do with less than the highest precision: pairs of terms stand in one packed element,
//! where instructions multiply and add them, sums are f32.
//!
//! Operands of f32 are rounded to the nearest bf16 while they are packed. Denormals are zeros to these instructions.

#[cfg(target_arch = "x86_64")]
mod amx;
#[cfg(target_arch = "x86_64")]
mod dots;
#[cfg(test)]
mod model;
#[cfg(any(target_arch = "x86_64", test))]
mod pack;
#[cfg(any(target_arch = "x86_64", test))]
mod tiles;

use breakeven_ir::{DType, MatMul};

use super::Gemm;
#[cfg(target_arch = "x86_64")]
use crate::halves::Bf16;
use crate::{Bf16Isa, Isa};

/// The ways of one processor.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Lower {
    instructions: Bf16Isa,
    f32: Gemm,
    bf16: Gemm,
}

impl Lower {
    /// Those of `instructions`, beside the loops of `isa`; `None` where there are none.
    pub fn new(isa: Isa, instructions: Bf16Isa) -> Option<Lower> {
        let (f32, bf16) = ways(isa, instructions)?;
        Some(Lower { instructions, f32, bf16 })
    }

    /// The way of a product, and its instructions; `None` where it is better computed at the highest precision.
    pub fn of(&self, product: &MatMul) -> Option<(Gemm, Bf16Isa)> {
        if !product.may_be_of_bf16() {
            return None;
        }
        let gemm = match product.a.dtype {
            DType::BF16 => self.bf16,
            // Memory sets the pace of a product with a vector, and rounding needs all of it.
            DType::F32 if product.m > 1 && product.n > 1 => self.f32,
            _ => return None,
        };
        Some((gemm, self.instructions))
    }
}

/// For operands of f32 and of bf16.
#[cfg(target_arch = "x86_64")]
fn ways(isa: Isa, instructions: Bf16Isa) -> Option<(Gemm, Gemm)> {
    let simd = (isa == Isa::Avx512).then(|| fearless_simd::Level::new().as_avx512()).flatten()?;
    match instructions {
        Bf16Isa::Never => None,
        Bf16Isa::Dots => Some((dots::gemm::<f32, _>(simd), dots::gemm::<Bf16, _>(simd))),
        Bf16Isa::Tiles => {
            Some((tiles::gemm::<f32, _, amx::Hardware>(simd), tiles::gemm::<Bf16, _, amx::Hardware>(simd)))
        }
    }
}

/// Other processors have none yet.
#[cfg(not(target_arch = "x86_64"))]
fn ways(_: Isa, _: Bf16Isa) -> Option<(Gemm, Gemm)> {
    None
}
