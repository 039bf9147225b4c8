//! Rows and custom operations from outside, on every device, and that a wrong one is found.

mod devices;

use breakeven_conformance::{OwnCustom, OwnRow, Tier, sample};
use breakeven_cpu::Isa;
use breakeven_device::Device;
use breakeven_ir::{CustomOp, DType, Row, Scalar, Spec, Tolerance, Wgsl};
use breakeven_wgpu::Limits;
use devices::{cpu, gpu, sim};
use half::f16;

breakeven_ir::row! {
    /// The product of two numbers below 2^16, modulo `modulus`.
    static MUL_SMALL = mul_small: Word(a: V, b: V, modulus: P) -> V [Tolerance::EXACT] = (a * b) % modulus;
}
breakeven_ir::row! {
    /// A smooth step from 0 to 1.
    static SMOOTH = smooth: Float(x: V) -> V [Tolerance::ulp(4).abs(1e-7)] = {
        let t = x.larger(x.lit(0.0)).smaller(x.lit(1.0));
        t * t * (t.lit(3.0) - t * 2.0)
    };
}
breakeven_ir::row! {
    /// Which of two is nearer to zero, as a truth value.
    static NEARER = nearer: Number(a: V, b: V) -> M [Tolerance::EXACT] = a.abs().lt(b.abs());
}

fn devices() -> Vec<Box<dyn Device>> {
    vec![
        cpu(Isa::Scalar, 1),
        cpu(Isa::best(), 2),
        sim(),
        gpu("llvmpipe", Limits::Adapter),
        gpu("SwiftShader", Limits::WebGpuDefault),
    ]
}

fn check_row(row: Row, params: &[f64], inputs: &dyn Fn(DType, usize) -> Vec<Vec<Scalar>>, least: u64) {
    for device in devices() {
        let counts = OwnRow { row, params, inputs }.check(&*device, Tier::Quick);
        assert!(counts.launches >= least, "{} on {}: {counts}", row.name, device.info().name);
    }
}

#[test]
fn rows_are_right_on_every_device() {
    let small = |_, n: usize| -> Vec<Vec<Scalar>> {
        (1..3).map(|k| (0..n).map(|i| Scalar::I((i * 7919 * k % 65_536) as i128)).collect()).collect()
    };
    check_row(MUL_SMALL, &[12_289.0], &small, 40);
    check_row(SMOOTH, &[], &|dtype, n| vec![sample(dtype, n, 1)], 40);
    check_row(NEARER, &[], &|dtype, n| vec![sample(dtype, n, 1), sample(dtype, n, 2)], 150);
}

/// Sums and differences of neighbours: two outputs, of another shape than the input.
fn pairs(code: &str) -> CustomOp {
    let half = |inputs: &[&Spec]| {
        let half = Spec::new(inputs[0].dtype, [inputs[0].shape.elements() / 2]);
        Ok(vec![half.clone(), half])
    };
    CustomOp::new("pairs", half)
        .params([DType::I32])
        .cpu(|inputs, outputs| {
            let (x, bias) = (inputs.get::<i32>(0), inputs.param(0) as i32);
            let (sums, differences) = (outputs.take::<i32>(0), outputs.take::<i32>(1));
            for (i, pair) in x.chunks_exact(2).enumerate() {
                (sums[i], differences[i]) = (pair[0] + pair[1] + bias, pair[0] - pair[1]);
            }
        })
        .wgsl(Wgsl::counted(code, |_, outputs| outputs[0].shape.elements() as u64))
}

const PAIRS: &str = "let args = load0(2u * i);
let b0 = load0(2u * i + 1u);
store0(i, args + b0 + param0());
store1(i, args - b0);";

fn tried(op: &CustomOp, shape: [usize; 2]) -> OwnCustom<'_> {
    let spec = Spec::new(DType::I32, shape);
    let values = sample(DType::I32, spec.shape.elements(), 3);
    OwnCustom { op, params: &[5.0], inputs: vec![(spec, values)] }
}

