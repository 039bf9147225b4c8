//! Primitives as instructions: the ones that the loops of rows are made of, so that results are the same bit by bit.

use breakeven_ir::{DType, Prim};

use super::Target;
use super::assembler::{M0F, M3A, M38, NONE, Op, P66, PF3, Rm};
use super::emitter::{Able, Emitter, Unable};

/// Conditions of comparisons between floats.
const EQ: u8 = 0;
pub(super) const UNORDERED: u8 = 3;
pub(super) const NOT_EQ: u8 = 4;
pub(super) const ORDERED: u8 = 7;
pub(super) const LT: u8 = 17;
pub(super) const LE: u8 = 18;
pub(super) const GE: u8 = 29;

/// What an instruction works on.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Float,
    Signed,
    Unsigned,
}

fn kind(dtype: DType) -> Able<Kind> {
    match dtype {
        DType::F32 | DType::F64 => Ok(Kind::Float),
        DType::I32 | DType::I64 => Ok(Kind::Signed),
        DType::U32 | DType::U64 => Ok(Kind::Unsigned),
        _ => Err(Unable),
    }
}

/// The float instruction with this opcode for elements of `dtype`.
pub(super) fn float(dtype: DType, code: u8) -> Op {
    if dtype == DType::F64 { Op::wide(P66, M0F, code) } else { Op::new(NONE, M0F, code) }
}

/// The same in another map, where the width bit alone tells the types apart.
pub(super) fn float_in(map: u8, dtype: DType, code: u8) -> Op {
    if dtype == DType::F64 { Op::wide(P66, map, code) } else { Op::new(P66, map, code) }
}

/// The float type of the same width, which says how wide instructions on integers are.
fn lanes_of(dtype: DType) -> DType {
    if dtype.bytes() == 8 { DType::F64 } else { DType::F32 }
}

/// The bits of `x` in a float type.
pub(super) fn bits(dtype: DType, x: f64) -> u64 {
    if dtype == DType::F64 { x.to_bits() } else { u64::from((x as f32).to_bits()) }
}

