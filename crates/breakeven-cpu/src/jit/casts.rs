//! Changes of type as instructions.

use breakeven_ir::DType;

use super::Target;
use super::assembler::{M0F, M3A, M38, NONE, Op, P66, PF3, Rm};
use super::emitter::{Able, Emitter, Unable};
use super::primitives::{GE, LE, NOT_EQ, ORDERED, UNORDERED, bits, bitwise, float};

impl Emitter<'_> {
    /// Writes a change of type.
    pub fn cast(&mut self, from: u32, id: u32, to: DType) -> Able<()> {
        let dtype = self.fragment.insts[from as usize].1;
        match (dtype, to) {
            (DType::Bool, DType::F32 | DType::F64) => self.number_of_truth(from, id, to, bits(to, 1.0)),
            (DType::Bool, DType::I32 | DType::U32) => self.number_of_truth(from, id, to, 1),
            (DType::F32 | DType::F64, DType::Bool) => self.is_not_zero(from, id, dtype),
            (DType::I32, DType::F32) => self.unary(Op::new(NONE, M0F, 0x5B), from, id, to, None),
            (DType::F32, DType::I32) => self.saturated(from, id),
            (DType::F16, DType::F32) => self.unary(Op::new(P66, M38, 0x13), from, id, to, None),
            (DType::F32, DType::F16) => self.narrow_f16(from, id),
            (DType::BF16, DType::F32) => self.widen_bf16(from, id),
            _ if self.target == Target::Avx512 => self.cast_wide(from, id, dtype, to),
            _ => Err(Unable),
        }
    }

    /// Changes of type that take instructions of AVX-512.
    fn cast_wide(&mut self, from: u32, id: u32, dtype: DType, to: DType) -> Able<()> {
        match (dtype, to) {
            (DType::F32, DType::BF16) => self.narrow_bf16(from, id),
            (DType::F32, DType::F64) => self.unary(Op::new(NONE, M0F, 0x5A), from, id, to, None),
            (DType::F64, DType::F32) => self.unary(Op::wide(P66, M0F, 0x5A), from, id, dtype, None),
            (DType::I32, DType::I64 | DType::U64) => self.unary(Op::new(P66, M38, 0x25), from, id, to, None),
            (DType::U32, DType::I64 | DType::U64) => self.unary(Op::new(P66, M38, 0x35), from, id, to, None),
            (DType::I64 | DType::U64, DType::I32 | DType::U32) => self.narrow(0x35, from, id, dtype),
            (DType::I8 | DType::U8 | DType::I16 | DType::U16, DType::I32 | DType::U32) => {
                self.unary(widening(dtype), from, id, to, None)
            }
            (DType::I8 | DType::U8 | DType::I16 | DType::U16, DType::F32) => {
                self.unary(widening(dtype), from, id, to, None)?;
                let x = self.value(id)?;
                self.op(Op::new(NONE, M0F, 0x5B), self.length(4)?, x, 0, Rm::Reg(x), None);
                Ok(())
            }
            (DType::I32 | DType::U32, DType::I8 | DType::U8) => self.narrow(0x31, from, id, dtype),
            (DType::I32 | DType::U32, DType::I16 | DType::U16) => self.narrow(0x33, from, id, dtype),
            (DType::F32, DType::I8 | DType::U8 | DType::I16 | DType::U16) => self.narrow_float(from, id, to),
            _ => Err(Unable),
        }
    }

    /// Lower halves or quarters, or what saturates to them, by `code`.
    fn narrow(&mut self, code: u8, from: u32, id: u32, dtype: DType) -> Able<()> {
        let x = self.value(from)?;
        self.release(from);
        let to = self.vector()?;
        // The destination is the last operand.
        self.op(Op::new(PF3, M38, code), self.length(dtype.bytes())?, x, 0, Rm::Reg(to), None);
        self.define(id, to);
        Ok(())
    }

    /// Saturating, and 0 for NaN, by way of i32.
    fn narrow_float(&mut self, from: u32, id: u32, to: DType) -> Able<()> {
        self.saturated(from, id)?;
        let (x, length) = (self.value(id)?, self.length(4)?);
        let code = match to {
            DType::I8 => 0x21,
            DType::I16 => 0x23,
            DType::U8 => 0x11,
            _ => 0x13,
        };
        if matches!(to, DType::U8 | DType::U16) {
            let zero = self.constant((0, 4))?;
            self.op(Op::new(P66, M38, 0x3D), length, x, x, Rm::Reg(zero), None);
        }
        self.op(Op::new(PF3, M38, code), length, x, 0, Rm::Reg(x), None);
        Ok(())
    }

    fn is_not_zero(&mut self, from: u32, id: u32, dtype: DType) -> Able<()> {
        let (x, zero) = (self.value(from)?, self.constant((0, dtype.bytes()))?);
        let mask = self.mask()?;
        self.op(float(dtype, 0xC2), self.width_length(dtype)?, mask, x, Rm::Reg(zero), Some(NOT_EQ));
        self.release(from);
        self.define(id, mask);
        Ok(())
    }

    fn number_of_truth(&mut self, from: u32, id: u32, dtype: DType, one: u64) -> Able<()> {
        let (mask, one) = (self.value(from)?, self.constant((one, dtype.bytes()))?);
        self.release(from);
        let to = self.vector()?;
        let length = self.width_length(dtype)?;
        if self.target == Target::Avx512 {
            self.masked(float_move(dtype), length, [to, 0, one], mask, false);
        } else {
            self.op(bitwise(dtype, 0xDB), length, to, mask, Rm::Reg(one), None);
        }
        self.define(id, to);
        Ok(())
    }

    /// Saturating, and 0 for NaN: the instruction gives the lowest number for all that it cannot represent.
    fn saturated(&mut self, from: u32, id: u32) -> Able<()> {
        let f32 = DType::F32;
        let length = self.length(4)?;
        let x = self.value(from)?;
        let limit = self.constant((bits(f32, 2_147_483_648.0), 4))?;
        let (to, mask) = (self.vector()?, self.temp_mask()?);
        self.op(Op::new(PF3, M0F, 0x5B), length, to, 0, Rm::Reg(x), None);
        if self.target == Target::Avx512 {
            let highest = self.constant((i32::MAX as u64, 4))?;
            self.op(float(f32, 0xC2), length, mask, x, Rm::Reg(limit), Some(GE));
            self.blend(f32, to, mask, highest, to)?;
            self.op(float(f32, 0xC2), length, mask, x, Rm::Reg(x), Some(ORDERED));
            self.masked(float_move(f32), length, [to, 0, to], mask, false);
        } else {
            self.op(float(f32, 0xC2), length, mask, limit, Rm::Reg(x), Some(LE));
            self.op(bitwise(f32, 0xEF), length, to, to, Rm::Reg(mask), None);
            self.op(float(f32, 0xC2), length, mask, x, Rm::Reg(x), Some(ORDERED));
            self.op(bitwise(f32, 0xDB), length, to, to, Rm::Reg(mask), None);
        }
        self.release(from);
        self.define(id, to);
        Ok(())
    }

    fn narrow_f16(&mut self, from: u32, id: u32) -> Able<()> {
        let x = self.value(from)?;
        self.release(from);
        let to = self.vector()?;
        // To the nearest, whatever the mode; the destination is the last operand.
        self.op(Op::new(P66, M3A, 0x1D), self.length(4)?, x, 0, Rm::Reg(to), Some(0));
        self.define(id, to);
        Ok(())
    }

    fn widen_bf16(&mut self, from: u32, id: u32) -> Able<()> {
        let x = self.value(from)?;
        self.release(from);
        let (to, length) = (self.vector()?, self.length(4)?);
        self.op(Op::new(P66, M38, 0x33), length, to, 0, Rm::Reg(x), None);
        self.op(Op::new(P66, M0F, 0x72), length, 6, to, Rm::Reg(to), Some(16));
        self.define(id, to);
        Ok(())
    }

    /// The nearest, ties to even: half of the last place is added, less where the last bit is even; NaN keeps its sign.
    fn narrow_bf16(&mut self, from: u32, id: u32) -> Able<()> {
        let length = self.length(4)?;
        let x = self.value(from)?;
        let (one, half) = (self.constant((1, 4))?, self.constant((0x7FFF, 4))?);
        let quiet = self.constant((0x40_0000, 4))?;
        let (to, nan) = (self.vector()?, self.temp_mask()?);
        self.op(Op::new(P66, M0F, 0x72), length, 2, to, Rm::Reg(x), Some(16));
        self.op(bitwise(DType::I32, 0xDB), length, to, to, Rm::Reg(one), None);
        self.op(Op::new(P66, M0F, 0xFE), length, to, to, Rm::Reg(half), None);
        self.op(Op::new(P66, M0F, 0xFE), length, to, to, Rm::Reg(x), None);
        self.op(float(DType::F32, 0xC2), length, nan, x, Rm::Reg(x), Some(UNORDERED));
        self.masked(bitwise(DType::I32, 0xEB), length, [to, x, quiet], nan, true);
        self.op(Op::new(P66, M0F, 0x72), length, 2, to, Rm::Reg(to), Some(16));
        self.op(Op::new(PF3, M38, 0x33), length, to, 0, Rm::Reg(to), None);
        self.release(from);
        self.define(id, to);
        Ok(())
    }
}

fn float_move(dtype: DType) -> Op {
    if dtype.bytes() == 8 { Op::wide(P66, M0F, 0x10) } else { Op::new(NONE, M0F, 0x10) }
}

/// Elements of 8 or 16 bits to 32.
fn widening(dtype: DType) -> Op {
    Op::new(
        P66,
        M38,
        match dtype {
            DType::I8 => 0x21,
            DType::U8 => 0x31,
            DType::I16 => 0x23,
            _ => 0x33,
        },
    )
}
