//! Writes the loop of a fragment: places of operands, registers, loads, stores and what lies between two elements.

use breakeven_ir::{DType, Inst};

use super::assembler::{Assembler, Form, M0F, M3A, M38, NONE, Op, P66, PF2, PF3, RBP, RBX, RCX, RDI, RDX, RSI, Rm};
use super::{Fragment, Target};

/// There are not enough registers, or an instruction has no form here.
#[derive(Debug)]
pub(super) struct Unable;

pub(super) type Able<T> = Result<T, Unable>;

/// The mask register that holds which elements of the last chunk there are.
const TAIL: u8 = 1;

/// Registers that may point at operands, in the order of their use; from the sixth on they belong to the caller.
pub(super) const POINTERS: [u8; 11] = [8, 9, 10, 11, RDI, RBX, RBP, 12, 13, 14, 15];
const OURS: usize = 5;

/// A constant: its bits, and bytes of an element.
pub(super) type Constant = (u64, usize);

/// The state of writing one fragment.
pub(super) struct Emitter<'a> {
    pub asm: Assembler,
    pub target: Target,
    pub lanes: usize,
    pub fragment: &'a Fragment<'a>,
    /// The register that holds each value now.
    at: Vec<Option<u8>>,
    /// How often each value is still to be read in this copy of the body.
    left: Vec<u32>,
    /// Values that stay in their registers from chunk to chunk.
    pinned: Vec<bool>,
    vectors: u32,
    masks: u8,
    /// Vector registers that were never in use at once.
    pub spare: u32,
    temps: Vec<(u8, bool)>,
    hoisted: Vec<(Constant, u8)>,
    /// Constants that were asked for, the first ones first.
    pub asked: Vec<Constant>,
    copy: usize,
    tail: u8,
    streams: bool,
}

