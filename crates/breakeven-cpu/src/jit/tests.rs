//! Generated code against the loops of rows, bit by bit, in memory that ends where the operands end.

use std::fs::File;

use breakeven_ir::{DType, Expr, ExprBuilder, Kind, MAPS, Row};
use memmap2::{MmapMut, MmapOptions};

use super::*;
use crate::domain::BLOCK;
use crate::fused::{Fused, Wanted};
use crate::kernels::Machine;
use crate::natives::Natives;
use crate::program::Program;
use crate::team::Team;
use crate::{CpuOptions, Tuning};

const PAGE: usize = 16384;

/// Types that rows have code for.
const TYPES: [DType; 7] = [DType::F32, DType::F64, DType::I32, DType::U32, DType::Bool, DType::I64, DType::U64];

/// Machines whose instructions code is generated for.
fn machines() -> Vec<(Target, Machine)> {
    let machine = |isa: Isa| {
        let natives = Natives::new(isa)?;
        let target = natives.target?;
        let team = Team::new(1, 0);
        let tuning = Tuning { code_bytes: u64::MAX, ..Tuning::default() };
        Some((target, Machine::new((isa, natives), team, &CpuOptions { tuning, ..CpuOptions::default() })))
    };
    Isa::ALL.into_iter().filter_map(machine).collect()
}

/// Memory behind which every access ends the process.
struct Guarded(MmapMut);

impl Guarded {
    fn new() -> Guarded {
        let path = std::env::temp_dir().join(format!(
            "breakeven-guard-{}-{:?}",
            std::process::id(),
            std::thread::current().id()
        ));
        let file =
            File::create_new(&path).and_then(|_| File::options().read(true).write(true).open(&path)).expect("a file");
        file.set_len(PAGE as u64).expect("it grows");
        // SAFETY: the file is this test's alone; what lies behind its end is never touched, or the test fails.
        let map = unsafe { MmapOptions::new().len(2 * PAGE).map_copy(&file) }.expect("it is mapped");
        std::fs::remove_file(&path).expect("it is removed");
        Guarded(map)
    }

    /// The last `bytes`.
    fn end(&mut self, bytes: usize) -> &mut [u8] {
        &mut self.0[PAGE - bytes..PAGE]
    }
}

struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, n: usize) -> usize {
        (self.next() >> 11) as usize % n
    }

    /// One element: any bits, or a value at which something changes.
    fn element(&mut self, dtype: DType) -> Vec<u8> {
        const ODD: [f64; 24] = [
            0.0,
            1.0,
            f64::INFINITY,
            f64::NAN,
            1e-40,
            1e-310,
            1.175_494_4e-38,
            3.402_823_5e38,
            0.5,
            1.5,
            2.5,
            2_147_483_648.0,
            2_147_483_520.0,
            1e9,
            3e9,
            65_504.0,
            65_520.0,
            1e5,
            1e-8,
            0.1,
            3.0,
            87.5,
            103.5,
            16_777_217.0,
        ];
        let bits = self.next();
        let c = ODD[self.below(ODD.len())] * [1.0, -1.0][self.below(2)];
        let usual = (self.next() >> 12) as f64 / (1u64 << 50) as f64 - 2.0;
        let c = [c, usual, usual][self.below(3)];
        let any = self.below(6) == 0;
        match dtype {
            DType::Bool => vec![(bits & 1) as u8],
            DType::F64 => if any { f64::from_bits(bits) } else { c }.to_le_bytes().to_vec(),
            DType::F32 => if any { f32::from_bits(bits as u32) } else { c as f32 }.to_le_bytes().to_vec(),
            DType::I32 => if any { bits as i32 } else { [0, 1, -1, i32::MIN, i32::MAX, 31, 32, 33][bits as usize % 8] }
                .to_le_bytes()
                .to_vec(),
            _ => bits.to_le_bytes()[..dtype.bytes()].to_vec(),
        }
    }
}

