//! What an adapter must get right before it is trusted: each question is a kernel whose answer is known.

use std::time::Duration;

use breakeven_device::{
    Binding, Deadline, Device, DeviceError, HostBytes, HostMemory, Lane, MemoryKind, ReadCell, Result, Segment,
    SegmentStep,
};
use breakeven_ir::{
    DType, Element, Expr, Fold, Kernel, Launch, Layout, Map, MatMul, Operand, Precision, ReduceRows, Row, Scalar, Shape,
};

/// One question and its answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SelfTestVerdict {
    /// What was tried.
    pub name: &'static str,
    /// What went wrong, if something did.
    pub failure: Option<String>,
}

type Question = fn(&dyn Device) -> Result<Option<String>>;

const QUESTIONS: [(&str, Question); 9] = [
    ("barriers hold: a tree sum of 1 to 64 is 2080", tree_sum),
    ("dispatches see what came before: a two-stage sum of 4096 times 1 to 64 is right", two_stages),
    ("NaN is kept by relu and maximum", nan_is_kept),
    ("pow keeps the sign of odd powers", pow_keeps_signs),
    ("denormals are copied", denormals_are_copied),
    ("a launch of more than 65,535 groups reaches every element", many_groups),
    ("what is uploaded is read back", read_back),
    ("products of f16 are exact where all sums are whole numbers", half_products),
    ("products of f16 with odd sides are exact, too", odd_half_products),
];

/// Asks an adapter all questions. A failure names what came and what should have.
pub fn self_test(device: &dyn Device) -> Vec<SelfTestVerdict> {
    verdicts(device).collect()
}

/// Asks a device all questions until it answers one wrong, which the error names. `Cancelled` once `go_on` says no: who was not asked
/// everything has not passed.
pub fn pass_self_test(device: &dyn Device, go_on: &dyn Fn() -> bool) -> Result<()> {
    let mut verdicts = verdicts(device);
    loop {
        if !go_on() {
            return Err(DeviceError::Cancelled);
        }
        match verdicts.next() {
            Some(SelfTestVerdict { name, failure: Some(why) }) => {
                return Err(DeviceError::Driver(format!("it failed its self-test: {name}: {why}")));
            }
            Some(_) => {}
            None => return Ok(()),
        }
    }
}

fn verdicts(device: &dyn Device) -> impl Iterator<Item = SelfTestVerdict> {
    QUESTIONS.iter().map(|(name, question)| SelfTestVerdict {
        name,
        failure: question(device).unwrap_or_else(|e| Some(e.to_string())),
    })
}

/// Runs one kernel over dense inputs; the bytes of its first output.
fn run(device: &dyn Device, kernel: Kernel, inputs: Vec<HostBytes>, bytes: u64) -> Result<HostBytes> {
    let count = inputs.len();
    let alloc = |bytes| device.alloc(bytes, MemoryKind::Resident);
    let mut buffers = inputs.iter().map(|b| alloc(b.len() as u64)).collect::<Result<Vec<_>>>()?;
    buffers.push(alloc(bytes)?);
    let mut steps: Vec<SegmentStep> = (0..count).map(|slot| SegmentStep::Upload { upload: slot, slot }).collect();
    let launch = Launch { kernel, inputs: (0..count).collect(), outputs: vec![count], workspace: None };
    steps.push(SegmentStep::Launch(Box::new(launch)));
    steps.push(SegmentStep::Download { slot: count, bytes, read: 0 });
    let read = ReadCell::new();
    let binding = Binding { buffers, uploads: inputs, reads: vec![read.clone()], ..Binding::default() };
    let ticket = device.submit(&device.prepare(&Segment { steps })?, binding, Lane::Compute, &[])?;
    device.wait(ticket, Deadline::after(Duration::from_secs(30)))?;
    Ok(read.take().unwrap_or_else(|| HostMemory::zeroed(0).into()))
}

fn row(name: &str) -> Expr {
    Expr::row(Row::named(name).expect("the row is in the table"), DType::F32)
}

fn map(device: &dyn Device, expr: Expr, inputs: &[&[f32]]) -> Result<HostBytes> {
    let n = inputs[0].len();
    let inputs = inputs.iter().map(|x| HostBytes::from_vec(x.to_vec())).collect();
    run(device, Kernel::Map(Map::dense(expr, vec![], n)), inputs, 4 * n as u64)
}

fn sum(device: &dyn Device, values: Vec<f32>) -> Result<f32> {
    let operand = |shape: Shape| Operand::new(DType::F32, Layout::dense(shape));
    let kernel = Kernel::Reduce(ReduceRows {
        fold: Fold::Sum,
        outer: Shape::scalar(),
        inner: Shape::from(values.len()),
        pre: Expr::identity(DType::F32),
        post: Expr::identity(DType::F32),
        params: vec![],
        inputs: vec![operand(Shape::from(values.len()))],
        outs: vec![operand(Shape::scalar())],
    });
    Ok(run(device, kernel, vec![HostBytes::from_vec(values)], 4)?.elements::<f32>().first().copied().unwrap_or(0.0))
}

fn unless_equal<T: PartialEq + std::fmt::Debug + ?Sized>(got: &T, want: &T) -> Option<String> {
    (got != want).then(|| format!("it gave {got:?} and not {want:?}"))
}

fn tree_sum(device: &dyn Device) -> Result<Option<String>> {
    Ok(unless_equal(&sum(device, (1..=64u8).map(f32::from).collect())?, &2080.0))
}

/// Long enough to be folded in chunks, whose results a second dispatch folds. All partial sums are exact.
fn two_stages(device: &dyn Device) -> Result<Option<String>> {
    let values: Vec<f32> = (0..64 * 1024u32).map(|i| if i % 16 == 0 { ((i / 16) + 1) as f32 } else { 0.0 }).collect();
    Ok(unless_equal(&sum(device, values)?, &8_390_656.0))
}

