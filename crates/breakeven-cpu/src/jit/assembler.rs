//! Encodes the few forms of instructions that generated code is made of. A maintained decoder holds every form in tests.

/// An instruction on vectors: opcode map, mandatory prefix, width bit and opcode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Op {
    map: u8,
    prefix: u8,
    wide: bool,
    code: u8,
}

/// Mandatory prefixes, as they are encoded.
pub(super) const NONE: u8 = 0;
pub(super) const P66: u8 = 1;
pub(super) const PF3: u8 = 2;
pub(super) const PF2: u8 = 3;

/// Opcode maps, as they are encoded.
pub(super) const M0F: u8 = 1;
pub(super) const M38: u8 = 2;
pub(super) const M3A: u8 = 3;

impl Op {
    /// With the width bit clear: elements of 32 bits, and whatever does not ask.
    pub const fn new(prefix: u8, map: u8, code: u8) -> Op {
        Op { map, prefix, wide: false, code }
    }

    /// With the width bit set: elements of 64 bits.
    pub const fn wide(prefix: u8, map: u8, code: u8) -> Op {
        Op { map, prefix, wide: true, code }
    }
}

/// Where the last operand is.
#[derive(Clone, Copy, Debug)]
pub(super) enum Rm {
    Reg(u8),
    /// `base + rax * 2^scale + offset`.
    Element {
        base: u8,
        scale: u8,
        offset: i32,
    },
    /// The start of what `base` points at.
    At {
        base: u8,
    },
    /// So many bytes into the table behind the code.
    Table(u32),
}

/// Operands and form of an instruction on vectors.
#[derive(Clone, Copy, Debug)]
pub(super) struct Form {
    /// 0, 1, 2: registers of 16, 32, 64 bytes.
    pub length: u8,
    pub reg: u8,
    /// The middle operand; 0 where there is none.
    pub middle: u8,
    pub rm: Rm,
    pub immediate: Option<u8>,
    /// Elements that count; 0 for all. The others become 0 in a register and stay in memory.
    pub mask: u8,
    /// The elements that do not count stay in a register as well.
    pub merges: bool,
}

/// Registers of addresses.
pub(super) const RAX: u8 = 0;
pub(super) const RCX: u8 = 1;
pub(super) const RDX: u8 = 2;
pub(super) const RBX: u8 = 3;
pub(super) const RBP: u8 = 5;
pub(super) const RSI: u8 = 6;
pub(super) const RDI: u8 = 7;

/// Machine code so far, and the constants that it reads.
#[derive(Debug, Default)]
pub(super) struct Assembler {
    code: Vec<u8>,
    table: Vec<u64>,
    /// Where a distance to the table is written, where its instruction ends, and the byte of the table.
    fixes: Vec<(usize, usize, u32)>,
}

impl Assembler {
    /// Bytes so far.
    pub fn len(&self) -> usize {
        self.code.len()
    }

    /// The place in the table of a constant, given by its bits.
    pub fn constant(&mut self, bits: u64) -> u32 {
        let known = self.table.iter().position(|&b| b == bits);
        let index = known.unwrap_or_else(|| {
            self.table.push(bits);
            self.table.len() - 1
        });
        8 * index as u32
    }

    /// An instruction with the prefix of AVX and AVX2.
    pub fn vex(&mut self, op: Op, form: Form) {
        let (r, x, b) = extensions(form.reg, form.rm);
        self.code.push(0xC4);
        self.code.push(not(r) << 7 | not(x) << 6 | not(b) << 5 | op.map);
        self.code.push(u8::from(op.wide) << 7 | (!form.middle & 15) << 3 | form.length << 2 | op.prefix);
        self.code.push(op.code);
        self.operand(form.reg, form.rm, form.immediate);
    }

    /// An instruction with the prefix of AVX-512.
    pub fn evex(&mut self, op: Op, form: Form) {
        let (r, x, b) = extensions(form.reg, form.rm);
        // The index register is below 16, so the bit that would extend it extends a register instead.
        let x = if let Rm::Reg(rm) = form.rm { rm >> 4 & 1 } else { x };
        let zeros = u8::from(form.mask != 0 && !form.merges);
        self.code.push(0x62);
        self.code.push(not(r) << 7 | not(x) << 6 | not(b) << 5 | not(form.reg >> 4) << 4 | op.map);
        self.code.push(u8::from(op.wide) << 7 | (!form.middle & 15) << 3 | 4 | op.prefix);
        self.code.push(zeros << 7 | form.length << 5 | not(form.middle >> 4) << 3 | form.mask);
        self.code.push(op.code);
        self.operand(form.reg, form.rm, form.immediate);
    }