/// The same bits, but any NaN for a NaN.
fn same(dtype: DType, a: &[u8], b: &[u8]) -> bool {
    let is_nan = |x: &[u8]| match dtype {
        DType::F64 => f64::from_le_bytes(x.try_into().expect("8 bytes")).is_nan(),
        DType::F32 => f32::from_le_bytes(x.try_into().expect("4 bytes")).is_nan(),
        DType::F16 => half::f16::from_le_bytes(x.try_into().expect("2 bytes")).is_nan(),
        DType::BF16 => half::bf16::from_le_bytes(x.try_into().expect("2 bytes")).is_nan(),
        _ => false,
    };
    a == b || is_nan(a) && is_nan(b)
}

/// Runs an expression row by row and by its code.
struct Case<'a> {
    machine: &'a Machine,
    expr: &'a Expr,
    params: &'a [f64],
    program: Program,
    fused: Fused,
    args: Vec<Guarded>,
    out: Guarded,
}

impl<'a> Case<'a> {
    /// `None` where there is no code.
    fn new(
        machine: &'a Machine,
        target: Target,
        expr: &'a Expr,
        params: &'a [f64],
        uniform: &[bool],
        streams: bool,
    ) -> Option<Case<'a>> {
        let wanted =
            Wanted { natives: &machine.natives, expr, params, uniform, target, ledger: &machine.code, streams };
        let fused = Fused::new(&wanted)?;
        let program = Program::new(machine, expr, params).expect("rows of the table have loops");
        let args = expr.args().iter().map(|_| Guarded::new()).collect();
        Some(Case { machine, expr, params, program, fused, args, out: Guarded::new() })
    }

    fn check(&mut self, n: usize, random: &mut Random) {
        let types = self.expr.args().to_vec();
        let out_type = self.expr.dtype();
        let width = out_type.bytes();
        let (mut rows, mut code) = (Vec::new(), Vec::new());
        let mut spread: Vec<Vec<u8>> = Vec::new();
        for (k, &dtype) in types.iter().enumerate() {
            let count = if self.fused.takes_one(k) { 1 } else { n };
            let bytes: Vec<u8> = (0..count).flat_map(|_| random.element(dtype)).collect();
            let memory = self.args[k].end(bytes.len());
            memory.copy_from_slice(&bytes);
            code.push(memory.as_ptr());
            spread.push(if count == n { bytes } else { bytes.repeat(n) });
        }
        // Rows find their operands aligned.
        let aligned: Vec<Vec<u64>> = spread.iter().map(|b| words(b)).collect();
        rows.extend(aligned.iter().map(|words| words.as_ptr().cast::<u8>()));
        let mut want = vec![0u64; (n * width).div_ceil(8)];
        let rows_way = self.program.way(false);
        // SAFETY: every operand holds `n` elements.
        unsafe { rows_way.run(&rows, want.as_mut_ptr().cast(), n, &mut rows_way.scratch()) };
        // SAFETY: as many bytes as words.
        let want = unsafe { std::slice::from_raw_parts(want.as_ptr().cast::<u8>(), n * width) };
        self.compare(&code, want, n);
        if let Some(k) = types.iter().position(|t| t.bytes() == width).filter(|&k| !self.fused.takes_one(k)) {
            self.in_place(k, &code, want, n);
        }
    }

    fn compare(&mut self, code: &[*const u8], want: &[u8], n: usize) {
        let width = self.expr.dtype().bytes();
        let memory = self.out.end(n * width + 64);
        memory.fill(0xA5);
        let to = memory[64..].as_mut_ptr();
        let mut scratch = self.fused.scratch();
        let params = self.program.splats();
        // SAFETY: every operand holds `n` elements.
        unsafe { self.fused.run(params, code, to, n, &mut scratch) };
        let memory = self.out.end(n * width + 64);
        assert!(memory[..64].iter().all(|&b| b == 0xA5), "nothing before the output is written");
        let got = memory[64..].to_vec();
        self.equal(&got, want, n);
    }

    fn in_place(&mut self, k: usize, code: &[*const u8], want: &[u8], n: usize) {
        let bytes = want.len();
        let to = self.args[k].end(bytes).as_mut_ptr();
        let mut scratch = self.fused.scratch();
        // SAFETY: every operand holds `n` elements; the output lies where an argument of its width lies.
        unsafe { self.fused.run(self.program.splats(), code, to, n, &mut scratch) };
        let got = self.args[k].end(bytes).to_vec();
        self.equal(&got, want, n);
    }

    fn equal(&self, got: &[u8], want: &[u8], n: usize) {
        let dtype = self.expr.dtype();
        let pairs = got.chunks(dtype.bytes()).zip(want.chunks(dtype.bytes()));
        for (at, (got, want)) in pairs.enumerate() {
            let (target, expr, params) = (self.machine.natives.target, self.expr, self.params);
            assert!(
                same(dtype, got, want),
                "{target:?} element {at} of {n}: {got:x?}, not {want:x?}\n{params:?} {expr:?}"
            );
        }
    }
}

