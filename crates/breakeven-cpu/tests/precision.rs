//! Products of lower precision: every instruction that this machine has for them keeps the tolerance of its level, and the
//! highest level keeps everything, denormals included.

mod common;

use breakeven_cpu::{Bf16Isa, CpuDevice, CpuOptions, Isa, Tuning};
use breakeven_device::Device;
use breakeven_ir::{DType, Expr, ExprBuilder, Kernel, Layout, MatMul, Operand, Precision, Scalar, Shape};
use common::{Random, run};

/// What can be asked for, as kernels say it.
const LOWER: [(DType, Precision); 3] =
    [(DType::F32, Precision::High), (DType::F32, Precision::Medium), (DType::BF16, Precision::High)];

fn device(bf16: Bf16Isa, threads: usize) -> CpuDevice {
    let tuning = Tuning { part_ns: 1.0, wake_ns: 0.0, ..Tuning::default() };
    let options =
        CpuOptions { threads: Some(threads), bf16: Some(bf16), poison: true, tuning, ..CpuOptions::default() };
    CpuDevice::new(options).expect("it is available")
}

/// Instructions that this machine has; those that it lacks are named, so that nobody takes them for tested.
fn instructions() -> Vec<Bf16Isa> {
    let (has, lacks): (Vec<_>, Vec<_>) = Bf16Isa::ALL.into_iter().partition(|each| each.is_available(Isa::best()));
    for each in &lacks {
        println!("SKIPPED: this machine has no {each}");
    }
    println!("tested: {has:?}");
    has
}

/// A product that is stored as f32.
fn product((dtype, precision): (DType, Precision), batch: usize, [m, k, n]: [usize; 3]) -> MatMul {
    let dense = |dtype, shape: [usize; 3]| Operand::new(dtype, Layout::dense(Shape::from(shape)));
    let mut post = ExprBuilder::default();
    let sum = post.arg(dtype);
    let post = if dtype == DType::F32 {
        Expr::identity(dtype)
    } else {
        let wide = post.cast(sum, DType::F32);
        post.finish(wide)
    };
    MatMul {
        batch: [batch].into(),
        m,
        n,
        k,
        a: dense(dtype, [batch, m, k]),
        b: dense(dtype, [batch, k, n]),
        precision,
        post,
        params: Vec::new(),
        inputs: Vec::new(),
        out: dense(DType::F32, [batch, m, n]),
    }
}

/// The same with a side whose other axis is the dense one.
fn turned(operand: &Operand) -> Operand {
    let &[batch, rows, columns] = &operand.layout.shape[..] else { unreachable!("a batch of matrices") };
    Operand::new(operand.dtype, Layout::dense([batch, columns, rows]).permute(&[0, 2, 1]))
}

fn floats(bytes: &[u8]) -> Vec<f32> {
    bytes.chunks_exact(4).map(|b| f32::from_le_bytes(b.try_into().expect("four bytes"))).collect()
}

/// Panics where a result is farther off than its level allows.
fn check(product: &MatMul, inputs: &[Vec<u8>], got: &[f32], name: &str) {
    let at = |o: &Operand, bytes: &[u8]| -> Vec<f64> {
        o.layout.positions().map(|at| Scalar::load(o.dtype, bytes, at).to_f64()).collect()
    };
    let (a, b) = (at(&product.a, &inputs[0]), at(&product.b, &inputs[1]));
    let (m, n, k) = (product.m, product.n, product.k);
    let e = product.precision.operand_error(product.a.dtype);
    let allowed = 2.0 * e + e * e + (k as f64 + 8.0) * f64::from(f32::EPSILON) / 2.0;
    for (place, &got) in got.iter().enumerate() {
        let (batch, i, j) = (place / (m * n), place / n % m, place % n);
        let terms = (0..k).map(|p| a[(batch * m + i) * k + p] * b[(batch * k + p) * n + j]);
        let (sum, size) = terms.fold((0.0, 0.0), |(sum, size), x| (sum + x, size + x.abs()));
        let off = (f64::from(got) - sum).abs();
        assert!(off <= allowed * size, "{name}: element {place} is {got}, not {sum}: {off:e} of {:e}", allowed * size);
    }
}

