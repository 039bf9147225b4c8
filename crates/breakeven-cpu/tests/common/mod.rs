//! Runs kernels on CPU devices of every instruction set and compares them with the reference.
#![allow(dead_code, reason = "each test file uses a part")]

use std::sync::Arc;

use breakeven_cpu::{CpuDevice, CpuOptions, Isa, Tuning};
use breakeven_device::{
    Binding, Buffer, Deadline, Device, DeviceError, HostBytes, Lane, MemoryKind, ReadCell, Segment, SegmentStep,
};
use breakeven_ir::{DType, Kernel, Launch, Layout, Operand, Scalar, Shape};

/// A device of each available instruction set, with one thread and with two that share even the smallest work. Code is
/// generated for everything that has some; with two threads, every output bypasses the caches where one may.
pub fn devices() -> Vec<CpuDevice> {
    let sets = Isa::ALL.into_iter().filter(|isa| isa.is_available());
    sets.flat_map(|isa| [1, 2].map(|threads| device(isa, threads))).collect()
}

pub fn device(isa: Isa, threads: usize) -> CpuDevice {
    let stream_bytes = if threads == 1 { u64::MAX } else { 0 };
    let tuning = Tuning { part_ns: 1.0, wake_ns: 0.0, code_ns: 0.0, stream_bytes, ..Tuning::default() };
    CpuDevice::new(CpuOptions { threads: Some(threads), isa: Some(isa), poison: true, tuning, ..CpuOptions::default() })
        .expect("it is available")
}

/// A small deterministic source of numbers.
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    pub fn below(&mut self, n: usize) -> usize {
        (self.next() % n as u64) as usize
    }

    /// Uniform in [-1, 1).
    pub fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 52) as f64 - 1.0
    }

    pub fn shape(&mut self, rank: usize, most: usize) -> Shape {
        (0..rank).map(|_| [1, 2, 3, 5, most, self.below(most + 1)][self.below(6)]).collect()
    }

    /// Any layout of `shape`: permuted, sliced, flipped, and broadcast where it is only read.
    pub fn layout(&mut self, shape: &Shape, read_only: bool) -> Layout {
        let mut order: Vec<usize> = (0..shape.rank()).collect();
        if self.below(2) == 0 {
            (1..order.len()).for_each(|i| order.swap(i, self.below(i + 1)));
        }
        let steps: Vec<usize> = order.iter().map(|_| [1, 1, 1, 2][self.below(4)]).collect();
        let stored: Shape = order.iter().zip(&steps).map(|(&a, s)| shape[a].max(1) * s).collect();
        let dense = stored.strides();
        let mut layout = Layout::dense(shape.clone());
        layout.offset = self.below(3);
        for ((&axis, &step), &stride) in order.iter().zip(&steps).zip(&dense) {
            layout.strides[axis] = stride * step as isize;
            if read_only && self.below(5) == 0 {
                layout.strides[axis] = 0;
            } else if self.below(4) == 0 {
                layout.offset += (shape[axis].max(1) - 1) * layout.strides[axis] as usize;
                layout.strides[axis] = -layout.strides[axis];
            }
        }
        layout
    }

    pub fn operand(&mut self, dtype: DType, shape: &Shape, read_only: bool) -> Operand {
        let plain = self.below(3) == 0;
        Operand::new(dtype, if plain { Layout::dense(shape.clone()) } else { self.layout(shape, read_only) })
    }

    /// Bytes for an operand: mostly small numbers, some special ones.
    pub fn fill(&mut self, operand: &Operand, special: bool) -> Vec<u8> {
        let mut bytes = vec![0; operand.span_bytes() as usize];
        for i in 0..bytes.len() / operand.dtype.bytes() {
            let odd = [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 0.0, -0.0, 1e30, -1e30, 1e-40, 3.0, 3.0];
            let value = match operand.dtype {
                DType::Bool => self.below(2) as f64,
                d if d.is_integer() => (self.below(41) as f64 - 20.0) * if special { 1e7 } else { 1.0 },
                _ if special && self.below(8) == 0 => odd[self.below(odd.len())],
                _ => self.unit() * 4.0,
            };
            Scalar::of(operand.dtype, value).store(operand.dtype, &mut bytes, i);
        }
        bytes
    }
}

/// How far a float may be off: relative, or absolute.
#[derive(Clone, Copy)]
pub struct Near(pub f64, pub f64);