    /// The bytes that say which register and where the other operand is, then the immediate.
    fn operand(&mut self, reg: u8, rm: Rm, immediate: Option<u8>) {
        let reg = (reg & 7) << 3;
        match rm {
            Rm::Reg(rm) => self.code.push(0xC0 | reg | rm & 7),
            Rm::Element { base, scale, offset } => {
                // Distances of 32 bits always: shorter ones are scaled differently by each instruction of AVX-512.
                self.code.extend([0x84 | reg, scale << 6 | RAX << 3 | base & 7]);
                self.code.extend(offset.to_le_bytes());
            }
            Rm::At { base } => {
                self.code.extend([0x84 | reg, 4 << 3 | base & 7]);
                self.code.extend([0; 4]);
            }
            Rm::Table(byte) => {
                self.code.push(5 | reg);
                let at = self.code.len();
                self.code.extend([0; 4]);
                self.fixes.push((at, at + 4 + usize::from(immediate.is_some()), byte));
            }
        }
        self.code.extend(immediate);
    }

    /// `to = [base + offset]`, 8 bytes.
    pub fn load_address(&mut self, to: u8, base: u8, offset: i32) {
        self.code.extend([0x48 | (to >> 3) << 2 | base >> 3, 0x8B, 0x80 | (to & 7) << 3 | base & 7]);
        self.code.extend(offset.to_le_bytes());
    }

    pub fn push(&mut self, register: u8) {
        self.extended(register, 0x50);
    }

    pub fn pop(&mut self, register: u8) {
        self.extended(register, 0x58);
    }

    fn extended(&mut self, register: u8, code: u8) {
        if register >= 8 {
            self.code.push(0x41);
        }
        self.code.push(code | register & 7);
    }

    /// `rax = 0`
    pub fn clear_index(&mut self) {
        self.code.extend([0x31, 0xC0]);
    }

    /// `rax += elements`
    pub fn advance(&mut self, elements: i32) {
        self.code.extend([0x48, 0x05]);
        self.code.extend(elements.to_le_bytes());
    }

    /// Compares `rax` with `register`.
    pub fn compare_index(&mut self, register: u8) {
        self.code.extend([0x48, 0x39, 0xC0 | register << 3]);
    }

    /// Compares the low half of `register` with 0.
    pub fn test(&mut self, register: u8) {
        self.code.extend([0x85, 0xC0 | register << 3 | register]);
    }

    /// Jumps to where `to` is, if the index was below.
    pub fn jump_back_if_below(&mut self, to: usize) {
        self.code.extend([0x0F, 0x82]);
        let distance = to as i64 - (self.code.len() as i64 + 4);
        self.code.extend((distance as i32).to_le_bytes());
    }

    /// Jumps to a place given later to [`Assembler::land`], if the index was not below.
    pub fn jump_if_not_below(&mut self) -> usize {
        self.jump_later(0x83)
    }

    /// Likewise, if the register was 0.
    pub fn jump_if_zero(&mut self) -> usize {
        self.jump_later(0x84)
    }

    fn jump_later(&mut self, condition: u8) -> usize {
        self.code.extend([0x0F, condition, 0, 0, 0, 0]);
        self.code.len()
    }

    /// The jump that ends at `from` goes here.
    pub fn land(&mut self, from: usize) {
        let distance = (self.code.len() - from) as i32;
        self.code[from - 4..from].copy_from_slice(&distance.to_le_bytes());
    }

    /// Begins a loop where fetching a line of code gets all of it.
    pub fn align(&mut self) {
        const NOPS: [&[u8]; 8] = [
            &[0x90],
            &[0x66, 0x90],
            &[0x0F, 0x1F, 0x00],
            &[0x0F, 0x1F, 0x40, 0x00],
            &[0x0F, 0x1F, 0x44, 0x00, 0x00],
            &[0x66, 0x0F, 0x1F, 0x44, 0x00, 0x00],
            &[0x0F, 0x1F, 0x80, 0x00, 0x00, 0x00, 0x00],
            &[0x0F, 0x1F, 0x84, 0x00, 0x00, 0x00, 0x00, 0x00],
        ];
        while let missing @ 1.. = self.code.len().next_multiple_of(32) - self.code.len() {
            self.code.extend(NOPS[missing.min(8) - 1]);
        }
    }

    /// Leaves the long registers and returns.
    pub fn finish_call(&mut self) {
        self.code.extend([0xC5, 0xF8, 0x77, 0xC3]);
    }

    /// The code with its table behind it.
    pub fn finish(mut self) -> Vec<u8> {
        let table = self.code.len().next_multiple_of(64);
        for (at, end, byte) in self.fixes {
            let distance = (table + byte as usize - end) as i32;
            self.code[at..at + 4].copy_from_slice(&distance.to_le_bytes());
        }
        // What lies between is never reached; it stops whoever does.
        self.code.resize(table, 0xCC);
        self.code.extend(self.table.iter().flat_map(|bits| bits.to_le_bytes()));
        self.code
    }
}

/// Fourth bits of the register, the index and the last operand.
fn extensions(reg: u8, rm: Rm) -> (u8, u8, u8) {
    let last = match rm {
        Rm::Reg(rm) => rm,
        Rm::Element { base, .. } | Rm::At { base } => base,
        Rm::Table(_) => 0,
    };
    (reg >> 3 & 1, 0, last >> 3 & 1)
}

/// Prefixes hold such bits inverted.
fn not(bit: u8) -> u8 {
    !bit & 1
}