#[test]
fn every_instruction_keeps_the_tolerance_of_its_level_on_any_number_of_threads() {
    let sizes = [
        [1, 40, 9],
        [9, 40, 1],
        [2, 2, 2],
        [3, 0, 5],
        [16, 32, 16],
        [17, 33, 49],
        [31, 1_030, 65],
        [40, 129, 200],
        [100, 264, 96],
        [270, 128, 130],
        [5, 4_000, 33],
        [33, 20_000, 20],
    ];
    for bf16 in instructions() {
        let devices = [1, 2, 3].map(|threads| device(bf16, threads));
        for (level, (at, sizes)) in
            LOWER.into_iter().flat_map(|level| sizes.into_iter().enumerate().map(move |s| (level, s)))
        {
            let dense = product(level, 1 + at % 2, sizes);
            let views = [
                dense.clone(),
                MatMul { a: turned(&dense.a), ..dense.clone() },
                MatMul { b: turned(&dense.b), ..dense.clone() },
                MatMul { out: turned(&dense.out), ..dense.clone() },
            ];
            for (view, product) in views.into_iter().enumerate() {
                let name = format!("{bf16} {level:?} {sizes:?} view {view}");
                let kernel = Kernel::MatMul(product.clone());
                let mut random = Random(7 + at as u64);
                let inputs: Vec<Vec<u8>> = kernel.inputs().iter().map(|o| random.fill(o, false)).collect();
                let results =
                    devices.each_ref().map(|device| run(device, &kernel, &inputs).expect("it runs").remove(0));
                assert!(results.iter().all(|r| *r == results[0]), "{name}: threads");
                let stored = floats(&results[0]);
                let got: Vec<f32> = product.out.layout.positions().map(|at| stored[at]).collect();
                check(&product, &inputs, &got, &name);
            }
        }
    }
}

/// One row and one column of one term and a zero: the product of two numbers, by the loops for matrices.
fn times(device: &CpuDevice, level: (DType, Precision), a: f64, b: f64) -> f32 {
    let product = product(level, 1, [2, 2, 2]);
    let kernel = Kernel::MatMul(product.clone());
    let bytes = |x: f64| {
        let mut bytes = vec![0; 4 * level.0.bytes()];
        (0..2).for_each(|i| Scalar::of(level.0, x).store(level.0, &mut bytes, 3 * i));
        bytes
    };
    floats(&run(device, &kernel, &[bytes(a), bytes(b)]).expect("it runs")[0])[0]
}

#[test]
fn the_highest_keeps_denormals_whatever_instructions_there_are() {
    let tiny = f64::from(f32::from_bits(1 << 16));
    for bf16 in instructions() {
        let device = device(bf16, 1);
        for dtype in [DType::F32, DType::BF16] {
            let highest = (dtype, Precision::Highest);
            assert_eq!(times(&device, highest, tiny, 2.0).to_bits(), 2 << 16, "{bf16} {dtype}: a denormal operand");
            assert_eq!(
                times(&device, highest, 2f64.powi(-70), 2f64.powi(-70)).to_bits(),
                1 << 9,
                "{bf16} {dtype}: a result"
            );
        }
        for level in LOWER {
            for (a, b) in [(tiny, 2.0), (2f64.powi(-70), 2f64.powi(-70))] {
                let (exact, got) = ((a * b) as f32, times(&device, level, a, b));
                assert!(got == exact || got == 0.0, "{bf16} {level:?}: {a:e} times {b:e} is {got:e}");
            }
        }
    }
}

#[test]
fn what_ran_is_said_and_is_what_ran() {
    // Nine significant bits, of which bf16 has eight.
    let x = 1.0 + 1.0 / 256.0;
    for bf16 in instructions() {
        let device = device(bf16, 1);
        for (level, is_lowered) in [
            ((DType::F32, Precision::Highest), false),
            ((DType::F32, Precision::High), false),
            ((DType::F32, Precision::Medium), bf16 != Bf16Isa::Never),
        ] {
            let said = device.lowers(&Kernel::MatMul(product(level, 1, [2, 2, 2])));
            assert_eq!(said.is_some(), is_lowered, "{bf16} {level:?}: {said:?}");
            assert!(said.is_none_or(|text| text.contains(bf16.name())), "{said:?}");
            assert_eq!(times(&device, level, x, 1.0), if is_lowered { 1.0 } else { x as f32 }, "{bf16} {level:?}");
        }
        let of_bf16 = device.lowers(&Kernel::MatMul(product((DType::BF16, Precision::High), 1, [2, 2, 2])));
        assert_eq!(of_bf16.is_some(), bf16 != Bf16Isa::Never, "{bf16}");
        let vector = device.lowers(&Kernel::MatMul(product((DType::F32, Precision::Medium), 1, [1, 8, 8])));
        assert_eq!(vector, None, "memory sets the pace of a product with a vector");
    }
}