/// Runs `kernel` once on `device` and gives the bytes of its outputs, which were `0xFF` before.
pub fn run(device: &CpuDevice, kernel: &Kernel, inputs: &[Vec<u8>]) -> Result<Vec<Vec<u8>>, DeviceError> {
    let mut steps = Vec::new();
    let mut binding = Binding::default();
    for (i, bytes) in inputs.iter().enumerate() {
        binding.buffers.push(device.alloc(bytes.len() as u64, MemoryKind::Resident)?);
        binding.uploads.push(HostBytes::from_vec(bytes.clone()));
        steps.push(SegmentStep::Upload { upload: i, slot: i });
    }
    let slots: Vec<usize> = (0..kernel.outputs().len()).map(|k| inputs.len() + k).collect();
    steps.push(SegmentStep::Launch(Box::new(Launch {
        kernel: kernel.clone(),
        inputs: (0..inputs.len()).collect(),
        outputs: slots.clone(),
        workspace: None,
    })));
    for (k, out) in kernel.outputs().iter().enumerate() {
        binding.buffers.push(device.alloc(out.span_bytes(), MemoryKind::Resident)?);
        binding.reads.push(ReadCell::new());
        steps.push(SegmentStep::Download { slot: slots[k], bytes: out.span_bytes(), read: k });
    }
    let reads = binding.reads.clone();
    let prepared = device.prepare(&Segment { steps })?;
    let ticket = device.submit(&prepared, binding, Lane::Compute, &[])?;
    device.wait(ticket, Deadline::after(std::time::Duration::from_secs(10)))?;
    Ok(reads.iter().map(|cell| cell.take().expect("filled when done").to_vec()).collect())
}

/// What the reference makes of the same inputs.
pub fn reference(kernel: &Kernel, inputs: &[Vec<u8>]) -> Vec<Vec<u8>> {
    let mut outputs: Vec<Vec<u8>> = kernel.outputs().iter().map(|o| vec![0xFF; o.span_bytes() as usize]).collect();
    let inputs: Vec<&[u8]> = inputs.iter().map(Vec::as_slice).collect();
    let mut places: Vec<&mut [u8]> = outputs.iter_mut().map(Vec::as_mut_slice).collect();
    kernel.reference(&inputs, &mut places);
    outputs
}

/// Compares every element of every output, and that nothing between elements was written.
pub fn check(device: &CpuDevice, kernel: &Kernel, inputs: &[Vec<u8>], near: Near) {
    let got = run(device, kernel, inputs).unwrap_or_else(|e| panic!("{device:?} {kernel:?}: {e}"));
    let want = reference(kernel, inputs);
    for ((operand, got), want) in kernel.outputs().iter().zip(&got).zip(&want) {
        let width = operand.dtype.bytes();
        for at in 0..got.len() / width {
            let (g, w) = (Scalar::load(operand.dtype, got, at), Scalar::load(operand.dtype, want, at));
            let same = got[at * width..][..width] == want[at * width..][..width];
            assert!(same || is_near(g, w, near), "{:?} at {at}: {g:?}, not {w:?}\n{kernel:#?}", device.isa());
        }
    }
}

fn is_near(got: Scalar, want: Scalar, near: Near) -> bool {
    let (Scalar::F(g), Scalar::F(w)) = (got, want) else {
        return got == want;
    };
    (g.is_nan() && w.is_nan()) || g == w || (g - w).abs() <= near.1.max(near.0 * w.abs())
}

/// A buffer with these elements.
pub fn buffer(device: &dyn Device, bytes: &[u8]) -> Buffer {
    let buffer = device.alloc(bytes.len() as u64, MemoryKind::Resident).expect("memory");
    let segment = Segment { steps: vec![SegmentStep::Upload { upload: 0, slot: 0 }] };
    let binding = Binding {
        buffers: vec![buffer.clone()],
        uploads: vec![HostBytes::from_vec(bytes.to_vec())],
        reads: Vec::new(),
        ..Binding::default()
    };
    let prepared = device.prepare(&segment).expect("an upload");
    device.submit(&prepared, binding, Lane::CopyIn, &[]).expect("it is uploaded");
    buffer
}

/// A shared device for tests of the seam.
pub fn plain_device() -> Arc<CpuDevice> {
    Arc::new(device(Isa::best(), 2))
}