impl Emitter<'_> {
    /// Writes one primitive, whose result is value `id`.
    pub fn prim(&mut self, prim: Prim, ids: [u32; 3], id: u32, dtype: DType) -> Able<()> {
        let ids = &ids[..prim.arity()];
        let last = *ids.last().ok_or(Unable)?;
        let from = self.fragment.insts[last as usize].1;
        if from == DType::Bool {
            return self.logic(prim, ids, id);
        }
        match (kind(from)?, prim) {
            (_, Prim::Pick) => self.pick(ids, id, dtype),
            (Kind::Float, Prim::Lt) => self.compare(ids, id, from, LT),
            (Kind::Float, Prim::Le) => self.compare(ids, id, from, LE),
            (Kind::Float, Prim::Eq) => self.compare(ids, id, from, EQ),
            (Kind::Float, Prim::IsNan) => self.compare(ids, id, from, UNORDERED),
            (_, Prim::Lt | Prim::Le | Prim::Eq) => self.compare_integers(prim, ids, id, from),
            (Kind::Float, Prim::IsInf) => self.is_inf(ids[0], id, from),
            (Kind::Float, Prim::IsNegative) => self.is_negative(ids[0], id, from),
            (Kind::Float, Prim::Larger) => self.larger(ids, id, dtype, 0x5F),
            (Kind::Float, Prim::Smaller) => self.larger(ids, id, dtype, 0x5D),
            (Kind::Float, Prim::MulAdd) => self.mul_add(ids, id, dtype),
            (Kind::Float, Prim::Nearest) => self.nearest(ids, id, dtype),
            (Kind::Float, Prim::Quotient) if dtype == DType::F32 => self.quotient(ids, id),
            (Kind::Float, Prim::Quotient) => self.binary(float(dtype, 0x5E), ids, id, dtype),
            (Kind::Float, Prim::Ldexp) if self.target == Target::Avx512 && dtype == DType::F32 => {
                self.binary(Op::new(P66, M38, 0x2C), ids, id, dtype)
            }
            (Kind::Float, Prim::Exponent) if dtype == DType::F32 => self.exponent(ids[0], id),
            (Kind::Float, _) => self.arithmetic(prim, ids, id, dtype),
            _ => self.integers(prim, ids, id, dtype),
        }
    }

    pub(super) fn width_length(&self, dtype: DType) -> Able<u8> {
        self.length(dtype.bytes())
    }

    /// One instruction of two operands.
    fn binary(&mut self, op: Op, ids: &[u32], id: u32, dtype: DType) -> Able<()> {
        let (a, b) = (self.value(ids[0])?, self.value(ids[1])?);
        self.release_all(ids);
        let to = self.vector()?;
        self.op(op, self.width_length(dtype)?, to, a, Rm::Reg(b), None);
        self.define(id, to);
        Ok(())
    }

    /// One instruction of one operand.
    pub(super) fn unary(&mut self, op: Op, from: u32, id: u32, dtype: DType, immediate: Option<u8>) -> Able<()> {
        let x = self.value(from)?;
        self.release(from);
        let to = self.vector()?;
        self.op(op, self.width_length(dtype)?, to, 0, Rm::Reg(x), immediate);
        self.define(id, to);
        Ok(())
    }

    /// One instruction of a value and a constant.
    fn with_constant(&mut self, op: Op, from: u32, bits: u64, id: u32, dtype: DType) -> Able<()> {
        let (x, constant) = (self.value(from)?, self.constant((bits, dtype.bytes()))?);
        self.release(from);
        let to = self.vector()?;
        self.op(op, self.width_length(dtype)?, to, x, Rm::Reg(constant), None);
        self.define(id, to);
        Ok(())
    }

    fn arithmetic(&mut self, prim: Prim, ids: &[u32], id: u32, dtype: DType) -> Able<()> {
        let sign = bits(dtype, -0.0);
        let round = |mode: u8| (float_in(M3A, dtype, if dtype == DType::F64 { 9 } else { 8 }), Some(8 | mode));
        let (op, immediate) = match prim {
            Prim::Add => return self.binary(float(dtype, 0x58), ids, id, dtype),
            Prim::Sub => return self.binary(float(dtype, 0x5C), ids, id, dtype),
            Prim::Mul => return self.binary(float(dtype, 0x59), ids, id, dtype),
            Prim::Div => return self.binary(float(dtype, 0x5E), ids, id, dtype),
            Prim::Neg => return self.with_constant(bitwise(dtype, 0xEF), ids[0], sign, id, dtype),
            Prim::Abs => {
                let magnitude = sign - 1;
                return self.with_constant(bitwise(dtype, 0xDB), ids[0], magnitude, id, dtype);
            }
            Prim::Round => round(0),
            Prim::Floor => round(1),
            Prim::Ceil => round(2),
            Prim::Trunc => round(3),
            Prim::Sqrt => (float(dtype, 0x51), None),
            _ => return Err(Unable),
        };
        self.unary(op, ids[0], id, dtype, immediate)
    }

    /// The larger (or smaller, by `code`) of both, NaN when either is NaN. The instruction gives its second operand where
    /// it cannot compare, and where both are zeros.
    fn larger(&mut self, ids: &[u32], id: u32, dtype: DType, code: u8) -> Able<()> {
        let op = float(dtype, code);
        let number = |id: u32| self.fragment.number(id).filter(|c| !c.is_nan());
        if number(ids[0]).is_some() {
            return self.binary(op, ids, id, dtype);
        }
        let Some(c) = number(ids[1]) else { return self.larger_of_any(op, ids, id, dtype) };
        if c == 0.0 && c.is_sign_negative() {
            return self.larger_of_any(op, ids, id, dtype);
        }
        self.binary(op, &[ids[1], ids[0]], id, dtype)?;
        if c == 0.0 {
            // Where both are zeros this gave the first operand, and the sum is +0 for either.
            let (to, zero) = (self.value(id)?, self.constant((0, dtype.bytes()))?);
            self.op(float(dtype, 0x58), self.width_length(dtype)?, to, to, Rm::Reg(zero), None);
        }
        Ok(())
    }

    fn larger_of_any(&mut self, op: Op, ids: &[u32], id: u32, dtype: DType) -> Able<()> {
        let length = self.width_length(dtype)?;
        let (a, b) = (self.value(ids[0])?, self.value(ids[1])?);
        let (to, nan) = (self.vector()?, self.temp_mask()?);
        self.op(op, length, to, a, Rm::Reg(b), None);
        self.op(float(dtype, 0xC2), length, nan, a, Rm::Reg(a), Some(UNORDERED));
        self.blend(dtype, to, nan, a, to)?;
        self.release_all(ids);
        self.define(id, to);
        Ok(())
    }

    /// `to = mask ? yes : no`
    pub(super) fn blend(&mut self, dtype: DType, to: u8, mask: u8, yes: u8, no: u8) -> Able<()> {
        let length = self.width_length(dtype)?;
        let wide = dtype.bytes() == 8;
        if self.target == Target::Avx512 {
            self.masked(
                float_in(M38, if wide { DType::F64 } else { DType::F32 }, 0x65),
                length,
                [to, no, yes],
                mask,
                true,
            );
        } else {
            let op = Op::new(P66, M3A, if wide { 0x4B } else { 0x4A });
            self.op(op, length, to, no, Rm::Reg(yes), Some(mask << 4));
        }
        Ok(())
    }

    fn pick(&mut self, ids: &[u32], id: u32, dtype: DType) -> Able<()> {
        let (mask, yes, no) = (self.value(ids[0])?, self.value(ids[1])?, self.value(ids[2])?);
        self.release_all(ids);
        let to = self.vector()?;
        self.blend(dtype, to, mask, yes, no)?;
        self.define(id, to);
        Ok(())
    }

    /// Compares the first with the last of `ids`.
    fn compare(&mut self, ids: &[u32], id: u32, from: DType, condition: u8) -> Able<()> {
        let (a, b) = (self.value(ids[0])?, self.value(*ids.last().ok_or(Unable)?)?);
        let to = self.mask()?;
        self.op(float(from, 0xC2), self.width_length(from)?, to, a, Rm::Reg(b), Some(condition));
        self.release_all(ids);
        self.define(id, to);
        Ok(())
    }

    fn is_inf(&mut self, from: u32, id: u32, dtype: DType) -> Able<()> {
        let length = self.width_length(dtype)?;
        let x = self.value(from)?;
        let magnitude = self.constant((bits(dtype, -0.0) - 1, dtype.bytes()))?;
        let infinity = self.constant((bits(dtype, f64::INFINITY), dtype.bytes()))?;
        let (size, to) = (self.temp()?, self.mask()?);
        self.op(bitwise(dtype, 0xDB), length, size, x, Rm::Reg(magnitude), None);
        self.op(float(dtype, 0xC2), length, to, size, Rm::Reg(infinity), Some(EQ));
        self.release(from);
        self.define(id, to);
        Ok(())
    }

    /// The sign bit, also of a NaN.
    fn is_negative(&mut self, from: u32, id: u32, dtype: DType) -> Able<()> {
        let length = self.width_length(dtype)?;
        let x = self.value(from)?;
        let to = self.mask()?;
        if self.target == Target::Avx512 {
            let op = Op::new(PF3, M38, 0x39);
            let op = if dtype == DType::F64 { Op::wide(PF3, M38, 0x39) } else { op };
            self.op(op, length, to, 0, Rm::Reg(x), None);
        } else if dtype == DType::F32 {
            // Spreads the sign over the lane: the field of the register tells the shift from its kin.
            self.op(Op::new(P66, M0F, 0x72), length, 4, to, Rm::Reg(x), Some(31));
        } else {
            let zero = self.constant((0, 8))?;
            self.op(Op::new(P66, M38, 0x37), length, to, zero, Rm::Reg(x), None);
        }
        self.release(from);
        self.define(id, to);
        Ok(())
    }

    fn integers(&mut self, prim: Prim, ids: &[u32], id: u32, dtype: DType) -> Able<()> {
        if dtype.bytes() == 8 && self.target == Target::Avx2 {
            return Err(Unable);
        }
        let signed = kind(dtype)? == Kind::Signed;
        let long = dtype.bytes() == 8;
        let ones = u64::MAX >> (64 - 8 * dtype.bytes());
        let (map, code) = match prim {
            Prim::Add => (M0F, if long { 0xD4 } else { 0xFE }),
            Prim::Sub => (M0F, if long { 0xFB } else { 0xFA }),
            Prim::Mul => (M38, 0x40),
            Prim::And => (M0F, 0xDB),
            Prim::Or => (M0F, 0xEB),
            Prim::Xor => (M0F, 0xEF),
            Prim::Larger => (M38, if signed { 0x3D } else { 0x3F }),
            Prim::Smaller => (M38, if signed { 0x39 } else { 0x3B }),
            Prim::Not => return self.with_constant(bitwise(dtype, 0xEF), ids[0], ones, id, dtype),
            Prim::Abs if signed => {
                let code = if long { 0x1F } else { 0x1E };
                return self.unary(float_in(M38, lanes_of(dtype), code), ids[0], id, dtype, None);
            }
            Prim::Neg => return self.negated(ids[0], id, dtype),
            Prim::Shl => return self.shift(0x47, ids, id, dtype),
            Prim::Shr => return self.shift(if signed { 0x46 } else { 0x45 }, ids, id, dtype),
            _ => return Err(Unable),
        };
        self.binary(float_in(map, lanes_of(dtype), code), ids, id, dtype)
    }

    fn negated(&mut self, from: u32, id: u32, dtype: DType) -> Able<()> {
        let (x, zero) = (self.value(from)?, self.constant((0, dtype.bytes()))?);
        self.release(from);
        let to = self.vector()?;
        let code = if dtype.bytes() == 8 { 0xFB } else { 0xFA };
        self.op(bitwise(dtype, code), self.width_length(dtype)?, to, zero, Rm::Reg(x), None);
        self.define(id, to);
        Ok(())
    }

    /// The count is taken modulo the width.
    fn shift(&mut self, code: u8, ids: &[u32], id: u32, dtype: DType) -> Able<()> {
        let below = 8 * dtype.bytes() as u64 - 1;
        let (a, b, below) = (self.value(ids[0])?, self.value(ids[1])?, self.constant((below, dtype.bytes()))?);
        let count = self.temp()?;
        let length = self.width_length(dtype)?;
        self.op(bitwise(dtype, 0xDB), length, count, b, Rm::Reg(below), None);
        self.release_all(ids);
        let to = self.vector()?;
        self.op(float_in(M38, lanes_of(dtype), code), length, to, a, Rm::Reg(count), None);
        self.define(id, to);
        Ok(())
    }

    fn compare_integers(&mut self, prim: Prim, ids: &[u32], id: u32, from: DType) -> Able<()> {
        let (a, b) = (self.value(ids[0])?, self.value(ids[1])?);
        let to = self.mask()?;
        let length = self.width_length(from)?;
        if self.target == Target::Avx512 {
            let condition = [(Prim::Eq, 0), (Prim::Lt, 1), (Prim::Le, 2)].into_iter().find(|(p, _)| *p == prim);
            let code = if kind(from)? == Kind::Unsigned { 0x1E } else { 0x1F };
            let (_, condition) = condition.ok_or(Unable)?;
            self.op(float_in(M3A, lanes_of(from), code), length, to, a, Rm::Reg(b), Some(condition));
        } else {
            match (prim, from) {
                (Prim::Eq, DType::I32 | DType::U32) => {
                    self.op(Op::new(P66, M0F, 0x76), length, to, a, Rm::Reg(b), None);
                }
                (Prim::Lt, DType::I32) => self.op(Op::new(P66, M0F, 0x66), length, to, b, Rm::Reg(a), None),
                _ => return Err(Unable),
            }
        }
        self.release_all(ids);
        self.define(id, to);
        Ok(())
    }

    /// Primitives of truth values.
    fn logic(&mut self, prim: Prim, ids: &[u32], id: u32) -> Able<()> {
        if self.target == Target::Avx2 {
            return self.logic_in_vectors(prim, ids, id);
        }
        if prim == Prim::Pick {
            return self.pick_truth(ids, id);
        }
        let (a, b) = (self.value(ids[0])?, self.value(*ids.last().ok_or(Unable)?)?);
        self.release_all(ids);
        let to = self.mask()?;
        match prim {
            Prim::And => self.mask_op(Op::new(NONE, M0F, 0x41), to, a, b),
            Prim::Or => self.mask_op(Op::new(NONE, M0F, 0x45), to, a, b),
            Prim::Xor => self.mask_op(Op::new(NONE, M0F, 0x47), to, a, b),
            Prim::Eq => self.mask_op(Op::new(NONE, M0F, 0x46), to, a, b),
            Prim::Not => self.mask_op(Op::new(NONE, M0F, 0x44), to, 0, a),
            _ => return Err(Unable),
        }
        self.define(id, to);
        Ok(())
    }

    fn pick_truth(&mut self, ids: &[u32], id: u32) -> Able<()> {
        let (mask, yes, no) = (self.value(ids[0])?, self.value(ids[1])?, self.value(ids[2])?);
        let (first, second) = (self.temp_mask()?, self.temp_mask()?);
        self.mask_op(Op::new(NONE, M0F, 0x41), first, mask, yes);
        self.mask_op(Op::new(NONE, M0F, 0x42), second, mask, no);
        self.release_all(ids);
        let to = self.mask()?;
        self.mask_op(Op::new(NONE, M0F, 0x45), to, first, second);
        self.define(id, to);
        Ok(())
    }

    fn logic_in_vectors(&mut self, prim: Prim, ids: &[u32], id: u32) -> Able<()> {
        let (width, length) = (32 / self.lanes, 1);
        let lanes = if width == 8 { DType::F64 } else { DType::F32 };
        if prim == Prim::Pick {
            return self.pick(ids, id, lanes);
        }
        let (a, b) = (self.value(ids[0])?, self.value(*ids.last().ok_or(Unable)?)?);
        let ones = self.constant((u64::MAX >> (64 - 8 * width), width))?;
        self.release_all(ids);
        let to = self.vector()?;
        let (code, other) = match prim {
            Prim::And => (0xDB, b),
            Prim::Or => (0xEB, b),
            Prim::Xor | Prim::Eq => (0xEF, b),
            Prim::Not => (0xEF, ones),
            _ => return Err(Unable),
        };
        self.op(Op::new(P66, M0F, code), length, to, a, Rm::Reg(other), None);
        if prim == Prim::Eq {
            self.op(Op::new(P66, M0F, 0xEF), length, to, to, Rm::Reg(ones), None);
        }
        self.define(id, to);
        Ok(())
    }
}

/// And, or, exclusive or of whole registers; the width bit matters to none of them here.
pub(super) fn bitwise(dtype: DType, code: u8) -> Op {
    if dtype.bytes() == 8 { Op::wide(P66, M0F, code) } else { Op::new(P66, M0F, code) }
}