#[test]
fn custom_operations_are_right_on_every_device() {
    let bytes = CustomOp::new("bytes", |inputs| Ok(vec![Spec::new(DType::U8, inputs[0].shape.clone())]))
        .cpu(|inputs, outputs| {
            for ((x, y), out) in inputs.get::<u8>(0).iter().zip(inputs.get::<bool>(1)).zip(outputs.take::<u8>(0)) {
                *out = if *y { x.wrapping_mul(3) } else { 0 };
            }
        })
        .wgsl(Wgsl::for_each_element("if !load1(i) { return 0u; } return 3u * load0(i);"));
    let op = pairs(PAIRS);
    for device in devices() {
        for shape in [[6, 14], [2, 1031]] {
            let counts = tried(&op, shape).check(&*device);
            assert!(counts.launches >= 10 && counts.refused == 0, "{}: {counts}", device.info().name);
        }
        let of = |dtype| (Spec::new(dtype, [9, 7]), sample(dtype, 63, 5));
        let own = OwnCustom { op: &bytes, params: &[], inputs: vec![of(DType::U8), of(DType::Bool)] };
        let counts = own.check(&*device);
        assert!(counts.launches >= 10, "{}: {counts}", device.info().name);
    }
}

#[test]
fn narrow_types_are_cut_and_rounded_alike() {
    let short = CustomOp::new("short", |inputs| Ok(vec![inputs[0].clone()]))
        .params([DType::F16])
        .cpu(|inputs, outputs| {
            let by = inputs.param(0) as i16;
            for (x, out) in inputs.get::<i16>(0).iter().zip(outputs.take::<i16>(0)) {
                *out = x.wrapping_mul(by).wrapping_mul(*x);
            }
        })
        .wgsl(Wgsl::for_each_element("let f16_to_f32 = load0(i); return f16_to_f32 * i32(param0()) * f16_to_f32;"));
    let half = CustomOp::new("half", |inputs| Ok(vec![inputs[0].clone()]))
        .cpu(|inputs, outputs| {
            for (x, out) in inputs.get::<f16>(0).iter().zip(outputs.take::<f16>(0)) {
                *out = f16::from_f32(x.to_f32() * 3.0);
            }
        })
        .wgsl(Wgsl::counted("store0(i, load0(i) * 3.0);", |_, outputs| outputs[0].shape.elements() as u64));
    for device in devices() {
        for (op, dtype, params) in [(&short, DType::I16, &[77.0][..]), (&half, DType::F16, &[])] {
            let own = OwnCustom { op, params, inputs: vec![(Spec::new(dtype, [9, 7]), sample(dtype, 63, 5))] };
            let counts = own.check(&*device);
            assert!(counts.launches >= 10, "{dtype} on {}: {counts}", device.info().name);
        }
    }
}

#[test]
#[should_panic(expected = "pairs view 0 on")]
fn code_that_differs_from_the_closure_is_found() {
    let wrong = pairs("store0(i, load0(2u * i)); store1(i, 0);");
    tried(&wrong, [4, 8]).check(&*gpu("llvmpipe", Limits::Adapter));
}

#[test]
fn what_is_missing_is_refused_with_a_reason() {
    let rule = |inputs: &[&Spec]| Ok(vec![inputs[0].clone()]);
    let (nothing, spec) = (CustomOp::new("nothing", rule), Spec::new(DType::F32, [4]));
    let own = |op| breakeven_ir::Custom {
        op,
        params: vec![],
        inputs: vec![breakeven_ir::Operand::new(DType::F32, breakeven_ir::Layout::dense(spec.shape.clone()))],
        outs: vec![breakeven_ir::Operand::new(DType::F32, breakeven_ir::Layout::dense(spec.shape.clone()))],
    };
    let why = |device: &dyn Device, op: &CustomOp| {
        device.supports(&breakeven_ir::Kernel::Custom(own(op.clone()))).unwrap_err().to_string()
    };
    let device = gpu("llvmpipe", Limits::Adapter);
    assert_eq!(why(&*device, &nothing), "unsupported here, because no WGSL was given");
    assert_eq!(why(&*cpu(Isa::Scalar, 1), &nothing), "unsupported here, because no CPU closure was given");
    assert_eq!(why(&*sim(), &nothing), "unsupported here, because no CPU closure was given");
    let wrong = nothing.wgsl(Wgsl::for_each_element("return load0(i) + missing;"));
    let said = why(&*device, &wrong);
    assert!(said.contains("its WGSL does not compile") && said.contains("`return load0(i) + missing;`"), "{said}");
}
