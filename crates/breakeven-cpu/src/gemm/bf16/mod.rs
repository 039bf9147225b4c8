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
mod pack;
mod tiles;

use breakeven_ir::{DType, MatMul};

use super::Gemm;
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
        let (f32, bf16) = match instructions {
            Bf16Isa::Never => return None,
            #[cfg(target_arch = "x86_64")]
            Bf16Isa::Dots => {
                let simd = avx512(isa)?;
                (dots::gemm::<f32, _>(simd), dots::gemm::<Bf16, _>(simd))
            }
            #[cfg(target_arch = "x86_64")]
            Bf16Isa::Tiles => {
                let simd = avx512(isa)?;
                (tiles::gemm::<f32, _, amx::Hardware>(simd), tiles::gemm::<Bf16, _, amx::Hardware>(simd))
            }
            #[cfg(not(target_arch = "x86_64"))]
            Bf16Isa::Dots | Bf16Isa::Tiles => return None,
        };
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

/// The proof that loops of 512 bits may be used.
#[cfg(target_arch = "x86_64")]
fn avx512(isa: Isa) -> Option<fearless_simd::Avx512> {
    (isa == Isa::Avx512).then(|| fearless_simd::Level::new().as_avx512()).flatten()
}
