//! Primitives of floats that take several instructions, those of the lanes.

use breakeven_ir::DType;

use super::Target;
use super::assembler::{M0F, M3A, M38, NONE, Op, P66, Rm};
use super::emitter::{Able, Emitter};
use super::primitives::{LT, bits, float, float_in};

/// Beside it a f32 has no room for a fraction.
const NO_FRACTION: f64 = 12_582_912.0;

impl Emitter<'_> {
    /// `a * b + c`, rounded once where the loops of the type do.
    pub(super) fn mul_add(&mut self, ids: &[u32], id: u32, dtype: DType) -> Able<()> {
        let length = self.width_length(dtype)?;
        let (a, b, c) = (self.value(ids[0])?, self.value(ids[1])?, self.value(ids[2])?);
        if dtype == DType::F64 && !cfg!(target_feature = "fma") {
            let to = self.vector()?;
            self.op(float(dtype, 0x59), length, to, a, Rm::Reg(b), None);
            self.op(float(dtype, 0x58), length, to, to, Rm::Reg(c), None);
            self.release_all(ids);
            self.define(id, to);
            return Ok(());
        }
        self.release_all(ids);
        // The result takes the place of an operand.
        let (code, to, middle, rm) = if self.take(c) {
            (0xB8, c, a, b)
        } else if self.take(a) {
            (0xA8, a, b, c)
        } else if self.take(b) {
            (0xA8, b, a, c)
        } else {
            let to = self.vector()?;
            self.op(Op::new(NONE, M0F, 0x10), length, to, 0, Rm::Reg(c), None);
            (0xB8, to, a, b)
        };
        self.op(float_in(M38, dtype, code), length, to, middle, Rm::Reg(rm), None);
        self.define(id, to);
        Ok(())
    }

    /// As the lanes round: f32 by adding a number beside which there is no room for a fraction.
    pub(super) fn nearest(&mut self, ids: &[u32], id: u32, dtype: DType) -> Able<()> {
        let length = self.width_length(dtype)?;
        let (x, scale) = (self.value(ids[0])?, self.value(ids[1])?);
        let to = self.vector()?;
        if dtype == DType::F32 {
            let large = self.constant((bits(dtype, NO_FRACTION), 4))?;
            self.op(Op::new(NONE, M0F, 0x10), length, to, 0, Rm::Reg(x), None);
            self.op(Op::new(P66, M38, 0xA8), length, to, scale, Rm::Reg(large), None);
            self.op(float(dtype, 0x5C), length, to, to, Rm::Reg(large), None);
        } else {
            self.op(float(dtype, 0x59), length, to, x, Rm::Reg(scale), None);
            self.op(float_in(M3A, dtype, 9), length, to, 0, Rm::Reg(to), Some(8));
        }
        self.release_all(ids);
        self.define(id, to);
        Ok(())
    }

    /// As the lanes divide: an estimate of the inverse, and corrections.
    pub(super) fn quotient(&mut self, ids: &[u32], id: u32) -> Able<()> {
        const MULTIPLY_ADD: u8 = 0xA8;
        const SUBTRACT_PRODUCT: u8 = 0xAC;
        let length = self.width_length(DType::F32)?;
        let (x, divisor) = (self.value(ids[0])?, self.value(ids[1])?);
        let (mut inverse, to) = (self.temp()?, self.vector()?);
        let copy = Op::new(NONE, M0F, 0x10);
        // Each leaves `to * middle + last`, or `last - to * middle`, at `to`.
        let fused = |code: u8| Op::new(P66, M38, code);
        if self.target == Target::Avx512 {
            self.op(Op::new(P66, M38, 0x4C), length, inverse, 0, Rm::Reg(divisor), None);
        } else {
            let (one, error) = (self.constant((bits(DType::F32, 1.0), 4))?, self.temp()?);
            self.op(Op::new(NONE, M0F, 0x53), length, inverse, 0, Rm::Reg(divisor), None);
            self.op(copy, length, error, 0, Rm::Reg(inverse), None);
            self.op(fused(SUBTRACT_PRODUCT), length, error, divisor, Rm::Reg(one), None);
            self.op(fused(MULTIPLY_ADD), length, error, inverse, Rm::Reg(inverse), None);
            inverse = error;
        }
        let first = self.temp()?;
        self.op(float(DType::F32, 0x59), length, first, x, Rm::Reg(inverse), None);
        self.op(copy, length, to, 0, Rm::Reg(first), None);
        self.op(fused(SUBTRACT_PRODUCT), length, to, divisor, Rm::Reg(x), None);
        self.op(fused(MULTIPLY_ADD), length, to, inverse, Rm::Reg(first), None);
        self.release_all(ids);
        self.define(id, to);
        Ok(())
    }

    /// As the lanes reckon it: denormals are scaled up first.
    pub(super) fn exponent(&mut self, from: u32, id: u32) -> Able<()> {
        let f32 = DType::F32;
        let length = self.width_length(f32)?;
        let x = self.value(from)?;
        let mut constant = |c: f64| self.constant((bits(f32, c), 4));
        let least = constant(f64::from(f32::MIN_POSITIVE))?;
        let factor = constant(4_294_967_296.0)?;
        let (usual, lower) = (constant(127.0)?, constant(127.0 + 32.0)?);
        let (to, bias, denormal) = (self.vector()?, self.temp()?, self.temp_mask()?);
        self.op(float(f32, 0xC2), length, denormal, x, Rm::Reg(least), Some(LT));
        self.op(float(f32, 0x59), length, to, x, Rm::Reg(factor), None);
        self.blend(f32, to, denormal, to, x)?;
        self.op(Op::new(P66, M0F, 0x72), length, 4, to, Rm::Reg(to), Some(23));
        self.op(Op::new(NONE, M0F, 0x5B), length, to, 0, Rm::Reg(to), None);
        self.blend(f32, bias, denormal, lower, usual)?;
        self.op(float(f32, 0x5C), length, to, to, Rm::Reg(bias), None);
        self.release(from);
        self.define(id, to);
        Ok(())
    }
}