fn nan_is_kept(device: &dyn Device) -> Result<Option<String>> {
    let (x, y) = ([f32::NAN, 1.0, f32::NAN, -1.0], [1.0, f32::NAN, f32::NAN, 2.0]);
    let relu: Vec<bool> = map(device, row("relu"), &[&x])?.elements::<f32>().iter().map(|v| v.is_nan()).collect();
    let both = map(device, row("maximum"), &[&x, &y])?;
    let both: Vec<bool> = both.elements::<f32>().iter().map(|v| v.is_nan()).collect();
    Ok(unless_equal(&(relu, both), &(vec![true, false, true, false], vec![true, true, true, false])))
}

fn pow_keeps_signs(device: &dyn Device) -> Result<Option<String>> {
    let got = map(device, row("pow"), &[&[-2.0, -2.0, 0.0, 1.0], &[3.0, 2.0, 0.0, f32::NAN]])?;
    Ok(unless_equal(got.elements::<f32>(), [-8.0, 4.0, 1.0, 1.0].as_slice()))
}

fn denormals_are_copied(device: &dyn Device) -> Result<Option<String>> {
    let x = [f32::from_bits(1), -f32::from_bits(77), f32::MIN_POSITIVE / 2.0, 0.0];
    let got = map(device, Expr::identity(DType::F32), &[&x])?;
    let bits: Vec<u32> = got.elements::<f32>().iter().map(|v| v.to_bits()).collect();
    Ok(unless_equal(bits.as_slice(), &x.map(f32::to_bits)))
}

/// A transposing copy writes one element with each invocation: 66,000 groups of 256.
fn many_groups(device: &dyn Device) -> Result<Option<String>> {
    let (rows, columns) = (66_000, 256);
    let shape = Shape::from([rows, columns]);
    let source = Layout::dense([columns]).broadcast(&shape).expect("a row broadcasts over rows");
    // Written backwards, so that the output does not lie densely and no invocation takes four.
    let out = Layout::dense(shape).slice(1, columns - 1, columns, -1);
    let kernel = Kernel::Map(Map {
        expr: Expr::identity(DType::I32),
        params: vec![],
        inputs: vec![Operand::new(DType::I32, source)],
        out: Operand::new(DType::I32, out),
    });
    let values: Vec<i32> = (0..columns as i32).collect();
    let got = run(device, kernel, vec![HostBytes::from_vec(values)], 4 * (rows * columns) as u64)?;
    let backwards: Vec<i32> = (0..columns as i32).rev().collect();
    let wrong = got.elements::<i32>().chunks_exact(columns).position(|row| row != backwards);
    Ok(wrong.map(|row| format!("row {row} is wrong")))
}

fn read_back(device: &dyn Device) -> Result<Option<String>> {
    fn bytes<T: Element>(device: &dyn Device, values: Vec<T>) -> Result<Vec<u8>> {
        let kernel = Kernel::Map(Map::dense(Expr::identity(T::DTYPE), vec![], values.len()));
        let bytes = size_of_val(values.as_slice()) as u64;
        Ok(run(device, kernel, vec![HostBytes::from_vec(values)], bytes)?.to_vec())
    }
    let values: Vec<u8> = (0..1_000_003u32).map(|i| (i % 251) as u8).collect();
    let got = bytes(device, values.clone())?;
    let wrong = got.iter().zip(&values).position(|(a, b)| a != b);
    Ok(wrong.map(|i| format!("byte {i} came back as {}", got[i])))
}

/// By cooperative matrices where the device has them, which cards and drivers got wrong. Tiles at the edges are partly filled.
fn half_products(device: &dyn Device) -> Result<Option<String>> {
    half_product(device, [144, 80, 208])
}

/// The same of sides that no load brings whole, so that operands are copied first.
fn odd_half_products(device: &dyn Device) -> Result<Option<String>> {
    half_product(device, [145, 81, 211])
}

fn half_product(device: &dyn Device, [m, k, n]: [usize; 3]) -> Result<Option<String>> {
    let half = |shape: [usize; 2]| Operand::new(DType::F16, Layout::dense(shape));
    let kernel = Kernel::MatMul(MatMul {
        batch: Shape::scalar(),
        m,
        n,
        k,
        a: half([m, k]),
        b: half([k, n]),
        precision: Precision::High,
        post: Expr::identity(DType::F16),
        params: vec![],
        inputs: vec![],
        out: half([m, n]),
    });
    // Sums are 729 at most, and f16 holds whole numbers up to 2,048.
    let [a, b] = [|i: usize| (i * 5 % 7) as i32 - 3, |i: usize| (i * 11 % 13 % 7) as i32 - 3];
    let got = run(device, kernel, vec![halves(m * k, a), halves(k * n, b)], 2 * (m * n) as u64)?;
    let want = |i: usize| (0..k).map(|p| a(i / n * k + p) * b(p * n + i % n)).sum::<i32>();
    let got = |i: usize| Scalar::load(DType::F16, &got, i).to_f64();
    let wrong = (0..m * n).find(|&i| got(i) != f64::from(want(i)));
    Ok(wrong.map(|i| format!("row {}, column {} is {} and not {}", i / n, i % n, got(i), want(i))))
}

/// So many whole numbers.
fn halves(n: usize, value: impl Fn(usize) -> i32) -> HostBytes {
    let mut bytes = HostMemory::zeroed(2 * n);
    (0..n).for_each(|i| Scalar::F(f64::from(value(i))).store(DType::F16, &mut bytes, i));
    bytes.into()
}