fn words(bytes: &[u8]) -> Vec<u64> {
    let mut all = vec![0u64; bytes.len().div_ceil(8).max(1)];
    for (word, bytes) in all.iter_mut().zip(bytes.chunks(8)) {
        let mut whole = [0; 8];
        whole[..bytes.len()].copy_from_slice(bytes);
        *word = u64::from_le_bytes(whole);
    }
    all
}

#[test]
fn rows_are_what_their_loops_are() {
    for (target, machine) in machines() {
        let mut random = Random(0x9E37_79B9_7F4A_7C15);
        let mut counts = [0; TYPES.len()];
        for row in MAPS.iter().map(Row) {
            for (at, &dtype) in TYPES.iter().enumerate().filter(|(_, d)| row.family.has(**d)) {
                let expr = Expr::row(row, dtype);
                for params in [[0.25, 0.75], [0.0, -0.0], [-0.0, 0.0], [f64::NAN, 1.0], [-2.0, f64::NAN]] {
                    let params = &params[..expr.params()];
                    let uniform = vec![false; expr.args().len()];
                    let Some(mut case) = Case::new(&machine, target, &expr, params, &uniform, false) else { break };
                    (0..=70).for_each(|n| case.check(n, &mut random));
                    counts[at] += usize::from(params.is_empty() || params[0] == 0.25);
                    if params.is_empty() {
                        break;
                    }
                }
            }
        }
        // A row that loses its code would pass unseen.
        let least = if target == Target::Avx512 { LEAST_AVX512 } else { LEAST_AVX2 };
        assert!(counts.iter().zip(least).all(|(&have, least)| have >= least), "{target:?} {counts:?}");
    }
}

/// Rows with code, by type.
const LEAST_AVX512: [usize; 7] = [57, 32, 24, 24, 7, 20, 19];
const LEAST_AVX2: [usize; 7] = [38, 32, 22, 19, 7, 0, 0];

#[test]
fn casts_are_what_their_loops_are() {
    let all = DType::ALL;
    for (target, machine) in machines() {
        let mut random = Random(77);
        let mut count = 0;
        for (from, to) in all.into_iter().flat_map(|from| all.map(|to| (from, to))).filter(|(from, to)| from != to) {
            let mut b = ExprBuilder::default();
            let x = b.arg(from);
            let y = b.cast(x, to);
            let expr = b.finish(y);
            let Some(mut case) = Case::new(&machine, target, &expr, &[], &[false], false) else { continue };
            count += 1;
            (0..=70).for_each(|n| case.check(n, &mut random));
            (0..50).for_each(|_| case.check(BLOCK, &mut random));
        }
        assert!(count >= 10, "{target:?} {count}");
    }
}

/// An expression that is being written.
#[derive(Default)]
struct Draft {
    builder: ExprBuilder,
    steps: Vec<(u16, DType)>,
    params: Vec<f64>,
}

impl Draft {
    /// An operand of `row` at `dtype`: often the newest there is, so that chains are long.
    fn operand(&mut self, kind: Kind, dtype: DType, random: &mut Random) -> Option<u16> {
        let wanted = if kind == Kind::M { DType::Bool } else { dtype };
        if kind == Kind::P {
            self.params.push([0.0, -0.0, 0.5, -1.5, 2.0, f64::NAN][random.below(6)]);
            return Some(self.builder.param(dtype));
        }
        let fit: Vec<u16> = self.steps.iter().filter(|s| s.1 == wanted).map(|s| s.0).collect();
        let last = *fit.last()?;
        Some(if random.below(2) == 0 { last } else { fit[random.below(fit.len())] })
    }

