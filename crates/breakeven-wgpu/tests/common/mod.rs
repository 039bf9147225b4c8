//! Devices to test on, random operands, and the comparison with the reference.
#![allow(dead_code, reason = "each test file takes what it needs")]

pub mod kernels;
pub mod vectors;

use std::time::Duration;

use breakeven_device::{
    Backend, Binding, Buffer, Deadline, Device, HostBytes, Lane, MemoryKind, ReadCell, Segment, SegmentStep,
};
use breakeven_ir::{DType, Kernel, Launch, Layout, Operand, Scalar, Shape};
use breakeven_wgpu::{Limits, WgpuBackend, WgpuDevice, WgpuOptions};

pub fn options(limits: Limits) -> WgpuOptions {
    WgpuOptions { limits, poison: true, ..WgpuOptions::default() }
}

/// Every software adapter at its own limits, and the first at the WebGPU defaults with shaders and copies as cards get them.
pub fn devices() -> Vec<WgpuDevice> {
    let own = WgpuBackend::new(options(Limits::Adapter));
    let found = own.software_adapters();
    assert!(!found.is_empty(), "no software Vulkan adapter: install mesa-vulkan-drivers, or set VK_DRIVER_FILES");
    let mut devices: Vec<WgpuDevice> = found.iter().map(|&i| own.open_device(i).unwrap()).collect();
    let other = WgpuOptions { terse: Some(false), in_place: Some(false), ..options(Limits::WebGpuDefault) };
    devices.push(WgpuBackend::new(other).open_device(found[0]).unwrap());
    devices
}

/// `SwiftShader`, whose kernels take as long as they should and whose waits time out.
pub fn swiftshader(options: WgpuOptions) -> WgpuDevice {
    let backend = WgpuBackend::new(options);
    let index = backend.list().iter().position(|i| i.name.contains("SwiftShader"));
    let index = index.expect("SwiftShader is not among the adapters: install chromium-common and set VK_DRIVER_FILES");
    backend.open_device(index).unwrap()
}

/// Small, repeatable random numbers.
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Random {
        Random(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }

    pub fn below(&mut self, n: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as usize % n
    }

    pub fn float(&mut self) -> f64 {
        self.below(1 << 20) as f64 / f64::from(1 << 19) - 1.0
    }

    /// A view of `shape`: axes stored in any order, with gaps, from any end, and broadcast if `broadcast`.
    pub fn layout(&mut self, shape: &Shape, broadcast: bool) -> Layout {
        let mut order: Vec<usize> = (0..shape.rank()).collect();
        for i in (1..order.len()).rev() {
            order.swap(i, self.below(i + 1));
        }
        let mut layout = Layout::dense(shape.clone());
        let (mut step, mut offset) = (1, self.below(5) * self.below(2));
        for &axis in order.iter().rev() {
            let stride = step * (1 + self.below(2) * self.below(2)) as isize;
            match self.below(6) {
                0 if broadcast => layout.strides[axis] = 0,
                1 => {
                    layout.strides[axis] = -stride;
                    offset += stride as usize * shape[axis].saturating_sub(1);
                    step = stride * shape[axis] as isize;
                }
                _ => {
                    layout.strides[axis] = stride;
                    step = stride * shape[axis] as isize;
                }
            }
        }
        layout.offset = offset;
        layout
    }

    /// A storage that the operand fits in, filled with values of its type.
    pub fn storage(&mut self, operand: &Operand) -> Vec<u8> {
        let bytes = (operand.span_bytes() as usize).next_multiple_of(16) + 16;
        let mut storage = vec![0u8; bytes];
        for i in 0..bytes / operand.dtype.bytes() {
            let value = match operand.dtype {
                DType::F32 => Scalar::F(self.float() * 4.0),
                DType::Bool => Scalar::B(self.below(3) > 0),
                DType::I32 | DType::I64 => Scalar::I(self.below(200) as i128 - 100),
                _ => Scalar::I(self.below(256) as i128),
            };
            value.store(operand.dtype, &mut storage, i);
        }
        storage
    }
}