#[cfg(test)]
mod tests {
    use iced_x86::{Decoder, DecoderOptions, Formatter, IntelFormatter};

    use super::*;

    /// What a decoder reads, with an instruction and a table of one constant behind it.
    fn check(write: impl FnOnce(&mut Assembler), expected: &str) {
        let mut asm = Assembler::default();
        write(&mut asm);
        let length = asm.len();
        let code = asm.finish();
        let mut decoder = Decoder::with_ip(64, &code[..length], 0, DecoderOptions::NONE);
        let mut text = String::new();
        let instruction = decoder.decode();
        IntelFormatter::new().format(&instruction, &mut text);
        assert_eq!((text.as_str(), instruction.len()), (expected, length));
    }

    const ADD: Op = Op::new(NONE, M0F, 0x58);
    const MOVE: Op = Op::new(NONE, M0F, 0x10);

    fn form(length: u8, reg: u8, middle: u8, rm: Rm) -> Form {
        Form { length, reg, middle, rm, immediate: None, mask: 0, merges: false }
    }

    #[test]
    fn every_register_is_encoded() {
        for [a, b, c] in (0..32u8).map(|i| [i, (i + 13) % 32, 31 - i]) {
            let all = |asm: &mut Assembler| asm.evex(ADD, form(2, a, b, Rm::Reg(c)));
            check(all, &format!("vaddps zmm{a},zmm{b},zmm{c}"));
            let [a, b, c] = [a % 16, b % 16, c % 16];
            let old = |asm: &mut Assembler| asm.vex(ADD, form(1, a, b, Rm::Reg(c)));
            check(old, &format!("vaddps ymm{a},ymm{b},ymm{c}"));
        }
    }

    #[test]
    fn every_place_is_encoded() {
        let names = [
            "rax", "rcx", "rdx", "rbx", "rsp", "rbp", "rsi", "rdi", "r8", "r9", "r10", "r11", "r12", "r13", "r14",
            "r15",
        ];
        for base in (0..16u8).filter(|base| ![RAX, 4].contains(base)) {
            let name = names[base as usize];
            let rm = Rm::Element { base, scale: 2, offset: 192 };
            check(|asm| asm.evex(MOVE, form(2, 17, 0, rm)), &format!("vmovups zmm17,[{name}+rax*4+0C0h]"));
            check(|asm| asm.vex(MOVE, form(1, 9, 0, rm)), &format!("vmovups ymm9,[{name}+rax*4+0C0h]"));
            let broadcast = Op::new(P66, M38, 0x18);
            check(|asm| asm.evex(broadcast, form(2, 30, 0, Rm::At { base })), &format!("vbroadcastss zmm30,[{name}]"));
            check(|asm| asm.load_address(base, RDI, 24), &format!("mov {name},[rdi+18h]"));
            check(|asm| asm.push(base), &format!("push {name}"));
            check(|asm| asm.pop(base), &format!("pop {name}"));
        }
        let table = |asm: &mut Assembler| {
            let byte = asm.constant(7) + asm.constant(9);
            asm.evex(ADD, Form { length: 2, ..form(2, 3, 4, Rm::Table(byte)) });
        };
        check(table, "vaddps zmm3,zmm4,[48h]");
    }

    #[test]
    fn every_form_is_encoded() {
        let masked = |merges| Form { mask: 3, merges, ..form(2, 1, 2, Rm::Reg(3)) };
        check(|asm| asm.evex(ADD, masked(false)), "vaddps zmm1{k3}{z},zmm2,zmm3");
        check(|asm| asm.evex(ADD, masked(true)), "vaddps zmm1{k3},zmm2,zmm3");
        check(|asm| asm.evex(Op::wide(P66, M0F, 0x58), form(1, 1, 2, Rm::Reg(3))), "vaddpd ymm1,ymm2,ymm3");
        let compare = Form { immediate: Some(17), ..form(2, 5, 2, Rm::Reg(19)) };
        check(|asm| asm.evex(Op::new(NONE, M0F, 0xC2), compare), "vcmplt_oqps k5,zmm2,zmm19");
        let and = Form { length: 1, ..form(1, 2, 3, Rm::Reg(4)) };
        check(|asm| asm.vex(Op::new(NONE, M0F, 0x41), and), "kandw k2,k3,k4");
        let blend = Form { immediate: Some(0x60), ..form(1, 1, 2, Rm::Reg(3)) };
        check(|asm| asm.vex(Op::new(P66, M3A, 0x4A), blend), "vblendvps ymm1,ymm2,ymm3,ymm6");
        check(|asm| asm.advance(64), "add rax,40h");
        check(|asm| asm.compare_index(RSI), "cmp rax,rsi");
        check(|asm| asm.test(RCX), "test ecx,ecx");
        check(Assembler::clear_index, "xor eax,eax");
        check(|asm| asm.jump_back_if_below(0), "jb 0");
        check(|asm| _ = asm.jump_if_not_below(), "jae 6");
        check(|asm| _ = asm.jump_if_zero(), "je 6");
    }
}