    /// Another row; false where it has no operands.
    fn grow(&mut self, row: Row, dtype: DType, random: &mut Random) -> bool {
        let operands: Option<Vec<u16>> = row.args.iter().map(|&kind| self.operand(kind, dtype, random)).collect();
        let Some(operands) = operands else { return false };
        let step = self.builder.row(row, dtype, &operands);
        self.steps.push((step, if row.out == Kind::M { DType::Bool } else { dtype }));
        true
    }
}

/// An expression of some rows over some arguments, and its parameters.
fn any_expr(random: &mut Random, types: &[DType]) -> (Expr, Vec<f64>) {
    let mut draft = Draft::default();
    for _ in 0..=random.below(4) {
        let dtype = types[random.below(types.len())];
        draft.steps.push((draft.builder.arg(dtype), dtype));
    }
    let (mut made, count) = (0, 2 + random.below(10));
    while made < count {
        let (row, dtype) = (Row(&MAPS[random.below(MAPS.len())]), types[random.below(types.len())]);
        let fits = row.family.has(dtype) && !dtype.is_half();
        if fits && draft.grow(row, dtype, random) {
            made += 1;
        } else if fits {
            let (last, from) = draft.steps[draft.steps.len() - 1];
            if dtype != from {
                draft.steps.push((draft.builder.cast(last, dtype), dtype));
            }
        }
    }
    let last = draft.steps[draft.steps.len() - 1].0;
    if usize::from(last) + 1 == draft.builder.len() {
        (draft.builder.finish(last), draft.params)
    } else {
        any_expr(random, types)
    }
}

fn check_any(types: &[DType], seed: u64) {
    for (target, machine) in machines() {
        let mut random = Random(seed);
        let mut count = 0;
        for _ in 0..400 {
            let (expr, params) = any_expr(&mut random, types);
            let uniform: Vec<bool> = expr.args().iter().map(|_| random.below(4) == 0).collect();
            let Some(mut case) = Case::new(&machine, target, &expr, &params, &uniform, false) else { continue };
            count += 1;
            for n in [1, 3, 8, 16, 17, 31, 64, 67, 257, BLOCK] {
                case.check(n, &mut random);
            }
        }
        assert!(count >= if target == Target::Avx512 { 100 } else { 20 }, "{target:?} {count}");
    }
}

#[test]
fn expressions_of_f32_are_what_their_rows_are() {
    check_any(&[DType::F32, DType::Bool], 11);
}

#[test]
fn expressions_of_mixed_types_are_what_their_rows_are() {
    check_any(&[DType::F32, DType::Bool, DType::I32, DType::F16, DType::BF16, DType::U32], 12);
    check_any(&[DType::F32, DType::I32, DType::U8, DType::I8, DType::I16], 14);
    check_any(&[DType::I64, DType::I32, DType::Bool], 15);
    check_any(&[DType::F32, DType::F64, DType::Bool], 13);
}

#[test]
fn stores_past_the_caches_store_the_same() {
    for (target, machine) in machines() {
        let mut random = Random(21);
        for _ in 0..100 {
            let (expr, params) = any_expr(&mut random, &[DType::F32, DType::F64, DType::I32]);
            let uniform = vec![false; expr.args().len()];
            let Some(mut case) = Case::new(&machine, target, &expr, &params, &uniform, true) else { continue };
            for n in [16, 64, 80, 256, BLOCK] {
                case.check(n, &mut random);
            }
        }
        // SAFETY: every processor of the architecture has it.
        #[cfg(target_arch = "x86_64")]
        unsafe {
            std::arch::x86_64::_mm_sfence();
        }
    }
}

#[test]
fn code_is_counted_and_bounded() {
    for (target, machine) in machines() {
        let (expr, params) = any_expr(&mut Random(5), &[DType::F32]);
        let uniform = vec![false; expr.args().len()];
        let tight = CodeLedger::new(100);
        let wanted = |ledger| Wanted {
            natives: &machine.natives,
            expr: &expr,
            params: &params,
            uniform: &uniform,
            target,
            ledger,
            streams: false,
        };
        assert!(Fused::new(&wanted(&tight)).is_none() && tight.bytes() == 0 && tight.refused().is_none());
        let code = Fused::new(&wanted(&machine.code));
        assert_eq!(machine.code.bytes() > 0, code.is_some());
        drop(code);
        assert_eq!(machine.code.bytes(), 0);
    }
}