/// Runs one kernel: inputs are uploaded, outputs downloaded, in one submission.
pub fn run(device: &WgpuDevice, kernel: &Kernel, inputs: &[Vec<u8>], outputs: &[Vec<u8>]) -> Vec<HostBytes> {
    let all: Vec<&Vec<u8>> = inputs.iter().chain(outputs).collect();
    let mut steps: Vec<SegmentStep> = (0..all.len()).map(|slot| SegmentStep::Upload { upload: slot, slot }).collect();
    steps.push(SegmentStep::Launch(Box::new(Launch {
        kernel: kernel.clone(),
        inputs: (0..inputs.len()).collect(),
        outputs: (inputs.len()..all.len()).collect(),
        workspace: None,
    })));
    for (read, output) in outputs.iter().enumerate() {
        steps.push(SegmentStep::Download { slot: inputs.len() + read, bytes: output.len() as u64, read });
    }
    let work = device.prepare(&Segment { steps }).unwrap_or_else(|e| panic!("{device:?}: {e}\n{kernel:?}"));
    let buffers = all.iter().map(|b| alloc(device, b.len() as u64)).collect();
    let uploads = all.iter().map(|b| HostBytes::from_vec((*b).clone())).collect();
    let reads: Vec<ReadCell> = outputs.iter().map(|_| ReadCell::new()).collect();
    let ticket = device
        .submit(&work, Binding { buffers, uploads, reads: reads.clone(), ..Binding::default() }, Lane::Compute, &[])
        .unwrap();
    device.wait(ticket, Deadline::after(Duration::from_mins(10))).unwrap();
    reads.iter().map(|r| r.take().expect("a read is filled when its submission is done")).collect()
}

pub fn alloc(device: &WgpuDevice, bytes: u64) -> Buffer {
    device.alloc(bytes, MemoryKind::Resident).unwrap()
}

/// Runs `kernel` over random operands and compares every byte of its outputs with the reference: floats within
/// `relative` of the larger of the right value and 1, other types exactly, and nothing else may change.
pub fn check(device: &WgpuDevice, kernel: &Kernel, random: &mut Random, relative: f64) {
    let inputs: Vec<Vec<u8>> = kernel.inputs().iter().map(|o| random.storage(o)).collect();
    check_on(device, kernel, &inputs, relative);
}

pub fn check_on(device: &WgpuDevice, kernel: &Kernel, inputs: &[Vec<u8>], relative: f64) {
    let outs = kernel.outputs();
    let blank = |o: &&Operand| vec![0x55u8; (o.span_bytes() as usize).next_multiple_of(16) + 16];
    let start: Vec<Vec<u8>> = outs.iter().map(blank).collect();
    let got = run(device, kernel, inputs, &start);
    let mut want = start;
    let views: Vec<&[u8]> = inputs.iter().map(Vec::as_slice).collect();
    kernel.reference(&views, &mut want.iter_mut().map(Vec::as_mut_slice).collect::<Vec<_>>());
    for ((operand, want), got) in outs.iter().zip(&want).zip(&got) {
        for i in 0..want.len() / operand.dtype.bytes() {
            let (w, g) = (Scalar::load(operand.dtype, want, i), Scalar::load(operand.dtype, got, i));
            assert!(
                is_close(w, g, relative),
                "{device:?}: element {i} is {g:?}, not {w:?}\n{kernel:?}\n{}",
                texts(device, kernel)
            );
        }
    }
}

fn texts(device: &WgpuDevice, kernel: &Kernel) -> String {
    device.texts(kernel).unwrap().join("\n----\n")
}

fn is_close(want: Scalar, got: Scalar, relative: f64) -> bool {
    match (want, got) {
        (Scalar::F(w), Scalar::F(g)) => {
            (w.is_nan() && g.is_nan()) || f64::from(w as f32) == g || (w - g).abs() <= relative * w.abs().max(1.0)
        }
        (w, g) => w == g,
    }
}