impl<'a> Emitter<'a> {
    pub fn new(fragment: &'a Fragment<'a>, target: Target, lanes: usize) -> Emitter<'a> {
        let vectors = if target == Target::Avx512 { u32::MAX } else { 0xFFFF };
        Emitter {
            asm: Assembler::default(),
            target,
            lanes,
            fragment,
            at: vec![None; fragment.insts.len()],
            left: Vec::new(),
            pinned: vec![false; fragment.insts.len()],
            vectors,
            masks: 0xFC,
            spare: vectors.count_ones(),
            temps: Vec::new(),
            hoisted: Vec::new(),
            asked: Vec::new(),
            copy: 0,
            tail: 0,
            streams: false,
        }
    }

    /// Writes everything, with `constants` held in registers all the way.
    pub fn emit(&mut self, constants: &[Constant], unroll: usize, streams: bool) -> Able<()> {
        let operands = self.fragment.operands();
        let pointers = POINTERS.get(..operands).ok_or(Unable)?;
        let theirs = pointers.get(OURS..).unwrap_or_default();
        for &register in theirs {
            self.asm.push(register);
        }
        // The table of operands is what the last of these registers points at until then.
        for (k, &register) in pointers.iter().enumerate().filter(|(_, r)| **r != RDI) {
            self.asm.load_address(register, RDI, 8 * k as i32);
        }
        if operands >= OURS {
            self.asm.load_address(RDI, RDI, 8 * (OURS as i32 - 1));
        }
        self.hoist(constants)?;
        self.asm.clear_index();
        self.streams = streams;
        if unroll > 1 {
            self.chunks(RSI, unroll)?;
        }
        self.chunks(RDX, 1)?;
        self.streams = false;
        if self.target == Target::Avx512 {
            self.asm.test(RCX);
            let none = self.asm.jump_if_zero();
            self.mask_op(Op::new(NONE, M0F, 0x92), TAIL, 0, RCX);
            self.tail = TAIL;
            self.body()?;
            self.asm.land(none);
        }
        for &register in theirs.iter().rev() {
            self.asm.pop(register);
        }
        self.asm.finish_call();
        Ok(())
    }

    /// Loads what is the same for all elements.
    fn hoist(&mut self, constants: &[Constant]) -> Able<()> {
        for id in 0..self.fragment.insts.len() {
            if let (Inst::Arg(k), dtype) = self.fragment.insts[id]
                && self.fragment.uniform[k as usize]
            {
                self.at[id] = Some(self.broadcast_arg(k, dtype)?);
                self.pinned[id] = true;
            }
        }
        for &constant in constants {
            let register = self.vector()?;
            self.load_constant(constant, register)?;
            self.hoisted.push((constant, register));
        }
        self.drop_temps();
        Ok(())
    }

    /// Whole chunks, `copies` at a time, as long as the index is below what `end` holds.
    fn chunks(&mut self, end: u8, copies: usize) -> Able<()> {
        self.asm.compare_index(end);
        let none = self.asm.jump_if_not_below();
        self.asm.align();
        let top = self.asm.len();
        for copy in 0..copies {
            self.copy = copy;
            self.body()?;
        }
        self.copy = 0;
        self.asm.advance((copies * self.lanes) as i32);
        self.asm.compare_index(end);
        self.asm.jump_back_if_below(top);
        self.asm.land(none);
        Ok(())
    }

    /// The body for one chunk.
    fn body(&mut self) -> Able<()> {
        self.left = self.fragment.uses.clone();
        for (id, &(inst, dtype)) in self.fragment.insts.iter().enumerate() {
            let id = id as u32;
            match inst {
                Inst::Arg(_) | Inst::Param(_) | Inst::Const(_) => {}
                Inst::Prim(prim, ids) => self.prim(prim, ids, id, dtype)?,
                Inst::Cast(from) => self.cast(from, id, dtype)?,
            }
            self.drop_temps();
        }
        for (k, &id) in self.fragment.outputs.iter().enumerate() {
            let register = self.value(id)?;
            self.store(register, self.fragment.insts[id as usize].1, self.fragment.args + k)?;
            self.release(id);
            self.drop_temps();
        }
        Ok(())
    }

    /// The register that holds a value, which is loaded where it is an argument or a constant.
    pub fn value(&mut self, id: u32) -> Able<u8> {
        if let Some(register) = self.at[id as usize] {
            return Ok(register);
        }
        let (inst, dtype) = self.fragment.insts[id as usize];
        if let Some(bits) = self.fragment.constant(id) {
            return self.constant((bits, dtype.bytes()));
        }
        let Inst::Arg(k) = inst else { return Err(Unable) };
        let register = self.load(k as usize, dtype)?;
        self.at[id as usize] = Some(register);
        Ok(register)
    }

    /// A value was read once more.
    pub fn release(&mut self, id: u32) {
        let id = id as usize;
        self.left[id] -= 1;
        if self.left[id] == 0
            && !self.pinned[id]
            && let Some(register) = self.at[id].take()
        {
            self.free(register, self.is_mask(self.fragment.insts[id].1));
        }
    }

    /// Values were read once more.
    pub fn release_all(&mut self, ids: &[u32]) {
        for &id in ids {
            self.release(id);
        }
    }

    /// True where the register of a value just released may be written.
    pub fn take(&mut self, register: u8) -> bool {
        let is_free = self.vectors >> register & 1 == 1;
        if is_free {
            self.vectors &= !(1 << register);
        }
        is_free
    }

    /// `register` holds value `id` from now on.
    pub fn define(&mut self, id: u32, register: u8) {
        self.at[id as usize] = Some(register);
    }

    /// Truth values live in registers of their own.
    pub fn is_mask(&self, dtype: DType) -> bool {
        dtype == DType::Bool && self.target == Target::Avx512
    }

    pub fn vector(&mut self) -> Able<u8> {
        if self.vectors == 0 {
            return Err(Unable);
        }
        let register = self.vectors.trailing_zeros() as u8;
        self.vectors &= !(1 << register);
        self.spare = self.spare.min(self.vectors.count_ones());
        Ok(register)
    }

    /// A register for a truth value.
    pub fn mask(&mut self) -> Able<u8> {
        if self.target == Target::Avx2 {
            return self.vector();
        }
        if self.masks == 0 {
            return Err(Unable);
        }
        let register = self.masks.trailing_zeros() as u8;
        self.masks &= !(1 << register);
        Ok(register)
    }

    pub fn free(&mut self, register: u8, is_mask: bool) {
        if is_mask {
            self.masks |= 1 << register;
        } else {
            self.vectors |= 1 << register;
        }
    }

    /// A vector register until the end of the instruction.
    pub fn temp(&mut self) -> Able<u8> {
        let register = self.vector()?;
        self.temps.push((register, false));
        Ok(register)
    }

    /// A register for a truth value until the end of the instruction.
    pub fn temp_mask(&mut self) -> Able<u8> {
        let register = self.mask()?;
        self.temps.push((register, self.target == Target::Avx512));
        Ok(register)
    }

    fn drop_temps(&mut self) {
        while let Some((register, is_mask)) = self.temps.pop() {
            self.free(register, is_mask);
        }
    }

    /// A register that holds a constant until the end of the instruction.
    pub fn constant(&mut self, constant: Constant) -> Able<u8> {
        if !self.asked.contains(&constant) {
            self.asked.push(constant);
        }
        if let Some((_, register)) = self.hoisted.iter().find(|(c, _)| *c == constant) {
            return Ok(*register);
        }
        let register = self.temp()?;
        self.load_constant(constant, register)?;
        Ok(register)
    }

    fn load_constant(&mut self, (bits, width): Constant, to: u8) -> Able<()> {
        let rm = Rm::Table(self.asm.constant(bits));
        self.broadcast(to, rm, width)
    }

    fn broadcast(&mut self, to: u8, rm: Rm, width: usize) -> Able<()> {
        let op = match width {
            8 => Op::wide(P66, M38, 0x19),
            4 => Op::new(P66, M38, 0x18),
            2 => Op::new(P66, M38, 0x79),
            _ => Op::new(P66, M38, 0x78),
        };
        let length = self.length(width.max(2))?;
        // VEX has the wide form of the first without the width bit.
        let op = if self.target == Target::Avx2 && width == 8 { Op::new(P66, M38, 0x19) } else { op };
        self.op(op, length, to, 0, rm, None);
        Ok(())
    }

    fn broadcast_arg(&mut self, k: u16, dtype: DType) -> Able<u8> {
        let rm = Rm::At { base: POINTERS[k as usize] };
        if dtype != DType::Bool {
            let register = self.vector()?;
            self.broadcast(register, rm, dtype.bytes())?;
            return Ok(register);
        }
        let bytes = self.temp()?;
        self.broadcast(bytes, rm, 1)?;
        let mask = self.mask()?;
        if self.target == Target::Avx2 {
            let wide = self.temp()?;
            self.op(self.widening(), 1, wide, 0, Rm::Reg(bytes), None);
            self.is_positive(mask, wide)?;
        } else {
            self.op(Op::new(P66, M38, 0x26), 0, mask, bytes, Rm::Reg(bytes), None);
        }
        Ok(mask)
    }

    /// The length of registers that hold a chunk of elements of `width` bytes.
    pub fn length(&self, width: usize) -> Able<u8> {
        match self.lanes * width {
            0..=16 => Ok(0),
            32 => Ok(1),
            64 if self.target == Target::Avx512 => Ok(2),
            _ => Err(Unable),
        }
    }

    /// One instruction on vectors.
    pub fn op(&mut self, op: Op, length: u8, reg: u8, middle: u8, rm: Rm, immediate: Option<u8>) {
        self.form(op, Form { length, reg, middle, rm, immediate, mask: 0, merges: false });
    }

    /// One instruction on the elements that `mask` says.
    pub fn masked(&mut self, op: Op, length: u8, [reg, middle, rm]: [u8; 3], mask: u8, merges: bool) {
        self.form(op, Form { length, reg, middle, rm: Rm::Reg(rm), immediate: None, mask, merges });
    }

    fn form(&mut self, op: Op, form: Form) {
        match self.target {
            Target::Avx2 => self.asm.vex(op, form),
            Target::Avx512 => self.asm.evex(op, form),
        }
    }

    /// One instruction on mask registers, which have the older prefix.
    pub fn mask_op(&mut self, op: Op, reg: u8, middle: u8, rm: u8) {
        let length = u8::from(middle != 0);
        let form = Form { length, reg, middle, rm: Rm::Reg(rm), immediate: None, mask: 0, merges: false };
        self.asm.vex(op, form);
    }

    fn element(&self, k: usize, width: usize) -> Rm {
        let offset = (self.copy * self.lanes * width) as i32;
        Rm::Element { base: POINTERS[k], scale: width.trailing_zeros() as u8, offset }
    }

    /// Loads a chunk of operand `k`.
    fn load(&mut self, k: usize, dtype: DType) -> Able<u8> {
        let (width, length) = (dtype.bytes(), self.length(dtype.bytes())?);
        let rm = self.element(k, width);
        if dtype == DType::Bool {
            return self.load_truth(rm);
        }
        let to = self.vector()?;
        let op = match (self.target, width, self.lanes * width) {
            (Target::Avx2, _, 8) => Op::new(PF3, M0F, 0x7E),
            (Target::Avx512, 1, 8) if self.tail == 0 => Op::wide(PF3, M0F, 0x7E),
            (Target::Avx512, 1, _) => Op::new(PF2, M0F, 0x6F),
            (Target::Avx512, 2, _) => Op::wide(PF2, M0F, 0x6F),
            (Target::Avx512, 8, _) => Op::wide(P66, M0F, 0x10),
            (Target::Avx2, _, ..8) => return Err(Unable),
            _ => Op::new(NONE, M0F, 0x10),
        };
        let form = Form { length, reg: to, middle: 0, rm, immediate: None, mask: self.tail, merges: false };
        self.form(op, form);
        Ok(to)
    }

    fn load_truth(&mut self, rm: Rm) -> Able<u8> {
        let (to, bytes) = (self.mask()?, self.temp()?);
        if self.target == Target::Avx2 {
            self.op(self.widening(), 1, bytes, 0, rm, None);
            self.is_positive(to, bytes)?;
            return Ok(to);
        }
        let eight = self.lanes == 8 && self.tail == 0;
        let op = if eight { Op::wide(PF3, M0F, 0x7E) } else { Op::new(PF2, M0F, 0x6F) };
        self.form(op, Form { length: 0, reg: bytes, middle: 0, rm, immediate: None, mask: self.tail, merges: false });
        self.op(Op::new(P66, M38, 0x26), 0, to, bytes, Rm::Reg(bytes), None);
        Ok(to)
    }

    /// Bytes to elements as wide as the lanes.
    fn widening(&self) -> Op {
        Op::new(P66, M38, if self.lanes == 8 { 0x31 } else { 0x32 })
    }

    /// True lanes where the elements are above 0.
    fn is_positive(&mut self, to: u8, from: u8) -> Able<()> {
        let zero = self.constant((0, 32 / self.lanes))?;
        let op = if self.lanes == 8 { Op::new(P66, M0F, 0x66) } else { Op::new(P66, M38, 0x37) };
        self.op(op, 1, to, from, Rm::Reg(zero), None);
        Ok(())
    }

    /// Stores a chunk to operand `k`.
    fn store(&mut self, from: u8, dtype: DType, k: usize) -> Able<()> {
        let (width, length) = (dtype.bytes(), self.length(dtype.bytes())?);
        let rm = self.element(k, width);
        let from = if dtype == DType::Bool { self.truth_bytes(from)? } else { from };
        let streams = self.streams && self.lanes * width >= 16;
        let op = match (self.target, width, self.lanes * width) {
            (_, 8 | 4, _) if streams => Op::new(NONE, M0F, 0x2B),
            _ if streams => Op::new(P66, M0F, 0xE7),
            (Target::Avx2, _, 8) => Op::new(P66, M0F, 0xD6),
            (Target::Avx2, _, 4) => Op::new(P66, M0F, 0x7E),
            (Target::Avx512, 1 | 2, 8) if self.tail == 0 => Op::wide(P66, M0F, 0xD6),
            (Target::Avx512, 1, _) => Op::new(PF2, M0F, 0x7F),
            (Target::Avx512, 2, _) => Op::wide(PF2, M0F, 0x7F),
            (Target::Avx512, 8, _) => Op::wide(P66, M0F, 0x11),
            _ => Op::new(NONE, M0F, 0x11),
        };
        // A store has no form that writes zeros.
        let form = Form { length, reg: from, middle: 0, rm, immediate: None, mask: self.tail, merges: true };
        self.form(op, form);
        Ok(())
    }

    /// A byte of 0 or 1 for each truth value.
    fn truth_bytes(&mut self, mask: u8) -> Able<u8> {
        let bytes = self.temp()?;
        if self.target == Target::Avx512 {
            self.op(Op::new(PF3, M38, 0x28), 0, bytes, 0, Rm::Reg(mask), None);
        } else {
            self.op(Op::new(P66, M3A, 0x39), 1, mask, 0, Rm::Reg(bytes), Some(1));
            self.op(Op::new(P66, M0F, 0x6B), 0, bytes, mask, Rm::Reg(bytes), None);
            for _ in 0..if self.lanes == 8 { 1 } else { 2 } {
                self.op(Op::new(P66, M0F, 0x63), 0, bytes, bytes, Rm::Reg(bytes), None);
            }
        }
        self.op(Op::new(P66, M38, 0x1C), 0, bytes, 0, Rm::Reg(bytes), None);
        Ok(bytes)
    }
}
